"""Options and sweep files into requests, and those into the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from evaluator.request import SweepRequest
    from evaluator.sweep import Progress, SweepReport
    from evaluator.version import FORMULA_VERSION
    from sweepdb.evaluating.bandwidth import BANDWIDTH_COLUMNS, BANDWIDTH_DEVICES, prefix_transfer
    from sweepdb.evaluating.option_values import check_jobs, kind_of, options_by_keyword, options_of, takes_numbers
    from sweepdb.evaluating.requests import build_request
    from sweepdb.evaluating.running import check_outcome, count_request, run_request
    from sweepdb.evaluating.sweep_file import sweep_schema
    from sweepdb.evaluating.workloads import add_workload, listed_workloads, shown_workload

__getattr__, __dir__ = lazy_face(__name__)
