"""Every option of a question, declared once; command line, Python, SQL variables, checks and reference follow.

An option is `--keyword-with-dashes` on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from numbers import Real
from typing import Any, Literal, get_args

from queries.asking.declaring import (
    MOST_LETTERS,
    Declared,
    above_zero,
    check_declared,
    declared,
    image_size,
    iso_date,
    one_of,
    option,
    positive_whole,
    shown,
    within,
)
from queries.asking.limits import Limits, listed_limits, row_limits
from store.errors import InputError
from store.light_dataclass import dataclass

TpotRule = Literal["inclusive", "exclusive"]
PrefillQpsRule = Literal["capacity", "ttft"]
DecodeQpsRule = Literal["minus-one", "full"]
ThroughputRule = Literal["once", "twice"]
AllocationRule = Literal["budget", "exact"]
KvCharge = Literal["full", "mean"]
Rows = Literal["predicted", "measured", "both"]
Blend = tuple[tuple[str, float], ...]  # a workload by name, and its weight
_VARIED = tuple(one.name for one in row_limits())
MODES = ("aggregated", "prefill", "decode", "pd")
MOST_DEVICES = 1_000_000  # of a budget
MOST_ROWS = 10_000  # of a group, and points of a frontier
MOST_BUDGETS = 100  # side by side
MOST_RATE = 1e9  # requests/s, requests in flight, GB/s
MOST_WEIGHT = 1e9
_DIGITS = 7  # of a number of devices
LONGEST_NAME = 100
ATTAINMENT = 0.95  # share of requests within the limits that a deployment is sized for, as plans state it
_LEAST_SHARE = 1e-3  # kept of a side's rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which stored scenarios a question is about. With nothing given: what the newest request was about, over every
    device, plan and date that requests asked for. `sweep` narrows to what that sweep asked for."""

    models: tuple[str, ...] = option((), "only this model", keyword="model")
    devices: tuple[str, ...] = option((), "only these devices", keyword="device")
    sweep: str | None = option(None, "only what this sweep asked for")
    last: bool = option(False, "only what the newest request asked for", flag="--last")
    all_subjects: bool = option(
        False,
        "every subject of the store [default: what the newest request was about]",
        keyword="all",
        flag="--all",
    )
    workload: str | None = option(None, "only this workload, by name or label")
    workload_keys: tuple[str, ...] = ()
    input_length: int | None = option(None, "only this prompt length, or the length distribution in this FILE")
    output_length: float | None = option(None, "only this output length")
    prefix_cache_hit_rate: float | None = option(None, "only this hit rate")
    max_batched_tokens: int | None = option(
        None, "only this token budget", keyword="max_num_batched_tokens", was=("max_batched_tokens",)
    )
    images: int | None = option(None, "only so many images a request", unit="images")
    image_size: str | None = option(None, "only images of this size, WIDTHxHEIGHT", unit="pixels", check=image_size)
    encoder_split: str | None = option(None, "only this split of the image encoder")
    linear_quantization: str | None = option(
        None, "only this format of linears", keyword="quantization", was=("quantize_linear_action",)
    )
    attention_quantization: str | None = option(
        None, "only this KV format", keyword="kv_cache_quantization", was=("quantize_attention_action",)
    )
    convention: str | None = option(None, "physical or upstream")
    family: str | None = option(None, "theoretical or calibrated")
    serving_model: str | None = option(None, "only this engine", also=("engine",))
    serving_cost_ms: float | None = option(None, "only this fixed cost of delivery, ms", keyword="serving_cost")
    mtp_tokens: int | None = option(None, "only this many drafted tokens", keyword="num_mtp_tokens")
    compile: bool | None = option(None, "only this graph", flag="--compile/--eager")
    shortest_length: float | None = option(None, "only clients with this shortest share")
    prompts_per_user: int | None = option(None, "only clients that ask so often")
    poll_steps: int | None = option(None, "only engines that look for prompts so often")
    seats: int | None = option(
        None, "only servers of so many requests in flight", keyword="max_num_seqs", was=("seats",)
    )
    wait_steps: int | None = option(None, "only servers whose prompts wait so long")
    routing: str | None = option(None, "only this routing of experts")
    instance_devices: int | None = option(None, "only instances of this many devices")
    all_versions: bool = option(False, "older formula versions too", flag="--all-versions")

    def __post_init__(self) -> None:
        check_declared(self)

    @property
    def is_default(self) -> bool:
        return self == Scope(all_versions=self.all_versions)

    def described(self) -> dict[str, object]:
        held = {item.name: getattr(self, item.name) for item in fields(self)}
        said = {name: value for name, value in held.items() if value not in (None, ()) and value is not False}
        if self.compile is False:
            said["compile"] = False
        return said


