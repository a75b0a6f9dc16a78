"""Which points count, figures of errors and rankings, by hand and against a naive program."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured_points import closed_loop
from shared_data import shared_data

from evaluator.ledger.rankings import kendall_tau, ranking_agreement, standing_of
from evaluator.ledger.readers import read_measurements
from evaluator.ledger.readers.building import Circumstances, kept
from evaluator.ledger.scoring import Comparison, figures, usable
from store.records import MeasurementRecord, SideRecord

DRAFTED = "speculative decoding suspected: twice as fast as the same build and plan without"


def record(key: str, ttft: float = 100.0, tpot: float = 10.0, **changes: object) -> MeasurementRecord:
    """A full row of a closed loop; `extra` is a mapping."""
    metrics = {"ttft_ms_mean": ttft, "tpot_exclusive_ms_mean": tpot}
    extra = json.dumps(changes.pop("extra", {}))
    return closed_loop(**{"key": key, "output_length": 101.0, "metrics": metrics, "extra": extra, **changes})


def counts(*records: MeasurementRecord) -> dict[str, int]:
    return {one.rule: one.rows for one in usable(records).excluded}


def test_figures_of_signed_errors():
    found = figures([0.10, -0.20, 0.30, -0.40])
    assert found is not None
    assert found.median_ape == pytest.approx(25.0)  # of 10, 20, 30, 40
    assert found.mean_ape == pytest.approx(25.0)
    assert found.p90_ape == pytest.approx(37.0)  # 30 + 0.7 x 10
    assert found.bias == pytest.approx(-5.0)  # between -20 and 10
    assert found.rows == 4
    assert figures([]) is None


def test_the_same_measurement_under_two_ids_counts_once():
    again, first = record("a"), record("b", decode=SideRecord(tp=2), model="Qwen/Qwen3-32B-FP8")
    # Whichever comes first in the file: the last name of the alphabet stays.
    assert usable([first, again]).records == usable([again, first]).records == (first,)
    assert counts(first, again) == {"duplicate: same device, lengths, concurrency and values": 1}


def test_tables_that_round_differently_repeat_a_measurement():
    def run(key, ttft, tpot):
        return record(key, metrics={"ttft_ms_mean": ttft, "tpot_exclusive_ms_mean": tpot})

    # Qwen3.5-397B on eight H200 stands in one table in full, and in a later one with two digits after the point.
    assert len(usable([run("a", 307.790672, 10.080635), run("b", 307.79, 10.08)]).records) == 1
    # Two runs of MiniMax-M2.5 on four H100 differ by 0.4 and 0.1 %.
    assert len(usable([run("a", 192.0284, 25.6906), run("b", 191.2433, 25.6570)]).records) == 2


def test_prompts_that_are_replayed_against_a_prefix_cache_do_not_count():
    rule = "fixed prompts replayed against a prefix cache, whose hits are not stated"
    assert counts(record("a", extra=kept(Circumstances(replayed=True)))) == {rule: 1}


def test_rows_with_one_metric_may_coincide():
    one = record("a", metrics={"e2e_ms_mean": 12.5})
    assert counts(one, replace(one, key="b", decode=SideRecord(tp=2))) == {}


def test_other_settings_or_values_are_no_duplicates():
    assert counts(record("a"), record("b", ttft=100.5), record("c", concurrency=16.0), record("d", device="b200")) == {}


def test_one_measurement_under_two_devices_is_of_neither():
    """GPUStack's page of H100 repeats its page of A100: seven digits and five agree by no chance, 100 and 10 ms may."""
    one = {"ttft": 142573.31, "tpot": 267.38, "output_length": 1000.0}
    repeated = record("a", device="a100_sxm", **one), record("b", device="h100_sxm", **one)
    rule = "the same values under two devices: not known which was measured"
    assert counts(*repeated, record("c", ttft=100.5)) == {rule: 2}
    # Two names of one device, another model, or other users: no such case.
    assert rule not in counts(record("a", device="h100_sxm", **one), record("b", device="H100", **one))
    assert rule not in counts(repeated[0], record("b", model="Qwen/Qwen3-8B", **one))
    assert rule not in counts(repeated[0], record("b", concurrency=9.0, **one))


