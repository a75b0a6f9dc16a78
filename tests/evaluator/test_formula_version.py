"""Numbers that are stored must not drift: a fixed grid of them is compared with what this formula version gave.

When a formula changes on purpose, raise FORMULA_VERSION (and CAPTURE_VERSION where operators change), or upstream's own
where only its rows do, and lay the grid down again: python tests/evaluator/test_formula_version.py. Cases are in
tests/formula_cases.py."""

from __future__ import annotations

import functools
import importlib
import json
import pkgutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from evaluator.scenario import serving_engine

# Where packages and cases lie when this is run as a program: the root first, for tests/evaluator is no package.
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))

from formula_cases import FAMILIES, LENGTHS, kind_of_lengths, numbers, span

from evaluator import serving
from evaluator.serving.batches import BatchSource
from evaluator.serving.models import list_serving_models
from evaluator.serving.waves.side_by_side import SideBySide
from evaluator.version import FORMULA_VERSION, UPSTREAM_FORMULA_VERSION
from store.schema import FORMULA_MODELS, Family

GOLDEN = Path(__file__).with_name("golden") / "formula_numbers.json"
JOINED = {SideBySide}  # of lengths that are cases alone: tests/evaluator/test_side_by_side.py has them together
ROUNDED = {"own fit": 1e-4}  # relative error of cases that are rounded, or end where a search stops


@functools.cache
def kept() -> dict[str, dict[str, list[float | None]]]:
    return json.loads(GOLDEN.read_text(encoding="utf-8"))


@pytest.mark.parametrize("serving", list_serving_models())
def test_a_serving_model_that_no_engine_serves_in_is_declared_a_formula(serving):
    """Questions know a name alone, and take every other for an engine's."""
    scenario = replace(span("theoretical", serving, "fixed", "aggregated"), engine=None)
    assert (serving_engine(scenario) is None) == (serving in FORMULA_MODELS)


def test_stored_numbers_change_only_with_the_formula_version():
    golden = kept()
    versions = [golden["formula_version"], golden["upstream_formula_version"]]
    assert versions == [FORMULA_VERSION, UPSTREAM_FORMULA_VERSION], (
        "lay the grid down again for the new formula version"
    )
    got = numbers()
    assert got.keys() == golden["numbers"].keys(), "lay the grid down again for the cases that came or went"
    changed = [
        (case, column)
        for case, columns in golden["numbers"].items()
        for column in columns.keys() | got[case].keys()
        if got[case].get(column) != pytest.approx(columns.get(column), rel=ROUNDED.get(case, 1e-9), abs=0.0)
    ]
    assert not changed, f"raise the formula version: {len(changed)} columns changed, such as {min(changed)}"


@pytest.mark.parametrize("serving", [*list_serving_models(), "pair"])
def test_every_serving_model_has_a_case_with_numbers(serving):
    cases = {name for name, columns in kept()["numbers"].items() if columns}
    assert any(serving in name.split(", ")[:2] for name in cases), "give it a case in tests/formula_cases.py"


def test_cost_families_serving_models_and_lengths_are_spanned():
    assert set(FAMILIES) == set(get_args(Family)), "give the new cost family a device in tests/formula_cases.py"
    cases = {tuple(name.split(", ")[:3]) for name in kept()["numbers"]}
    missing = {
        (family, serving, lengths)
        for family in get_args(Family)
        for serving in list_serving_models()
        for lengths in LENGTHS
        if (family, serving, lengths) not in cases
    }
    assert not missing


def batch_sources() -> set[str]:
    """Classes of evaluator.serving that have everything a batch source has."""
    asked = {name for name in vars(BatchSource) if not name.startswith("_")}
    modules = [
        importlib.import_module(item.name) for item in pkgutil.walk_packages(serving.__path__, "evaluator.serving.")
    ]
    classes = {found for module in modules for found in vars(module).values() if isinstance(found, type)}
    return {found.__name__ for found in classes - {BatchSource, *JOINED} if asked <= {*dir(found)}}


def test_every_source_of_batches_has_a_kind_of_lengths_whole_and_cut():
    kinds = {kind_of_lengths(lengths) for lengths in LENGTHS}
    assert kinds == {(source, cut) for source in batch_sources() for cut in (False, True)}


if __name__ == "__main__":
    GOLDEN.parent.mkdir(exist_ok=True)
    versions = {"formula_version": FORMULA_VERSION, "upstream_formula_version": UPSTREAM_FORMULA_VERSION}
    text = json.dumps({**versions, "numbers": numbers()}, sort_keys=True, separators=(",", ":"))
    text = text.replace("},", "},\n")
    GOLDEN.write_text(text + "\n", encoding="utf-8")
