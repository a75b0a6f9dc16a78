"""How a server is started, whatever its engine: a program, flags, a file of settings, and what none of them says."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import yaml

from evaluator.inputs import LAUNCHERS, launchable_by, slices_blocks, stated_format
from store.errors import InputError
from store.schema import TIER_PLACES
from sweepdb.launching.flag_tables import FlagTable
from sweepdb.launching.stored_instance import GIB, RESERVE_GIB, StoredInstance

Engine = str  # one of ENGINES
Role = Literal["server", "prefill", "decode"]
ENGINES: tuple[Engine, ...] = tuple(LAUNCHERS)
TARGETS = ("shell", "compose", "k8s", "llm-d", "kserve", "dynamo")
ENGINE_NAMES: Mapping[str, str] = {name: launcher.title for name, launcher in LAUNCHERS.items()}
PORTS: Mapping[Role, int] = {"server": 8000, "prefill": 8100, "decode": 8200}
CONFIG_FILE = "engine.yaml"
PRODUCTION = "production-"  # before the names of files that start a server as one would run it
HEALTH = "/health"  # what every engine answers once it is ready
Settings = dict[str, str | None]  # flag to value, None for a flag that takes none
Files = dict[str, str]  # text by name


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCommand:
    """One server of a deployment as its engine starts it; `of_nodes` are the flags that differ from host to host."""

    role: Role
    instances: int
    instance: StoredInstance
    engine: Engine
    version: str
    image: str
    program: tuple[str, ...]
    settings: Mapping[str, str | None]
    of_nodes: Sequence[Mapping[str, str | None]] = ()
    config: Mapping[str, object] | None = None  # what a file of settings says
    devices: str  # how the devices come about, as arithmetic
    prefix: str = ""  # before the names of its files
    explained: tuple[str, ...] = ()  # limits that a server has otherwise than its row

    @property
    def port(self) -> str:
        """Where a server listens: start.sh says it of several."""
        return f"${{PORT:-{PORTS[self.role]}}}"

    @property
    def not_set(self) -> tuple[str, ...]:
        return assumed_of(self.instance)

    @property
    def several(self) -> bool:
        return self.role == "server" and self.instances > 1

    def words(self, node: int = 0) -> list[tuple[str, str | None]]:
        of_node = self.of_nodes[node] if self.of_nodes else {}
        return [*self.settings.items(), *of_node.items()]

    def config_files(self) -> Files:
        if self.config is None:
            return {}
        return {f"{self.prefix}{self.role}-{CONFIG_FILE}": yaml.safe_dump(dict(self.config), sort_keys=False)}


def bash_script(said: Iterable[str], lines: Iterable[str]) -> str:
    """A script that ends at its first fault, after comments."""
    return "\n".join(["#!/usr/bin/env bash", *(f"# {line}" for line in said), "set -euo pipefail", *lines, ""])


def one_by_one(flags: Iterable[tuple[str, str | None]]) -> list[str]:
    return [word for name, value in flags for word in ([name] if value is None else [name, value])]


@dataclass(slots=True, kw_only=True)
class Flags:
    """Flags being collected, each checked against the table of the engine's version."""

    table: FlagTable
    settings: Settings = field(default_factory=dict)

    def add(self, given: Mapping[str, object]) -> None:
        """Set flags: True is one without a value, and False or None leave it out.

        The table refuses what the version does not take."""
        for name, value in given.items():
            if value is not None and value is not False:
                text = None if value is True else str(value)
                self.table.check(name, text)
                self.settings[name] = text


def check_launchable(engine: Engine, instance: StoredInstance) -> None:
    device = instance.scenario.device
    if engine not in launchable_by(instance.model, instance.plan, instance.precision, cuda=device.cuda):
        plan, rule = instance.values["plan"], LAUNCHERS[engine].words
        if LAUNCHERS[engine].cuda_alone and not device.cuda:
            rule = f"it has no kernels for devices of {device.vendor}"
        elif slices_blocks(instance.model, instance.plan, instance.precision):
            rule = "a slice of an MLP must be whole blocks of the weights that share a scale"
        raise InputError(
            f"{ENGINE_NAMES[engine]} cannot start {plan} of {instance.probe} as one server: {rule}",
            hint="`sweepdb query best` shows who launches each row (launchable)",
        )
    if instance.plan.encoder_devices and not LAUNCHERS[engine].encoders_apart:
        raise InputError(
            f"{ENGINE_NAMES[engine]} reaches encoders on devices of their own through a proxy of its examples, which is"
            " not written",
            hint="`engine=sglang`",
        )


