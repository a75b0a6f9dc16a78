"""Answers corrected by own runs against plain arithmetic on every stored row, and what holds of all of them."""

import functools
import math
from dataclasses import replace

import numpy as np
import pytest
from generator import DEVICES, MODELS, PLANS, PRECISIONS, WORKLOADS, put, scenario, sweep_record
from own_run import point_of
from queries_stores import changed, read_rows, write_in_parts, write_sweep

from queries.asking.options import Limits, ReportOptions, Scope
from queries.asking.question import Question
from queries.learning import OwnPoints, prior_of
from queries.learning.own_points import MOST_RUNS
from queries.narrow.kept_rows import Rows
from queries.session import Session
from store.location import parse_url
from store.opening import open_store
from store.writing import begin_sweep, finish_sweep, put_scenarios, void

SIZES = 24


def two_devices():
    """A model under an engine on two devices, and without one."""
    made = [
        scenario(MODELS[4], workload, device, precision=PRECISIONS[0], plan=plan, phase="aggregated")
        for device in DEVICES[:2]
        for plan in PLANS[:3]
        for workload in WORKLOADS[:2]
    ]
    return [*made, *(changed(one, serving_model="vllm") for one in made)]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """(url, rows, model key)"""
    url = f"sqlite:///{tmp_path_factory.mktemp('own')}/store.sqlite"
    records = two_devices()
    write_sweep(url, records, key="a", sizes=SIZES)
    return url, read_rows(url), records[0].subject.model.key


def place_of(row):
    """Where a row lies, by the formula of the process."""
    sizes = (row["concurrency"], row["input_length"], row["output_length"], row["num_devices"])
    return np.array([*(math.log2(max(size, 1)) for size in sizes), float(row["dp"] > 1), float(row["ep"] > 1)])


def corrected(rows, seen):
    """Every row by plain sums: `seen` are (row, weights of TTFT and TPOT, log of measured over predicted)."""
    prior = prior_of("data_sheet")
    parts = {}
    for name in ("common", "shape", "own"):
        one, two = getattr(prior, name)
        joint = getattr(prior, f"{name}_correlation") * one * two
        parts[name] = np.array([[one**2, joint], [joint, two**2]])

    def between(one, other):
        apart = ((place_of(one) - place_of(other)) / np.array(prior.lengths)) ** 2
        same = one["scenario_id"] == other["scenario_id"] and one["batch_size"] == other["batch_size"]
        return parts["common"] + parts["shape"] * math.exp(-apart.sum() / 2) + parts["own"] * same

    noise = [sum((w * n) ** 2 for w, n in zip(weights, prior.noise, strict=True)) for _, weights, _ in seen]
    covariance = np.array([[w @ between(a, b) @ v for b, v, _ in seen] for a, w, _ in seen]) + np.diag(noise)
    solved = np.linalg.solve(covariance, [value for *_, value in seen])
    told = {}
    for row in rows:
        mean = sum((between(row, run) @ w) * s for (run, w, _), s in zip(seen, solved, strict=True))
        ttft, rest = row["ttft_ms"] * math.exp(mean[0]), (row["e2e_ms"] - row["ttft_ms"]) * math.exp(mean[1])
        told[f"{row['scenario'][:8]}:{row['batch_size']}"] = (
            ttft,
            row["tpot_exclusive_ms"] * math.exp(mean[1]),
            ttft + rest,
        )
    return told


def asked(url, points=(), report="best", **options):
    """The answer of a session that reads these points, of rows under the engine."""
    question = Question(report=report, scope=Scope(serving_model="vllm"), options=ReportOptions(top=1000, **options),
                        limits=Limits(tpot_ms=1e6, ttft_ms=1e6))  # fmt: skip
    with Session(parse_url(url), own_points=lambda *_: OwnPoints(points=tuple(points))) as session:
        first, again = session.ask(question), session.ask(question)
    assert first.rows == again.rows  # from the store, and from memory
    return first


