"""The command of a stored row, and its flags apart from the plan: a server to run has others, and two rows differ."""

from __future__ import annotations

import functools
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

from store.location import StoreLocation
from sweepdb.launching.reading.found_server import mapping
from sweepdb.launching.server_command import CONFIG_FILE, PRODUCTION, Engine, Role, ServerCommand
from sweepdb.launching.stored_instance import StoredInstance, read_instance


def command_of(
    engine: Engine, instance: StoredInstance, role: Role, instances: int, version: str | None
) -> ServerCommand:
    return _by_engine()[engine](instance, role, instances, version)


@functools.cache
def _by_engine() -> Mapping[Engine, Callable[[StoredInstance, Role, int, str | None], ServerCommand]]:
    package = __name__.rpartition(".")[0]
    modules = (import_module(f"{package}.{item.name}") for item in pkgutil.iter_modules([str(Path(__file__).parent)]))
    return {name: write for module in modules for name, write in getattr(module, "COMMANDS", {}).items()}


# Flags that bind a server to the row: its users, the longest of its requests, their memory, and no cache of prompts.
OF_A_ROW = {
    "--max-num-seqs", "--max-model-len", "--gpu-memory-utilization", "--max-cudagraph-capture-size",
    "--no-enable-prefix-caching", "--disable-prefix-caching",
    "--max-running-requests", "--context-length", "--mem-fraction-static", "--cuda-graph-max-bs-decode",
    "--cuda-graph-max-bs", "--disable-radix-cache",
    "max_batch_size", "max_seq_len", "kv_cache_config.free_gpu_memory_fraction", "kv_cache_config.enable_block_reuse",
}  # fmt: skip
_ALSO_APART = {"--port", "--extra_llm_api_options", "kv_cache_config", "cuda_graph_config"}
EAGER: Mapping[Engine, tuple[str, ...]] = {
    "vllm": ("--enforce-eager",),
    "sglang": ("--disable-cuda-graph", "--disable-decode-cuda-graph", "--cuda-graph-backend-decode"),
    "trtllm": ("cuda_graph_config",),
}
_THOUSAND = 1024  # tokens
_MOST = 0.9  # of memory, to serve with: graphs need some, too


def _of_whole(share: float, device: int, weights: int, activations: int) -> float:
    return share * device - weights - activations


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """The memory and requests that an engine takes where nothing is said, and the flags that say them."""

    usual_share: float = 0.9  # of memory
    room: Callable[[float, int, int, int], float] = _of_whole  # for keys: of (share, device, weights, activations)
    share: str | None = None  # what says the share of memory, by name: a flag, or a setting of its file
    length: str | None = None  # the longest request
    seats: str = "--max-num-seqs"  # requests at once
    share_is_said: bool = False  # in production, too: where nothing is said it is another one

    @property
    def length_flag(self) -> str | None:
        return self.length if self.length is not None and self.length.startswith("--") else None


# Shares are vLLM's and TensorRT-LLM's own, and about what SGLang works out on 80 GB. Rooms undo the shares of rows
# (server_command).
_HOLDING: Mapping[Engine, Holding] = {
    "vllm": Holding(usual_share=0.92, share="--gpu-memory-utilization", length="--max-model-len", share_is_said=True),
    "sglang": Holding(
        usual_share=0.87,
        room=lambda share, device, weights, _: share * device - weights,
        share="--mem-fraction-static",
        length="--context-length",
        seats="--max-running-requests",
    ),
    "trtllm": Holding(
        room=lambda share, device, weights, activations: share * (device - weights - activations),
        share="free_gpu_memory_fraction",
        length="max_seq_len",
        seats="max_batch_size",
    ),
}


def holding(engine: Engine) -> Holding:
    """How an engine takes memory and requests; of one that nobody wrote down, a share of the whole device."""
    return _HOLDING.get(engine, Holding())


def cache_room(engine: Engine, share: float, *, device: int, weights: int, activations: int) -> int:
    """Bytes of a device that an engine keeps for keys and values at its own kind of share."""
    return max(int(holding(engine).room(share, device, weights, activations)), 0)


