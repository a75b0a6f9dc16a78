"""Measurements, comparisons, calibrations, prices, workloads and operators, on both databases."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from generator import DEVICES, MODELS, PLANS, PRECISIONS, WORKLOADS, scenario, sweep_record
from measured_points import bare_point
from sqlalchemy import func, select

from store.errors import InputError
from store.records import (
    CalibrationRecord,
    MeasurementRecord,
    OperatorSetRecord,
    PriceRecord,
    RunRecord,
    SideRecord,
    ValidationRecord,
)
from store.schema.sql_tables import CALIBRATION, MEASUREMENT_FACTS, VALIDATION
from store.writing import begin_sweep, put_scenarios
from store.writing.beside import (
    get_operators,
    get_prices,
    list_calibrations,
    put_calibration,
    put_operators,
    put_prices,
)
from store.writing.measurements import (
    delete_measurements,
    forget_validations,
    get_measurements,
    put_files,
    put_measurements,
    put_validations,
    replace_measurement,
)
from store.writing.workloads import get_workload, list_workloads, put_workload

MEASURED = MeasurementRecord(
    key="a" * 64,
    source="published.csv:12",
    source_format="published",
    model="Qwen/Qwen3-32B",
    device="H100_SXM",
    engine="vllm",
    engine_version="0.11",
    mode="disaggregated",
    precision="FP8",
    kv_precision=None,
    num_devices=24,
    input_length=3500.0,
    output_length=1500.0,
    concurrency=64.0,
    request_rate=None,
    prefill=SideRecord(instances=2, tp=4, batch_size=1.0),
    decode=SideRecord(instances=1, tp=8, dp=2, batch_size=32.0),
    metrics={"ttft_ms_mean": 812.5, "tpot_ms_median": 21.25},
    definitions={"ttft_ms_mean": "from arrival, seconds in the source"},
    extra='{"note": "warm"}',
    measured_at=datetime(2026, 2, 3, 4, 5, tzinfo=UTC),
)


def test_a_point_in_the_place_of_another_is_stored_once(store):
    other = replace(MEASURED, key="e" * 64, concurrency=77.0)
    put_measurements(store, [MEASURED, other])
    replace_measurement(store, other.key, replace(MEASURED, key="f" * 64, concurrency=78.0))
    assert {one.key: one.concurrency for one in get_measurements(store)} == {
        MEASURED.key: MEASURED.concurrency,
        "f" * 64: 78.0,
    }
    replace_measurement(store, "f" * 64, MEASURED)
    assert [one.key for one in get_measurements(store)] == [MEASURED.key]


def test_a_measurement_comes_back_as_it_was_given(store):
    bare = bare_point(key="b" * 64, source="x", source_format="serving")
    assert put_measurements(store, [MEASURED, bare]) == 2
    assert put_measurements(store, [bare, MEASURED]) == 0
    assert sorted(get_measurements(store), key=lambda record: record.key) == [MEASURED, bare]


def test_more_measurements_than_one_statement_takes(store):
    records = [replace(MEASURED, key=f"{number:064d}") for number in range(1201)]
    assert put_measurements(store, records) == 1201
    assert len(get_measurements(store)) == 1201


def test_points_share_what_they_have_in_common_until_one_is_corrected_or_gone(store):
    def facts():
        with store.reading() as connection:
            return connection.scalar(select(func.count()).select_from(MEASUREMENT_FACTS))

    records = [
        replace(MEASURED, key=f"{users:064d}", source=f"a.csv:{users}", concurrency=float(users)) for users in (1, 2, 4)
    ]
    put_measurements(store, records)
    assert facts() == 1
    corrected = [replace(one, engine_version="0.12") for one in records]
    for key, one in zip((f"{users:064d}" for users in (1, 2)), corrected, strict=False):
        replace_measurement(store, key, one)
    assert facts() == 2  # what both were corrected to is one row, too
    assert get_measurements(store) == [*corrected[:2], records[2]]
    replace_measurement(store, records[2].key, corrected[2])
    assert facts() == 1
    delete_measurements(store, [one.key for one in records[:2]])
    assert (facts(), get_measurements(store)) == (1, corrected[2:])
    delete_measurements(store, [records[2].key])
    assert facts() == 0


def test_a_tag_that_a_file_says_anew_goes_to_the_points_of_that_file_alone(store):
    first, second = (replace(MEASURED, key=letter * 64, file=letter * 16) for letter in "ab")
    put_files(store, [first, second], files=())
    put_files(store, [replace(first, run=RunRecord(tags="nightly", failed_requests=3))], files=("a" * 16,))
    told = {one.key: (one.run.tags, one.run.failed_requests) for one in get_measurements(store)}
    assert told == {first.key: ("nightly", 3), second.key: (None, None)}


def kept_comparisons(store):
    columns = (
        VALIDATION.c.metric, VALIDATION.c.batch_size, VALIDATION.c.measured, VALIDATION.c.predicted, VALIDATION.c.signed_error,
        VALIDATION.c.device, VALIDATION.c.engine,
    )  # fmt: skip
    with store.reading() as connection:
        return [tuple(row) for row in connection.execute(select(*columns))]


def test_a_comparison_is_kept_with_its_error_and_replaced_by_a_newer_one(store):
    put_measurements(store, [MEASURED])
    record = scenario(MODELS[0], WORKLOADS[0], DEVICES[0], precision=PRECISIONS[0], plan=PLANS[3], phase="decode")
    put_scenarios(store, begin_sweep(store, sweep_record(key="e" * 32)), [record])
    compared = ValidationRecord(
        measurement_key=MEASURED.key, metric="tpot_ms_median", scenario_key=record.key, batch_size=32,
        measured=20.0, predicted=25.0, device="h100", kind="dense", engine="vllm",
    )  # fmt: skip
    assert compared.signed_error == 0.25  # (25 - 20) / 20
    put_validations(store, [compared])
    put_validations(store, [replace(compared, predicted=21.0)])
    better = ("tpot_ms_median", 32, 20.0, 21.0, 0.05, "h100", "vllm")  # (21 - 20) / 20
    assert kept_comparisons(store) == [better]
    forget_validations(store, ["c" * 64])
    assert kept_comparisons(store) == [better]
    forget_validations(store, ["c" * 64, MEASURED.key])
    assert (kept_comparisons(store), len(get_measurements(store))) == ([], 1)
    with pytest.raises(InputError, match="no measurement ffff"):
        put_validations(store, [replace(compared, measurement_key="f" * 64)])


def test_calibrations_count_up_for_a_device_and_keep_every_version(store):
    first = CalibrationRecord(
        key="1" * 64, device_name="H100_SXM", version=0, spec='{"memory": 0.9}', errors='{"gemm": 4.5}',
        kernels=b"PAR1\x00\xff", source="kernels/h100",
    )  # fmt: skip
    second = replace(first, key="2" * 64, spec='{"memory": 0.8}', kernels=None)
    assert put_calibration(store, first) == 1
    assert put_calibration(store, second) == 2
    assert put_calibration(store, first) == 1
    assert put_calibration(store, replace(first, key="3" * 64, device_name="L40S")) == 1
    listed = list_calibrations(store)
    assert [(item.device_name, item.version) for item in listed] == [("H100_SXM", 1), ("H100_SXM", 2), ("L40S", 1)]
    assert listed[:2] == [replace(first, version=1, kernels=None), replace(second, version=2)]
    with store.reading() as connection:
        assert connection.scalar(select(CALIBRATION.c.kernels).where(CALIBRATION.c.key == first.key)) == first.kernels


def test_prices_are_dated_and_corrected_in_place(store):
    first = PriceRecord(
        device_name="H100_SXM", effective_from="2026-01-01", usd_per_device_hour=2.5, watts_per_device=700
    )
    later = replace(first, effective_from="2026-07-01", usd_per_device_hour=2.0)
    put_prices(store, [later, first])
    put_prices(store, [replace(first, usd_per_device_hour=2.75, source="list price")])
    assert get_prices(store) == [replace(first, usd_per_device_hour=2.75, source="list price"), later]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"effective_from": "1.1.2026"}, "no date"),
        ({"usd_per_device_hour": -1.0}, "usd_per_device_hour is -1.0"),
        ({"watts_per_device": float("nan")}, "watts_per_device is nan"),
    ],
)
def test_a_price_that_is_none_is_refused(sqlite_url, change, message):
    from store.opening import open_store

    price = PriceRecord(device_name="L40S", effective_from="2026-01-01", usd_per_device_hour=1.0, watts_per_device=350)
    with open_store(sqlite_url, create=True) as store:
        with pytest.raises(InputError, match=message):
            put_prices(store, [price, replace(price, **change)])
        assert get_prices(store) == []


def workload(number, name=None):
    record = scenario(MODELS[0], WORKLOADS[number], DEVICES[0], precision=PRECISIONS[0], plan=PLANS[3], phase="decode")
    return replace(record.subject.workload, name=name)


def test_a_workload_is_found_again_by_its_name(store):
    mix, fixed = workload(5, "chat"), workload(0, "batch")
    for record in (mix, fixed, mix):
        put_workload(store, record)
    assert get_workload(store, "chat") == mix
    assert len(get_workload(store, "chat").bins) == 3
    assert get_workload(store, "batch") == fixed
    listed = [(item.name, item.label, item.bins, item.subjects) for item in list_workloads(store)]
    # 0.5 x 320 + 0.3 x 1280 + 0.2 x 5120 = 1568
    assert listed == [("batch", "3500/1500", 0, 0), ("chat", "mean 1568/400", 3, 0)]


def test_a_workload_may_have_several_names_and_a_name_one_workload(store):
    put_workload(store, workload(0))
    put_workload(store, workload(0, "long"))
    put_workload(store, workload(0, "reports"))
    assert get_workload(store, "long") == replace(get_workload(store, "reports"), name="long")
    with pytest.raises(InputError, match="'long' already belongs"):
        put_workload(store, workload(1, "long"))
    assert [item.name for item in list_workloads(store)] == ["long", "reports"]
    with pytest.raises(InputError, match="sweepdb workloads list"):
        get_workload(store, "short")


def test_operators_are_kept_by_key_and_never_replaced(store):
    records = [OperatorSetRecord(key=letter * 64, payload=f'["{letter}"]', torch_version="2.13.0") for letter in "abc"]
    put_operators(store, records)
    put_operators(store, [replace(records[0], payload="[]")])
    put_operators(store, [])
    assert get_operators(store, ["a" * 64, "c" * 64, "z" * 64]) == {"a" * 64: '["a"]', "c" * 64: '["c"]'}
    assert get_operators(store, []) == {}