def rows_under(stored, device="H100_SXM", workload=3500):
    return [row for row in stored[1] if row["serving_model"] == "vllm" and row["device"] == device
            and row["input_length"] == workload]  # fmt: skip


@pytest.fixture(scope="module")
def seen(stored):
    """Three points of one server, one of them with a rate alone: (points, what the twin reads of them)."""
    rows = rows_under(stored)
    first, second, third = rows[3], rows[30], rows[-1]
    points = [
        point_of(stored[2], first, "a" * 64, ttft=1.5, tpot=1.2),
        point_of(stored[2], second, "b" * 64, tpot=1.3),
        point_of(stored[2], third, "c" * 64, rate=0.8),
    ]
    share = third["ttft_ms"] / third["e2e_ms"]
    ttft, tpot = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    return points, [
        (first, ttft, math.log(1.5)), (first, tpot, math.log(1.2)), (second, tpot, math.log(1.3)),
        (third, np.array([share, 1.0 - share]), -math.log(0.8)),
    ]  # fmt: skip


def test_every_row_is_what_plain_arithmetic_makes_of_it(stored, seen):
    points, read = seen
    every = [row for row in stored[1] if row["serving_model"] == "vllm"]
    twin = corrected([row for row in every if row["device"] == "H100_SXM"], read)
    bare = {f"{row['scenario'][:8]}:{row['batch_size']}": (row["ttft_ms"], row["tpot_exclusive_ms"], row["e2e_ms"])
            for row in every if row["device"] != "H100_SXM"}  # fmt: skip
    twin |= bare  # another device's rows stay as predicted
    answer = asked(stored[0], points, "curve")
    got = answer.dicts()
    assert len(got) > 100
    for row in got:
        ttft, tpot, _ = twin[row["probe"]]
        assert (row["ttft_ms"], row["tpot_ms"]) == pytest.approx((ttft, tpot), rel=1e-9)


def test_the_best_is_the_best_of_corrected_rows(stored, seen):
    points, read = seen
    rows = rows_under(stored)
    twin = corrected(rows, read)
    best = {}
    for row in rows:
        rate = row["concurrency"] * 1000 * row["output_length"] / twin[f"{row['scenario'][:8]}:{row['batch_size']}"][2]
        best[row["scenario"][:8]] = max(best.get(row["scenario"][:8], 0.0), rate)
    got = [row for row in asked(stored[0], points).dicts() if row["probe"][:8] in best]
    assert len(got) == len(best)
    for row in got:
        assert row["output_tokens_per_s"] == pytest.approx(best[row["probe"][:8]], rel=1e-9)


def test_a_row_that_was_run_has_the_measured_value_within_its_noise(stored):
    row = rows_under(stored)[5]
    answer = asked(stored[0], [point_of(stored[2], row, "a" * 64, ttft=1.5, tpot=1.2)], "curve")
    told = {one["probe"]: one for one in answer.dicts()}[f"{row['scenario'][:8]}:{row['batch_size']}"]
    noise = prior_of("data_sheet").noise
    assert told["basis"] == "measured"
    assert abs(math.log(told["ttft_ms"] / (1.5 * row["ttft_ms"]))) < noise[0]
    assert abs(math.log(told["tpot_ms"] / (1.2 * row["tpot_exclusive_ms"]))) < noise[1]
    assert {one["basis"] for one in answer.dicts()} >= {
        "measured",
        "near 1 run",
        "data sheet",
    }  # the other device keeps its own word


def test_a_row_says_which_of_its_times_were_measured(stored, seen):
    """Both of the first point's, TPOT of the second, whose users asked seldom, and a rate of the third."""
    told = {row["probe"]: row["basis"] for row in asked(stored[0], seen[0], "curve").dicts()}
    places = [f"{row['scenario'][:8]}:{row['batch_size']}" for row in (rows_under(stored)[at] for at in (3, 30, -1))]
    assert [told[one] for one in places] == ["measured", "measured (TPOT)", "measured (end-to-end time)"]


