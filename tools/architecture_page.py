"""The pictures of docs/explanation/architecture.md, drawn from the imports of the packages.

    python -m tools.architecture_page docs/explanation/architecture.md

writes them between their markers; a test compares. Arrows that follow from others are left out."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("store", "migrations", "evaluator", "queries", "sweepdb", "cli", "tools")
PICTURE = re.compile(r"<!-- picture of (\S+) -->\n.*?<!-- end of picture -->\n", re.DOTALL)

Arrows = Mapping[str, set[str]]


def with_pictures(page: str) -> str:
    """`packages`, or the parts of one package."""
    return PICTURE.sub(lambda found: _between_markers(found[1]), page)


def _between_markers(name: str) -> str:
    arrows = package_arrows() if name == "packages" else part_arrows(name)
    return f"<!-- picture of {name} -->\n{_drawn(arrows)}<!-- end of picture -->\n"


def package_arrows() -> Arrows:
    """Package -> packages that it imports."""
    return {
        package: {name.partition(".")[0] for path in _modules(package) for name in _imported(path)}
        & set(PACKAGES) - {package}
        for package in PACKAGES
    }


def part_arrows(package: str) -> Arrows:
    """Folder or module -> those beside it that it imports."""
    arrows: dict[str, set[str]] = {}
    for path in _modules(package):
        parts = path.relative_to(ROOT / package).with_suffix("").parts
        if parts == ("__init__",):
            continue  # the face stands for all of them
        own = arrows.setdefault(parts[0], set())
        for name in _imported(path):
            imported = name.split(".")
            if imported[0] == package and len(imported) > 1 and imported[1] != parts[0]:
                own.add(imported[1])
    return arrows


def _modules(package: str) -> Iterator[Path]:
    return (path for path in sorted((ROOT / package).rglob("*.py")) if "versions" not in path.parts)


@cache
def _imported(path: Path) -> tuple[str, ...]:
    """Anywhere in a module, but not for types alone."""
    return tuple(_found(ast.parse(path.read_text(encoding="utf-8"))))


def _found(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            folder = ROOT / node.module.replace(".", "/")
            if folder.is_dir():  # names of a folder's face, or modules in it
                yield from (f"{node.module}.{alias.name}" for alias in node.names if _is_module(folder, alias.name))
            yield node.module


def _is_module(folder: Path, name: str) -> bool:
    return (folder / f"{name}.py").is_file() or (folder / name).is_dir()


def _drawn(arrows: Arrows) -> str:
    """Mermaid, with the imported below."""
    lines = ["```mermaid", "graph TD"]
    for name, targets in sorted(arrows.items()):
        direct = targets - {further for target in targets for further in _reached(arrows, target)}
        lines += [f"    {name} --> {target}" for target in sorted(direct)] or [f"    {name}"]
    return "\n".join([*lines, "```"]) + "\n"


def _reached(arrows: Arrows, start: str) -> set[str]:
    """By one arrow or more."""
    found: set[str] = set()
    waiting = list(arrows.get(start, ()))
    while waiting:
        name = waiting.pop()
        if name not in found and name != start:
            found.add(name)
            waiting.extend(arrows.get(name, ()))
    return found


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(with_pictures(file.read_text(encoding="utf-8")), encoding="utf-8")
