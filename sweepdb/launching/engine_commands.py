"""The command of a server by its engine: a module beside this one that has `COMMANDS` is found."""

from __future__ import annotations

import functools
import pkgutil
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

from sweepdb.launching.server_command import Engine, Role, ServerCommand
from sweepdb.launching.stored_instance import StoredInstance


def command_of(
    engine: Engine, instance: StoredInstance, role: Role, instances: int, version: str | None
) -> ServerCommand:
    """The command that starts an instance under an engine, in a version or the newest."""
    return _by_engine()[engine](instance, role, instances, version)


@functools.cache
def _by_engine() -> Mapping[Engine, Callable[[StoredInstance, Role, int, str | None], ServerCommand]]:
    package = __name__.rpartition(".")[0]
    modules = (import_module(f"{package}.{item.name}") for item in pkgutil.iter_modules([str(Path(__file__).parent)]))
    return {name: write for module in modules for name, write in getattr(module, "COMMANDS", {}).items()}