@pytest.mark.parametrize(("confidence", "rows"), [(None, Rows.WINNERS), (0.8, Rows.KEPT)])
def test_limits_read_with_a_confidence_look_at_every_row_again(stored, seen, confidence, rows):
    """Which rows can win rests on one factor of errors a scenario. Own runs leave errors that grow away from them: a
    smaller batch may miss a limit that a larger one, near a run, keeps."""
    question = Question(report="best", scope=Scope(serving_model="vllm"),
                        limits=Limits(tpot_ms=1e6, ttft_ms=1e6, confidence=confidence))  # fmt: skip
    with Session(parse_url(stored[0]), own_points=lambda *_: OwnPoints(points=tuple(seen[0]))) as session:
        assert session.ask(question).rows == session.ask(question).rows
        assert session._tables._seen.rows is rows


def test_no_points_and_as_predicted_are_the_bare_answer(stored, seen):
    bare = asked(stored[0])
    assert bare.own_runs is None
    assert asked(stored[0], seen[0]).rows != bare.rows
    without = asked(stored[0], seen[0], as_predicted=True)
    assert (without.columns, without.rows, without.sql) == (bare.columns, bare.rows, bare.sql)


def test_a_point_more_is_a_new_answer_that_names_its_points(stored, seen):
    two, three = asked(stored[0], seen[0][:2]), asked(stored[0], seen[0])
    assert two.rows != three.rows
    assert two.own_runs.points == ("a" * 64, "b" * 64)
    assert three.own_runs.points == ("a" * 64, "b" * 64, "c" * 64)
    assert "from 3 runs of yours" in three.own_runs.lines[0]


def test_factors_are_the_same_whatever_is_predicted(stored):
    # Ratios of a server are all that is read: the same ones at the other device's rows give the same factors there.
    measured = {3: {"ttft": 1.5, "tpot": 1.2}, 30: {"tpot": 1.3}, 71: {"ttft": 0.7}}
    here, there = (
        asked(
            stored[0],
            [
                point_of(stored[2], rows_under(stored, device)[place], f"{place:064}", **told)
                for place, told in measured.items()
            ],
            "curve",
        ).dicts()
        for device in ("H100_SXM", "H200_SXM")
    )
    bare = {row["probe"]: row["tpot_ms"] for row in asked(stored[0], report="curve").dicts()}

    def factors(rows, device):
        found = (row for row in rows if row["device"] == device)
        return sorted(row["tpot_ms"] / bare[row["probe"]] for row in found)

    assert factors(here, "H100_SXM") == pytest.approx(factors(there, "H200_SXM"), rel=1e-9)


def test_a_point_that_nothing_stored_predicts_is_said(stored):
    row = {**rows_under(stored)[5], "input_length": 777}
    answer = asked(stored[0], [point_of(stored[2], row, "a" * 64, ttft=1.5)])
    assert answer.rows == asked(stored[0]).rows
    assert any("1 run of yours teaches nothing" in note and "`input_length=777`" in note for note in answer.notes)
    # A client that draws from 0.8 of 1000 asks for 900 in the mean: what is evaluated is the longest.
    drawn = replace(point_of(stored[2], {**row, "input_length": 900}, "b" * 64, ttft=1.5), shortest_length=0.8)
    (note,) = [note for note in asked(stored[0], [drawn]).notes if "teaches nothing" in note]
    assert "`input_length=1000`" in note
    assert "`client_lengths=0.8`" in note


def test_between_stored_batch_sizes_the_ladder_is_interpolated():
    from queries.learning.conditioning import Row, _interpolated

    # Halfway between 4 and 16 on a logarithmic scale: the square root of 100 x 400, of 10 x 40 and of 1000 x 4000.
    told = _interpolated([Row(1, 4, 100.0, 10.0, 1000.0), Row(1, 16, 400.0, 40.0, 4000.0)], 8)
    assert (told.ttft_ms, told.tpot_exclusive_ms, told.e2e_ms) == pytest.approx((200.0, 20.0, 2000.0))
    assert _interpolated([Row(1, 4, 100.0, 10.0, 1000.0)], 8) is None


