"""mix and by-length against plain Python that tries every choice, over three workloads, one of them a distribution."""

from __future__ import annotations

import math
from itertools import product

import pytest
from examples import examples
from generator import DEVICES, MODELS, PHASES, PLANS, PRECISIONS, WORKLOADS, scenario
from hypothesis import given, settings
from hypothesis import strategies as st
from queries_stores import admits, best_of_plans, judged, read_rows, reference, write_sweep

import queries
from queries.asking.library import report
from queries.asking.options import PairOptions, ReportOptions
from queries.asking.question import Question
from queries.proofs import verify_proof, write_proof
from queries.session import Session
from store.errors import InputError
from store.location import parse_url

CHOSEN = (WORKLOADS[0], WORKLOADS[4], WORKLOADS[5])
NAMES = ("3500/1500", "512/2048", "chat-mix")


class Rows(list):
    """Rows that a failing example does not print."""

    __repr__ = object.__repr__


def records(workloads, phases=PHASES):
    """Scenarios of one model on two devices over workloads."""
    return [
        scenario(MODELS[4], workload, device, precision=PRECISIONS[0], plan=plan, phase=phase)
        for workload, device, plan, phase in product(workloads, DEVICES[:2], PLANS[:6], phases)
    ]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The address and rows of a store whose newest sweep is about one of its three workloads."""
    url = f"sqlite:///{tmp_path_factory.mktemp('mix')}/store.sqlite"
    write_sweep(url, records(CHOSEN[1:]), key="a", sizes=12)
    write_sweep(url, records(CHOSEN[:1]), key="b", sizes=12)
    return url, Rows(read_rows(url))


def requests_per_s(row):
    """Of one instance; a prefill batch that missed long bins is charged at the distribution's mean prompt."""
    realised = row["realised_input_length_mean"]
    share = realised / row["input_length_mean"] if row["phase"] == "prefill" and realised else 1.0
    return judged(row)[0] * share


def offers(rows, phase, ttft, tpot):
    """{workload: {(device, plan): (requests/s, devices)}}, each at its best batch size."""
    best = {}
    for row in rows:
        if row["phase"] == phase and admits(row, ttft, tpot):
            of_workload = best.setdefault(row["workload"], {})
            configuration = (row["device"], row["tp"], row["pp"], row["dp"], row["ep"], row["moe_tp"], row["moe_dp"])
            found = (requests_per_s(row), row["num_devices"])
            of_workload[configuration] = max(of_workload.get(configuration, (0.0, 0)), found)
    return best


