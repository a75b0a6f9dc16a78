"""Records say of their fields what the declaration says of the columns they are stored in."""

from dataclasses import asdict
from sqlite3 import connect
from types import NoneType
from typing import Literal, get_args, get_origin, get_type_hints

import duckdb
import pytest

from store import records
from store.errors import InputError
from store.schema.plan_columns import PlanRecord, label_sql, words_sql
from store.schema.tables import TABLES

KINDS = {
    int: {"integer", "long", "short", "key"},
    float: {"double"},
    str: {"text"},
    bool: {"flag"},
    bytes: {"bytes"},
}
STORED = {
    "model": records.ModelRecord,
    "device": records.DeviceRecord,
    "precision": records.PrecisionRecord,
    "plan": records.PlanRecord,
    "workload": records.WorkloadRecord,
    "workload_bin": records.WorkloadBinRecord,
    "subject": records.SubjectRecord,
    "scenario": records.ScenarioRecord,
    "sweep": records.SweepRecord,
    "operator_set": records.OperatorSetRecord,
    "measurement": records.MeasurementRecord,
    "calibration": records.CalibrationRecord,
    "price": records.PriceRecord,
    "validation": records.ValidationRecord,
}
OF_OTHER_FORM = {"metrics", "definitions", "measured_at", "started_at", "prefill", "decode"}


@pytest.mark.parametrize("table", STORED)
def test_a_record_has_the_types_of_its_columns(table):
    hints = get_type_hints(STORED[table], vars(records))
    shared = [column for column in TABLES[table].columns if column.name in hints and column.name not in OF_OTHER_FORM]
    assert shared
    for column in shared:
        hint = hints[column.name]
        options = {hint} if hint in KINDS or get_origin(hint) is Literal else set(get_args(hint))
        (type_,) = options - {NoneType}
        if get_origin(type_) is Literal:
            type_ = str
        assert column.type.kind in KINDS[type_], column.name
        assert column.nullable == (NoneType in options), column.name


def test_a_row_that_the_declaration_refuses_is_an_error_that_says_so():
    price = records.PriceRecord(device_name=None, effective_from="x", usd_per_device_hour=None, watts_per_device=None)
    with pytest.raises(InputError, match="device_name of price is never missing"):
        TABLES["price"].row_of(price)
    sweep = records.SweepRecord(key="a", arguments="{}", program_version="1", started_at=None, kind="odd")
    with pytest.raises(InputError, match="kind of sweep is 'odd', none of request, validation, import"):
        TABLES["sweep"].row_of(sweep, started_at="now")


PLAN = PlanRecord(tp=2, pp=1, dp=1, ep=1, moe_tp=1, moe_dp=1)


@pytest.mark.parametrize("database", [lambda: connect(":memory:"), duckdb.connect], ids=["sqlite", "duckdb"])
@pytest.mark.parametrize(
    ("sizes", "label", "words"),
    [
        ({}, "tp2pp1dp1", ""),
        ({"encoder_devices": 3}, "tp2pp1dp1enc3", "encoders on devices of their own"),
        ({"pcp": 4}, "tp2pp1dp1pcp4", "divided prompts (pcp)"),
        (
            {"ep": 8, "redundant_experts": 32, "dcp": 8},
            "tp2pp1dp1ep8moetp1moedp1red32dcp8",
            "shares of a context (dcp)\ncopies of experts (redundant_experts)",
        ),
        ({"moe_tp": 2, "micro_batches": 2}, "tp2pp1dp1ep1moetp2moedp1mb2", "two micro-batches"),
    ],
)
def test_a_plan_is_labelled_and_told_alike_in_every_database(database, sizes, label, words):
    row = ", ".join(f"{size} AS {name}" for name, size in {**asdict(PLAN), **sizes}.items())
    found = database().execute(f"SELECT {label_sql()}, {words_sql('p')} FROM (SELECT {row}) AS p").fetchone()
    assert (found[0], found[1].strip()) == (label, words)
