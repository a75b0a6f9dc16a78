"""A small deterministic generator of realistic, wide store content, written through the public writers.

Not an evaluator: the numbers follow a plain roofline, only so that they are monotone, plausible, tied and missing where
real ones are. `fill(url, probes=..., seed=...)` is the entry; `scenarios` and `block` serve finer tests."""

from __future__ import annotations

import hashlib
import json
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice, product

import numpy as np
from sqlalchemy import func, select

from store.opening import Store, open_store
from store.records import (
    BlockRecord,
    DeviceRecord,
    ModelRecord,
    PlanRecord,
    PrecisionRecord,
    ScenarioRecord,
    ScenarioRef,
    SubjectRecord,
    SweepRecord,
    WorkloadBinRecord,
    WorkloadRecord,
)
from store.schema.declaring import STEP_KINDS
from store.schema.sql_tables import SWEEP
from store.schema.tables import MEASURES
from store.writing import begin_sweep, finish_sweep, put_block, put_scenarios, record_interval

# name, architecture, parameters and active parameters in units of 1e9, KV bytes a token, experts
MODELS = (
    ("Qwen/Qwen3-32B", "qwen3", 32.8, 32.8, 262_144, 0),
    ("Qwen/Qwen3-235B-A22B", "qwen3_moe", 235.1, 22.1, 192_512, 128),
    ("deepseek-ai/DeepSeek-V3", "deepseek_v3", 671.0, 37.6, 70_272, 256),
    ("meta-llama/Llama-3.1-70B", "llama", 70.6, 70.6, 327_680, 0),
    ("meta-llama/Llama-3.1-8B", "llama", 8.03, 8.03, 131_072, 0),
    ("openai/gpt-oss-120b", "gpt_oss", 116.8, 5.1, 73_728, 128),
    ("Qwen/Qwen3-8B", "qwen3", 8.19, 8.19, 147_456, 0),
    ("Qwen/Qwen3-30B-A3B", "qwen3_moe", 30.5, 3.3, 98_304, 128),
    ("mistralai/Mixtral-8x7B", "mixtral", 46.7, 12.9, 131_072, 8),
    ("bigscience/bloom", "bloom", 176.2, 176.2, 4_014_080, 0),
    ("zai-org/GLM-4.5", "glm4_moe", 355.0, 32.0, 376_832, 160),
    ("moonshotai/Kimi-K2", "kimi_k2", 1026.0, 32.6, 70_272, 384),
)
# name, vendor, TFLOP/s bf16, TFLOP/s vector, GiB, TB/s, GB/s of a link
DEVICES = (
    ("H100_SXM", "nvidia", 989, 134, 80, 3.35, 450),
    ("H200_SXM", "nvidia", 989, 134, 141, 4.8, 450),
    ("B200_SXM", "nvidia", 2250, 150, 180, 8.0, 900),
    ("A100_SXM", "nvidia", 312, 39, 80, 2.04, 300),
    ("MI300X", "amd", 1307, 163, 192, 5.3, 448),
    ("ATLAS_800_A3", "huawei", 376, 24, 64, 1.6, 196),
    ("TPU_V6E", "google", 918, 60, 32, 1.64, 179),
    ("L40S", "nvidia", 362, 91, 48, 0.864, 32),
)
# linears, experts, attention, bytes a weight, compute rate over bf16. The two FP8 entries tie on purpose.
PRECISIONS = (
    ("BF16", "BF16", "DISABLED", 2.0, 1.0),
    ("FP8", "FP8", "FP8", 1.0, 2.0),
    ("W8A8_DYNAMIC", "W8A8_DYNAMIC", "FP8", 1.0, 2.0),
)
PLANS = ((1, 1, 1), (2, 1, 1), (4, 1, 1), (8, 1, 1), (4, 2, 1), (4, 1, 2), (8, 1, 2), (2, 1, 4), (1, 1, 8), (16, 1, 1))
# input, output, prefix cache hit rate, MTP tokens; input None is a distribution
WORKLOADS = (
    (3500, 1500, 0.0, 0),
    (1024, 1024, 0.0, 0),
    (8192, 512, 0.5, 0),
    (2048, 256, 0.0, 1),
    (512, 2048, 0.0, 0),
    (None, 400, 0.0, 0),
    (32_768, 1024, 0.25, 0),
    (128, 128, 0.0, 0),
)
BINS = ((128, 512, 320.0, 0.5), (513, 2048, 1280.0, 0.3), (2049, 8192, 5120.0, 0.2))
PHASES = ("prefill", "decode", "aggregated")
FORMULA_VERSIONS = (2, 1)
SCENARIOS_A_CALL = 250
START = datetime(2025, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    sweeps: tuple[str, ...]
    scenarios: int
    failures: int
    probes: int  # added; none when the store holds them already
    seconds: float


@dataclass(slots=True, kw_only=True)
class _Count:
    sweeps: list[str] = field(default_factory=list)
    scenarios: int = 0
    failures: int = 0
    asked: int = 0
    probes: int = 0


def content_key(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def fill(url: str | None, *, probes: int = 10_000, seed: int = 0, batch_sizes: int | None = None) -> Filled:
    """Write about `probes` probes (a whole scenario more at most) in a few sweeps into a store, made if missing."""
    started = time.perf_counter()
    mean = batch_sizes or (64 if probes < 100_000 else 256)
    count = _Count()
    source = scenarios(seed=seed)
    with open_store(url, create=True) as store:
        with store.reading() as connection:
            before = connection.scalar(select(func.count()).select_from(SWEEP)) or 0
        for number in range(before, before + 8):
            if count.asked >= probes:
                break
            until = min(count.asked + max(probes // 4, 1), probes)
            _fill_sweep(store, source, count, number=number, until=until, mean=mean)
    return Filled(
        sweeps=tuple(count.sweeps),
        scenarios=count.scenarios,
        failures=count.failures,
        probes=count.probes,
        seconds=time.perf_counter() - started,
    )


def _fill_sweep(
    store: Store, source: Iterator[ScenarioRecord], count: _Count, *, number: int, until: int, mean: int
) -> None:
    key = content_key(["sweep", number])[:32]
    sweep = sweep_record(key=key, label=f"generated {number}", started_at=START + timedelta(days=30 * number))
    sweep_id = begin_sweep(store, sweep)
    count.sweeps.append(key)
    while count.asked < until:
        records = list(islice(source, min(SCENARIOS_A_CALL, (until - count.asked) // mean + 1)))
        if not records:
            break
        refs = put_scenarios(store, sweep_id, records)
        count.scenarios += len(records)
        for record, ref in zip(records, refs, strict=True):
            if record.status != "ok":
                count.failures += 1
                continue
            last = interval_length(record, mean)
            count.asked += last
            count.probes += put(store, sweep_id, record, ref, first=1, last=last)
    finish_sweep(store, sweep_id, "finished", finished_at=sweep.started_at + timedelta(hours=1))


def put(store: Store, sweep_id: int, record: ScenarioRecord, ref: ScenarioRef, *, first: int, last: int) -> int:
    """Write one batch interval of a scenario as an evaluator would: known intervals are only recorded."""
    if any(start <= first and last <= stop for start, stop in ref.known):
        record_interval(store, sweep_id, ref.id, first, last)
        return 0
    return put_block(store, sweep_id, ref.id, block(record, first, last))


def sweep_record(*, key: str, label: str | None = None, started_at: datetime = START) -> SweepRecord:
    return SweepRecord(
        key=key, label=label, arguments='{"generated": true}', program_version="0.1.0", started_at=started_at
    )


def interval_length(record: ScenarioRecord, mean: int) -> int:
    """Return how many batch sizes a scenario gets, between half and one and a half of the mean."""
    return max(1, int(mean * (0.5 + int(record.key[:4], 16) / 65_536)))


def scenarios(*, seed: int = 0) -> Iterator[ScenarioRecord]:
    """Yield scenarios in a fixed order: every plan, precision, phase and formula version of a (model, workload, device)
    together, those triples shuffled by the seed."""
    groups = list(product(MODELS, WORKLOADS, DEVICES))
    random.Random(seed).shuffle(groups)
    for model, workload, device in groups:
        for precision, plan, phase, version in product(PRECISIONS, PLANS, PHASES, FORMULA_VERSIONS):
            if version == 1 and int(content_key([seed, model[0], workload, device[0]])[:2], 16) % 4:
                continue  # only some groups were evaluated by the older formulas too
            yield scenario(model, workload, device, precision=precision, plan=plan, phase=phase, version=version)


def scenario(model, workload, device, *, precision, plan, phase, version=FORMULA_VERSIONS[0]) -> ScenarioRecord:
    subject = _subject(model, workload, device, precision=precision, plan=plan, phase=phase)
    device_record = _device(device)
    status, reason = _outcome(model, device, precision, plan, phase)
    return ScenarioRecord(
        key=content_key([subject.key, device_record.key, version]),
        subject=subject,
        device=device_record,
        formula_version=version,
        status=status,
        reason=reason,
        assumptions="FP8 is widened to BF16 on this device" if device[0] == "A100_SXM" and precision[4] > 1 else None,
    )


def _outcome(model, device, precision, plan, phase):
    weights = model[2] * 1e9 * precision[3] / (plan[0] * plan[1])
    if weights > device[4] * 2**30:
        return "illegal", f"weights of {weights / 2**30:.0f} GiB exceed the {device[4]} GiB of one device"
    if model[1] == "bloom" and precision[0] != "BF16":
        return "unsupported", f"bloom has no {precision[0]} linears"
    if phase == "aggregated" and plan == (4, 2, 1):
        return "unsupported", "aggregated serving over pipeline stages is not modelled"
    return "ok", None


def _subject(model, workload, device, *, precision, plan, phase) -> SubjectRecord:
    model_record = ModelRecord(
        key=content_key(model),
        name=model[0],
        architecture=model[1],
        parameters=round(model[2] * 1e9),
        active_parameters=round(model[3] * 1e9),
        spec=json.dumps({"architecture": model[1], "kv_bytes_per_token": model[4], "experts": model[5]}),
    )
    precision_record = PrecisionRecord(
        key=content_key(precision),
        linear_quantization=precision[0],
        experts_quantization=precision[1],
        attention_quantization=precision[2],
        mxfp4_group_size=32,
        spec=json.dumps(precision),
    )
    tp, pp, dp = plan
    experts = model[5] > 0
    plan_record = PlanRecord(tp=tp, pp=pp, dp=dp, ep=tp * dp if experts else 1, moe_tp=1, moe_dp=1)
    workload_record = _workload(workload)
    return SubjectRecord(
        key=content_key([model, device[0], precision, plan, workload, phase]),
        model=model_record,
        device_name=device[0],
        precision=precision_record,
        plan=plan_record,
        workload=workload_record,
        phase=phase,
        convention="physical",
        compile=True,
        serving_model="waves",
        serving_cost_ms=0.0,
    )


def _workload(workload) -> WorkloadRecord:
    length, output, hit_rate, mtp = workload
    bins = () if length else BINS
    mean = length or sum(center * weight for _, _, center, weight in bins)
    return WorkloadRecord(
        key=content_key(workload),
        label=f"{length}/{output}" if length else f"mean {mean:.0f}/{output}",
        name=None if length else "chat-mix",
        input_length=length,
        input_length_mean=mean,
        output_length=output,
        prefix_cache_hit_rate=hit_rate,
        max_batched_tokens=8192,
        mtp_tokens=mtp,
        mtp_acceptance="[0.8]" if mtp else "[]",
        spec=json.dumps(workload),
        bins=tuple(
            WorkloadBinRecord(
                min_input_length=low,
                max_input_length=high,
                input_length=center,
                output_length=output,
                weight=weight,
                prefix_cache_hit_rate=hit_rate,
            )
            for low, high, center, weight in bins
        ),
    )


def _device(device) -> DeviceRecord:
    name, vendor, tera_flops, tera_vector, gibibytes, terabytes_per_s, link = device
    return DeviceRecord(
        key=content_key(device),
        name=name,
        vendor=vendor,
        family="theoretical",
        matrix_flops_per_s=tera_flops * 1e12 * 0.7,
        vector_flops_per_s=tera_vector * 1e12 * 0.7,
        memory_bytes=gibibytes * 2**30,
        memory_bandwidth_bytes_per_s=terabytes_per_s * 1e12 * 0.8,
        grid="256 x 8",
        link_bandwidths=f"35e9 | {link}e9",
        spec=json.dumps(device),
    )


def block(record: ScenarioRecord, first: int, last: int) -> BlockRecord:
    """Make the probes of a batch interval; the same scenario and batch size always give the same numbers."""
    subject = record.subject
    plan, workload, phase = subject.plan, subject.workload, subject.phase
    sizes = np.arange(first, last + 1)
    columns: dict[str, np.ndarray | None] = {column.name: None for column in MEASURES}
    columns["concurrency"] = sizes * plan.dp * plan.pp
    _memory(columns, record, sizes)
    prefill = _step(record, sizes * workload.input_length_mean * (1 - workload.prefix_cache_hit_rate), "prefill")
    decode = _step(record, sizes.astype(float), "decode")
    waves = np.ceil(sizes / 8)
    tokens = 1.8 if workload.mtp_tokens else 1.0
    output = workload.output_length
    if phase != "decode":
        columns["prefill_step_ms"] = sum(prefill.values())
        columns["prefill_chunks"] = np.full(
            len(sizes), -(-int(workload.input_length_mean) // workload.max_batched_tokens)
        )
        columns["makespan_ms"] = columns["prefill_step_ms"] * waves
        columns["ttft_ms"] = columns["prefill_step_ms"] * (waves + 1) / 2
        columns.update({f"prefill_step_{kind}_ms": values for kind, values in prefill.items()})
    if phase != "prefill":
        columns["decode_step_ms"] = sum(decode.values())
        columns["tokens_per_step"] = np.full(len(sizes), tokens)
        columns["tpot_inclusive_ms"] = columns["decode_step_ms"] / tokens
        columns["tpot_exclusive_ms"] = columns["tpot_inclusive_ms"]
        columns.update({f"decode_step_{kind}_ms": values for kind, values in decode.items()})
    if phase == "aggregated":
        columns["e2e_ms"] = columns["ttft_ms"] + columns["tpot_exclusive_ms"] * (output - 1)
        columns["tpot_inclusive_ms"] = columns["e2e_ms"] / output
    return BlockRecord(batch_sizes=sizes, columns=columns, composition=_composition(columns, record, sizes))


def _memory(columns, record, sizes) -> None:
    plan, workload = record.subject.plan, record.subject.workload
    spec = json.loads(record.subject.model.spec)
    token = spec["kv_bytes_per_token"] // (plan.tp * plan.pp)
    weight_bytes = json.loads(record.subject.precision.spec)[3]
    full = sizes * int(token * (workload.input_length_mean + workload.output_length))
    columns["weight_bytes"] = np.full(
        len(sizes), int(record.subject.model.parameters * weight_bytes / (plan.tp * plan.pp))
    )
    columns["kv_cache_bytes"] = full
    columns["kv_cache_mean_bytes"] = sizes * int(token * (workload.input_length_mean + workload.output_length / 2))
    columns["activation_bytes"] = sizes * 40_000 + 500_000_000
    columns["kv_bytes_per_request"] = np.full(len(sizes), int(spec["kv_bytes_per_token"] * workload.input_length_mean))


def _step(record, tokens, phase) -> dict[str, np.ndarray]:
    subject, device = record.subject, record.device
    split = subject.plan.tp * subject.plan.pp
    _, _, _, weight_bytes, rate = json.loads(subject.precision.spec)
    scale = 1.03 if record.formula_version == 1 else 1.0
    matrix = 2 * subject.model.active_parameters * tokens / (device.matrix_flops_per_s * rate * split)
    token = json.loads(subject.model.spec)["kv_bytes_per_token"]
    context = subject.workload.input_length_mean + subject.workload.output_length / 2 if phase == "decode" else 0.0
    read = subject.model.active_parameters * weight_bytes + token * context * tokens
    times = {
        "matrix": matrix,
        "vector": tokens * 2e6 / device.vector_flops_per_s,
        "memory": read / (device.memory_bandwidth_bytes_per_s * split),
        "communication": tokens * 1e5 * (subject.plan.tp > 1) / 4e11 + np.zeros(len(tokens)),
        "overhead": np.full(len(tokens), 0.0008 * subject.plan.pp),
    }
    return {kind: times[kind] * 1e3 * scale for kind in STEP_KINDS}


def _composition(columns, record, sizes):
    """Share a batch over the bins by largest remainder, and add what only distributions have."""
    bins = record.subject.workload.bins
    if not bins:
        return None
    weights = np.array([bin_.weight for bin_ in bins])
    exact = sizes[:, None] * weights
    samples = np.floor(exact).astype(int)
    for row, rest in enumerate(sizes - samples.sum(axis=1)):
        samples[row, np.argsort(-(exact - samples)[row], kind="stable")[:rest]] += 1
    lengths = np.array([bin_.input_length for bin_ in bins])
    columns["realised_input_length_mean"] = samples @ lengths / sizes
    if columns["decode_step_ms"] is not None:
        for name, factor in (("p50", 1.0), ("p90", 1.05), ("p99", 1.1)):
            columns[f"decode_step_{name}_ms"] = columns["decode_step_ms"] * factor
    count = len(bins)
    return np.repeat(sizes, count), np.tile(np.arange(count), len(sizes)), samples.ravel()


if __name__ == "__main__":
    print(fill(sys.argv[1], probes=int(float(sys.argv[2])), seed=int(sys.argv[3]) if len(sys.argv) > 3 else 0))
