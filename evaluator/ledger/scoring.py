"""Errors of predictions: which points count, figures, regions, rankings.

Exclusions are counted rules that see no prediction."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evaluator.canonical import content_key
from evaluator.inputs.launch import Plan
from evaluator.ledger.deployments import Deployment, measured_device
from evaluator.ledger.matching import Unmatched
from evaluator.ledger.readers.building import circumstances_of
from evaluator.ledger.readers.documents import failure_of
from evaluator.ledger.scenarios import Knowledge
from store.records import MeasurementRecord
from store.schema import SHARES

# MTP is not recorded. Outputs of DeepSeek-R1 from these builds come up to 1.9, 2.2 and 1.5 times too fast: the last two
# against the same settings and build under the name of V3, whose shapes are R1's. What both names share in other builds
# is equal. InferenceX's recipe with MTP under SGLang is of eight ranks alone (dsr1_fp8_b200_mtp.sh at 285b662).
# Engine and version of R1 -> fewest ranks of attention.
SPECULATIVE_BUILDS = {("trtllm", "1.2.0rc6.post3"): 1, ("trtllm", "1.1.0rc2.post2"): 1, ("sglang", "0.5.9"): 8}
SPECULATIVE_MODEL = "deepseek-ai/DeepSeek-R1"
NO_SPECULATION = {"", "none", "not recorded (assumed none)"}
LARGEST_TTFT_SHARE = 0.5
TWIN_RATIO = 1.25
TELLING_DIGITS = 8  # of all values of a point together: those of fewer may agree by chance
OF_TWO_DEVICES = "the same values under two devices: not known which was measured"
SAME_VALUE = 5e-4  # relative: tables round, and two runs are further apart in one metric or another
Seen = dict[tuple[object, ...], list[tuple[float, ...]]]  # values of earlier records by their settings
BATCH_REGIONS = ((8, "batch 1-8"), (32, "batch 9-32"), (128, "batch 33-128"))
LENGTH_REGIONS = ((2047, "input < 2k"), (6143, "input 2k-6k"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """In the metric's unit, perhaps with a peer's."""

    knowledge: Knowledge  # whether the point was evaluated as asked, or as known
    metric: str
    measured: float
    predicted: float
    peer: float | None
    device: str
    model: str
    engine: str
    mode: str
    moe: bool
    plan: str
    num_devices: int
    users: int
    input_length: int
    output_length: int
    batch_size: int  # of the probe
    record_key: str

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1.0

    @property
    def peer_error(self) -> float | None:
        return None if self.peer is None else self.peer / self.measured - 1.0

    @property
    def kind(self) -> str:
        return "moe" if self.moe else "dense"

    @property
    def batch_region(self) -> str:
        return region_of(self.users, BATCH_REGIONS, "batch > 128")

    @property
    def length_region(self) -> str:
        return region_of(self.input_length, LENGTH_REGIONS, "input > 6k")

    @property
    def region(self) -> str:
        parts = (self.device, self.kind, self.engine, self.mode, self.batch_region, self.length_region)
        return ", ".join(parts)


def region_of(value: float, regions: Sequence[tuple[int, str]], last: str) -> str:
    return next((name for largest, name in regions if value <= largest), last)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Percent; the bias is the median signed error."""

    median_ape: float
    mean_ape: float
    p90_ape: float
    bias: float
    rows: int


