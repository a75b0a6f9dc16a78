"""Expected errors: the nearest region against a search of every row, a store's own points, and every report."""

from __future__ import annotations

import csv
import math
from dataclasses import replace

import numpy as np
import pytest
from examples import examples
from generator import DEVICES, MODELS, PLANS, PRECISIONS, WORKLOADS, scenario
from hypothesis import given, settings
from hypothesis import strategies as st
from measured_points import bare_point
from queries_stores import of_arrivals, read_rows, reference, write_sweep

from queries.asking.library import reports
from queries.asking.options import Definitions, Limits, PairOptions, ReportOptions, Scope
from queries.asking.question import Question
from queries.errors import expected as module
from queries.errors.expected import (
    EVERY,
    LEAST_POINTS,
    METRICS,
    NONE,
    HeldOut,
    OwnError,
    Stored,
    Subject,
    expected_errors,
)
from queries.errors.spreads import (
    ANY,
    ASKED,
    ENGINE,
    LEVELS,
    OTHERS,
    SUMMARY,
    TUNED,
    Region,
    ShippedDevice,
    figures_of,
    percentile,
)
from queries.errors.spreads import DEVICES as SHIPPED_DEVICES
from queries.errors.spreads import KNOWN as KNOWN_BASIS
from queries.errors.spreads import region as shipped_region
from queries.judging import subjects as subjects_module
from queries.judging.subjects import own_errors
from queries.session import Session
from store.location import parse_url
from store.opening import open_store
from store.reading import read_transaction
from store.records import ValidationRecord
from store.writing.measurements import put_measurements, put_validations
from tools.ledger_page import ledger_page

DENSE, MOE = MODELS[4], MODELS[7]
# A device of the shipped summary, as theoretical as the generator's, and one that is in no ledger.
KNOWN = ("h100_sxm", *DEVICES[0][1:])
UNKNOWN = DEVICES[6]
SUBJECT = Subject(
    device="h100_sxm",
    kind="dense",
    phase="aggregated",
    family="calibrated",
    convention="physical",
    serving_model="vllm",
)
REPORTS = {name for name, item in reports().items() if item.part_of is None} - of_arrivals()
NOTHING_PREDICTED = {"coverage", "device-profiles"}
STORED_DEVICES = (KNOWN[0], UNKNOWN[0])
WORKLOAD_LABELS = ("3500/1500", "1024/1024")  # of WORKLOADS[:2]


def region(**changes):
    """A row of a summary."""
    row = {
        "family": "calibrated", "convention": "physical", "serving_model": ENGINE, "basis": ASKED, "reach": "device",
        "device": "h100_sxm", "kind": "dense", "phase": "aggregated", "engine": "vllm", "metric": "ttft_ms",
        "points": 10, "pairs": 2, "agreeing": 1, "median_ape_percent": 1.0, "p90_ape_percent": 3.0,
        "bias_percent": -1.0, "quantiles": " ".join(["0.5"] * len(LEVELS)), "engines": "vllm",
    }  # fmt: skip
    return Region(**{**row, **changes})


def ship(monkeypatch, regions, devices=()):
    """Put a summary in the place of the shipped one."""
    rows = {}
    for one in regions:
        values = {name: str(getattr(one, name)) for name in Region.__slots__}
        rows[tuple(values.values())[: Region.__slots__.index("points")]] = values
    monkeypatch.setattr(module, "region", rows.get)
    monkeypatch.setattr(module, "devices", lambda: {one.device: one for one in devices})


def test_a_region_that_ships_is_found_by_its_first_values_alone():
    with SUMMARY.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1::97]
    values = Region.__slots__.index("points")
    assert [list(shipped_region(tuple(row[:values])).values()) for row in rows] == rows
    assert shipped_region((*rows[0][: values - 1], rows[0][values - 1][:-1])) is None


def only(subject, metric, own=()):
    """The expected error of one metric, on the user's own servers or on those tuned like the benchmarks'."""
    (found,) = [one for one in stated(subject, own) if one.metric == metric and one.servers != OTHERS]
    return found


def stated(subject, own=()):
    """Everything that is expected of a subject."""
    return expected_errors([subject], Stored.of(own))


