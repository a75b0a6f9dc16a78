"""A measured point as a deployment we can predict: model, device, precision, plan and users of one replica.

What cannot be matched says why, by a rule with a name; what was recorded wrongly is repaired by a rule with a name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf, isqrt

from evaluator.inputs.devices.device import DeviceProfile
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.engines.engine_profiles import FittedEngine, fitted_engine, list_engines
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Client, Plan
from evaluator.inputs.model import ModelSpec
from evaluator.inputs.plan_search import illegality
from evaluator.ledger.limits import impossible, saturated_users
from evaluator.ledger.matching import Unmatched, format_in_name, measured_model, measured_precision
from evaluator.ledger.readers.building import Circumstances, circumstances_of
from evaluator.ledger.recipes import Served, client_of, flags_of, has_recipe, replicates_attention
from store.errors import InputError
from store.records import MeasurementRecord, SideRecord

CENTRAL = ("mean", "", "p50")  # statistics of a measured metric that a prediction is compared with, best first


def central_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    """Measured metrics by the names of predictions, each once: its mean where there are mean and median."""
    statistics: dict[str, dict[str, float]] = {}
    for name, value in metrics.items():
        head, _, tail = name.rpartition("_")
        known = tail in {"mean", "std"} or (tail[:1] == "p" and tail[1:].replace(".", "").isdigit())
        bare, statistic = (head, tail) if known else (name, "")
        statistics.setdefault(bare, {})[statistic] = value
    return {
        bare: next(found[one] for one in CENTRAL if one in found)
        for bare, found in statistics.items()
        if not found.keys().isdisjoint(CENTRAL)
    }


def requests_running(metrics: Mapping[str, float], output_length: float | None) -> float | None:
    """Requests in flight on average: finished ones a second times the time of each (Little's law).

    J. D. C. Little, "A proof for the queuing formula L = lambda W", Operations Research 9 (1961). None where a time or
    the rate was not measured."""
    found = central_metrics(metrics)
    rate, time_ms = found.get("requests_per_s"), found.get("e2e_ms")
    ttft, tpot = found.get("ttft_ms"), found.get("tpot_exclusive_ms")
    if rate is None and output_length:
        rate = found.get("output_tokens_per_s", 0.0) / output_length or None
    if time_ms is None and output_length and ttft is not None and tpot is not None:
        time_ms = ttft + (output_length - 1.0) * tpot
    return None if rate is None or time_ms is None else rate * time_ms / 1000.0


ONE_MODEL: Mapping[str, str] = {
    "deepseek-ai/DeepSeek-R1": "deepseek-ai/DeepSeek-V3",
    "deepseek-ai/DeepSeek-V3.1": "deepseek-ai/DeepSeek-V3",
    "nvidia/DeepSeek-V3.1-NVFP4": "deepseek-ai/DeepSeek-V3",
}


FEWEST_PROMPTS = 5  # of a user: of two each, TTFT is four times as long, since the first prompts come all at once
MOST_PROMPTS = 50  # of more, the first prompts are too few to tell


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """The deployment that is predicted for one measured point. `users` is the concurrency of all of it."""

    model_name: str
    model: ModelSpec
    device: DeviceProfile
    precision: Precision
    plan: Plan
    engine: str | None
    mode: str
    input_length: int
    output_length: int
    users: int
    client: Client | None = None  # who asked, where the source says so
    prompts_per_user: int | None = None  # of a run whose number of requests is known
    token_budget: int | None = None  # a launch flag; None is the engine's own
    wait_steps: int = 0  # a launch flag: decode steps that a prompt waits for others
    decode_seats: int | None = None  # a launch flag of instances that decode alone: requests of a replica at once
    other_kernels: bool = False  # a launch with kernels that no shipped table has
    attention: str | None = None  # a launch flag: whose kernels attend
    host_ms: float = 0.0  # of a launch whose steps wait for the scheduler
    expert_efficiency: float | None = None  # share of the device's rates, by a launch's own kernels
    saturated: bool = False  # users are as many as the memory is estimated to hold
    batched: bool = False  # all requests are there at the start, none follows
    repairs: tuple[str, ...] = ()
    instances: int = 1  # that decode
    prefill_plan: Plan | None = None  # of the instances that take prompts, where the sides are apart
    prefill_instances: int = 0
    transferred: bool = False  # a prompt's first token counts when its keys and values have reached the decode instance
    transfer_bytes_per_s: float | None = None  # line rate between instances, where a source states it

    @property
    def users_of_replica(self) -> int:
        return max(1, -(-self.users // (self.plan.dp * self.instances)))

    @property
    def of_bursts(self) -> bool:
        """TTFT is that of prompts that came all at once."""
        return asks_seldom(self.prompts_per_user)

    @property
    def num_devices(self) -> int:
        prompts = self.prefill_instances * self.prefill_plan.num_devices if self.prefill_plan else 0
        return self.instances * self.plan.num_devices + prompts

    @property
    def pair(self) -> tuple[str, str]:
        """(device, model) for leave-one-pair-out; names that share weights are one model."""
        return self.device.name, ONE_MODEL.get(self.model_name, self.model_name)

    @property
    def moe(self) -> bool:
        return self.model.routed


NO_MODE = "not known whether it is disaggregated"


def deployment_of(record: MeasurementRecord) -> Deployment:
    """The deployment of a point. Raises Unmatched, also where no server can have measured the values."""
    deployment = _deployment(record)
    rule = impossible(deployment, central_metrics(record.metrics))
    if rule is not None:
        raise Unmatched(rule)
    return deployment


def _deployment(record: MeasurementRecord) -> Deployment:
    if record.mode is None:
        raise Unmatched(NO_MODE)
    model_name, model = measured_model(record.model)
    device, said = measured_device(record.device), circumstances_of(record)
    if said.all_at_once:
        raise Unmatched("a backlog timed to its last answer: probes are of a server that stays full")
    input_length, output_length = _nominal(_lengths(record), said)
    apart = record.mode == "disaggregated"
    decode, repairs = repaired(record.decode) if has_recipe(said.point_id) and not apart else (record.decode, ())
    replicated = said.attention_replicas or replicates_attention(said.point_id)
    plan = plan_of(model, _replicated(decode) if replicated else decode)
    instances, prefill_instances, prefill_plan = _sides(model, record) if apart else (_replicas(record), 0, None)
    users = 1.0 if said.saturated else _users(record, decode, plan)
    # Where sides are apart, the version is the one of what joins them.
    engine = engine_of(record.engine, None if apart else record.engine_version, _year(record, said))
    precision = (record.precision or "").lower()
    served = Served(point_id=said.point_id, engine=engine, model=model_name, device=device.name, precision=precision,
                    users=users, input_length=input_length, output_length=output_length, tp=plan.tp,
                    instances=instances)  # fmt: skip
    flags = flags_of(served)
    name = "" if said.saturated else model_name  # NVIDIA's tables run checkpoints of its own
    formats = _formats(record, model, name, said, narrow_keys=flags.narrow_keys or said.narrow_keys)
    if said.saturated:
        users = _saturated(model, device, formats, plan, input_length + output_length)
    return Deployment(
        model_name=model_name,
        model=model,
        device=device,
        precision=formats,
        plan=plan,
        engine=engine,
        mode=record.mode,
        input_length=round(input_length),
        output_length=max(1, round(output_length)),
        users=round(users),
        client=flags.client if said.shortest_length is None else client_of(said.shortest_length, served),
        prompts_per_user=prompts_per_user(record),
        token_budget=None if apart else flags.token_budget,
        wait_steps=0 if apart else flags.wait_steps,
        other_kernels=flags.other_kernels,
        attention=flags.attention,
        host_ms=flags.host_ms,
        expert_efficiency=flags.expert_efficiency,
        decode_seats=flags.decode_seats if apart else None,
        saturated=said.saturated,
        batched=said.static_batch,
        transferred=said.ttft_holds_transfer,
        transfer_bytes_per_s=said.line_rate_bytes_per_s,
        repairs=repairs,
        instances=instances,
        prefill_instances=prefill_instances,
        prefill_plan=prefill_plan,
    )


def _nominal(lengths: tuple[float, float], said: Circumstances) -> tuple[float, float]:
    """Measured are means, and a known client's are nominal: 900 tokens drawn from 0.8 of those named are of 1,000."""
    mean = 1.0 if said.shortest_length is None else 0.5 + 0.5 * said.shortest_length
    return lengths[0] / mean, lengths[1] / mean


def _formats(
    record: MeasurementRecord, model: ModelSpec, name: str, said: Circumstances, *, narrow_keys: bool
) -> Precision:
    stated = record.precision or format_in_name(record.model)
    kv = record.kv_precision or ("fp8" if narrow_keys else None)
    return measured_precision(model, stated, kv, linear=said.linear_format, experts=said.experts_format, name=name)


def _year(record: MeasurementRecord, said: Circumstances) -> int | None:
    return said.measured_year or (None if record.measured_at is None else record.measured_at.year)


def _replicated(side: SideRecord) -> SideRecord:
    """Attention data parallelism over all devices, and experts split by expert: what a note says of a table."""
    devices = (side.tp or 1) * (side.dp or 1)
    return replace(side, tp=1, dp=devices, ep=devices, moe_tp=1)


def _saturated(model: ModelSpec, device: DeviceProfile, formats: Precision, plan: Plan, tokens: float) -> float:
    return float(saturated_users(model, device, formats, plan, tokens))


def _users(record: MeasurementRecord, decode: SideRecord, plan: Plan) -> float:
    """Who asks at once. In serving a batch is a limit and says nothing of it; a phase alone is one of its batch."""
    if record.concurrency:
        return record.concurrency
    if record.mode in {"prefill", "decode"} and decode.batch_size is not None:
        return decode.batch_size * plan.dp
    raise Unmatched(OPEN_LOOP if record.request_rate else "concurrency not stated")


def prompts_per_user(record: MeasurementRecord) -> int | None:
    if not record.concurrency or not record.run.completed_requests:
        return None
    return min(max(1, round(record.run.completed_requests / record.concurrency)), MOST_PROMPTS)


def asks_seldom(prompts: int | None) -> bool:
    return prompts is not None and prompts < FEWEST_PROMPTS


def _replicas(record: MeasurementRecord) -> int:
    return (record.decode.instances if record.mode == "aggregated" else None) or 1


def _lengths(record: MeasurementRecord) -> tuple[float, float]:
    """Tokens of a prompt and of its answer; prompts and transfers alone need no answer."""
    output = record.output_length
    if output is None and (record.mode == "prefill" or all(name.startswith("kv_transfer") for name in record.metrics)):
        output = 1.0
    if record.input_length is None or output is None:
        raise Unmatched("lengths not stated")
    return record.input_length, output


def _sides(model: ModelSpec, record: MeasurementRecord) -> tuple[int, int, Plan]:
    prefill, decode = record.prefill, record.decode
    if not prefill.instances or not decode.instances or prefill.tp is None or decode.tp is None:
        raise Unmatched("disaggregated: number or plan of the instances not stated")
    return decode.instances, prefill.instances, plan_of(model, prefill)


@lru_cache(maxsize=4096)  # of the few that many points state
def engine_of(name: str | None, version: str | None = None, year: int | None = None) -> str | None:
    """Our name of a serving engine, from the name that a source gives it; None where we have none.

    `year` is when it was measured, where that is known. Which words, releases and years are whose is said by the
    engines' files; what bears no name is known by its year alone."""
    folded = re.sub(r"[^a-z]", "", (name or "").lower())
    engines = [fitted_engine(one) for one in list_engines()]
    word = max((word for one in engines for word in one.called if word in folded), key=len, default=None)
    if word is None:
        unnamed = [one for one in engines if not one.called and one.until is not None]
        return next((one.profile.name for one in unnamed if year is not None and year <= (one.until or 0)), None)
    versions = sorted((one for one in engines if word in one.called), key=lambda one: one.before or (inf,))
    text = f"{name} {version or ''}"
    return next((one.profile.name for one in versions if one.before is None or _is_older(one, text, year)), None)


def _is_older(engine: FittedEngine, text: str, year: int | None) -> bool:
    """Whether a point is of an engine before its rewrite, by its stated version, else by when it was measured."""
    stated = re.search(r"\bv?(\d+(?:\.\d+)+)", text)
    if stated:
        return tuple(int(part) for part in stated[1].split(".")) < (engine.before or ())
    dated = re.search(r"\b(20\d\d)-\d\d", text)
    measured = int(dated[1]) if dated else year
    return measured is not None and engine.until is not None and measured <= engine.until


@lru_cache(maxsize=64)
def _device_or_reason(name: str) -> DeviceProfile | str:
    for candidate in (name, name.rsplit("-", 1)[0]):
        try:
            return load_device(candidate)
        except InputError as error:
            reason = str(error)
    return reason


def measured_device(name: str | None) -> DeviceProfile:
    """The profile of what a measurement calls its device. Raises Unmatched."""
    if name is None:
        raise Unmatched("device not stated")
    found = _device_or_reason(name)
    if isinstance(found, str):
        raise Unmatched("device not covered", found)
    return found


def plan_of(model: ModelSpec, side: SideRecord) -> Plan:
    """The plan of one side, with the sizes that follow from those stated. Raises Unmatched."""
    moe = model.routed
    tp, pp, dp = side.tp or 1, side.pp or 1, side.dp
    shares = {"dcp": side.dcp or 1, "pcp": side.pcp or 1, "micro_batches": side.micro_batches or 1}
    if not moe:
        plan = Plan(tp=tp, pp=pp, dp=dp or 1, **shares)
    else:
        ep, moe_tp, group = side.ep or 1, side.moe_tp, tp * shares["pcp"]
        if dp is None:  # attention data parallelism follows from the experts' split
            dp = max(1, ep * (moe_tp or 1) // group)
        plan = Plan(tp=tp, pp=pp, dp=dp, ep=ep, moe_tp=moe_tp or max(1, group * dp // ep), **shares)
    reason = illegality(model, plan, plan.num_devices)
    if reason is not None:
        raise Unmatched("plan not legal", reason)
    return plan


OPEN_LOOP = "a rate of requests is stated, not how many are in flight"
TWICE = "parallelism recorded twice"


def repaired(side: SideRecord) -> tuple[SideRecord, tuple[str, ...]]:
    """Sizes recorded twice (tp 64 with experts 8 x 8 for what the id calls tp8_ep8): the root of each.

    The pattern is experts' tensor and expert parallel sizes equal and their product in one attention size alone; or
    tensor parallel size again as the data parallel one, with as many expert ranks as their product."""
    tp, dp = side.tp or 1, side.dp or 1
    ep, moe_tp = side.ep or 1, side.moe_tp or 1
    group, root = tp * dp, isqrt(tp * dp)
    if group < 4 or ep * moe_tp != group or root * root != group:
        return side, ()
    if ep == moe_tp == root and tp == group:
        return replace(side, tp=root, dp=1, ep=root, moe_tp=1), (TWICE,)
    if ep == moe_tp == root and dp == group:
        return replace(side, dp=root, ep=root, moe_tp=1), (TWICE,)
    if tp == dp == root and ep == group:
        return replace(side, dp=1, ep=root), (TWICE,)
    return side, ()
