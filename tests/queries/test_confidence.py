"""Limits read with a confidence, and whether they hold: SQL and Python against plain arithmetic on every stored row."""

from __future__ import annotations

import csv
import itertools
import math

import pytest
from generator import DEVICES, MODELS, PLANS, PRECISIONS, WORKLOADS, scenario
from hypothesis import given, settings
from hypothesis import strategies as st
from queries_stores import judged, memory_free, read_rows, reference, write_sweep

from queries.asking.limits import predicted_limits
from queries.asking.options import Limits, PairOptions, Scope
from queries.asking.question import Question
from queries.errors.expected import ExpectedError
from queries.errors.spreads import LEVELS, SPREADS, SUMMARY
from queries.judging.confidence import Factors, holds, ratio_at
from queries.proofs import verify_proof, write_proof
from queries.session import Session
from store.errors import InputError
from store.location import parse_url

# A device of the shipped summary, as theoretical as the generator's, and one that is in no ledger.
H100 = ("h100_sxm", *DEVICES[0][1:])
UNKNOWN = DEVICES[6]
WORKLOAD = WORKLOADS[1]
# Student's t with four degrees of freedom, from a printed table, at 5, 10, 20 ... 50 %; the other half mirrors it.
STUDENT = (-2.1318, -1.5332, -0.9410, -0.5686, -0.2707, 0.0, 0.2707, 0.5686, 0.9410, 1.5332, 2.1318)
METRIC = {"ttft": "ttft_ms", "tpot": "tpot_inclusive_ms", "e2e": "tpot_inclusive_ms", "user": "tpot_exclusive_ms"}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A dense model on both devices, every phase."""
    url = f"sqlite:///{tmp_path_factory.mktemp('confidence')}/store.sqlite"
    records = [
        scenario(MODELS[4], WORKLOAD, device, precision=PRECISIONS[0], plan=plan, phase=phase)
        for device in (H100, UNKNOWN)
        for plan in PLANS[:4]
        for phase in ("prefill", "decode", "aggregated")
    ]
    write_sweep(url, records, key="a", sizes=24)
    return url, read_rows(url)


@pytest.fixture(scope="module")
def shipped():
    """Quantiles that ship for the device, by phase and metric, read as a text file."""
    wanted = {"family": "theoretical", "convention": "physical", "serving_model": "waves", "reach": "device",
              "device": "h100_sxm", "kind": "dense", "engine": "any"}  # fmt: skip
    with SUMMARY.open(encoding="utf-8", newline="") as file:
        found = {
            (H100[0], row["phase"], row["metric"]): [float(value) for value in row["quantiles"].split()]
            for row in csv.DictReader(file)
            if wanted.items() <= row.items()
        }
    # Of the other device nothing is measured near: every measured server, 1.25 times as wide by its data sheet.
    with SPREADS.open(encoding="utf-8", newline="") as file:
        spreads = {
            row["metric"]: [float(row["centre"]) + 1.25 * float(row["scale"]) * value for value in STUDENT]
            for row in csv.DictReader(file)
            if (row["servers"], row["convention"], row["serving_model"]) == ("tuned", "physical", "waves")
        }
    phases = ("prefill", "decode", "aggregated")
    return found | {(UNKNOWN[0], phase, metric): values for phase in phases for metric, values in spreads.items()}


def naive_ratio(shipped, device, phase, limit, probability):
    """Measured over predicted at a probability: between the two levels around it, by hand."""
    metric = METRIC[limit] if phase == "aggregated" or limit == "ttft" else "tpot_exclusive_ms"
    quantiles = shipped[device, phase, metric]
    above = next(place for place, level in enumerate(LEVELS) if probability <= level)
    if above == 0:
        return math.exp(quantiles[0])
    below = above - 1
    share = (probability - LEVELS[below]) / (LEVELS[above] - LEVELS[below])
    return math.exp(quantiles[below] * (1 - share) + quantiles[above] * share)


def naive_keeps(row, limits, shipped, probability):
    """Whether a row keeps each limit that its phase has a metric for."""
    phase, tpot = row["phase"], judged(row)[3]
    values = []
    for limit, asked, value in (
        ("ttft", limits.ttft_ms, row["ttft_ms"]), ("tpot", limits.tpot_ms, tpot), ("e2e", limits.e2e_ms, row["e2e_ms"]),
    ):  # fmt: skip
        if asked is not None and value is not None:
            values.append(value * naive_ratio(shipped, row["device"], phase, limit, probability) <= asked)
    if limits.min_tokens_per_s_per_user is not None and row["tpot_exclusive_ms"] is not None:
        rate = 1000.0 / row["tpot_exclusive_ms"]
        ratio = naive_ratio(shipped, row["device"], phase, "user", probability)
        values.append(rate / ratio >= limits.min_tokens_per_s_per_user)
    return values


def naive_holds(row, limits, shipped):
    for probability, said in ((0.9, "yes"), (0.5, "likely")):
        kept = naive_keeps(row, limits, shipped, probability)
        if not kept:
            return None
        if all(kept):
            return said
    return "no"


def middle(rows, phase, name):
    values = sorted(row[name] for row in rows if row["phase"] == phase and row["device"] == H100[0])
    return values[len(values) // 2]


@pytest.mark.parametrize("confidence", [None, 0.05, 0.37, 0.5, 0.8, 0.9, 0.95])
@pytest.mark.parametrize("limited", [("ttft",), ("tpot",), ("e2e",), ("user",), ("ttft", "tpot", "user")])
def test_best_is_the_best_of_the_rows_that_keep_their_limits_with_the_confidence(
    stored, shipped, notebook, confidence, limited
):
    rows = [row for row in stored[1] if row["phase"] == "aggregated"]
    asked = {
        "ttft": {"ttft_limit": middle(rows, "aggregated", "ttft_ms")},
        "tpot": {"tpot_limit": 1.3 * middle(rows, "aggregated", "tpot_exclusive_ms")},
        "e2e": {"e2e_limit": middle(rows, "aggregated", "e2e_ms")},
        "user": {"min_tokens_per_s_per_user": 800.0 / middle(rows, "aggregated", "tpot_exclusive_ms")},
    }
    options = {name: value for limit in limited for name, value in asked[limit].items()}
    answer = notebook.best(top=100, reserved_memory_gb=0, confidence=confidence, tuned_servers=True, **options)
    limits = answer.question.limits
    best = {}
    for row in rows:
        kept = naive_keeps(row, limits, shipped, confidence) if confidence is not None else plainly_kept(row, limits)
        if memory_free(row, 0) < 0 or not all(kept):
            continue
        order = (-judged(row)[1], judged(row)[2], row["batch_size"])
        if row["scenario"] not in best or order < best[row["scenario"]][0]:
            best[row["scenario"]] = (order, row)
    assert {row["probe"] for row in answer.dicts()} == {reference(row) for _, row in best.values()}
    by_reference = {reference(row): row for row in rows}
    for row in answer.dicts():
        assert row["holds"] == naive_holds(by_reference[row["probe"]], limits, shipped)


def plainly_kept(row, limits):
    values = ((row["ttft_ms"], limits.ttft_ms), (judged(row)[3], limits.tpot_ms), (row["e2e_ms"], limits.e2e_ms))
    kept = [value <= limit for value, limit in values if limit is not None]
    least = limits.min_tokens_per_s_per_user
    return [*kept, *([] if least is None else [1000.0 / row["tpot_exclusive_ms"] >= least])]


REPORTS = ("best", "prefill", "decode", "curve", "nearest", "pareto", "pd-ratio", "devices", "cost", "capacity")


@pytest.mark.parametrize("name", REPORTS)
def test_every_report_of_probes_says_whether_limits_hold(stored, shipped, notebook, name):
    rows = stored[1]
    limits = {"ttft_limit": 2 * middle(rows, "aggregated", "ttft_ms")}
    if name != "prefill":
        limits["tpot_limit"] = 1.5 * middle(rows, "aggregated", "tpot_exclusive_ms")
    if name == "decode":
        del limits["ttft_limit"]
    if name == "cost":
        limits["mode"] = "aggregated"
    if name == "capacity":
        limits["num_devices"] = 8
    answer = notebook.report(name, reserved_memory_gb=0, top=100, tuned_servers=True, **limits)
    by_reference = {reference(row): row for row in rows}
    judged_rows = 0
    for row in answer.dicts():
        for probe, said in (("probe", "holds"), ("prefill_probe", "prefill_holds"), ("decode_probe", "decode_holds")):
            assert (probe in row) == (said in row)
            if row.get(probe) is not None:
                assert row[said] == naive_holds(by_reference[row[probe]], answer.question.limits, shipped)
                judged_rows += row[said] is not None
    assert answer.rows
    assert judged_rows > 0


def test_without_limits_nothing_is_said_to_hold(notebook):
    assert "holds" not in notebook.best(reserved_memory_gb=0).columns
    assert "holds" not in notebook.coverage().columns


def test_what_holds_with_ninety_percent_passes_with_that_confidence(stored, notebook):
    limit = 1.5 * middle(stored[1], "aggregated", "tpot_exclusive_ms")
    every = notebook.curve(tpot_limit=limit, reserved_memory_gb=0, mode="aggregated", tuned_servers=True)
    for confidence, said in ((0.9, {"yes"}), (0.5, {"yes", "likely"})):
        passing = notebook.nearest(
            tpot_limit=limit, reserved_memory_gb=0, mode="aggregated", confidence=confidence, top=1, tuned_servers=True
        )
        kept = {row["probe"] for row in every.dicts() if row["holds"] in said}
        missing = {row["probe"] for row in passing.dicts()}
        assert kept
        assert not kept & missing


def test_the_nearest_miss_is_admitted_when_its_limit_is_relaxed_so_far(stored, notebook):
    asked = {"reserved_memory_gb": 0, "confidence": 0.8}
    tight = 0.5 * min(row["ttft_ms"] for row in stored[1] if row["phase"] == "aggregated")
    answer = notebook.best(ttft_limit=tight, **asked)
    assert not answer.rows
    first = answer.nearest_dicts()[0]
    assert first["relax_to"] > first["ttft_ms"]  # measured values may exceed predicted ones
    assert first["holds"] == "no"
    relaxed = notebook.best(ttft_limit=first["relax_to"], **asked)
    assert first["probe"] in {row["probe"] for row in relaxed.dicts()}
    assert len(relaxed.rows) == 1
    assert first["admitted_then"] >= 1


@settings(deadline=None)
@given(
    value=st.floats(0.1, 1e4),
    limit=st.floats(0.1, 1e4),
    sure=st.floats(1.0, 3.0),
    even=st.floats(0.5, 1.0),
    rule=st.sampled_from(["inclusive", "exclusive"]),
)
def test_holds_follows_the_two_factors(value, limit, sure, even, rule):
    row = [value if one.metric == "tpot_ms" else None for one in predicted_limits()]
    at = {
        0.9: Factors(tpot_inclusive=sure, tpot_exclusive=sure),
        0.5: Factors(tpot_inclusive=even, tpot_exclusive=even),
    }
    found = holds(row, Limits(tpot_ms=limit), rule, at.__getitem__)
    assert found == ("yes" if value * sure <= limit else "likely" if value * even <= limit else "no")
    assert holds(row, Limits(tpot_ms=limit), rule, lambda _: Factors()) is None
    assert holds(row, Limits(ttft_ms=limit), rule, at.__getitem__) is None  # it has no such metric


def test_limits_are_read_for_others_servers_unless_they_are_tuned(notebook, stored):
    asked = {"reserved_memory_gb": 0, "confidence": 0.8, "top": 100, "device": H100[0]}
    limit = 2.5 * middle(stored[1], "aggregated", "tpot_exclusive_ms")
    tuned, others = (
        {row["probe"]: row for row in notebook.best(tpot_limit=limit, tuned_servers=said, **asked).dicts()}
        for said in (True, False)
    )
    assert tuned
    most = {name: max((row["tpot_ms"] for row in found.values()), default=0.0)
            for name, found in (("tuned", tuned), ("others", others))}  # fmt: skip
    assert most["others"] < most["tuned"]


def test_a_ratio_lies_between_the_levels_that_are_kept():
    quantiles = (-0.3, -0.2, -0.1, -0.05, 0.0, 0.0, 0.0, 0.02, 0.05, 0.15, 0.4)
    figures = dict.fromkeys(("median_ape_percent", "p90_ape_percent", "bias_percent"), 9.0)
    error = ExpectedError(subject="", metric="ttft_ms", points=9, agreeing=1, quantiles=quantiles, region="", **figures)
    # at 0.85 half-way between 0.05 and 0.15
    assert ratio_at(error, 0.85) == pytest.approx(math.exp(0.10))
    for level, quantile in zip(LEVELS, quantiles, strict=True):
        assert ratio_at(error, level) == pytest.approx(math.exp(quantile))
    ratios = [ratio_at(error, 0.05 + 0.01 * step) for step in range(91)]
    assert all(low <= high for low, high in itertools.pairwise(ratios))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"confidence": 0.99, "tpot_limit": 50}, "`confidence` must be at most 0.95, not 0.99"),
        ({"confidence": 0.0, "tpot_limit": 50}, "`confidence` must lie in 0.05..0.95, not 0"),
        ({"confidence": 0.8}, "`confidence` reads limits, and none is given"),
        (
            {"confidence": 0.8, "tbt_limit": 20},
            "`confidence` reads limits whose errors are known, and those of `tbt_limit`",
        ),
    ],
)
def test_what_cannot_be_read_with_a_confidence_is_refused(notebook, options, said):
    with pytest.raises(InputError, match=said.replace("(", r"\(")):
        notebook.best(**options)
    # A refusal leaves the session as it was for the next question.
    assert notebook.best(reserved_memory_gb=0).rows


def test_reports_without_limits_refuse_a_confidence(notebook):
    with pytest.raises(InputError, match="report curve makes no use of `confidence`"):
        notebook.curve(confidence=0.8, tpot_limit=50)


def test_a_question_with_a_confidence_is_proved_and_verified(stored, tmp_path):
    location = parse_url(stored[0])
    limit = 1.5 * middle(stored[1], "aggregated", "tpot_exclusive_ms")
    question = Question(limits=Limits(tpot_ms=limit, reserved_gib=0, confidence=0.8), scope=Scope())
    with Session(location) as session:
        answer = session.ask(question)
        write_proof(answer, tmp_path / "proof.json", location, session.pinned())
    assert verify_proof(tmp_path / "proof.json", location).startswith("verified: ")


def test_sides_of_pairs_are_judged_by_what_the_pair_has(stored):
    """Each side has a column; a limit that a side has no metric for says nothing of it."""
    limit = 1.5 * middle(stored[1], "decode", "tpot_exclusive_ms")
    with Session(parse_url(stored[0])) as session:
        limits, scope = Limits(tpot_ms=limit, reserved_gib=0), Scope(devices=("h100_sxm",))
        answer = session.ask(Question(report="pd-ratio", limits=limits, pairs=PairOptions(num_devices=16), scope=scope))
    assert {row["prefill_holds"] for row in answer.dicts()} == {None}
    assert {row["decode_holds"] for row in answer.dicts()} <= {"yes", "likely", "no"}
