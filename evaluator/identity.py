"""Records and content keys of scenarios. A key changes exactly when a number does."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, TypedDict

from evaluator.canonical import canonical, content_key, key_of_texts, keyed, scalar_text
from evaluator.inputs.devices.device import DeviceProfile
from evaluator.inputs.devices.device_profiles import effective_rate
from evaluator.inputs.engines.engine_profiles import key_of_engine
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Launch, Plan, busiest_load
from evaluator.inputs.launchable import launchable_by
from evaluator.inputs.model import ModelSpec
from evaluator.inputs.parameters import parameter_count
from evaluator.inputs.workloads.workload import TIERS, Workload, hit_rate_of
from evaluator.inputs.workloads.workload_labels import label_of
from evaluator.same_objects import SameObjects
from evaluator.scenario import Scenario, default_routing, serving_engine
from evaluator.version import formula_version
from store import records
from store.schema import SERVICE, Family, PlanRecord, Served, Status
from store.texts import LONGEST_TEXT, escaped

if TYPE_CHECKING:
    from evaluator.inputs.workloads.traces import TraceSummary

_USUAL_LAUNCH = Launch()


def model_record(name: str, spec: ModelSpec) -> records.ModelRecord:
    """Ids with the same hyper-parameters are one model."""
    count = parameter_count(spec)
    return records.ModelRecord(
        key=content_key(spec.unnamed),  # its position limit is the rope table that upstream's compiled graphs read
        name=name,
        architecture=spec.architecture,
        parameters=count.total,
        active_parameters=count.active,
        spec=canonical(spec),
    )


def device_record(device: DeviceProfile) -> records.DeviceRecord:
    bare = replace(numbered_device(device), vendor="", source="", watts=None, host_link_source="")
    links = (link.bandwidth_bytes_per_s * link.efficiency for link in device.links)
    family: Family = device.family
    return records.DeviceRecord(
        key=content_key(bare),
        name=device.name,
        vendor=device.vendor,
        family=family,
        matrix_flops_per_s=effective_rate(device.matrix_flops_per_s, device.compute_efficiency),
        vector_flops_per_s=effective_rate(device.vector_flops_per_s, device.compute_efficiency),
        memory_bytes=device.memory_bytes,
        memory_bandwidth_bytes_per_s=device.memory_bandwidth_bytes_per_s * device.memory_efficiency,
        grid=" x ".join(str(extent) for extent in device.grid),
        link_bandwidths=" | ".join(f"{bandwidth:g}" for bandwidth in links),
        spec=canonical(device),
        calibration_key=content_key(device.calibration) if device.calibration is not None else None,
    )


def known_device(scenario: Scenario) -> DeviceProfile:
    """Without the host's link, unless prompts are read from outside the devices."""
    return numbered_device(scenario.device) if scenario.workload.tiers else usual_device(scenario.device)


@SameObjects
def usual_device(device: DeviceProfile) -> DeviceProfile:
    return replace(numbered_device(device), host_link_bytes_per_s=0.0, host_link_source="")


@SameObjects
def numbered_device(device: DeviceProfile) -> DeviceProfile:
    """Without what only kernel fits read, such as the cache size."""
    return replace(device, cache_bytes=0, cache_source="")


def precision_record(precision: Precision) -> records.PrecisionRecord:
    complete = replace(precision, experts=precision.experts or precision.linear)
    return records.PrecisionRecord(
        key=content_key(complete),
        linear_quantization=complete.linear,
        experts_quantization=complete.experts or complete.linear,
        attention_quantization=complete.attention,
        mxfp4_group_size=complete.mxfp4_group_size,
        spec=canonical(complete),
        mixers_quantization=complete.mixers,
        head_quantization=complete.head,
        drafts_quantization=complete.drafts,
    )


def plan_record(plan: Plan) -> PlanRecord:
    return PlanRecord(**asdict(plan))


def workload_record(workload: Workload, *, trace: TraceSummary | None = None) -> records.WorkloadRecord:
    """Neither its name nor its trace is in a key."""
    bare = replace(workload, name=None)
    total = sum(bin_.weight for bin_ in workload.bins)
    bins = tuple(
        records.WorkloadBinRecord(
            min_input_length=bin_.min_input_length,
            max_input_length=bin_.max_input_length,
            input_length=bin_.input_length,
            output_length=bin_.output_length,
            weight=bin_.weight / total,
            prefix_cache_hit_rate=(
                workload.prefix_cache_hit_rate if bin_.prefix_cache_hit_rate is None else bin_.prefix_cache_hit_rate
            ),
        )
        for bin_ in workload.bins
    )
    mean = float(workload.input_length) if workload.input_length is not None else _mean_input(bins)
    return records.WorkloadRecord(
        key=content_key(bare),
        label=label_of(workload),
        name=workload.name,
        input_length=workload.input_length,
        input_length_mean=mean,
        output_length=float(workload.output_length),
        prefix_cache_hit_rate=workload.prefix_cache_hit_rate,
        max_batched_tokens=workload.max_batched_tokens,
        mtp_tokens=workload.mtp_tokens,
        mtp_acceptance=canonical(workload.mtp_acceptance),
        spec=canonical(bare) if trace is None else _with_trace(canonical(bare), trace),
        bins=bins,
        **{f"{name}_hit_rate": hit_rate_of(workload.tiers, name) for name in TIERS},
        **_image_columns(workload),
    )