def best_single(best, blend, budget):
    """The most requests/s of one configuration for all, or None."""
    rates = []
    for configuration in set.intersection(*(set(best[name]) for name, _ in blend)):
        size = best[blend[0][0]][configuration][1]
        seconds = sum(weight / best[name][configuration][0] for name, weight in blend)
        if size <= budget:
            rates.append(budget // size / seconds)
    return max(rates, default=None)


def best_split(best, blend, budget):
    """The most requests/s of a split, by trying every number of devices for each workload."""
    carried = []
    for name, weight in blend:
        within = [
            max((devices // size * qps / weight for qps, size in best[name].values()), default=0.0)
            for devices in range(budget + 1)
        ]
        carried.append(within)
    shares = product(range(budget + 1), repeat=len(blend))
    rate = max(min(map(list.__getitem__, carried, share)) for share in shares if sum(share) <= budget)
    return rate or None


QUESTIONS = st.tuples(
    st.lists(st.floats(min_value=0.01, max_value=10), min_size=2, max_size=3),
    st.integers(min_value=1, max_value=24),
    st.sampled_from(PHASES),
    st.sampled_from([None, 0.3, 0.7]),
)


@settings(max_examples=examples(12))
@given(question=QUESTIONS)
def test_a_mix_is_what_trying_every_choice_finds(stored, notebook, question):
    weights, budget, phase, quantile = question
    total = sum(weights)
    blend = [(name, weight / total) for name, weight in zip(NAMES, weights, strict=False)]
    metric = "ttft_ms" if phase == "prefill" else "tpot_inclusive_ms"
    values = sorted(row[metric] for row in stored[1] if row["phase"] == phase)
    limit = None if quantile is None else values[int(quantile * len(values))]
    ttft, tpot = (limit, None) if phase == "prefill" else (None, limit)
    best = offers(stored[1], phase, ttft, tpot)
    answer = notebook.mix(
        mix=tuple(zip(NAMES, weights, strict=False)), num_devices=budget, mode=phase, ttft_limit=ttft, tpot_limit=tpot
    ).dicts()
    if any(name not in best for name, _ in blend):
        assert answer == []
        return
    expected = {"single": best_single(best, blend, budget), "split": best_split(best, blend, budget)}
    assert len(answer) == 2 * len(blend)
    for row in answer:
        rate = expected[row["choice"]]
        other = expected["split" if row["choice"] == "single" else "single"]
        assert row["system_requests_per_s"] == (None if rate is None else pytest.approx(rate))
        assert (row["reason"] is None) == (rate is not None)
        assert row["against_other"] == (None if rate is None or other is None else pytest.approx(rate / other))
        if rate is not None:
            assert row["devices_used"] <= budget
            assert row["time_share"] <= 1 + 1e-9
    for choice in ("single", "split"):
        check_choice([row for row in answer if row["choice"] == choice and row["reason"] is None])


def check_choice(rows):
    """The lines of one choice add up to what they say."""
    if not rows:
        return
    if rows[0]["choice"] == "single":
        assert len({(row["device"], row["plan"]) for row in rows}) == 1
        assert math.fsum(row["time_share"] for row in rows) == pytest.approx(1)
        assert {row["instances"] * row["instance_devices"] for row in rows} == {rows[0]["devices_used"]}
    else:
        assert sum(row["instances"] * row["instance_devices"] for row in rows) == rows[0]["devices_used"]
        carried = min(row["instances"] * row["requests_per_s"] / row["weight"] for row in rows)
        assert carried == pytest.approx(rows[0]["system_requests_per_s"])


def test_too_few_devices_are_a_reason_that_counts_them(stored, notebook):
    rows = notebook.mix(mix=tuple((name, 1.0) for name in NAMES), num_devices=1).dicts()
    smallest = offers(stored[1], "aggregated", None, None)
    needed = sum(min(size for _, size in smallest[name].values()) for name in NAMES)
    reasons = {row["reason"] for row in rows if row["choice"] == "split"}
    assert reasons == {f"one instance of each workload needs {needed} devices"}


def test_a_mix_says_what_is_wrong_with_it(notebook):
    with pytest.raises(InputError, match="'chat-mox'") as unknown:
        notebook.mix(mix=(("chat-mox", 1.0), (NAMES[0], 1.0)), num_devices=8)
    assert "chat-mix" in unknown.value.hint
    with pytest.raises(InputError, match="above 0"):
        notebook.mix(mix=((NAMES[0], 0.0), (NAMES[1], 1.0)), num_devices=8)
    with pytest.raises(InputError, match="one workload twice"):
        notebook.mix(mix=((NAMES[0], 1.0), (NAMES[0], 2.0)), num_devices=8)
    with pytest.raises(InputError, match="two workloads or more"):
        notebook.mix(mix=((NAMES[0], 1.0),), num_devices=8)
    with pytest.raises(InputError, match="device budget"):
        notebook.mix(mix=((NAMES[0], 1.0), (NAMES[1], 2.0)))
    with pytest.raises(InputError, match="nothing of workload"):
        notebook.mix(mix=((NAMES[0], 1.0), (NAMES[1], 2.0)), num_devices=8, input_length=3500)


def test_a_mix_is_titled_by_its_blend(notebook):
    # Weights 1 and 3 are a quarter and three quarters of the requests.
    answer = notebook.mix(mix=((NAMES[0], 1.0), (NAMES[2], 3.0)), num_devices=8)
    assert {line.split(" · ")[1] for line in answer.scope} == {f"0.25 {NAMES[0]} + 0.75 {NAMES[2]}"}


def test_the_columns_of_a_mix_are_those_its_header_explains(notebook):
    answer = notebook.mix(mix=((NAMES[0], 1.0), (NAMES[1], 2.0)), num_devices=8)
    assert sorted(answer.columns) == sorted([*(column.name for column in report("mix").columns), "basis"])
    assert {round(row["weight"], 6) for row in answer.dicts()} == {0.333333, 0.666667}


def test_a_proof_of_a_mix_is_verified(stored, tmp_path):
    question = Question(
        report="mix",
        pairs=PairOptions(num_devices=8),
        options=ReportOptions(mix=((NAMES[0], 1.0), (NAMES[2], 2.0))),
    )
    with Session(parse_url(stored[0])) as session:
        write_proof(session.ask(question), tmp_path / "proof.json", parse_url(stored[0]), session.pinned())
    assert verify_proof(tmp_path / "proof.json", parse_url(stored[0])).startswith("verified: 4 rows")


@pytest.mark.parametrize("ttft", [None, 400.0])
def test_by_length_is_the_best_of_each_workload(stored, notebook, ttft):
    lines = notebook.by_length(ttft_limit=ttft).dicts()
    # 512, then the distribution's 0.5 x 320 + 0.3 x 1280 + 0.2 x 5120 = 1568, then 3500
    assert [row["input_length_mean"] for row in lines] == [512, 1568, 3500]
    before = None
    for line in lines:
        rows = [row for row in stored[1] if row["workload_key"] == line["workload_key"]]
        aggregated = winner(best_of_plans(rows, "aggregated", ttft=ttft))
        assert line["probe"] == (reference(aggregated[1]) if aggregated else None)
        sides = [best_side(rows, phase, ttft) for phase in ("prefill", "decode")]
        assert line["prefill_probe"] == (reference(sides[0][1]) if sides[0] else None)
        assert line["decode_probe"] == reference(sides[1][1])
        if sides[0]:
            bound = 1 / sum(row["num_devices"] / qps for qps, row in sides)
            assert line["requests_per_s_per_device_bound"] == pytest.approx(bound)
            assert line["pd_ratio"] == pytest.approx(sides[1][0] / sides[0][0])
        held = (line["device"], line["plan"])
        known = before is not None and before[1] is not None and held[1] is not None
        assert line["plan_changes"] == ((held != before) if known else None)
        before = held


def best_side(rows, phase, ttft):
    """The (requests/s, row) with the most of it a device."""
    admitted = [(requests_per_s(row), row) for row in rows if row["phase"] == phase and admits(row, ttft)]
    return max(admitted, key=lambda item: item[0] / item[1]["num_devices"], default=None)


def winner(groups):
    """The (measure, row) with the most of it a device."""
    found = (item for items in groups.values() for item in items)
    return max(found, key=lambda item: item[0] / item[1]["num_devices"], default=None)


def test_by_length_leaves_out_what_is_not_stored(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    write_sweep(url, records(CHOSEN[:2], phases=("decode",)), key="c", sizes=3)
    for line in queries.open(url).by_length().dicts():
        assert line["decode_plan"] is not None
        assert (line["plan"], line["prefill_plan"], line["pd_ratio"], line["pair_changes"]) == (None,) * 4
