"""Rows of a profile, and the files of a planner made from them. Not here: asking for rows, and writing files.

A planner is a module beside this one with `PLANNERS`, names to a `Planner`; it is found by that."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence

from queries.asking import PARTS, Declared, declared, option_table
from store.errors import InputError
from store.light_dataclass import dataclass

_LONGEST_LABEL = 63  # of a name in Kubernetes


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRow:
    model: str
    device: str
    plan: str
    num_devices: int
    serving_model: str
    input_length: int | None
    output_length: float
    prefix_cache_hit_rate: float
    batch_size: int
    concurrency: int
    context_length: float
    max_kv_tokens: float | None
    ttft_ms: float | None
    itl_ms: float | None
    e2e_ms: float | None
    requests_per_s: float
    tokens_per_s_per_device: float
    within_limits: bool
    usd_per_device_hour: float | None
    scenario: str

    @property
    def where(self) -> str:
        return f"{self.plan} on {self.device}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileSource:
    """Rows, limits and names that a planner's files are made from."""

    rows: Mapping[str, Sequence[ProfileRow]]  # of one plan on one device, by phase
    limits_ms: Mapping[str, float]  # ttft, tpot, e2e: those that were given
    deployment: str
    namespace: str
    min_replicas: int
    max_replicas: int
    in_flight: float | None  # mean in flight in one instance at the highest simulated rate that keeps the limits
    attainment: float
    created_s: float  # since 1970

    @property
    def of_instances(self) -> Sequence[ProfileRow]:
        return self.rows["aggregated"]

    @property
    def usd_per_replica_hour(self) -> float | None:
        """Of an instance that does both; None without a price."""
        first = self.of_instances[0]
        return None if first.usd_per_device_hour is None else first.usd_per_device_hour * first.num_devices


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Files by name, and sentences on what they cannot say or leave to the user."""

    files: Mapping[str, bytes]
    unsaid: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """A reader of profiles: what it is called, the phases that it wants rows of, and what writes its files."""

    title: str
    phases: tuple[str, ...]
    make: Callable[[ProfileSource], Profile]
    loads: bool = False  # whether simulated arrivals say more than rows
    limits: bool = False  # whether it means nothing without limits
    takes: tuple[str, ...] = ()  # options beside filters, limits and the plans of its phases


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxKvTokens:
    """The tokens that the caches of an instance hold, and whether every length agrees."""

    tokens: int
    same: bool


REPLICAS = ("deployment", "min_replicas", "max_replicas", "attainment")  # of planners that scale by a threshold
_SAME = 0.02  # activations of a batch take a little of the room


def max_kv_tokens(rows: Sequence[ProfileRow]) -> MaxKvTokens:
    """Room of the caches as the longest context has it: windows and states make tokens of short ones dearer."""
    longest = max(row.context_length for row in rows)
    held = [(row.context_length, number_kept(row.max_kv_tokens, "max_kv_tokens")) for row in rows]
    tokens = min(count for context, count in held if context == longest)
    least = min(count for _, count in held)
    return MaxKvTokens(tokens=int(tokens), same=least >= (1 - _SAME) * tokens)


def served_name(model: str) -> str:
    """A model's name as Kubernetes takes it: `qwen3-32b-fp8` of `Qwen/Qwen3-32B-FP8`."""
    return re.sub("[^a-z0-9]+", "-", model.rpartition("/")[2].lower())[:_LONGEST_LABEL].strip("-") or "model"


def number_kept(value: float | None, column: str) -> float:
    if value is None:
        raise InputError(f"a stored row has no {column}", hint="evaluate it again: sweepdb evaluate ...")
    return value


def evaluate_command(row: ProfileRow, phase: str, **changed: object) -> str:
    options = {
        "device": row.device, "num_devices": row.num_devices, "mode": phase, "input_length": row.input_length,
        "output_length": f"{row.output_length:g}", **changed,
    }  # fmt: skip
    return f"sweepdb evaluate {row.model} " + " ".join(f"`{name}={value}`" for name, value in options.items())


def price_command(source: ProfileSource) -> str:
    return f"Enter one: sweepdb prices set {source.of_instances[0].device} `usd_per_device_hour=USD`."


ALSO_ASKED = ("price_date", "as_predicted")
_OF_ARRIVALS_ALONE = "tbt_limit"  # rows have no such time


@functools.cache
def profile_options() -> Mapping[str, Declared]:
    wanted = [item.keyword for part in ("scope", "limits") for item in declared(PARTS[part])]
    table = option_table()
    return {name: table[name] for name in (*wanted, *ALSO_ASKED) if name != _OF_ARRIVALS_ALONE}