def production(command: ServerCommand) -> ServerCommand:
    """The command without what reproduces the row alone. Requests may be as long as those of the workload."""
    instance, engine = command.instance, command.engine
    kept: dict[str, str | None] = {name: one for name, one in command.settings.items() if name not in OF_A_ROW}
    longest, held = _longest_served(instance, engine), holding(engine)
    if held.share is not None and held.share_is_said:
        kept[held.share] = f"{_share(engine):g}"
    if held.length_flag is not None:
        kept[held.length_flag] = str(longest)
    config = None
    if command.config is not None:
        cache = {**mapping(command.config["kv_cache_config"]), "free_gpu_memory_fraction": _share(engine)}
        config = {name: one for name, one in command.config.items() if name not in {"max_batch_size", "max_seq_len"}}
        config |= {"kv_cache_config": {**cache, "enable_block_reuse": True}, "max_seq_len": longest}
        config |= {"cuda_graph_config": {"enable_padding": True}} if config["cuda_graph_config"] else {}
        kept["--extra_llm_api_options"] = f"{PRODUCTION}{command.role}-{CONFIG_FILE}"
    served = replace(command, settings=kept, config=config, prefix=PRODUCTION)
    return replace(served, explained=tuple(_explained(command, served)))


def _explained(row: ServerCommand, served: ServerCommand) -> Iterator[str]:
    held = holding(row.engine)
    if held.share is not None and held.length is not None:  # else nobody wrote them down
        yield from _limits_explained(row, served, held.share, held.length, held.seats)
    hits = row.instance.workload.kept_share()
    yield f"Prefix cache: on; the row was predicted {f'with {hits:.0%} of a prompt in it' if hits else 'without'}."


def _limits_explained(
    row: ServerCommand, served: ServerCommand, memory: str, length: str, number: str
) -> Iterator[str]:
    now, before = _settings_of(served), _settings_of(row)
    own = f"{memory} {now[memory]}" if memory in now else f"the engine's own share, about {_share(row.engine):g}"
    yield f"Memory: {own}; the row alone needs {before[memory]}."
    yield (
        f"Length: {length} {now[length]}: the workload's longest request has {row.instance.longest_tokens:,} tokens;"
        " longer ones are turned away."
    )
    yield f"Longest that would fit: {_fitting_length(row.instance, row.engine)}."
    yield f"Requests at once: the engine's own number; the row has {number} {before[number]}."


def _settings_of(command: ServerCommand) -> Mapping[str, object]:
    config = dict(command.config or {})
    return {**command.settings, **config, **mapping(config.get("kv_cache_config"))}


def _share(engine: Engine) -> float:
    return min(_MOST, holding(engine).usual_share)


def _longest_served(instance: StoredInstance, engine: Engine) -> int:
    """The workload's longest request in whole thousands of tokens (1,024), no longer than model and cache hold."""
    rounded = -(-instance.context_tokens // _THOUSAND) * _THOUSAND
    known = (instance.model.max_positions, _held(instance, engine))
    return max(instance.context_tokens, min(rounded, *(one for one in known if one is not None)))


def _held(instance: StoredInstance, engine: Engine) -> int | None:
    """Tokens of the longest request that the cache holds alone; None where requests keep none there."""
    room = cache_room(
        engine,
        _share(engine),
        device=instance.bytes_of("device_memory"),
        weights=instance.bytes_of("weight"),
        activations=instance.bytes_of("activation"),
    )
    one = instance.cache_bytes / instance.requests_a_replica
    return int(room / one * instance.longest_tokens) if one else None


def _fitting_length(instance: StoredInstance, engine: Engine) -> str:
    most, held = instance.model.max_positions, _held(instance, engine)
    if held is not None and (most is None or held < most):
        return f"{max(held // 1000 * 1000, instance.context_tokens):,} tokens, which the cache holds"
    return "as long as the model takes" if most is None else f"{most:,} tokens, the model's own longest"


@dataclass(frozen=True, slots=True)
class ChangedFlags:
    """Flags, or keys of settings, with their new values; those that a server has no more."""

    changes: Mapping[str, str | None]
    without: tuple[str, ...]


def changed_flags(location: StoreLocation, started: str, other: str, engine: Engine) -> ChangedFlags:
    before, after = (_settings(read_instance(location, probe, fitting=False), engine) for probe in (started, other))
    changes = {name: value for name, value in after.items() if name not in before or before[name] != value}
    return ChangedFlags(changes, tuple(name for name in before if name not in after))


def _settings(instance: StoredInstance, engine: Engine) -> dict[str, str | None]:
    command: ServerCommand = command_of(engine, instance, "server", 1, None)
    config = dict(command.config or {})
    cache = {f"kv_cache_config.{name}": value for name, value in mapping(config.get("kv_cache_config")).items()}
    said = {**command.settings, **{name: str(value) for name, value in {**config, **cache}.items()}}
    return {name: value for name, value in said.items() if name not in OF_A_ROW | _ALSO_APART}
