"""A store open for questions and evaluation (reports: queries.notebook)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Unpack

from queries.asking import Answer, question_of
from queries.notebook import Notebook
from store.errors import InputError
from store.sweep_list import SweepSummary, list_sweeps
from sweepdb import deciding, measuring
from sweepdb.deciding.decision import BUDGET, GAIN, MODE, REPORT
from sweepdb.evaluating.option_values import with_declared_keywords
from sweepdb.length_scope import with_lengths
from sweepdb.statements import TIMEOUT_S, SqlRows, rows_of, statement_limits

if TYPE_CHECKING:
    from evaluator.sweep import Progress
    from sweepdb.evaluating.evaluate_keywords import EvaluateKeywords
    from sweepdb.evaluating.running import Evaluation
    from sweepdb.explaining import Explanation


class OpenStore(Notebook):
    """A store open for questions: every report is a method, `sql` takes a statement, `evaluate` adds rows."""

    def report(self, name: str, **options: object) -> Answer:
        """Any report by its name; `input_length` may be the file of a length distribution."""
        return super().report(name, **with_lengths(options, self._session.location.url))

    def sql(
        self,
        statement: str,
        *,
        param: Mapping[str, object] | None = None,
        timeout: float = TIMEOUT_S,
        memory_limit: float | None = None,
    ) -> SqlRows:
        """The rows of one read-only SELECT, within `timeout` seconds and `memory_limit` GiB.

        `param` has the values of its named parameters: `sql("... <= $ttft", param={"ttft": 2000})`."""
        return rows_of(self._session.location, statement, statement_limits(timeout, memory_limit), param)

    def explain(self, probe: str, other: str | None = None, *, step: str | None = None) -> Explanation:
        """The operators of a stored step (`a1b2c3d4:175`), or of two probes; `step` is encode, prefill or decode."""
        from sweepdb.explaining import explain_probes

        asked = [probe] if other is None else [probe, other]
        for keyword, one in zip(("probe", "other"), asked, strict=False):
            if not isinstance(one, str):
                raise InputError(f"`{keyword}` must be a reference such as a1b2c3d4:175, not {one!r}")
        return explain_probes(asked, self._session.location.url, step=step)

    def decide(
        self, *, budget: int = BUDGET, gain: float = GAIN, mode: str = MODE, **options: object
    ) -> deciding.Decision:
        """The deployment to choose now, and the runs worth most: options are those of `deployments`.

        `mode` names the servers to decide among: aggregated, pd (disaggregated), or both."""
        asked = question_of(REPORT, with_lengths(options, self._session.location.url))
        return deciding.decided(self._session, asked, budget=budget, gain=gain, mode=mode)

    def regress(
        self, *, baseline: str, against: str, model: str | None = None, device: str | None = None
    ) -> measuring.Regression:
        """Changes between two sides, the surely worse first: each a tag, an engine's version, days or a sweep."""
        return measuring.regressions(
            self._session.location.url, baseline=baseline, against=against, model=model, device=device
        )

    def trends(self, *, model: str | None = None, device: str | None = None) -> measuring.Trends:
        """Measured settings over their days, with the steps of each."""
        return measuring.trends(self._session.location.url, model=model, device=device)

    def sweeps(self, limit: int = 20) -> list[SweepSummary]:
        """Requests to evaluate, validations and imports, the newest first."""
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise InputError(f"`limit` must be a positive whole number, not {limit!r}")
        return list_sweeps(self._session.location, limit=limit)

    def evaluate(
        self,
        model: str | Sequence[str] | None = None,
        *,
        sweep: str | os.PathLike[str] | None = None,
        from_deployment: str | None = None,
        label: str | None = None,
        jobs: int = 8,
        workers: str | None = None,
        progress: bool | Callable[[Progress], None] = False,
        **options: Unpack[EvaluateKeywords],
    ) -> Evaluation:
        """Evaluate into this store, as `sweepdb.evaluate` does; later questions see the new rows."""
        from sweepdb.evaluating.running import evaluate

        url = self._session.location.url
        try:
            return evaluate(
                model,
                sweep=sweep,
                from_deployment=from_deployment,
                store=url,
                label=label,
                jobs=jobs,
                workers=workers,
                progress=progress,
                **options,
            )
        finally:
            self.refresh()


with_declared_keywords(OpenStore.evaluate)


def open(url: str | os.PathLike[str] | None = None) -> OpenStore:  # noqa: A001  the documented name
    """The store at `url` (default: SWEEPDB_STORE, else sweepdb.sqlite here); use it in a `with` block."""
    return OpenStore(url)
