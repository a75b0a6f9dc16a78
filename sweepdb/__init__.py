"""Evaluate an LLM serving space once, keep every point, answer every later question as SQL. The Python face.

import sweepdb

sweepdb.evaluate("Qwen/Qwen3-32B-FP8", device="h200_sxm", num_devices=8, input_length=3500, output_length=1500)
with sweepdb.open() as store:
    store.best(tpot_limits=50).df()

Nothing prints unless `progress=True`. What is wrong with a call is an InputError that names the keyword."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from store.errors import EvaluationError, InputError, StoreError, SweepdbError

if TYPE_CHECKING:
    from evaluator.sweep import Progress
    from queries.asking import Answer
    from sweepdb.carrying import export_bundle, import_bundle
    from sweepdb.evaluating.running import Evaluation, evaluate
    from sweepdb.explaining import Explanation
    from sweepdb.measuring.functions import calibrate, calibrate_serving, validate
    from sweepdb.measuring.validating import Validation
    from sweepdb.opened import OpenStore, open
    from sweepdb.statements import SqlRows

__all__ = [
    "Answer",
    "Evaluation",
    "EvaluationError",
    "Explanation",
    "InputError",
    "OpenStore",
    "Progress",
    "SqlRows",
    "StoreError",
    "SweepdbError",
    "Validation",
    "calibrate",
    "calibrate_serving",
    "evaluate",
    "export_bundle",
    "import_bundle",
    "open",
    "validate",
]

_HOMES = {  # imported when they are first used: the evaluator, SQLAlchemy and DuckDB are heavy
    "Answer": "queries.asking.question",
    "Evaluation": "sweepdb.evaluating.running",
    "Explanation": "sweepdb.explaining",
    "OpenStore": "sweepdb.opened",
    "Progress": "evaluator.sweep",
    "SqlRows": "sweepdb.statements",
    "Validation": "sweepdb.measuring.validating",
    "calibrate": "sweepdb.measuring.functions",
    "calibrate_serving": "sweepdb.measuring.functions",
    "evaluate": "sweepdb.evaluating.running",
    "export_bundle": "sweepdb.carrying",
    "import_bundle": "sweepdb.carrying",
    "open": "sweepdb.opened",
    "validate": "sweepdb.measuring.functions",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'sweepdb' has no attribute {name!r}")
    found: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