devices = st.sampled_from(["h100_sxm", "h20", "l4", "tpu"])
kinds = st.sampled_from(["dense", "moe"])
engines = st.sampled_from(["vllm", "sglang"])
keys = st.fixed_dictionaries(
    {
        "serving_model": st.sampled_from([ENGINE, "waves"]),
        "family": st.sampled_from(["calibrated", "theoretical"]),
        "reach": st.sampled_from(["device", "donor"]),
        "device": devices,
        "kind": st.one_of(kinds, st.just(ANY)),
        "engine": st.one_of(engines, st.just(ANY)),
        "phase": st.sampled_from(["aggregated", "decode"]),
    }
)
DONORS = {"h100_sxm": "h100_sxm", "h20": "h100_sxm", "l4": "l4"}


def rank(row, subject):
    """How far a row lies from a subject, by the documented order; None where it says nothing of it."""
    engine = subject.serving_model not in {"waves", "seed002"}
    same = (row.family, row.phase, row.serving_model == ENGINE) == (subject.family, subject.phase, engine)
    if not same or row.kind not in {subject.kind, ANY} or row.engine not in {subject.serving_model, ANY}:
        return None
    if row.reach == "device":
        place = 0 if row.device == subject.device else None
    else:
        place = 1 if row.device == DONORS.get(subject.device) and row.engine == ANY else None
    return None if place is None else (place, row.kind == ANY, row.engine == ANY)


@settings(max_examples=examples(300))
@given(
    chosen=st.lists(keys, max_size=40, unique_by=lambda key: tuple(sorted(key.items()))),
    subject=st.builds(
        Subject,
        device=devices,
        kind=kinds,
        phase=st.sampled_from(["aggregated", "decode"]),
        family=st.sampled_from(["calibrated", "theoretical"]),
        convention=st.just("physical"),
        serving_model=st.sampled_from(["waves", "seed002", "vllm", "sglang"]),
    ),
)
def test_the_nearest_region_is_the_first_of_all_rows_in_order(chosen, subject):
    rows = [region(**key, metric="tpot_exclusive_ms", points=10 + number) for number, key in enumerate(chosen)]
    ranked = sorted((found, row.points) for row in rows if (found := rank(row, subject)) is not None)
    shipped = [
        ShippedDevice(device=name, calibrated_from=donor, calibrated_key="", theoretical_key="")
        for name, donor in DONORS.items()
    ]
    with pytest.MonkeyPatch.context() as patch:
        ship(patch, rows, shipped)
        found = only(subject, "tpot_exclusive_ms")
    if ranked:
        assert found.points == ranked[0][1]  # each row has another number of points
    else:
        assert (found.region, found.note[: len(NONE)]) == (EVERY, NONE)


@settings(deadline=None)
@given(values=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50), share=st.floats(0, 100))
def test_a_percentile_is_numpys(values, share):
    assert percentile(sorted(values), share) == pytest.approx(np.percentile(values, share), rel=1e-9, abs=1e-6)


def own(errors, *, engine="vllm", metric="ttft_ms", **changes):
    """Own errors of h100_sxm, dense, aggregated."""
    given_ = {"device": "h100_sxm", "kind": "dense", "phase": "aggregated", "family": "calibrated", **changes}
    return [OwnError(engine=engine, metric=metric, error=error, **given_) for error in errors]


def test_a_stores_own_points_come_first_when_they_are_enough(monkeypatch):
    ship(monkeypatch, [region()])
    errors = [-0.4, -0.1, 0.2, 0.3, 0.3]
    found = only(SUBJECT, "ttft_ms", own(errors))
    # sizes 10 20 30 30 40: median 30, 90th percentile 30 + 0.6 x 10; signed -40 -10 20 30 30: median 20
    assert (found.median_ape_percent, found.p90_ape_percent, found.bias_percent) == (30.0, 36.0, 20.0)
    assert found.region == "this store's own: h100_sxm, dense, aggregated, vllm"
    assert (found.points, found.pairs, found.agreeing, found.note) == (5, 1, 1, None)
    # measured / predicted = 1 / 0.6, 1 / 0.9, 1 / 1.2, 1 / 1.3 twice: the middle one is 1 / 1.2, and log of it -0.1823
    assert found.quantiles[LEVELS.index(0.5)] == -0.1823
    assert only(SUBJECT, "ttft_ms", own(errors[: LEAST_POINTS - 1])).region == "h100_sxm, dense, aggregated, vllm"