def figures(errors: Iterable[float]) -> Figures | None:
    signed = 100.0 * np.asarray(list(errors), dtype=np.float64)
    if not signed.size:
        return None
    size = np.abs(signed)
    return Figures(
        median_ape=float(np.median(size)),
        mean_ape=float(size.mean()),
        p90_ape=float(np.percentile(size, 90)),
        bias=float(np.median(signed)),
        rows=int(signed.size),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """Points that a rule takes out, or repairs."""

    rule: str
    rows: int
    repaired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Usable:
    """And counts by rule."""

    records: tuple[MeasurementRecord, ...]
    excluded: tuple[Exclusion, ...]
    noisy_twins: int = 0  # pairs of equal settings whose values lie more than TWIN_RATIO apart; kept
    twins: int = 0


def setting_of(record: MeasurementRecord) -> str:
    """A digest of what was run; repeats share it."""
    return content_key(replace(record, key="", source="", metrics={}, definitions={}, extra="{}", measured_at=None))


def by_setting(records: Iterable[MeasurementRecord]) -> list[MeasurementRecord]:
    """By content alone, without last digits.

    Runs stated twice: the last name and smallest size come first."""
    ordered = sorted(
        records, key=lambda one: (one.num_devices or 0, setting_of(one), sorted(one.metrics.items()), one.key)
    )
    return sorted(ordered, key=lambda one: one.model or "", reverse=True)


def usable(records: Iterable[MeasurementRecord], *, most_ttft: float = LARGEST_TTFT_SHARE) -> Usable:
    """Each record counts at the first rule that takes it out.

    Sorted by setting. `most_ttft`: of the end-to-end time."""
    kept: list[MeasurementRecord] = []
    counts: Counter[str] = Counter()
    seen: Seen = defaultdict(list)
    ordered = by_setting(records)
    elsewhere = _of_two_devices(ordered)
    for record in ordered:
        rule = OF_TWO_DEVICES if record.key in elsewhere else _rule_against(record, seen, most_ttft)
        if rule is None:
            kept.append(record)
        else:
            counts[rule] += 1
    noisy, twins = _twins(kept)
    excluded = tuple(Exclusion(rule=rule, rows=rows) for rule, rows in sorted(counts.items()))
    return Usable(records=tuple(kept), excluded=excluded, noisy_twins=noisy, twins=twins)


def _of_two_devices(records: Iterable[MeasurementRecord]) -> set[str]:
    """Keys of points of one model, load and values, under names of two devices."""
    found: dict[tuple[object, ...], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for one in records:
        values = [(name, f"{value:.9g}") for name, value in sorted(one.metrics.items())]
        if sum(len(text.replace(".", "").strip("0")) for _, text in values) >= TELLING_DIGITS:
            load = (one.input_length, one.output_length, one.concurrency, one.request_rate)
            found[one.model, one.engine, one.mode, load, *values][_device(one.device)].append(one.key)
    return {key for devices in found.values() if len(devices) > 1 for keys in devices.values() for key in keys}


def _device(name: str | None) -> str:
    try:
        return measured_device(name).name
    except Unmatched:
        return str(name)


def _rule_against(record: MeasurementRecord, seen: Seen, most_ttft: float) -> str | None:
    if failure_of(record) is not None:
        return "a server that failed: nothing was measured"
    extra = json.loads(record.extra)
    rules = {
        "predicted by another program, not measured": any(
            text.startswith("predicted by") for text in record.definitions.values()
        ),
        "published figure of priority 3: not fully specified": str(extra.get("priority", "")) == "3",
        "speculative decoding, or not known whether": str(extra.get("spec_decode", "")) not in NO_SPECULATION,
        "fixed prompts replayed against a prefix cache, whose hits are not stated": circumstances_of(record).replayed,
        "duplicate: same device, lengths, concurrency and values": _seen_before(record, seen),
        "speculative decoding suspected: twice as fast as the same build and plan without": _drafted(record),
        "time to first token above half of the end-to-end time": _ttft_share(record) > most_ttft,
    }
    return next((rule for rule, applies in rules.items() if applies), None)


def _drafted(record: MeasurementRecord) -> bool:
    build = (record.engine or "", record.engine_version or "")
    aggregated = record.model == SPECULATIVE_MODEL and record.mode == "aggregated"
    return aggregated and (record.decode.tp or 1) * (record.decode.dp or 1) >= SPECULATIVE_BUILDS.get(build, math.inf)


def _seen_before(record: MeasurementRecord, seen: Seen) -> bool:
    """Same settings and values, in more or fewer digits."""
    names, values = zip(*sorted(record.metrics.items()), strict=True)
    lengths = (record.input_length, record.output_length)
    what: tuple[object, ...] = (record.device, record.mode, *lengths, record.concurrency or record.request_rate, names)
    # A table with one metric a line names each point once; only full rows repeat under two ids.
    if len(values) == 1:
        what = (*what, record.key)
    found = any(
        all(math.isclose(one, other, rel_tol=SAME_VALUE) for one, other in zip(values, earlier, strict=True))
        for earlier in seen[what]
    )
    if not found:
        seen[what].append(values)
    return found


def _ttft_share(record: MeasurementRecord) -> float:
    ttft, tpot = record.metrics.get("ttft_ms_mean"), record.metrics.get("tpot_exclusive_ms_mean")
    if ttft is None or tpot is None or record.output_length is None:
        return 0.0
    return ttft / (ttft + (record.output_length - 1) * tpot)


def _twins(records: Sequence[MeasurementRecord]) -> tuple[int, int]:
    """(pairs further apart than TWIN_RATIO, pairs) of full rows with equal settings."""
    groups: dict[tuple[object, ...], list[MeasurementRecord]] = defaultdict(list)
    for record in records:
        if len(record.metrics) > 1:
            settings = (record.model, record.device, record.engine, record.precision, record.mode, record.input_length,
                        record.output_length, record.concurrency or record.request_rate, record.prefill,
                        record.decode)  # fmt: skip
            groups[settings].append(record)
    pairs = noisy = 0
    for group in groups.values():
        for index, one in enumerate(group):
            for other in group[index + 1 :]:
                pairs += 1
                ratios = [one.metrics[name] / other.metrics[name] for name in one.metrics if name in other.metrics]
                noisy += any(max(ratio, 1 / ratio) > TWIN_RATIO for ratio in ratios)
    return noisy, pairs


def plan_label(deployment: Deployment) -> str:
    decode = _plan_label(deployment.plan, deployment.moe)
    if deployment.prefill_plan is None:
        return decode
    prefill = _plan_label(deployment.prefill_plan, deployment.moe)
    return f"{deployment.prefill_instances}P {prefill} {deployment.instances}D {decode}"


def _plan_label(plan: Plan, moe: bool) -> str:
    text = f"tp{plan.tp}pp{plan.pp}dp{plan.dp}" + (f"ep{plan.ep}moetp{plan.moe_tp}" if moe else "")
    more = {share.label: plan.shares.get(share.name) for share in SHARES if share.measured}
    return text + "".join(f"{name}{size}" for name, size in more.items() if size)
