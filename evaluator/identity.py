"""The records and content keys under which scenarios are stored. A key changes exactly when a number does.

Not here: how numbers are made. Names, sources and other texts that change no number are in no key."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from evaluator.canonical import canonical, content_key
from evaluator.device import DeviceProfile
from evaluator.model import ModelSpec
from evaluator.parameters import parameter_count
from evaluator.plan import Plan
from evaluator.precision import Precision
from evaluator.profiles.load import effective_rate
from evaluator.serving.closed_run import engine_of
from evaluator.serving.engines import key_of_engine
from evaluator.serving.phases import Scenario
from evaluator.version import FORMULA_VERSION
from evaluator.workload import Workload
from evaluator.workloads import label_of
from store.records import (
    DeviceRecord,
    Family,
    ModelRecord,
    PlanRecord,
    PrecisionRecord,
    ScenarioRecord,
    Status,
    SubjectRecord,
    WorkloadBinRecord,
    WorkloadRecord,
)

if TYPE_CHECKING:
    from evaluator.traces import TraceSummary


def model_record(name: str, spec: ModelSpec) -> ModelRecord:
    """A model under the name it was asked by. Two ids with the same hyper-parameters are one model."""
    # What the published weights come in decides defaults only. The position limit is the length of the rope table,
    # which upstream's compiled graphs read whole.
    bare = replace(spec, architecture="", native_linear="", native_experts="")
    count = parameter_count(spec)
    return ModelRecord(
        key=content_key(bare),
        name=name,
        architecture=spec.architecture,
        parameters=count.total,
        active_parameters=count.active,
        spec=canonical(spec),
    )


def device_record(device: DeviceProfile) -> DeviceRecord:
    """The snapshot of a profile, its calibration included."""
    bare = replace(device, vendor="", source="", watts=None)
    links = (link.bandwidth_bytes_per_s * link.efficiency for link in device.links)
    family: Family = device.family
    return DeviceRecord(
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


def precision_record(precision: Precision) -> PrecisionRecord:
    """Number formats with every default written out."""
    complete = replace(precision, experts=precision.experts or precision.linear)
    return PrecisionRecord(
        key=content_key(complete),
        linear_quantization=complete.linear,
        experts_quantization=complete.experts or complete.linear,
        attention_quantization=complete.attention,
        mxfp4_group_size=complete.mxfp4_group_size,
        spec=canonical(complete),
    )


def plan_record(plan: Plan) -> PlanRecord:
    """Parallel sizes."""
    return PlanRecord(**asdict(plan))


def workload_record(workload: Workload, *, trace: TraceSummary | None = None) -> WorkloadRecord:
    """What is served; the user's name for it is in no key, nor is the trace it was reduced from."""
    bare = replace(workload, name=None)
    total = sum(bin_.weight for bin_ in workload.bins)
    bins = tuple(
        WorkloadBinRecord(
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
    return WorkloadRecord(
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
    )


def _with_trace(spec: str, trace: TraceSummary) -> str:
    # The restored record does not have it: no number depends on it.
    about = {"requests": trace.requests, "skipped": trace.skipped, "sha256": trace.sha256}
    return canonical({**json.loads(spec), "trace": about})


def _mean_input(bins: tuple[WorkloadBinRecord, ...]) -> float:
    return sum(bin_.weight * bin_.input_length for bin_ in bins)


class RecordBuilder:
    """Builds scenario records, each shared part once: hashing a calibration for every plan would cost more than it."""

    def __init__(self) -> None:
        self._models: dict[tuple[str, ModelSpec], ModelRecord] = {}
        self._devices: dict[DeviceProfile, DeviceRecord] = {}
        self._precisions: dict[Precision, PrecisionRecord] = {}
        self._workloads: dict[Workload, WorkloadRecord] = {}

    def scenario(
        self,
        model_name: str,
        scenario: Scenario,
        *,
        compile: bool,  # noqa: A002  the field's name
        status: Status = "ok",
        reason: str | None = None,
        assumptions: str | None = None,
    ) -> ScenarioRecord:
        """The record of a scenario with its two content keys: subject, and what determines the numbers."""
        model = self._models.get((model_name, scenario.model))
        if model is None:
            model = self._models[model_name, scenario.model] = model_record(model_name, scenario.model)
        device = self._devices.get(scenario.device)
        if device is None:
            device = self._devices[scenario.device] = device_record(scenario.device)
        precision = self._precisions.get(scenario.precision)
        if precision is None:
            precision = self._precisions[scenario.precision] = precision_record(scenario.precision)
        workload = self._workloads.get(scenario.workload)
        if workload is None:
            workload = self._workloads[scenario.workload] = workload_record(scenario.workload)
        parts = {
            "model": model.key,
            "device": scenario.device.name,
            "precision": precision.key,
            "plan": asdict(scenario.plan),
            "workload": workload.key,
            "phase": scenario.phase,
            "convention": scenario.convention,
            "compile": compile,
            "serving_model": scenario.serving_model,
            "serving_cost_ms": scenario.serving_cost_ms,
        }
        subject = SubjectRecord(
            key=content_key(parts),
            model=model,
            device_name=scenario.device.name,
            precision=precision,
            plan=plan_record(scenario.plan),
            workload=workload,
            phase=scenario.phase,
            convention=scenario.convention,
            compile=compile,
            serving_model=scenario.serving_model,
            serving_cost_ms=scenario.serving_cost_ms,
        )
        determines = {"subject": subject.key, "device": device.key, "formula_version": FORMULA_VERSION}
        if (engine := engine_of(scenario)) is not None:
            determines["engine"] = key_of_engine(engine)
        return ScenarioRecord(
            key=content_key(determines),
            subject=subject,
            device=device,
            formula_version=FORMULA_VERSION,
            status=status,
            reason=reason,
            assumptions=assumptions,
        )
