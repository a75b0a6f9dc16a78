"""Imports go one way: store <- evaluator, queries, migrations <- sweepdb <- cli; heavy packages stay where they belong."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAY_IMPORT = {
    "store": {"store"},
    "migrations": {"migrations", "store"},
    "evaluator": {"evaluator", "store"},
    "queries": {"queries", "store"},
    "sweepdb": {"sweepdb", "evaluator", "migrations", "queries", "store"},
    "cli": {"cli", "sweepdb", "store.errors", "store.texts"},  # what a person is told
}
TIMES = "evaluator/calibration/"


def modules():
    return sorted(path for package in MAY_IMPORT for path in (ROOT / package).rglob("*.py"))


def imported(path, nodes=None):
    """Return the absolute name of everything a module imports, wherever the import stands, or among some nodes."""
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    for node in nodes if nodes is not None else ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            yield ".".join([*base, *([node.module] if node.module else [])])


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_a_package_imports_only_what_it_may(package):
    others = set(MAY_IMPORT) - MAY_IMPORT[package]
    for path in (ROOT / package).rglob("*.py"):
        crossed = {
            name for name in imported(path) if name.partition(".")[0] in others and name not in MAY_IMPORT[package]
        }
        assert not crossed, f"{path.relative_to(ROOT)} imports {crossed}"


def test_the_check_sees_every_kind_of_import():
    assert len(modules()) > 40
    names = set(imported(ROOT / "cli" / "main.py")) | set(imported(ROOT / "store" / "writing" / "blocks.py"))
    assert {"store.schema.tables", "store.writing.arrays", "sqlalchemy"} <= names


def test_reading_uses_no_heavy_package():
    for path in (ROOT / "queries").rglob("*.py"):
        roots = {name.partition(".")[0] for name in imported(path)}
        heavy = roots & {"sqlalchemy", "alembic", "torch"}
        assert not heavy, f"{path.relative_to(ROOT)} imports {heavy}"


def test_torch_times_kernels_alone_and_is_imported_late():
    for path in modules():
        name = str(path.relative_to(ROOT))
        if "torch" in {item.partition(".")[0] for item in imported(path)}:
            assert name.startswith(TIMES), name
        at_the_top = {item.partition(".")[0] for item in imported(path, nodes=ast.parse(path.read_text()).body)}
        assert "torch" not in at_the_top or name == f"{TIMES}bench.py", name
