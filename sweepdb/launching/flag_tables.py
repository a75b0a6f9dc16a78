"""Engines' flags by version, from their parsers (`python -m tools.engine_flags`).

TensorRT-LLM's by hand: its parser needs a GPU. Sources: nvidia.github.io/TensorRT-LLM/commands/trtllm-serve and
github.com/NVIDIA/TensorRT-LLM, tensorrt_llm/commands/serve.py."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from store.errors import InputError

FOLDER = Path(__file__).parent / "flags"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """Names, kind of value, and choices."""

    names: tuple[str, ...]
    takes: str  # nothing, int, float, str, text (JSON or a type of the engine's own); with s: several
    choices: tuple[str, ...] | None = None
    deprecated: bool = False

    def refusal(self, value: str | None) -> str | None:
        if (value is None) != (self.takes == "nothing"):
            return "takes no value" if self.takes == "nothing" else "takes a value"
        if self.choices is not None and value not in self.choices:
            return f"{value} is not one of {', '.join(self.choices)}"
        kinds = {"int": int, "float": float}
        if value is not None and self.takes in kinds:
            try:
                kinds[self.takes](value)
            except ValueError:
                return f"{value} is no {self.takes}"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagTable:
    engine: str
    version: str
    flags: Mapping[str, Flag]  # by every name

    def has(self, name: str) -> bool:
        return name in self.flags

    def spelled(self, name: str) -> str:
        """As the engine does, whichever of _ and - was typed."""
        dashed = name.replace("_", "-")
        return next((known for known in self.flags if known.replace("_", "-") == dashed), dashed)

    def first(self, *names: str) -> str:
        known = [name for name in names if name in self.flags]
        if not known:
            raise InputError(f"{self.engine} {self.version} has none of {', '.join(names)}")
        return next((name for name in known if not self.flags[name].deprecated), known[0])

    def check(self, name: str, value: str | None) -> None:
        if name not in self.flags:
            raise InputError(f"{self.engine} {self.version} has no flag {name}")
        if (wrong := self.flags[name].refusal(value)) is not None:
            raise InputError(f"{self.engine} {self.version}: {name} {wrong}")


@cache
def versions(engine: str) -> tuple[str, ...]:
    found = [path.stem.removeprefix(f"{engine}-") for path in FOLDER.glob(f"{engine}-*.json")]
    return tuple(sorted(found, key=_order, reverse=True))


@cache
def flag_table(engine: str, version: str | None = None) -> FlagTable:
    known = versions(engine)
    if version is not None and not all(part.isdecimal() for part in version.split("rc")[0].split(".")):
        raise InputError(f"`engine_version={version}` is no version", hint=f"such as {known[0]}")
    chosen = known[0] if version is None else next((one for one in known if _order(one) <= _order(version)), None)
    if chosen is None:
        raise InputError(
            f"{engine} {version} is older than the flags that are known", hint=f"known: {', '.join(known)}"
        )
    rows = json.loads((FOLDER / f"{engine}-{chosen}.json").read_text(encoding="utf-8"))["flags"]
    flags = [
        Flag(
            names=tuple(row["names"]),
            takes=row["takes"],
            choices=tuple(row["choices"]) if "choices" in row else None,
            deprecated=row.get("deprecated", False),
        )
        for row in rows
    ]
    return FlagTable(engine=engine, version=chosen, flags={name: flag for flag in flags for name in flag.names})


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.replace("rc", ".").split(".") if part.isdecimal())