def test_own_points_of_another_engine_family_or_kind_are_not_of_this(monkeypatch):
    ship(monkeypatch, [region()])
    errors = [0.5] * 9
    for other in (
        own(errors, engine="sglang"), own(errors, family="theoretical"), own(errors, kind="moe"),
        own(errors, device="h20"), own(errors, phase="decode"), own(errors, metric="tpot_exclusive_ms"),
    ):  # fmt: skip
        assert only(SUBJECT, "ttft_ms", other).points == 10


def test_pairs_of_a_users_own_points_are_counted_and_those_that_agree():
    # medians of 10, -30 and 20 %; all in order -0.3 -0.3 0.1 0.1 0.2: the bias is 10 %, and two pairs have its sign
    figures = figures_of({"a": [0.1, 0.1], "b": [-0.3, -0.3], "c": [0.2]})
    assert (figures.points, figures.pairs, figures.agreeing, figures.bias_percent) == (5, 3, 2, 10.0)


def test_what_more_is_known_of_a_scenario_chooses_its_errors(monkeypatch):
    ship(monkeypatch, [region(points=50), region(basis=KNOWN_BASIS, points=60)])
    assert only(SUBJECT, "ttft_ms").points == 50
    known = replace(SUBJECT, basis=KNOWN_BASIS)
    assert only(known, "ttft_ms").points == 60
    assert only(known, "ttft_ms", own([0.1] * 5)).points == 60
    assert only(known, "ttft_ms", own([0.1] * 5, basis=KNOWN_BASIS)).points == 5
    # Formulas know no client: what is said of it changes nothing.
    ship(monkeypatch, [region(points=50)])
    assert only(known, "ttft_ms").points == 50


def test_what_was_said_of_client_launch_or_routing_chooses_the_basis():
    assert [subjects_module._basis(said) for said in (None, "", "seats,routing")] == [ASKED, ASKED, KNOWN_BASIS]


def test_first_tokens_of_pairs_have_the_errors_of_measured_pairs(monkeypatch):
    side = replace(SUBJECT, phase="prefill")
    ship(monkeypatch, [region(phase="prefill", points=50), region(phase=module.PAIRED, points=60)])
    together = module.in_pairs(side, module.NOTHING_STORED)
    assert together.phase == module.PAIRED
    assert only(together, "ttft_ms").points == 60
    assert module.in_pairs(replace(side, serving_model="waves"), module.NOTHING_STORED).phase == "prefill"
    ship(monkeypatch, [region(phase="prefill", points=50)])
    assert module.in_pairs(side, module.NOTHING_STORED) == side  # nobody measured pairs near
    mine = Stored.of(own([0.1] * 5, phase=module.PAIRED))
    assert module.in_pairs(side, mine).phase == module.PAIRED


def test_answers_under_a_fit_of_the_user_show_its_held_out_points(monkeypatch):
    ship(monkeypatch, [region(engine=ANY)])
    fitted = replace(SUBJECT, serving_model="ours@0123abcd")
    figures = figures_of({"Qwen/Qwen3-32B on h100_sxm": [0.02, -0.04, 0.06]})
    kept = HeldOut(label="ours@0123abcd", metric="ttft_ms", devices=("h100_sxm",), figures=figures)
    stored = Stored.of(own([0.9] * 9, engine="ours"), [kept])

    def found(subject, metric="ttft_ms"):
        return next(one for one in expected_errors([subject], stored) if one.metric == metric)

    here = found(fitted)
    # sizes of 2, 4 and 6 %: median 4
    assert (here.median_ape_percent, here.points, here.pairs, here.note) == (4.0, 3, 1, None)
    assert here.region == "held out of the fit ours@0123abcd"
    assert found(replace(fitted, device="h20")).note == "measured on h100_sxm"
    for other in (replace(fitted, phase="prefill"), replace(fitted, convention="upstream"),
                  replace(fitted, serving_model="ours@99999999")):  # fmt: skip
        assert found(other).region != here.region