def _rule(default: str | None, variable: str, *known: str, **more: Any) -> Any:  # noqa: ANN401  as `option`
    told = more.pop("help", " or ".join(known))
    without = more.pop("without", f"never NULL: {' or '.join(known)}")
    return option(default, told, variable=variable, without=without, check=one_of(*known), **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Definitions:
    """One named rule for each measure on which sources disagree (docs/explanation/architecture.md).

    Without a rule for TPOT each serving model has its own: exclusive under engines, inclusive under formulas."""

    tpot: TpotRule | None = _rule(
        None, "tpot_rule", *get_args(TpotRule), keyword="tpot_definition",
        help="inclusive or exclusive [default: the serving model's]",
        without="each serving model's own: exclusive under engines, else inclusive",
    )  # fmt: skip
    prefill_qps: PrefillQpsRule = _rule(
        "capacity", "prefill_qps_rule", *get_args(PrefillQpsRule), keyword="prefill_rate", was=("prefill_qps",)
    )
    decode_qps: DecodeQpsRule = _rule(
        "minus-one", "decode_qps_rule", *get_args(DecodeQpsRule), keyword="decode_rate", was=("decode_qps",)
    )
    throughput: ThroughputRule = _rule("once", "throughput_rule", *get_args(ThroughputRule))
    allocation: AllocationRule = _rule(
        "budget", "allocation_rule", *get_args(AllocationRule),
        without="never NULL: budget (most requests/s within the devices) or exact (every device used)",
    )  # fmt: skip
    kv_charge: KvCharge = _rule("full", "kv_charge", *get_args(KvCharge))

    def __post_init__(self) -> None:
        check_declared(self)


PRESETS: Mapping[str, Definitions] = {
    "sweepdb": Definitions(),
    "upstream": Definitions(tpot="inclusive", prefill_qps="ttft", decode_qps="full", kv_charge="mean"),
    "seed000": Definitions(tpot="inclusive", prefill_qps="ttft", decode_qps="full", allocation="exact"),
    "seed001": Definitions(tpot="inclusive", prefill_qps="ttft", throughput="twice"),
}


def preset_named(name: str) -> Definitions:
    if name not in PRESETS:
        raise InputError(f"`preset` {name[:LONGEST_NAME]} is not one of {', '.join(PRESETS)}")
    return PRESETS[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairOptions:
    num_devices: int | None = option(
        None, "device budget; copies of an instance share it", variable="num_devices", unit="devices",
        without="no device budget", check=positive_whole(MOST_DEVICES),
    )  # fmt: skip
    budgets: tuple[str, ...] = option(
        (), "the best within each of these numbers of devices, up to num_devices", variable="budgets",
        variable_type="BIGINT[]", unit="devices", without="num_devices alone",
    )  # fmt: skip
    target_qps: float | None = option(
        None, "requests/s to carry", variable="target_qps", unit="requests/s", keyword="target_rate",
        was=("target_qps",), without="no target: only the frontier", check=above_zero(MOST_RATE),
    )  # fmt: skip
    target_users: float | None = option(
        None, "users who wait for their answers: requests in flight to serve", variable="target_users",
        unit="requests", keyword="concurrency", was=("target_users",),
        without="no target: only the frontier", check=above_zero(MOST_RATE),
    )  # fmt: skip
    least_latency: bool = option(
        False, "of `concurrency`: the shortest requests within the devices, in place of the fewest devices",
        flag="--least-latency", variable="least_latency", without="never NULL: whether the shortest requests win",
    )  # fmt: skip
    prefill_device: str | None = option(
        None, "prefill instances on this device", variable="prefill_device",
        without="prefill instances on any stored device",
    )  # fmt: skip
    decode_device: str | None = option(
        None, "decode instances on this device", variable="decode_device",
        without="decode instances on any stored device",
    )  # fmt: skip
    prefill_devices_per_instance: int | None = option(
        None, "only prefill instances of this size", variable="prefill_instance_devices", unit="devices",
        without="prefill instances of any size", check=positive_whole(MOST_DEVICES),
    )  # fmt: skip
    decode_devices_per_instance: int | None = option(
        None, "only decode instances of this size", variable="decode_instance_devices", unit="devices",
        without="decode instances of any size", check=positive_whole(MOST_DEVICES),
    )  # fmt: skip
    kv_transfer_gb_per_s: float | None = option(
        None, "decimal GB/s between instances", variable="kv_transfer_bytes_per_s", unit="bytes/s",
        without="under an engine the outermost link of the devices that hold a prompt; else no transfer",
        check=above_zero(MOST_RATE),
    )  # fmt: skip
    all_pairs: bool = option(
        False, "every stored row of both sides", flag="--all-pairs", variable="all_pairs",
        without="never NULL: whether every stored row is paired",
    )  # fmt: skip
    prefill_degradation: float = option(
        1.0,
        "share of the prefill rate kept in service",
        variable="prefill_degradation",
        unit="ratio",
        check=within(_LEAST_SHARE, 1),
    )
    decode_degradation: float = option(
        1.0,
        "share of the decode rate kept in service",
        variable="decode_degradation",
        unit="ratio",
        check=within(_LEAST_SHARE, 1),
    )

    def __post_init__(self) -> None:
        check_declared(self)
        if self.least_latency and None in {self.target_users, self.num_devices}:
            raise InputError("`least_latency` is of `concurrency` users within `num_devices`", hint="give both")
        if len(self.budgets) > MOST_BUDGETS:
            raise InputError(f"`budgets` are {MOST_BUDGETS} numbers of devices at most, not {len(self.budgets):,}")
        for text in self.budgets:
            if not text.isdecimal() or len(text) > _DIGITS or not 0 < int(text) <= (self.num_devices or 0):
                raise InputError(
                    f"`budgets={text[:100]}`: whole numbers of devices are expected, and `num_devices` as large as any",
                    hint="such as `budgets=4,8,16` and `num_devices=16`",
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """How a report looks at its rows: the phase, what ranks them and how many, and what only some reports ask for."""

    mode: str | None = option(
        None, "which phase: aggregated, prefill or decode; devices: pd too", variable="mode",
        without="what is stored", check=one_of(*MODES),
    )  # fmt: skip
    probes: tuple[str, ...] = ()  # why A B
    sweeps: tuple[str, ...] = ()  # diff SWEEP SWEEP
    vary: tuple[str, ...] = option(
        (), f"limits that sensitivity moves: one or two of {', '.join(_VARIED)}",
        variable="vary", variable_type="VARCHAR",
        without=f"never NULL: {listed_limits()} (the reserve); its own limit is left out",
    )  # fmt: skip
    steps: int = option(
        5,
        "sensitivity over two limits: values of each",
        variable="steps",
        unit="values",
        without="never NULL: values of each limit, quantiles of what is stored",
        check=within(2, 50),
    )
    mix: Blend = option(
        (), "mix: WORKLOAD=WEIGHT, once for each workload", variable="mix_workloads", variable_type="VARCHAR[]",
        without="never NULL: content keys of the workloads",
    )  # fmt: skip
    price_date: str | None = option(
        None, "prices of this ISO date [default: the newest]", variable="price_date", unit="ISO date",
        without="the newest price of each device", check=iso_date,
    )  # fmt: skip
    rank_by: str | None = option(
        None, "throughput, requests-per-s, ttft, ... (a wrong one lists them)", variable="objective",
        without="never NULL: the measure that ranks",
    )  # fmt: skip
    attainment: float = option(
        ATTAINMENT, "share of requests that must meet the limits", variable="attainment", unit="ratio",
        without="never NULL: share of requests that meet the limits", check=within(0.001, 0.999),
    )  # fmt: skip
    rate: float | None = option(
        None, "arrivals a second of one instance; capacity: of all together", variable="rate", unit="requests/s",
        without="no rate",
        check=above_zero(MOST_RATE),
    )  # fmt: skip
    by: str | None = option(None, "goodput: of requests that arrive, not of probes", check=one_of("goodput"))
    scale: bool = option(
        False, "attainment: over a common factor of the limits", flag="--scale", variable="scale",
        without="never NULL: whether limits get tighter and looser by one factor",
    )  # fmt: skip
    marginal: bool = option(
        False, "each limit by itself, not both at once", flag="--marginal", variable="marginal",
        without="never NULL: whether a share is that of each limit alone",
    )  # fmt: skip
    by_device: bool = option(
        False, "pareto: a frontier of each device, not one of all", flag="--by-device", variable="by_device",
        without="never NULL: whether each device has a frontier of its own",
    )  # fmt: skip
    max_points: int | None = option(
        None, "pareto: most points of a frontier, for pictures", variable="max_points", unit="points",
        without="every point", check=positive_whole(MOST_ROWS),
    )  # fmt: skip
    as_predicted: bool = option(
        False, "as predicted, without what own measured points say of it", flag="--as-predicted",
    )  # fmt: skip
    rows: Rows = option(
        "predicted", "predicted, measured, or both: measured settings are rows, too", check=one_of(*get_args(Rows))
    )
    top: int = option(
        10,
        "rows a group [default: 10; 40 of curves and steps]",
        variable="top",
        unit="rows",
        check=positive_whole(MOST_ROWS),
    )

    def __post_init__(self) -> None:
        check_declared(self)
        if len(self.vary) > 2 or len(set(self.vary)) < len(self.vary):
            raise InputError("sensitivity varies one limit, or two different ones")
        for name in self.vary:
            if (wrong := one_of(*_VARIED)(name)) is not None:
                raise InputError(f"`vary` {wrong}")
        for keyword, names in (("probes", self.probes), ("sweeps", self.sweeps)):
            if not (
                isinstance(names, tuple) and all(isinstance(name, str) and len(name) < MOST_LETTERS for name in names)
            ):
                raise InputError(f"`{keyword}` is a list of texts, not {shown(names)}")
        if not all(_is_share(one) for one in self.mix):
            raise InputError(f"`mix` is pairs of a workload and its weight, not {shown(self.mix)}")
        for name, weight in self.mix:
            if not 0 < weight <= MOST_WEIGHT:
                raise InputError(
                    f"`mix={name[:100]}={shown(weight)}`: a weight is a number above 0 and at most {MOST_WEIGHT:g}"
                )


def _is_share(one: object) -> bool:
    """A workload's name and a number."""
    if not isinstance(one, tuple) or len(one) != 2:
        return False
    return isinstance(one[0], str) and isinstance(one[1], Real) and not isinstance(one[1], bool)


PARTS: Mapping[str, type] = {
    "scope": Scope,
    "limits": Limits,
    "definitions": Definitions,
    "pairs": PairOptions,
    "options": ReportOptions,
}


@cache
def option_table() -> Mapping[str, Declared]:
    return {item.keyword: item for kind in PARTS.values() for item in declared(kind)}
