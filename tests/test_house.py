"""Rules that keep the house in order: sizes of folders, names, circles, closed sets, typed rows."""

import ast
import re
import subprocess
from collections import Counter, defaultdict
from typing import get_args

import pytest
from quick import LATER, STALE, listed
from test_import_direction import MAY_IMPORT, ROOT, imported

from store.schema import declaring

MOST_MODULES = 15
EVERYWHERE = {  # what a module of its kind is called by
    "main",  # a program of tools
    "register",  # commands of a group
    "linear", "pointwise",  # what a block emits, and the operator that it emits
}  # fmt: skip
OWNED = {  # closed sets that the store owns, by name
    name: get_args(getattr(declaring, name))
    for name in ("Phase", "Convention", "Status", "SweepKind", "SweepOutcome", "Family", "TierName")
}


FOLDERS = {".ci", ".github", "docs", "tests", "tools", *MAY_IMPORT}


def test_the_top_level_holds_the_packages_and_nothing_that_a_command_left_there():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a checkout of git")
    assert {name.partition("/")[0] for name in listed.stdout.splitlines() if "/" in name} == FOLDERS


def modules(package):
    """Every module of a package but the faces of folders."""
    return sorted(path for path in (ROOT / package).rglob("*.py") if path.name != "__init__.py")


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_a_folder_is_taken_in_at_a_glance(package):
    sizes = Counter(str(path.parent.relative_to(ROOT)) for path in modules(package) if path.parent.name != "versions")
    for folder, size in sizes.items():
        assert size <= MOST_MODULES, f"{folder} has {size} modules"


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_no_module_name_stands_twice_in_a_package(package):
    names = Counter(path.stem for path in modules(package))
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("package", sorted(set(MAY_IMPORT) - {"migrations"}))
def test_no_public_name_stands_twice_in_a_package(package):
    names = Counter(
        node.name
        for path in modules(package)
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name for name, count in names.items() if count > 1} <= EVERYWHERE


def module_names(path, package):
    """The modules of a package that a module imports, wherever the import stands, but not for types alone."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []
    return {name for name in imported(path, ast.walk(tree)) if name.startswith(f"{package}.")}


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_the_modules_of_a_package_import_each_other_in_one_direction(package):
    files = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in (ROOT / package).rglob("*.py")
    }
    left = {name: module_names(path, package) & files.keys() - {name} for name, path in files.items()}
    while free := [name for name, needed in left.items() if not needed & left.keys()]:
        for name in free:
            del left[name]
    assert not left, f"circles among {sorted(left)}"


def constants(node):
    """The texts of a literal type or a display of texts, in their order: another order is a preference, not the set."""
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "Literal":
        node = node.slice
    if not isinstance(node, ast.Tuple | ast.List | ast.Set):
        return None
    return tuple(getattr(item, "value", None) for item in node.elts)


def test_a_closed_set_of_the_store_is_defined_once():
    found, owners = defaultdict(set), {values: name for name, values in OWNED.items()}
    for package in ("store", "evaluator", "queries", "sweepdb", "cli"):
        for path in modules(package):
            for node in ast.walk(ast.parse(path.read_text())):
                if (name := owners.get(constants(node))) is not None:
                    found[name].add(str(path.relative_to(ROOT)))
    assert found == {name: {"store/schema/declaring.py"} for name in OWNED}


@pytest.mark.parametrize("package", ["store", "queries", "sweepdb"])
def test_rows_of_transactions_are_typed(package):
    for path in modules(package):
        assert "int(str(" not in path.read_text(), path


def test_nothing_asks_a_report_for_its_name():
    """What a report is and shows stands in its header; the drop-in's tables are of fixed reports."""
    for package in ("queries", "sweepdb", "cli"):
        for path in modules(package):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute):
                    named = any(isinstance(getattr(other, "value", None), str) for other in node.comparators)
                    assert not (named and node.left.attr == "report"), f"{path}:{node.lineno}"


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_a_module_that_another_points_to_is_there(package):
    """`Not here: ... (queries.scoping.scope)` names a module, a folder, or a name in one."""
    pointed = re.compile(rf"\(({'|'.join(MAY_IMPORT)})((?:\.[a-z_]+)+)\)")
    for path in (ROOT / package).rglob("*.py"):
        for root, rest in pointed.findall(ast.get_docstring(ast.parse(path.read_text())) or ""):
            place = ROOT.joinpath(root, *rest.strip(".").split("."))
            found = (place.with_suffix(".py"), place, place.with_suffix(".md"), place.parent.with_suffix(".py"))
            assert any(one.exists() for one in found), f"{path.relative_to(ROOT)} points to {root}{rest}"


def test_a_case_that_is_listed_for_later_is_one_of_a_test(request):
    assert request.config.stash[STALE] == []
    for case in set().union(*map(listed, LATER)):
        file, _, name = case.partition("[")[0].partition("::")
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), case