def test_most_of_the_time_before_the_first_token():
    # 1001 of 1001 + 100 x 10 ms is more than half, 999 is not.
    rule = "time to first token above half of the end-to-end time"
    assert counts(record("a", ttft=1001.0), record("b", ttft=999.0)) == {rule: 1}
    # Of one round of prompts that is how it was: 2,900 of 2,900 + 1,000 ms are below three quarters, 3,100 above.
    assert len(usable([record("a", ttft=2900.0), record("b", ttft=3100.0)], most_ttft=0.75).records) == 1


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        (
            {"extra": {"spec_decode": "eagle"}},
            "speculative decoding, or not known whether",
        ),
        (
            {"engine": "trtllm", "model": "deepseek-ai/DeepSeek-R1", "engine_version": "1.2.0rc6.post3"},
            DRAFTED,
        ),
        (
            {"engine": "trtllm", "model": "deepseek-ai/DeepSeek-R1", "engine_version": "1.1.0rc2.post2"},
            DRAFTED,
        ),
        (
            {
                "engine": "sglang",
                "model": "deepseek-ai/DeepSeek-R1",
                "engine_version": "0.5.9",
                "decode": SideRecord(tp=8),
            },
            DRAFTED,
        ),
        ({"extra": {"priority": 3}}, "published figure of priority 3: not fully specified"),
        (
            {"definitions": {"ttft_ms_mean": "predicted by another program"}},
            "predicted by another program, not measured",
        ),
    ],
)
def test_rules_by_what_a_row_says(changes, rule):
    assert counts(record("a", **changes)) == {rule: 1}


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "deepseek-ai/DeepSeek-V3", "decode": SideRecord(tp=8)},  # whose twins are slower: without drafts
        {"decode": SideRecord(tp=4)},  # the recipe with drafts is of eight ranks
        {"engine_version": "0.5.10", "decode": SideRecord(tp=8)},
    ],
)
def test_runs_beside_the_builds_that_drafted_count(changes):
    built = {"engine": "sglang", "model": "deepseek-ai/DeepSeek-R1", "engine_version": "0.5.9"}
    assert counts(record("a", **built | changes)) == {}


def test_what_is_said_of_speculation_by_honest_rows():
    assert counts(*(record(str(index), ttft=100.0 + index, extra={"spec_decode": said}) for index, said in
                    enumerate(("none", "not recorded (assumed none)", "")))) == {}  # fmt: skip


def test_twins_are_kept_and_counted():
    # 130 / 100 is more than 1.25, 110 / 100 and 130 / 110 are not.
    found = usable([record("a"), record("b", ttft=110.0), record("c", ttft=130.0), record("d", concurrency=9.0)])
    assert len(found.records) == 4
    assert (found.noisy_twins, found.twins) == (1, 3)


def test_counts_on_the_serving_table():
    records = read_measurements(shared_data("e2e", "serving.csv")).records
    aggregated = [one for one in records if one.mode == "aggregated"]
    assert len(aggregated) == 1695
    # Each rule alone on the aggregated rows, as a study of the table counted them.
    values = [(one.device, one.input_length, one.output_length, one.concurrency, *sorted(one.metrics.items())) for one in aggregated]  # fmt: skip
    assert len(values) - len(set(values)) == 294
    shares = [
        one.metrics["ttft_ms_mean"]
        / (one.metrics["ttft_ms_mean"] + (one.output_length - 1) * one.metrics["tpot_exclusive_ms_mean"])
        for one in aggregated
    ]
    assert sum(share > 0.5 for share in shares) == 19
    # In the program's order a row counts at the first rule that takes it out, and disaggregated rows are in.
    assert {one.rule: one.rows for one in usable(records).excluded} == {
        # 761 to the last digit, and 15 of Qwen3.5 on H200 that a later table states with two digits after the point.
        "duplicate: same device, lengths, concurrency and values": 776,
        # 761 and 109 are 870. With one such build, counted before duplicates, they were 720 and 88: 62 rows more, of which
        # 24 are under SGLang and 38 under TensorRT-LLM.
        DRAFTED: 109,
        "time to first token above half of the end-to-end time": 36,
    }


def naive_tau(pairs: list[tuple[float, float]]) -> float | None:
    """Kendall's tau-b by its definition: concordant less discordant pairs over the geometric mean of untied ones."""
    concordant = discordant = left_untied = right_untied = 0
    for index, (a, b) in enumerate(pairs):
        for c, d in pairs[:index]:
            product = (a - c) * (b - d)
            concordant += product > 0
            discordant += product < 0
            left_untied += a != c
            right_untied += b != d
    if not left_untied or not right_untied:
        return None
    return (concordant - discordant) / math.sqrt(left_untied * right_untied)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=12))
def test_kendall_tau_against_its_definition(pairs):
    found, expected = kendall_tau(pairs), naive_tau(pairs)
    assert found == (None if expected is None else pytest.approx(expected))


