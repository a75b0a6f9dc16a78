"""A question: what to look at, which limits hold, and which definition of each disputed measure is meant.

Not here: SQL, and how answers look."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

from queries.error_figures import LEVELS
from queries.expected_error import ExpectedError
from store.errors import InputError

TpotRule = Literal["inclusive", "exclusive"]
PrefillQpsRule = Literal["capacity", "ttft"]
DecodeQpsRule = Literal["minus-one", "full"]
ThroughputRule = Literal["once", "twice"]
AllocationRule = Literal["budget", "exact"]
KvCharge = Literal["full", "mean"]
Blend = tuple[tuple[str, float], ...]  # a workload by name, and its weight
MODES = ("aggregated", "prefill", "decode", "pd")
VARIED_LIMITS = ("ttft", "tpot", "e2e", "memory")


RULES: Mapping[str, tuple[str, ...]] = {
    "tpot": ("inclusive", "exclusive"),
    "prefill_qps": ("capacity", "ttft"),
    "decode_qps": ("minus-one", "full"),
    "throughput": ("once", "twice"),
    "allocation": ("budget", "exact"),
    "kv_charge": ("full", "mean"),
}


FORMULAS = ("waves", "seed002")  # serving models that are no engine


def own_tpot(serving_model: str) -> TpotRule:
    """The TPOT that the clients of an engine report; of formulas, the seeds'. The same rule stands in scoped.sql."""
    return "inclusive" if serving_model in FORMULAS else "exclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Definitions:
    """One named rule for each measure on which sources disagree (docs/decisions).

    Without a rule for TPOT each serving model has its own: exclusive under engines, inclusive under formulas."""

    tpot: TpotRule | None = None
    prefill_qps: PrefillQpsRule = "capacity"
    decode_qps: DecodeQpsRule = "minus-one"
    throughput: ThroughputRule = "once"
    allocation: AllocationRule = "budget"
    kv_charge: KvCharge = "full"

    def __post_init__(self) -> None:
        """Refuse rules that nobody defined."""
        for name, rules in RULES.items():
            if getattr(self, name) not in rules and not (name == "tpot" and self.tpot is None):
                raise InputError(f"{getattr(self, name)!r} is no rule for {name}", hint=f"known: {', '.join(rules)}")


PRESETS: Mapping[str, Definitions] = {
    "sweepdb": Definitions(),
    "upstream": Definitions(tpot="inclusive", prefill_qps="ttft", kv_charge="mean"),
    "seed000": Definitions(tpot="inclusive", prefill_qps="ttft", decode_qps="full", allocation="exact"),
    "seed001": Definitions(tpot="inclusive", prefill_qps="ttft", throughput="twice"),
}