def share_of(numerator: int, denominator: int) -> float:
    """A share of memory in hundredths, rounded up so that the batch fits, and below 1."""
    return min(math.ceil(100.0 * numerator / denominator - 1e-9) / 100.0, 0.99)


def vllm_share(instance: StoredInstance) -> float:
    """vLLM's share is of the whole device, weights, cache and activations together; never into the reserve."""
    device = instance.bytes_of("device_memory")
    most = math.floor(100.0 * (1.0 - RESERVE_GIB * GIB / device)) / 100.0
    return min(share_of(instance.bytes_of("weight", "activation") + instance.cache_bytes, device), most)


def sglang_share(instance: StoredInstance) -> float:
    """SGLang's static share is of the whole device, weights and cache; activations come out of the rest."""
    return share_of(instance.bytes_of("weight") + instance.cache_bytes, instance.bytes_of("device_memory"))


def trtllm_share(instance: StoredInstance) -> float:
    """TensorRT-LLM's share is of what weights and activations leave free."""
    free = instance.bytes_of("device_memory") - instance.bytes_of("weight", "activation")
    return share_of(instance.cache_bytes, free)


def assumed_of(instance: StoredInstance) -> tuple[str, ...]:
    """Assumptions of the row that no flag of any engine says."""
    scenario = instance.scenario
    said = [
        f"memory of CUDA graphs: not counted, it comes out of the {RESERVE_GIB:g} GiB that stay free",
        "kernels of attention, products and collectives: those that the engine chooses by itself",
    ]
    if instance.model.routed:
        said.append(f"how tokens fall on experts: {scenario.routing.replace('_', ' ')}")
    if instance.workload.mtp_tokens:
        rates = ", ".join(f"{rate:g}" for rate in instance.workload.mtp_acceptance)
        said.append(f"how many drafted tokens are accepted: rates {rates}")
    if instance.workload.prefix_cache_hit_rate:
        said.append(f"prompts of which {instance.workload.prefix_cache_hit_rate:.0%} are in the prefix cache")
    if instance.workload.tiers:
        held = ", ".join(f"{tier.hit_rate:.0%} in {TIER_PLACES[tier.name]}" for tier in instance.workload.tiers)
        said.append(f"how much of a prompt lies outside the devices: {held}; sized for the prompts in flight alone")
    if (images := instance.workload.images) is not None:
        seen = f"{images.width}x{images.height} as {images.tokens} prompt tokens each"
        said.append(f"images of {seen}: as the model's own processor cuts them")
    elif instance.model.left_out:
        said.append(f"a part of the model that was not evaluated: {instance.model.left_out}")
    said += _of_formats(instance)
    return tuple(said)


def _of_formats(instance: StoredInstance) -> Iterator[str]:
    precision, model = instance.precision, instance.model
    native = model.native_linear
    if precision.linear.upper() != native.upper():
        yield (
            f"weights in {precision.linear}: the model is published in {native}; serve a checkpoint in that format, or"
            " what the engine quantises as it loads"
        )
    for part, form, own in (
        ("what mixes tokens", precision.mixers, model.native_mixers),
        ("the vocabulary head", precision.head, model.native_head),
        ("drafts", precision.drafts, model.native_drafts),
    ):
        if form is not None and form != own:
            yield f"{part} in {form}: a checkpoint decides that, and the model's own does not say it"


def caches_prompts(instance: StoredInstance) -> bool:
    """Whether prompts of the row are found in a cache, of the devices or outside."""
    return bool(instance.workload.kept_share())


def outside_bytes(instance: StoredInstance) -> int:
    share = sum(tier.hit_rate for tier in instance.workload.tiers)
    in_flight = instance.concurrency / instance.plan.dp
    return math.ceil(share * in_flight * instance.bytes_a_prompt)


def state_format(instance: StoredInstance, names: Mapping[str, str]) -> str | None:
    """The engine's name of the format of linear states; None for its own. No flag says an index'."""
    attention = instance.precision.attention
    if stated_format(attention, "index") is not None:
        raise InputError("no engine has a flag for the format of an index' keys", hint="leave `index` out")
    wanted = stated_format(attention, "states")
    if wanted is None:
        return None
    if wanted not in names:
        raise InputError(f"{instance.engine} has no flag for states in {wanted}", hint="leave `states` out")
    return names[wanted]


def kv_format(instance: StoredInstance, names: Mapping[str, str]) -> str | None:
    """The engine's name of the format of keys and values; None for the model's own. Others are refused."""
    wanted = instance.precision.cache.upper()
    if wanted == "DISABLED":
        return None
    if wanted not in names:
        raise InputError(f"no engine keeps keys and values in {wanted}", hint=f"known: {', '.join(names)}")
    return names[wanted]