def test_kendall_tau_by_hand():
    assert kendall_tau([(1, 1), (2, 2), (3, 3)]) == pytest.approx(1.0)
    assert kendall_tau([(1, 3), (2, 2), (3, 1)]) == pytest.approx(-1.0)
    assert kendall_tau([(1, 1), (2, 3), (3, 2)]) == pytest.approx(1 / 3)  # two pairs agree, one does not
    assert kendall_tau([(1, 1), (1, 2)]) is None


def comparison(metric: str, measured: float, predicted: float, key: str, **changes: object) -> Comparison:
    base = Comparison(
        knowledge="asked",
        metric=metric,
        measured=measured,
        predicted=predicted,
        peer=None,
        device="h100_sxm",
        model="m",
        engine="vllm",
        mode="aggregated",
        moe=False,
        plan="tp1pp1dp1",
        num_devices=1,
        users=8,
        input_length=1024,
        output_length=101,
        batch_size=8,
        record_key=key,
    )
    return replace(base, **changes)


def test_a_ranking_by_tokens_a_second_and_device():
    # Cycles of 8 users and 101 tokens: measured 1100, 600, 2100 ms; predicted 1000, 700, 800 ms. On 1, 2, 1 devices:
    # measured rates 8 x 101 / 1.1 > 808 / 2.1 and 808 / 0.6 / 2 = 673; predicted 808, 577, 1010. Orders: 735 673 385
    # against 808 577 1010: one pair of three agrees, tau -1/3.
    points = []
    for key, devices, (ttft, tpot), (expected_ttft, expected_tpot) in (
        ("a", 1, (100.0, 10.0), (100.0, 9.0)),
        ("b", 2, (100.0, 5.0), (100.0, 6.0)),
        ("c", 1, (100.0, 20.0), (100.0, 7.0)),
    ):
        points.append(comparison("ttft", ttft, expected_ttft, key, num_devices=devices))
        points.append(comparison("tpot", tpot, expected_tpot, key, num_devices=devices))
    assert ranking_agreement(points) == (pytest.approx(-1 / 3), 1)
    assert ranking_agreement(points[:4]) is None  # two points are no ranking


def test_regions():
    small = comparison("ttft", 100.0, 80.0, "a")
    large = comparison("ttft", 100.0, 150.0, "b", users=256, input_length=8192, moe=True, device="b200_sxm")
    assert small.error == pytest.approx(-0.2)
    assert small.region == "h100_sxm, dense, vllm, aggregated, batch 1-8, input < 2k"
    assert large.region == "b200_sxm, moe, vllm, aggregated, batch > 128, input > 6k"
    assert replace(small, peer=125.0).peer_error == pytest.approx(0.25)


def test_end_to_end_errors_orders_and_regret_of_ours_and_of_a_peer():
    # One group of 8 users and 101 tokens on one device: measured 1100 and 2100 ms, so the first plan gives 735 tokens/s
    # and the second 385. Ours say 1000 and 2200: the same order. The peer says 3100 and 1300: it chooses the second and
    # loses 1 - 385 / 735 = 1 - 11 / 21 of the rate.
    points = []
    for key, plan, tpot, ours, peer in (("a", "tp1", 10.0, 9.0, 30.0), ("b", "tp2", 20.0, 21.0, 12.0)):
        points.append(comparison("ttft", 100.0, 100.0, key, plan=plan, peer=100.0))
        points.append(comparison("tpot", tpot, ours, key, plan=plan, peer=peer))
    ours, peer = standing_of(points, "ours"), standing_of(points, "peer")
    assert ours is not None
    assert peer is not None
    assert ours.choices is None  # two points are no ranking, but two plans at equal users are a choice
    assert (ours.plans.kendall_tau, ours.plans.regret, ours.plans.groups) == (pytest.approx(1.0), 0.0, 1)
    assert (peer.plans.kendall_tau, peer.plans.regret) == (pytest.approx(-1.0), pytest.approx(100 * 10 / 21))
    assert (ours.rows, ours.e2e.bias) == (2, pytest.approx(100 * (-100 / 1100 + 100 / 2100) / 2))
    assert peer.e2e.median_ape == pytest.approx(100 * (2000 / 1100 + 800 / 2100) / 2)
    apart = [one if one.record_key == "a" else replace(one, users=16) for one in points]
    assert standing_of(apart, "ours").plans is None
    assert standing_of([replace(one, peer=None) for one in points], "peer") is None
