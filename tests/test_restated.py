"""The restated tables are still what the comparison data says; skipped where that is absent."""

from __future__ import annotations

import json
from dataclasses import replace

from restate import TABLES
from restated import DATA, config_of, model_names
from shared_data import ROOT, shared_data

from evaluator.inputs.architectures import spec_from_config
from evaluator.inputs.models import list_models

LARGEST = 2 * 10**6  # bytes of all tables


def test_every_table_is_restated_by_the_program_and_small():
    found = {path.name for path in DATA.iterdir()}
    assert found == {*TABLES, "published_runs.csv", "README.md"}  # gathered from public pages, not restated
    assert sum(path.stat().st_size for path in DATA.iterdir()) < LARGEST


def test_tables_are_what_the_comparison_data_says():
    shared_data("model_configs")
    changed = [name for name, restate in TABLES.items() if (DATA / name).read_text(encoding="utf-8") != restate(ROOT)]
    assert not changed, "python tests/restate.py lays them down again"


def test_restated_hyper_parameters_are_the_publishers_model():
    folder = shared_data("model_configs")
    for name in set(model_names()) & set(list_models()):
        theirs = json.loads((folder / f"{name.replace('/', '--')}.json").read_text(encoding="utf-8"))
        published = spec_from_config(theirs, name)  # image encoders are restated in a table of their own
        assert replace(spec_from_config(config_of(name), name), vision=published.vision) == published, name