def test_own_points_by_an_engine_stand_in_for_waves_only_before_another_device_and_say_so(monkeypatch):
    waves = replace(SUBJECT, serving_model="waves")
    carried = region(serving_model="waves", reach="donor", engine=ANY, points=77)
    shipped = [ShippedDevice(device="h100_sxm", calibrated_from="h100_sxm", calibrated_key="", theoretical_key="")]
    ship(monkeypatch, [carried], shipped)
    assert only(waves, "ttft_ms").points == 77
    found = only(waves, "ttft_ms", own([0.1] * 6))
    assert (found.points, found.note) == (6, "by the closed loop of vllm, not waves")
    ship(monkeypatch, [carried, region(serving_model="waves", engine=ANY, points=88)], shipped)
    assert only(waves, "ttft_ms", own([0.1] * 6)).points == 88


def test_what_the_measured_points_lack_is_said(monkeypatch):
    shipped = ShippedDevice(device="h100_sxm", calibrated_from="h100_sxm", calibrated_key="abc", theoretical_key="def")
    ship(monkeypatch, [region()], [shipped])
    assert only(replace(SUBJECT, device_key="abc123"), "ttft_ms").note is None
    other = "with the profile of h100_sxm that is shipped, not the one these numbers are of"
    assert only(replace(SUBJECT, device_key="def123"), "ttft_ms").note == other
    drafted = replace(SUBJECT, unmeasured=("drafted tokens",))
    assert only(drafted, "ttft_ms").note == "no measured point has drafted tokens"
    fitted = replace(SUBJECT, serving_model="vllm@0123abcd")
    assert only(fitted, "ttft_ms").note == "by the engines that are shipped, not vllm@0123abcd"
    assert only(replace(SUBJECT, convention="upstream"), "ttft_ms").region == EVERY


def test_an_inclusive_tpot_has_an_error_of_its_own_where_there_are_prompts():
    inclusive = replace(SUBJECT, tpot_rule="inclusive")
    assert inclusive.metrics == ("tpot_inclusive_ms", "ttft_ms", "output_tokens_per_s")
    assert replace(inclusive, phase="decode").metrics == METRICS["decode"] == ("tpot_exclusive_ms",)


def test_the_shipped_summary_is_whole():
    with SUMMARY.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    with SHIPPED_DEVICES.open(encoding="utf-8", newline="") as file:
        donors = {row["device"]: row["calibrated_from"] for row in csv.DictReader(file)}
    assert tuple(rows[0]) == Region.__slots__
    names = Region.__slots__[: Region.__slots__.index("points")]
    assert {row["basis"] for row in rows if row["serving_model"] != ENGINE} == {ASKED}
    assert {row["basis"] for row in rows} <= {ASKED, KNOWN_BASIS}
    points = {tuple(row[name] for name in names): int(row["points"]) for row in rows}
    assert len(points) == len(rows)
    assert min(points.values()) >= LEAST_POINTS
    assert {row["device"] for row in rows} <= donors.keys()
    assert set(donors.values()) <= donors.keys()
    kind = names.index("kind")
    for key, count in points.items():
        if key[kind] == ANY:  # no more than both kinds where both hold enough, and at least each
            parts = [points.get((*key[:kind], part, *key[kind + 1 :]), 0) for part in ("dense", "moe")]
            assert max(parts) <= count <= sum(max(part, LEAST_POINTS - 1) for part in parts)
        measured = next(row for row in rows if tuple(row[name] for name in names) == key)
        assert float(measured["median_ape_percent"]) <= float(measured["p90_ape_percent"])
        assert 0 <= int(measured["agreeing"]) <= int(measured["pairs"])
        quantiles = [float(value) for value in measured["quantiles"].split()]
        assert len(quantiles) == len(LEVELS)
        assert quantiles == sorted(quantiles)
        # The bias is what the middle of log(measured / predicted) makes of the prediction.
        middle = quantiles[LEVELS.index(0.5)]
        assert float(measured["bias_percent"]) == pytest.approx(100 * (math.exp(-middle) - 1), abs=0.02, rel=1e-4)