def test_a_run_between_stored_batch_sizes_corrects_the_stored_ones(stored, seen, tmp_path):
    """12 users, where 1 to 8 and 16 to 24 are stored: 1.5 times longer first tokens there make 16 wait longer, too."""
    url = f"sqlite:///{tmp_path}/between.sqlite"
    records = two_devices()
    with open_store(url, create=True) as store:
        sweep_id = begin_sweep(store, sweep_record(key="a" * 32))
        for record, ref in zip(records, put_scenarios(store, sweep_id, records), strict=True):
            for first, last in ((1, 8), (16, 24)):
                put(store, sweep_id, record, ref, first=first, last=last)
        finish_sweep(store, sweep_id, "finished")
    of_plan = {one["batch_size"]: one for one in rows_under(stored)[:SIZES]}
    row, share = of_plan[12], math.log(12 / 8) / math.log(16 / 8)
    predicted = of_plan[8]["ttft_ms"] ** (1 - share) * of_plan[16]["ttft_ms"] ** share
    point = point_of(stored[2], row, "a" * 64, ttft=1.5 * predicted / row["ttft_ms"])
    answer = asked(url, [point], "curve")
    bare = {one["probe"]: one["ttft_ms"] for one in asked(url, (), "curve").dicts()}
    told = {one["probe"]: one["ttft_ms"] / bare[one["probe"]] for one in answer.dicts()}
    assert answer.own_runs.points == ("a" * 64,)
    assert 1.2 < told[f"{row['scenario'][:8]}:16"] < 1.5


def test_of_very_many_runs_the_newest_decide(stored):
    row = rows_under(stored)[5]
    older = [point_of(stored[2], row, f"{place:064x}", tpot=3.0) for place in range(150)]
    newer = [point_of(stored[2], row, f"{1000 + place:064x}", tpot=1.5) for place in range(MOST_RUNS)]
    answer = asked(stored[0], [*older, *newer])
    shown = next(one for one in answer.dicts() if one["basis"] != "data sheet")
    predicted = next(one for one in stored[1] if f"{one['scenario'][:8]}:{one['batch_size']}" == shown["probe"])
    assert 1.3 < shown["tpot_ms"] / predicted["tpot_exclusive_ms"] < 1.6  # of all 350 runs the mean is above 2
    assert any("150 older settings of this server are not read" in line for line in answer.own_runs.lines)


@pytest.mark.parametrize("place", ["parts", "postgresql"])
def test_it_does_not_matter_where_rows_lie(stored, seen, place, tmp_path, request):
    url = f"sqlite:///{tmp_path}/parts.sqlite" if place == "parts" else request.getfixturevalue("postgresql_url")
    write = write_in_parts if place == "parts" else functools.partial(write_sweep, key="a")
    write(url, two_devices(), sizes=SIZES)
    here, there = (asked(one, seen[0], "curve") for one in (stored[0], url))
    assert there.dicts() == here.dicts()
    assert there.own_runs == here.own_runs


def test_a_run_of_rows_that_are_void_teaches_nothing(stored, seen, tmp_path):
    """Void rows are no prediction: nothing says how far the run is from one."""
    url = f"sqlite:///{tmp_path}/void.sqlite"
    write_sweep(url, two_devices(), key="a", sizes=SIZES)
    scenario_of_first = rows_under(stored)[3]["scenario"]
    with open_store(url) as store:
        void(store, scenario_of_first, "a wrong driver")
    answer = asked(url, seen[0], "curve")
    assert answer.own_runs.points == ("b" * 64, "c" * 64)
    assert not any(row["probe"].startswith(scenario_of_first[:8]) for row in answer.dicts())