class _ImageColumns(TypedDict, total=False):
    images: int
    image_width: int
    image_height: int
    image_patches: int
    image_tokens: int
    encoder_split: str


def _image_columns(workload: Workload) -> _ImageColumns:
    if (images := workload.images) is None:
        return {}
    return _ImageColumns(
        images=images.count,
        image_width=images.width,
        image_height=images.height,
        image_patches=images.all_patches,
        image_tokens=images.tokens,
        encoder_split=images.split,
    )


def _with_trace(spec: str, trace: TraceSummary) -> str:
    # The restored record does not have it: no number depends on it.
    about = {"requests": trace.requests, "skipped": trace.skipped, "sha256": trace.sha256}
    return canonical({**json.loads(spec), "trace": about})


def _mean_input(bins: tuple[records.WorkloadBinRecord, ...]) -> float:
    return sum(bin_.weight * bin_.input_length for bin_ in bins)


class RecordBuilder:
    """Builds each shared part once: hashing a calibration for every plan would cost more than the plan.

    Parts compare by identity, since scenarios of a request share them."""

    def __init__(self) -> None:
        self._workloads = SameObjects(workload_record, most=100_000)
        self._plans = SameObjects(_plan_and_text, most=100_000)
        self._launchable = SameObjects(_launchable_by, most=100_000)

    def scenario(
        self,
        model_name: str,
        scenario: Scenario,
        *,
        status: Status = "ok",
        reason: str | None = None,
        assumptions: str | None = None,
    ) -> records.ScenarioRecord:
        device = _device_record(known_device(scenario))
        subject = self._subject(model_name, scenario)
        version = formula_version(scenario.convention)
        determines = {
            "subject": scalar_text(subject.key),
            "device": scalar_text(device.key),
            "formula_version": scalar_text(version),
        }
        if (engine := serving_engine(scenario)) is not None:
            determines["engine"] = canonical(key_of_engine(engine))
        return records.ScenarioRecord(
            key=key_of_texts(determines),
            subject=subject,
            device=device,
            formula_version=version,
            status=status,
            reason=None if reason is None else escaped(reason)[:LONGEST_TEXT],
            assumptions=assumptions,
            launchable_by=""
            if status == "illegal"
            else self._launchable(scenario.model, scenario.plan, scenario.precision, scenario.device.cuda),
        )

    def _subject(self, model_name: str, scenario: Scenario) -> records.SubjectRecord:
        unusual = unusual_service(scenario)
        model = _model_record(model_name, scenario.model)
        precision = _precision_record(scenario.precision)
        workload = self._workloads(scenario.workload)
        plan, plan_text = self._plans(scenario.plan)
        parts = {
            "model": scalar_text(model.key),
            "device": scalar_text(scenario.device.name),
            "precision": scalar_text(precision.key),
            "plan": plan_text,
            "workload": scalar_text(workload.key),
            "phase": scalar_text(scenario.phase),
            "convention": scalar_text(scenario.convention),
            "compile": scalar_text(scenario.launch.compile),
            "serving_model": scalar_text(scenario.serving_model),
            "serving_cost_ms": scalar_text(scenario.serving_cost_ms),
            **{name: canonical(value) for name, value in unusual.items()},
        }
        return records.SubjectRecord(
            key=key_of_texts(parts),
            model=model,
            device_name=scenario.device.name,
            precision=precision,
            plan=plan,
            workload=workload,
            phase=scenario.phase,
            convention=scenario.convention,
            compile=scenario.launch.compile,
            serving_model=scenario.serving_model,
            serving_cost_ms=scenario.serving_cost_ms,
            **asdict(served_as(scenario)),
            unusual_service=",".join(unusual),
        )


def served_as(scenario: Scenario) -> Served:
    """Client, launch and routing, where numbers depend on them.

    Prefill rows have stated lengths; their pairs have the client's mean lengths and first requests
    (queries/paired.sql)."""
    engine = serving_engine(scenario)
    routed = scenario.model.routed and (scenario.device.family == "calibrated" or busiest_load(scenario.routing) != 1)
    client = None if engine is None else engine.client
    looped = client if scenario.phase == "aggregated" else None
    return Served(
        shortest_length=client.shortest if client is not None else None,
        prompts_per_user=client.prompts_per_user if client is not None and scenario.phase != "decode" else None,
        poll_steps=looped.poll_steps if looped is not None else None,
        seats=scenario.launch.seats if looped is not None else None,
        wait_steps=scenario.launch.wait_steps if looped is not None else None,
        routing=scenario.routing if routed else None,
    )


def unusual_service(scenario: Scenario) -> dict[str, object]:
    """Only what is set: older rows keep their keys."""
    if scenario.client is None and scenario.launch == _USUAL_LAUNCH and scenario.routing == default_routing(scenario):
        return {}
    usual = served_as(replace(scenario, client=None, launch=Launch(), routing=default_routing(scenario)))
    said = served_as(scenario)
    return {name: getattr(said, name) for name in SERVICE if getattr(said, name) != getattr(usual, name)}


def _plan_and_text(plan: Plan) -> tuple[PlanRecord, str]:
    return plan_record(plan), canonical(keyed(plan))


def _launchable_by(model: ModelSpec, plan: Plan, precision: Precision, cuda: bool) -> str:
    return ",".join(launchable_by(model, plan, precision, cuda=cuda))


_model_record = SameObjects(model_record)
_device_record = SameObjects(device_record)
_precision_record = SameObjects(precision_record)