def preset_named(name: str) -> Definitions:
    """A preset by its name."""
    if name not in PRESETS:
        raise InputError(f"preset {name} is not one of {', '.join(PRESETS)}")
    return PRESETS[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What an answer must satisfy; None does not limit. The reserve is in GiB a device. With a confidence, each limit
    on times is one of measured values, kept with that probability."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None
    min_tokens_per_s_per_user: float | None = None
    reserved_gib: float = 10.0
    confidence: float | None = None

    @property
    def on_times(self) -> tuple[float, ...]:
        """The limits that predictions are compared with, all but the reserve."""
        limits = (self.ttft_ms, self.tpot_ms, self.e2e_ms, self.min_tokens_per_s_per_user)
        return tuple(limit for limit in limits if limit is not None)

    def __post_init__(self) -> None:
        """Refuse limits that no number can be compared with."""
        if self.confidence is not None:
            _check_confidence(self.confidence, self.on_times)
        options = {
            "ttft_ms": "--ttft-limits",
            "tpot_ms": "--tpot-limits",
            "e2e_ms": "--e2e-limits",
            "min_tokens_per_s_per_user": "--min-tokens-per-s-per-user",
            "reserved_gib": "--reserved-memory-gb",
        }
        for name, option in options.items():
            value = getattr(self, name)
            if value is None:
                continue
            if not math.isfinite(value) or value < 0:
                raise InputError(f"{option} must be a number of at least 0, not {value:g}")
            if value == 0 and name != "reserved_gib":
                raise InputError(f"{option} must be above 0")


def _check_confidence(confidence: float, limits: tuple[float, ...]) -> None:
    if not LEVELS[0] <= confidence <= LEVELS[-1]:
        raise InputError(
            f"--confidence must lie in {LEVELS[0]:g}..{LEVELS[-1]:g}, not {confidence:g}",
            hint="measured errors say nothing beyond",
        )
    if not limits:
        raise InputError("--confidence reads limits, and none is given", hint="add --ttft-limits or --tpot-limits")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which stored scenarios a question is about. With nothing given: what the newest request was about, over every
    device, plan and date that requests asked for. `sweep` narrows to what that sweep asked for."""

    models: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    sweep: str | None = None
    last: bool = False
    workload: str | None = None
    workload_keys: tuple[str, ...] = ()
    input_length: int | None = None
    output_length: float | None = None
    prefix_cache_hit_rate: float | None = None
    max_batched_tokens: int | None = None
    mtp_tokens: int | None = None
    linear_quantization: str | None = None
    attention_quantization: str | None = None
    convention: str | None = None
    family: str | None = None
    serving_model: str | None = None
    serving_cost_ms: float | None = None
    compile: bool | None = None
    shortest_length: float | None = None
    prompts_per_user: int | None = None
    poll_steps: int | None = None
    seats: int | None = None
    wait_steps: int | None = None
    routing: str | None = None
    instance_devices: int | None = None
    all_versions: bool = False
    all_subjects: bool = False  # every subject of the store, each group under its own title

    @property
    def is_default(self) -> bool:
        """Whether nothing narrows it."""
        return self == Scope(all_versions=self.all_versions)

    def described(self) -> dict[str, object]:
        """What narrows it, by name."""
        said = {name: value for name, value in asdict(self).items() if value not in (None, ()) and value is not False}
        if self.compile is False:
            said["compile"] = False
        return said


@dataclass(frozen=True, slots=True, kw_only=True)
class PairOptions:
    """What a prefill and decode deployment is asked."""

    num_devices: int | None = None
    target_qps: float | None = None
    prefill_device: str | None = None
    decode_device: str | None = None
    prefill_devices_per_instance: int | None = None
    decode_devices_per_instance: int | None = None
    kv_transfer_gb_per_s: float | None = None
    all_pairs: bool = False
    prefill_degradation: float = 1.0
    decode_degradation: float = 1.0

    def __post_init__(self) -> None:
        """Refuse counts and rates that mean nothing."""
        for name in ("num_devices", "prefill_devices_per_instance", "decode_devices_per_instance"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"--{name.replace('_', '-')} must be a positive whole number, not {value}")
        for name in ("target_qps", "kv_transfer_gb_per_s"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise InputError(f"--{name.replace('_', '-')} must be a number above 0, not {value:g}")
        for name in ("prefill_degradation", "decode_degradation"):
            if not 0 < getattr(self, name) <= 1:
                raise InputError(f"--{name.replace('_', '-')} must lie in (0, 1], not {getattr(self, name):g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """What only some reports ask for: the phase to look at, two probes or two sweeps, the limits to vary, prices."""

    mode: str | None = None  # prefill, decode, aggregated or pd; None: what is stored
    probes: tuple[str, ...] = ()  # why A B
    sweeps: tuple[str, ...] = ()  # diff SWEEP SWEEP
    vary: tuple[str, ...] = ()  # sensitivity: one or two of ttft, tpot, e2e, memory
    steps: int = 5  # sensitivity over two limits: values of each
    mix: Blend = ()  # mix: shares of the requests, of any sum
    price_date: str | None = None  # ISO date; None: the newest price of each device

    def __post_init__(self) -> None:
        """Refuse what no report understands."""
        if self.mode is not None and self.mode not in MODES:
            raise InputError(f"--mode {self.mode} is not one of {', '.join(MODES)}")
        if len(self.vary) > 2 or len(set(self.vary)) < len(self.vary):
            raise InputError("sensitivity varies one limit, or two different ones")
        for name in self.vary:
            if name not in VARIED_LIMITS:
                raise InputError(f"--vary {name} is not one of {', '.join(VARIED_LIMITS)}")
        for name, weight in self.mix:
            if not (math.isfinite(weight) and weight > 0):
                raise InputError(f"--mix {name}={weight:g}: a weight is a number above 0")
        if not 2 <= self.steps <= 50:
            raise InputError(f"--steps must lie in 2..50, not {self.steps}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Everything an answer depends on, besides the store."""

    report: str = "best"
    scope: Scope = field(default_factory=Scope)
    limits: Limits = field(default_factory=Limits)
    definitions: Definitions = field(default_factory=Definitions)
    pairs: PairOptions = field(default_factory=PairOptions)
    top: int = 10
    rank_by: str | None = None
    options: ReportOptions = field(default_factory=ReportOptions)

    def __post_init__(self) -> None:
        """Refuse an empty list."""
        if self.top < 1:
            raise InputError(f"--top must be at least 1, not {self.top}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Rows with everything needed to read and to repeat them. `nearest` is filled when nothing satisfies the limits."""

    question: Question
    report: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    probes_considered: int
    scenarios_considered: int
    scope: tuple[str, ...]  # one line a group: model, workload, precision, convention
    versions: Mapping[str, object]
    sql: str
    parameters: Mapping[str, object]
    nearest_columns: tuple[str, ...] = ()
    nearest: tuple[tuple[object, ...], ...] = ()
    notes: tuple[str, ...] = ()
    verdict: tuple[str, ...] = ()  # compare: which deployment wins, a sentence a group
    expected_error: tuple[ExpectedError, ...] = ()  # empty where a report judges no predicted number
    left_out: str | None = None  # what else the store holds, where no filter was given

    @property
    def tpot(self) -> str:
        """Which TPOT is limited and shown: the rule asked for, else that of each serving model."""
        asked = self.question.definitions.tpot
        models = self.versions.get("serving_model")
        if asked is not None or not isinstance(models, list):
            return asked or "each serving model's own"
        by_rule: dict[str, list[str]] = {}
        for model in models:
            by_rule.setdefault(own_tpot(model), []).append(model)
        if len(by_rule) == 1:
            return next(iter(by_rule))
        return ", ".join(f"{rule} ({', '.join(names)})" for rule, names in sorted(by_rule.items()))

    def dicts(self) -> list[dict[str, object]]:
        """The rows as mappings."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def nearest_dicts(self) -> list[dict[str, object]]:
        """The nearest misses as mappings."""
        return [dict(zip(self.nearest_columns, row, strict=True)) for row in self.nearest]

    def df(self):  # type: ignore[no-untyped-def]  # noqa: ANN201  naming its type would import pandas
        """The rows as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame(self.dicts(), columns=list(self.columns))
