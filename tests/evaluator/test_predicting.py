"""What is predicted for a measured point: the numbers of the probe that `evaluate` makes of its scenario."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evaluator.evaluate import evaluate_scenario
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.engines.engine_profiles import fitted_engine, label_of_engine, unfitted_engine
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Client, Launch, Plan
from evaluator.ledger.deployments import Deployment, central_metrics
from evaluator.ledger.fitting.fit_points import PlayedProbe, fit_points
from evaluator.ledger.matching import measured_model
from evaluator.ledger.predicting import (
    asked_of,
    evaluated,
    operators_of,
    predicted,
    values_of,
)
from evaluator.ledger.scenarios import KNOWLEDGE, UNSTATED, lengths_of, prompts_scenario_of, scenario_of
from tools.engines import metrics_of


def deployment(**changes: object) -> Deployment:
    name, model = measured_model("Qwen/Qwen3-8B")
    base = Deployment(
        model_name=name,
        model=model,
        device=load_device("h100_sxm"),
        precision=Precision(),
        plan=Plan(tp=1),
        engine="vllm",
        mode="aggregated",
        input_length=1000,
        output_length=100,
        users=6,
    )
    return replace(base, **changes)


class Probe:
    """A probe by its columns, whatever its batch size."""

    def __init__(self, **columns: float) -> None:
        self.columns = columns

    def value(self, column: str, batch_size: int) -> float:
        assert batch_size >= 1
        return self.columns[column]


@pytest.mark.parametrize("knowledge", KNOWLEDGE)
def test_a_prediction_is_the_probe_of_its_scenario(knowledge):
    one = deployment(client=Client(shortest=0.8, prompts_per_user=4), wait_steps=3)
    asked = asked_of(one, knowledge)
    found = predicted(one, knowledge, asked, evaluated([asked]))
    sizes = np.asarray([2, 6, 9])  # whatever else is asked of the scenario
    block = evaluate_scenario(asked.scenario, sizes, operators_of(asked.scenario))
    assert asked.batch_size == 6
    for name in ("ttft_ms", "tpot_exclusive_ms"):
        assert found[name] == getattr(block, name)[1]
    # The client draws 80 to 100 tokens, 90 in the mean. A scenario of 100 ends ten tokens later than the mean answer.
    longer = {"asked": 0, "known": 10}[knowledge]
    whole = block.e2e_ms[1] - longer * block.tpot_exclusive_ms[1]
    assert found["e2e_ms"] == pytest.approx(whole, rel=1e-12)
    # six users each get their 90 tokens once an end-to-end time
    assert found["output_tokens_per_s"] == pytest.approx(6 * 90 / whole * 1000)


def test_as_asked_knows_lengths_by_their_means_and_nothing_of_the_client():
    one = deployment(client=Client(shortest=0.8, poll_steps=30), wait_steps=20, token_budget=2000)
    asked, known = (scenario_of(one, knowledge) for knowledge in ("asked", "known"))
    # between 0.8 and 1 of 1,000 and 100: 900 and 90
    assert lengths_of(one, "asked") == (900, 90)
    assert (asked.workload.input_length, asked.workload.output_length) == (900, 90)
    assert (known.workload.input_length, known.workload.output_length) == (1000, 100)
    assert (asked.client, asked.launch) == (None, Launch())
    assert (known.client, known.launch) == (one.client, Launch(wait_steps=20))
    assert asked.workload.max_batched_tokens == known.workload.max_batched_tokens == 2000


def test_a_point_of_which_nothing_more_is_known_is_one_scenario():
    assert scenario_of(deployment(), "asked") == scenario_of(deployment(), "known")


def test_the_engine_has_not_seen_the_pair():
    name, model = measured_model("Qwen/Qwen3-32B")
    seen = scenario_of(deployment(model_name=name, model=model, engine="vllm_sync"), "asked")
    without = fitted_engine("vllm_sync").held_out["h100_sxm", "Qwen/Qwen3-32B"]
    assert seen.engine == without != fitted_engine("vllm_sync").profile
    assert seen.serving_model == label_of_engine(without)
    # No point of the pair was fitted to: what is shipped, under its name, as a question has it.
    unseen = scenario_of(deployment(), "asked")
    assert (unseen.engine, unseen.serving_model) == (None, "vllm")
    assert scenario_of(deployment(engine=None), "asked").serving_model == UNSTATED
    assert scenario_of(deployment(), "asked", serving_model="waves").serving_model == "waves"
    mine = scenario_of(deployment(), "asked", engine=unfitted_engine("sglang"))
    assert mine.engine == unfitted_engine("sglang")


def test_batches_that_nobody_follows_are_a_client_with_one_prompt_a_user():
    static = scenario_of(deployment(batched=True), "known")
    assert static.client == Client(shortest=1.0, prompts_per_user=1)  # nobody comes back, so nobody drifts
    assert scenario_of(deployment(batched=True), "asked").client is None


def test_sides_apart_are_two_scenarios():
    apart = deployment(mode="disaggregated", prefill_plan=Plan(tp=2), prefill_instances=3, instances=2, users=12)
    decode, prompts = scenario_of(apart, "known"), prompts_scenario_of(apart, "known")
    assert (decode.phase, decode.plan) == ("decode", Plan(tp=1))
    assert prompts is not None
    assert (prompts.phase, prompts.plan) == ("prefill", Plan(tp=2))
    assert prompts_scenario_of(deployment(), "known") is None
    assert asked_of(apart, "known").batch_size == 6


def test_values_of_a_probe_by_mode():
    whole = values_of(deployment(), "known", Probe(ttft_ms=250.0, tpot_exclusive_ms=8.0, e2e_ms=1000.0), 6)
    # 1,000 / 100 = 10 ms a token; six users x 100 tokens a second, six requests a second
    assert whole == {
        "ttft_ms": 250.0, "tpot_exclusive_ms": 8.0, "e2e_ms": 1000.0, "tpot_inclusive_ms": 10.0,
        "output_tokens_per_s": pytest.approx(600.0), "requests_per_s": pytest.approx(6.0),
    }  # fmt: skip
    prompts = values_of(deployment(mode="prefill"), "known", Probe(ttft_ms=20.0, makespan_ms=30.0), 6)
    assert prompts == {"ttft_ms": 20.0, "prefill_latency_ms": 30.0, "input_tokens_per_s": pytest.approx(200_000.0)}
    moved = values_of(deployment(mode="prefill", transferred=True), "known", Probe(makespan_ms=30.0), 6)
    assert "ttft_ms" not in moved
    tokens = values_of(deployment(mode="decode"), "known", Probe(tpot_exclusive_ms=12.0), 6)
    assert tokens == {"decode_step_ms": 12.0, "tpot_exclusive_ms": 12.0, "output_tokens_per_s": pytest.approx(500.0)}
    assert metrics_of(deployment(mode="decode")) == set(tokens)


def test_what_a_model_refuses_has_no_prediction():
    one = deployment()
    asked = asked_of(one, "asked")
    # No engine's scheduler is known under upstream's convention.
    refused = replace(asked, scenario=replace(asked.scenario, convention="upstream"))
    assert predicted(one, "asked", refused, evaluated([refused])) == {}


@pytest.mark.parametrize("mode", ["prefill", "decode", "aggregated"])
def test_a_fit_plays_the_probe_that_is_evaluated(mode):
    """Up to 16 users every size is played, so that the two are equal."""
    one = deployment(mode=mode, users=5)
    (point,) = fit_points(
        [(one, {"tpot_exclusive_ms": 9.0} if mode == "decode" else {"ttft_ms": 90.0})], unfitted_engine("vllm")
    )
    asked = asked_of(one, "known", engine=unfitted_engine("vllm"))
    probe = evaluated([asked])[asked.scenario]
    played = PlayedProbe(replica=point.replica, phase=point.phase)
    columns = {"prefill": ("ttft_ms", "makespan_ms"), "decode": ("tpot_exclusive_ms",),
               "aggregated": ("ttft_ms", "tpot_exclusive_ms", "e2e_ms")}[mode]  # fmt: skip
    for column in columns:
        assert played.value(column, 5) == pytest.approx(probe.value(column, 5), rel=1e-12)
    ((measured,),) = (point.measured.values(),)
    name = next(iter(point.measured))
    assert point.log_errors(unfitted_engine("vllm"))[0] == pytest.approx(np.log(played.value(name, 5) / measured))


def test_metrics_once_each_by_mean_then_median():
    metrics = {"ttft_ms_mean": 1.0, "ttft_ms_p50": 2.0, "e2e_ms_p50": 3.0, "tpot_ms_p99": 4.0, "requests_per_s": 5.0}
    assert central_metrics(metrics) == {"ttft_ms": 1.0, "e2e_ms": 3.0, "requests_per_s": 5.0}
