"""Measured points as scenarios: as asked, and as known."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from evaluator.inputs.devices.device import DeviceProfile
from evaluator.inputs.devices.shipped_calibrations import with_experts_at, with_kernels_of
from evaluator.inputs.engines.engine_profiles import EngineProfile, engine_profile, label_of_engine
from evaluator.inputs.launch import Client, Launch, Plan
from evaluator.inputs.workloads.workload import Workload
from evaluator.ledger.deployments import Deployment
from evaluator.ledger.limits import seats_in_memory
from evaluator.scenario import Scenario, default_routing
from store.schema import Phase

Knowledge = Literal["asked", "known"]
KNOWLEDGE: tuple[Knowledge, ...] = ("asked", "known")
UNSTATED = "vllm"  # serves points whose engine nobody named, as it serves questions that name none
PHASES: dict[str, Phase] = {
    "prefill": "prefill", "decode": "decode", "aggregated": "aggregated", "disaggregated": "decode",
}  # fmt: skip


def scenario_of(
    deployment: Deployment,
    knowledge: Knowledge,
    *,
    engine: EngineProfile | None = None,
    serving_model: str | None = None,
) -> Scenario:
    """Of a disaggregated point, the decode pool's.

    As asked: model, plan, formats, mean lengths, a public token budget. As known: also the source's client and launch.
    The engine is fitted without the point's pair, unless `engine` or `serving_model` is given."""
    return _scenario(deployment, knowledge, engine, serving_model, PHASES[deployment.mode], deployment.plan)


def prompts_scenario_of(
    deployment: Deployment, knowledge: Knowledge, *, engine: EngineProfile | None = None
) -> Scenario | None:
    if deployment.prefill_plan is None:
        return None
    return _scenario(deployment, knowledge, engine, None, "prefill", deployment.prefill_plan)


def lengths_of(deployment: Deployment, knowledge: Knowledge) -> tuple[int, int]:
    """Nominal beside a known client, else means."""
    mean = _mean_share(deployment) if knowledge == "asked" else 1.0
    return max(1, round(mean * deployment.input_length)), max(1, round(mean * deployment.output_length))


def mean_output_of(deployment: Deployment, knowledge: Knowledge) -> float:
    return lengths_of(deployment, knowledge)[1] * (_mean_share(deployment) if knowledge == "known" else 1.0)


def _mean_share(deployment: Deployment) -> float:
    return (1.0 + (1.0 if deployment.client is None else deployment.client.shortest)) / 2


def _scenario(  # noqa: PLR0917  one of each
    deployment: Deployment,
    knowledge: Knowledge,
    engine: EngineProfile | None,
    serving_model: str | None,
    phase: Phase,
    plan: Plan,
) -> Scenario:
    name = deployment.engine or UNSTATED
    profile = None if serving_model is not None else engine or engine_profile(name, unseen=deployment.pair)
    if profile is not None and knowledge == "known" and deployment.host_ms:
        profile = replace(profile, step_ms=profile.step_ms + deployment.host_ms, ahead_steps=0)
    shipped = profile is not None and engine is None and profile == engine_profile(name)
    prompt, output = lengths_of(deployment, knowledge)
    budget = deployment.token_budget or (profile.token_budget if profile is not None else None)
    workload = Workload(input_length=prompt, output_length=output)
    label = serving_model or (name if shipped or profile is None else label_of_engine(profile))
    scenario = Scenario(
        model=deployment.model,
        device=_with_kernels(deployment, knowledge, name if serving_model is None else serving_model),
        precision=deployment.precision,
        plan=plan,
        workload=workload if budget is None else replace(workload, max_batched_tokens=budget),
        phase=phase,
        serving_model=label,
        engine=None if shipped else profile,
    )
    scenario = replace(scenario, routing=default_routing(scenario))
    if profile is None:
        return scenario
    # Fits, which bring an engine, are of its host, of which an estimate of the memory says nothing.
    whole = deployment.batched and knowledge == "known"
    seats = seats_in_memory(deployment, whole=whole) if phase == "aggregated" and engine is None else None
    if knowledge == "asked":
        return replace(scenario, launch=Launch(seats=seats))
    launch = Launch(wait_steps=deployment.wait_steps, seats=seats)
    return replace(scenario, client=_client(deployment, profile), launch=launch)


def _with_kernels(deployment: Deployment, knowledge: Knowledge, serving_model: str) -> DeviceProfile:
    attention, share = deployment.attention, deployment.expert_efficiency
    if knowledge == "asked":
        attention = share = None
    device = with_kernels_of(deployment.device, serving_model, (deployment.model, deployment.precision), attention)
    return device if share is None else with_experts_at(device, share)


def _client(deployment: Deployment, engine: EngineProfile) -> Client | None:
    """As far as the source says; None: the engine's usual one."""
    client = deployment.client
    if deployment.batched:  # nobody comes back, so nobody drifts
        return replace(client or engine.client, shortest=client.shortest if client else 1.0, prompts_per_user=1)
    if deployment.prompts_per_user is not None:
        return replace(client or engine.client, prompts_per_user=deployment.prompts_per_user)
    return client
