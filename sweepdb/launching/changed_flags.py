"""What starts one stored row otherwise than another: flags that change, and flags that go.

Not here: which flags a row has (vllm_flags, sglang_flags, trtllm_config)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from store.location import StoreLocation
from sweepdb.launching.engine_commands import command_of
from sweepdb.launching.server_command import Engine, ServerCommand
from sweepdb.launching.stored_instance import read_instance

# Where a server listens, and what follows from the batch and the lengths of a row: a server keeps its own.
_OF_A_ROW = {
    "--port", "--max-num-seqs", "--max-model-len", "--gpu-memory-utilization", "--max-cudagraph-capture-size",
    "--max-running-requests", "--context-length", "--mem-fraction-static", "--cuda-graph-max-bs-decode",
    "--cuda-graph-max-bs", "--no-enable-prefix-caching", "--disable-prefix-caching", "--disable-radix-cache",
    "--extra_llm_api_options", "max_batch_size", "max_seq_len", "kv_cache_config", "cuda_graph_config",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ChangedFlags:
    """Flags, or keys of settings, with their new values; those that a server has no more."""

    changes: Mapping[str, str | None]
    without: tuple[str, ...]


def changed_flags(location: StoreLocation, started: str, other: str, engine: Engine) -> ChangedFlags:
    """The difference from the server of one scenario to that of another, by their keys."""
    before, after = (_settings(location, key, engine) for key in (started, other))
    changes = {name: value for name, value in after.items() if name not in before or before[name] != value}
    return ChangedFlags(changes, tuple(name for name in before if name not in after))


def _settings(location: StoreLocation, scenario: str, engine: Engine) -> dict[str, str | None]:
    instance = read_instance(location, f"{scenario}:1", fitting=False)
    command: ServerCommand = command_of(engine, instance, "server", 1, None)
    config = {name: str(value) for name, value in (command.config or {}).items()}
    return {name: value for name, value in {**command.settings, **config}.items() if name not in _OF_A_ROW}
