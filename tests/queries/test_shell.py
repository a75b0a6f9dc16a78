"""The printed statements of an answer yield its rows in a DuckDB that knows nothing but an export of the store."""

from __future__ import annotations

import json
from statistics import median

import pytest
from conftest_cli import sweepdb
from generator import DEVICES, MODELS, PLANS, PRECISIONS, WORKLOADS, scenario
from queries_stores import mission_records, of_arrivals, read_rows, reference, write_sweep
from quick import one_each, quick
from served_store import write_served
from shell_answers import check, in_a_shell

from queries.asking.library import reports
from queries.asking.question import question_of
from queries.bundles import export_bundle
from queries.session import Session
from store.location import parse_url
from store.opening import open_store
from store.records import PriceRecord
from store.writing.beside import put_prices
from store.writing.voiding import void

BUDGET = {"num_devices": 16}
OPTIONS = {
    "compare": [BUDGET],
    "concurrency": [{"concurrency": 3}],
    "pd-counts": [BUDGET],
    "sensitivity": [{"vary": ("tpot",)}, {"vary": ("ttft", "memory")}],
    "diff": [{"sweeps": ("a" * 32, "b" * 32)}],
    "mix": [{**BUDGET, "mix": (("3500/1500", 0.6), ("1024/1024", 0.4))}],
    "pd-ratio": [{}, {**BUDGET, "ttft_limit": 900.0, "prefill_device": DEVICES[0][0]}],
    "best": [{}, {"tpot_limit": 30.3}, {"tpot_limit": 1e-9}],
    "cost": [{"mode": "decode"}, {"mode": "decode", "price_date": "2025-06-01"}],
    "devices": [{"mode": "decode"}, {"mode": "pd"}],
}
OF_ENGINES = {"cost": [{"mode": "pd"}], "devices": [{"mode": "pd"}]}
ASKED = [(name, options) for name, item in reports().items() if item.part_of is None and name not in of_arrivals()
         for options in OPTIONS.get(name, [{}])]  # fmt: skip


def named(value):
    """Cases are called by what they ask, so that a new report leaves the names of others (further_cases.txt)."""
    return value if isinstance(value, str) else "+".join(value)


@pytest.fixture(scope="module")
def of_formulas(tmp_path_factory):
    """A store of two workloads, one scenario of them voided, with prices; and the folder of its export."""
    folder = tmp_path_factory.mktemp("shell")
    url = f"sqlite:///{folder}/store.sqlite"
    records = mission_records(models=MODELS[4:5], plans=PLANS[:3])
    records += [
        scenario(MODELS[4], WORKLOADS[1], device, precision=PRECISIONS[0], plan=plan, phase=phase)
        for device in DEVICES[:2] for plan in PLANS[:3] for phase in ("prefill", "decode", "aggregated")
    ]  # fmt: skip
    write_sweep(url, records, key="a", sizes=12)
    write_sweep(url, records[:9], key="b", sizes=12)
    with open_store(url) as store:
        prices = [("2025-01-01", 2.0), ("2026-01-01", 1.7)]
        put_prices(store, [
            PriceRecord(device_name=DEVICES[0][0], effective_from=day, usd_per_device_hour=usd, watts_per_device=700.0)
            for day, usd in prices
        ])  # fmt: skip
        void(store, records[1].key, "wrong driver")
    export_bundle(parse_url(url), folder / "bundle")
    return url, folder / "bundle"


@pytest.fixture(scope="module")
def of_engines(tmp_path_factory):
    """A store of pairs that an engine serves, and the folder of its export."""
    folder = tmp_path_factory.mktemp("served")
    url = f"sqlite:///{folder}/store.sqlite"
    write_served(url)
    export_bundle(parse_url(url), folder / "bundle")
    return url, folder / "bundle"


def asked_of(name, options, url):
    """A question whose scope holds one workload, but for reports that look at several."""
    if name == "why":
        rows = [row for row in read_rows(url) if row["phase"] == "decode"]
        options = {"probes": (reference(rows[0]), reference(rows[5])), **options}
    workload = sorted({f"{row['input_length']}/{row['output_length']:g}" for row in read_rows(url)})[-1]
    narrow = {"workload": workload} if reports()[name].scope == "question" else {}
    return question_of(name, {**narrow, **options})


@pytest.mark.parametrize(("name", "options"), one_each(ASKED, lambda case: case[0]), ids=named)
def test_printed_statements_yield_the_rows_of_the_answer(of_formulas, name, options):
    rows = check(asked_of(name, options, of_formulas[0]), *of_formulas)
    assert rows or options == {"tpot_limit": 1e-9} or name == "nearest"


@pytest.mark.parametrize(
    ("name", "options"),
    quick([(name, options) for name in ("pareto", "by-length", "capacity", "pd-ratio", "pd-counts", "compare")
           for options in OPTIONS.get(name, [{}])] + [(name, one) for name, some in OF_ENGINES.items() for one in some], 3),
    ids=named,
)  # fmt: skip
def test_printed_statements_yield_the_rows_under_an_engine(of_engines, name, options):
    assert check(asked_of(name, options, of_engines[0]), *of_engines)


def test_only_the_variables_and_macros_that_are_read_are_there(of_formulas):
    with Session(parse_url(of_formulas[0])) as session:
        text = session.shell_sql(session.ask(asked_of("curve", {}, of_formulas[0])))
    assert "\nSET VARIABLE reserved_gib = 10.0::DOUBLE;" in text
    assert "\nSET VARIABLE ttft_limit_ms" not in text
    assert "engine_pairs" not in text


def test_limits_read_with_a_confidence_are_printed_too(tmp_path):
    measured = ("h100_sxm", *DEVICES[0][1:])  # a device of the shipped summary
    url = f"sqlite:///{tmp_path}/store.sqlite"
    write_sweep(url, [scenario(MODELS[4], WORKLOADS[1], measured, precision=PRECISIONS[0], plan=plan,
                               phase="aggregated") for plan in PLANS[:4]], key="a")  # fmt: skip
    limit = 1.2 * median(row["tpot_inclusive_ms"] for row in read_rows(url))
    export_bundle(parse_url(url), tmp_path / "bundle")
    asked = {"tpot_limit": limit, "reserved_memory_gb": 0.0}
    plain = check(question_of("best", asked), url, tmp_path / "bundle")
    sure = check(question_of("best", {**asked, "confidence": 0.8, "tuned_servers": True}), url, tmp_path / "bundle")
    assert sure
    assert sure != plain


def test_the_command_prints_what_runs(of_formulas):
    url, folder = of_formulas
    command = ["query", "best", "--workload", "3500/1500", "--tpot-limit", "60", "--store", url]
    printed, answered = sweepdb([*command, "--show-sql"]), sweepdb([*command, "--format", "jsonl"])
    columns, rows = in_a_shell(printed.out, folder)
    assert rows
    told = [json.loads(line)["probe"] for line in answered.out.splitlines()]
    assert told == [dict(zip(columns, row, strict=True))["probe"] for row in rows]
