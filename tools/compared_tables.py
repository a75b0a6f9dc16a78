"""Tables and words of the page that sets ours beside other programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from evaluator.ledger import Exclusion, Figures
from sweepdb.measuring.validating import Validation

SHOWN = ("tpot", "ttft", "output_tokens_per_s")
STATED = {"tpot": "tpot_exclusive_ms", "ttft": "ttft_ms", "output_tokens_per_s": "output_tokens_per_s"}
CALLED = {"tpot": "TPOT", "ttft": "TTFT", "output_tokens_per_s": "tokens/s"}
HEADINGS = """| metric | rows | ours | bias | asked as they were | bias |
|---|---|---|---|---|---|"""


def chosen(found: Validation, left_out: Iterable[str] = ()) -> Iterator[str]:
    """How rows were chosen, and sentences on those that rules take out."""
    points = {one.record_key for one in found.of("asked")}
    taken = [one for one in found.excluded if not one.repaired]
    of = len(points) + sum(one.rows for one in taken)
    yield "* Chosen: every row that no rule takes out, badly tuned servers and short runs too."
    yield f"* Covered: {len(points)} of {of} rows. Left out: {_taken(taken)}."
    yield from (f"* {one}" for one in left_out)
    yield "* No other program's prediction of these rows is published."


def both(found: Validation, sent: Validation) -> Iterator[str]:
    """`found` as typed, `sent` as they were."""
    yield HEADINGS
    for metric in SHOWN:
        ours, known = found.figures_of(metric), sent.figures_of(metric, "known")
        if ours is not None and known is not None:
            yield f"| {CALLED[metric]} | {ours.rows} | {said(ours)} | {said(known)} |"


def said(one: Figures) -> str:
    return f"{one.median_ape:.1f}/{one.mean_ape:.1f}/{one.p90_ape:.1f} | {one.bias:+.1f}"


def _taken(excluded: Iterable[Exclusion]) -> str:
    return "; ".join(f"{one.rows}: {one.rule}" for one in excluded) or "none"
