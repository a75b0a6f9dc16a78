"""Faces of packages: names loaded when first used."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

_IMPORT = re.compile(r"^    from (\S+) import (\([^)]*\)|.+)$", re.MULTILINE)
_NEXT_STATEMENT = re.compile(r"^\S", re.MULTILINE)


def lazy_face(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__`, from the imports under `if TYPE_CHECKING`.

    Only users of heavy packages (NumPy, SQLAlchemy, DuckDB, torch) import them."""
    homes: dict[str, str] = {}

    def listed() -> dict[str, str]:
        if not homes:
            homes.update(_homes(Path(str(sys.modules[package].__file__))))
        return homes

    def get(name: str) -> object:
        if name == "__all__":
            return sorted(listed())
        if name not in listed():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found: object = getattr(import_module(listed()[name]), name)
        setattr(sys.modules[package], name, found)
        return found

    return get, lambda: sorted({*vars(sys.modules[package]), *listed()})


def _homes(file: Path) -> dict[str, str]:
    _, _, rest = file.read_text(encoding="utf-8").partition("\nif TYPE_CHECKING:\n")
    listed, *_ = _NEXT_STATEMENT.split(rest, maxsplit=1)
    return {
        name.strip(): module
        for module, names in _IMPORT.findall(listed)
        for name in names.strip("()").split(",")
        if name.strip()
    }
