"""Evaluate an LLM serving space once, keep every point, answer every later question as SQL. The Python face.

import sweepdb

sweepdb.evaluate("Qwen/Qwen3-32B-FP8", device="h200_sxm", num_devices=8, input_length=3500, output_length=1500)
with sweepdb.open() as store:
    store.best(tpot_limit=50).df()

sweepdb.plan("Qwen/Qwen3-32B-FP8", device="h200_sxm", total_devices=8, input_length=3500, output_length=1500,
             tpot_limit=50).best

Nothing prints unless `progress=True`. What is wrong with a call is an InputError that names the keyword."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from evaluator.sweep import Progress
    from queries.asking import Answer
    from store.errors import EvaluationError, InputError, StoreError, SweepdbError
    from sweepdb.deciding import Decision, decide
    from sweepdb.evaluating.running import Evaluation, evaluate
    from sweepdb.explaining import Explanation
    from sweepdb.measuring.functions import calibrate, calibrate_serving, validate
    from sweepdb.measuring.regressing import Regression
    from sweepdb.measuring.trending import Trends
    from sweepdb.measuring.validating import Validation
    from sweepdb.opened import OpenStore, open
    from sweepdb.planning import (
        DeploymentPlan,
        ExportedProfile,
        RatePlan,
        ServerPlan,
        export_profile,
        plan,
        plan_server,
    )
    from sweepdb.scheduling import DaySchedule, PoolSchedule, schedule, schedule_pool
    from sweepdb.sharing import export_bundle, import_bundle
    from sweepdb.statements import SqlRows
    from sweepdb.watching import Watched, watch

__all__ = [
    "Answer",
    "DaySchedule",
    "Decision",
    "DeploymentPlan",
    "Evaluation",
    "EvaluationError",
    "Explanation",
    "ExportedProfile",
    "InputError",
    "OpenStore",
    "PoolSchedule",
    "Progress",
    "RatePlan",
    "Regression",
    "ServerPlan",
    "SqlRows",
    "StoreError",
    "SweepdbError",
    "Trends",
    "Validation",
    "Watched",
    "calibrate",
    "calibrate_serving",
    "decide",
    "evaluate",
    "export_bundle",
    "export_profile",
    "import_bundle",
    "open",
    "plan",
    "plan_server",
    "schedule",
    "schedule_pool",
    "validate",
    "watch",
]

__getattr__, __dir__ = lazy_face(__name__)