def test_a_cell_of_the_reference_page_is_a_row_of_the_summary(monkeypatch):
    rows = [
        region(metric="ttft_ms", median_ape_percent=27.4, p90_ape_percent=61.5, bias_percent=-12.4, points=7, pairs=3),
        region(metric="output_tokens_per_s", median_ape_percent=8.0, p90_ape_percent=9.0, bias_percent=3.0, points=9),
        region(engine=ANY),
        region(reach="donor", kind=ANY),
    ]
    shipped = [{name: str(getattr(row, name)) for name in Region.__slots__} for row in rows]
    monkeypatch.setattr("tools.ledger_page.shipped_regions", lambda: shipped)
    *_, rule, cells = ledger_page().splitlines()
    assert set(rule) == {"|", "-"}
    assert cells == "| h100_sxm | dense | aggregated | vllm | 7 | 3 |  |  | 27 / 62, -12 | 8 / 9, +3 |"


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A store of a dense and a sparse model on a device of the ledger and on one that is in none."""
    url = f"sqlite:///{tmp_path_factory.mktemp('expected')}/store.sqlite"
    records = [
        scenario(model, workload, device, precision=PRECISIONS[0], plan=plan, phase=phase)
        for model in (DENSE, MOE)
        for workload in WORKLOADS[:2]
        for device in (KNOWN, UNKNOWN)
        for plan in PLANS[:3]
        for phase in ("prefill", "decode", "aggregated")
    ]
    write_sweep(url, records, key="a", sizes=6)
    return url, read_rows(url)


def question_of(name, rows):
    """A question that the report answers with rows of both devices."""
    both = tuple(reference(next(row for row in rows if row["device"] == device)) for device in STORED_DEVICES)
    options = {
        "why": ReportOptions(probes=both),
        "diff": ReportOptions(sweeps=("a" * 32, "a" * 32)),
        "sensitivity": ReportOptions(vary=("memory",), mode="aggregated"),
        "mix": ReportOptions(mix=tuple((label, 0.5) for label in WORKLOAD_LABELS), mode="aggregated"),
    }
    scope = Scope(workload=None if name in {"mix", "by-length"} else WORKLOAD_LABELS[0], models=(DENSE[0],))
    limits = {"nearest": Limits(tpot_ms=1e-6)}.get(name, Limits(reserved_gib=0))
    return Question(
        report=name,
        scope=Scope() if name in {"why", "diff"} else scope,
        options=options.get(name, ReportOptions()),
        pairs=PairOptions(
            num_devices=8 if name in {"compare", "pd-counts", "mix", "capacity"} else None,
            target_users=2 if name == "concurrency" else None,
        ),
        limits=Limits() if name in NOTHING_PREDICTED | {"why", "diff"} else limits,
    )


@pytest.mark.parametrize("name", sorted(REPORTS))
def test_every_report_says_how_far_off_its_numbers_are_on_both_kinds_of_servers(name, stored):
    url, rows = stored
    with Session(parse_url(url)) as session:
        answer = session.ask(question_of(name, rows))
    assert answer.rows
    if name in NOTHING_PREDICTED:
        assert answer.expected_error == ()
        return
    device_of = {reference(row): row["device"] for row in rows}
    places = [index for index, column in enumerate(answer.columns) if column.endswith("probe")]
    shown = {device_of[row[place]] for row in answer.rows for place in places if row[place]}
    shown = shown or set(STORED_DEVICES)  # why: both probes are named in its header
    said = {one.subject.split(", ")[0]: one for one in answer.expected_error}
    assert set(said) == shown
    for one in answer.expected_error:
        assert one.points > 0
        assert 0 < one.median_ape_percent < one.p90_ape_percent
        if one.subject.startswith(UNKNOWN[0]) and one.servers == TUNED:
            assert one.region == EVERY
            assert one.note.startswith(f"{NONE}; its device's rates are those of its data sheet")
    metrics = {(one.subject, one.metric) for one in answer.expected_error}
    assert {(one.subject, one.metric, one.servers) for one in answer.expected_error} == {
        (*about, servers) for about in metrics for servers in (TUNED, OTHERS)
    }


def test_the_nearest_misses_are_what_an_answer_without_rows_is_about(stored):
    with Session(parse_url(stored[0])) as session:
        answer = session.ask(Question(limits=Limits(tpot_ms=1e-6), scope=Scope(devices=("h100_sxm",))))
    assert answer.nearest
    assert {one.subject.split(", ")[0] for one in answer.expected_error} == {"h100_sxm"}


def test_a_definition_changes_which_error_of_tpot_is_meant(stored):
    with Session(parse_url(stored[0])) as session:
        for rule in ("inclusive", "exclusive"):
            answer = session.ask(Question(definitions=Definitions(tpot=rule)))
            assert {one.metric for one in answer.expected_error} == {
                f"tpot_{rule}_ms",
                "ttft_ms",
                "output_tokens_per_s",
            }


def validated(url, errors, *, serving_model="vllm", version=2, sweep="b"):
    """A store with an aggregated scenario, and points validated against it: (measured, predicted) by metric."""
    of_model = {"precision": PRECISIONS[0], "plan": PLANS[0], "phase": "aggregated", "version": version}
    record = scenario(DENSE, WORKLOADS[1], KNOWN, **of_model)
    record = replace(record, subject=replace(record.subject, serving_model=serving_model))
    write_sweep(url, [record], key=sweep, sizes=4)
    with open_store(url) as store:
        for number, values in enumerate(errors):
            key = f"{number:064x}"
            put_measurements(store, [bare_point(key=key)])
            put_validations(
                store,
                [
                    ValidationRecord(
                        measurement_key=key, metric=metric, scenario_key=record.key, batch_size=2, measured=pair[0],
                        predicted=pair[1], device="h100_sxm", kind="dense", engine=serving_model, mode="aggregated",
                        batch_region="batch 1-8", length_region="input < 2k",
                    )
                    for metric, pair in values.items()
                ],
            )  # fmt: skip


def test_own_validations_are_read_from_the_store_and_answer_first(store_url):
    # The output is 1,024 tokens: 1,024 + 1,023 x 1 = 2,047 measured, 2,048 + 1,023 x 2 = 4,094 predicted: twice.
    validated(store_url, [{"ttft_ms": (1024.0, 2048.0), "tpot_exclusive_ms": (1.0, 2.0)}] * LEAST_POINTS)
    location = parse_url(store_url)
    with read_transaction(location) as transaction:
        found = own_errors(transaction, [replace(SUBJECT, device="h20"), SUBJECT])
        assert {one.model for one in found} == {DENSE[0]}
        for other in ([replace(SUBJECT, device="h20"), replace(SUBJECT, kind="moe")], []):
            assert own_errors(transaction, other) == []
    by_metric = {one.metric: one.error for one in found}
    assert len(found) == 4 * LEAST_POINTS
    assert by_metric == {
        "ttft_ms": 1.0, "tpot_exclusive_ms": 1.0, "tpot_inclusive_ms": pytest.approx(1.0),
        "output_tokens_per_s": pytest.approx(-0.5),
    }  # fmt: skip
    with Session(location) as session:
        answer = session.ask(Question(limits=Limits(reserved_gib=0)))
    # Rows of an engine are limited by the exclusive TPOT, so its errors are those that are told.
    assert [one.metric for one in answer.expected_error] == ["tpot_exclusive_ms", "ttft_ms", "output_tokens_per_s"]
    assert {one.region for one in answer.expected_error} == {"this store's own: h100_sxm, dense, aggregated, vllm"}
    assert [one.median_ape_percent for one in answer.expected_error] == [100.0, 100.0, 50.0]
    assert [one.bias_percent for one in answer.expected_error] == [100.0, 100.0, -50.0]


def test_points_that_no_engine_served_are_no_probes_errors(sqlite_url):
    validated(sqlite_url, [{"ttft_ms": (1.0, 9.0)}] * LEAST_POINTS, serving_model="waves")
    with read_transaction(parse_url(sqlite_url)) as transaction:
        assert own_errors(transaction, [SUBJECT]) == []


def test_a_point_that_newer_formulas_predicted_again_counts_once(sqlite_url):
    validated(sqlite_url, [{"ttft_ms": (10.0, 30.0)}] * LEAST_POINTS, version=1)
    validated(sqlite_url, [{"ttft_ms": (10.0, 12.0)}] * LEAST_POINTS, version=2, sweep="c")
    with read_transaction(parse_url(sqlite_url)) as transaction:
        assert [one.error for one in own_errors(transaction, [SUBJECT])] == [pytest.approx(0.2)] * LEAST_POINTS


def test_formulas_name_the_engines_that_miss_by_less_than_half():
    formulas = expected_errors([replace(SUBJECT, serving_model="waves")])[0]
    (sentence,) = [part for part in (formulas.note or "").split("; ") if part.startswith("nearer: ")]
    error = float(sentence.rpartition("+-")[2].rstrip(" %"))
    assert error < formulas.median_ape_percent / 2
    assert sentence == f"nearer: `serving_model=trtllm, vllm_sync`, TPOT +-{error:.0f} %"
    # An engine needs no such advice, and engines that nobody deploys any more are none.
    assert all("nearer" not in (one.note or "") for one in expected_errors([SUBJECT]))
    decode = expected_errors([replace(SUBJECT, serving_model="waves", phase="decode")])
    assert all("nearer" not in (one.note or "") for one in decode)


SUBJECTS = st.builds(
    Subject,
    device=st.sampled_from(["h100_sxm", "h20", "l4", "mi300x", "nobody's"]),
    kind=kinds,
    phase=st.sampled_from(["aggregated", "decode", "prefill", "disaggregated"]),
    family=st.sampled_from(["calibrated", "theoretical"]),
    convention=st.sampled_from(["physical", "upstream"]),
    serving_model=st.sampled_from(["waves", "seed002", "vllm", "sglang_locked", "mine", "ours@0123abcd"]),
    basis=st.sampled_from([ASKED, KNOWN_BASIS]),
    tpot_rule=st.sampled_from(["inclusive", "exclusive"]),
    known_family=st.booleans(),
)


@settings(deadline=None, max_examples=examples(200))
@given(subject=SUBJECTS)
def test_something_is_stated_of_every_subject_and_never_less_of_others_servers(subject):
    found = {(one.servers, one.metric): one for one in stated(subject)}
    assert found.keys() == {(servers, metric) for servers in (TUNED, OTHERS) for metric in subject.metrics}
    for metric in subject.metrics:
        tuned, others = found[TUNED, metric], found[OTHERS, metric]
        assert 0 < tuned.median_ape_percent <= others.median_ape_percent
        assert tuned.p90_ape_percent <= others.p90_ape_percent
        for one in (tuned, others):
            assert list(one.quantiles) == sorted(one.quantiles)
            assert one.common >= 0
            assert one.rest > 0
        for level in (0.9, 0.95):  # room beside the middle that a limit needs
            place, middle = LEVELS.index(level), LEVELS.index(0.5)
            room = [one.quantiles[place] - one.quantiles[middle] for one in (tuned, others)]
            assert room[0] <= room[1] + 1e-4  # as they are rounded


def test_unknowns_are_named_and_counted():
    plain = replace(SUBJECT, device="h100_sxm")
    assert module.unknowns_of(plain) == {}
    # H20 carries the kernels of H200: one step. Its engine and the family of its model: two each.
    h20 = replace(plain, device="h20", serving_model="mine", known_family=False)
    assert module.unknowns_of(h20) == {
        "its device's rates are carried from h200_sxm": 1,
        "its engine was measured once or never": 2,
        "no model of its family was measured": 2,
    }
    assert module.unknowns_of(replace(plain, family="theoretical")) == {
        "its device's rates are those of its data sheet": 2
    }
    # An own profile is a fit, or numbers that its user answers for.
    assert module.unknowns_of(replace(plain, serving_model="ours@0123abcd")) == {}


def test_points_of_ones_own_servers_stand_for_both_kinds():
    found = [one for one in stated(SUBJECT, own([0.1] * 5)) if one.metric == "ttft_ms"]
    assert [(one.servers, one.points) for one in found] == [("own", 5)]
