"""The columns of an answer that a person's table can need: looking up the hundred others of a row takes as long again.

Not here: which of them a table shows (queries.asking.headers), and what is said beside it (cli.render)."""

from __future__ import annotations

from collections.abc import Collection

from queries.asking.headers import Report
from queries.asking.variables import literal

# What groups and ranks rows, refers to them, is judged beside them or said below them.
_BESIDE = frozenset(
    f"{side}{name}"
    for side in ("", "prefill_", "decode_")
    for name in (
        "question_group", "ranked_by", "users", "probe", "scenario", "device", "plan", "instances", "ttft_ms",
        "ttft_in_step_ms", "tpot_ms", "e2e_ms", "tokens_per_s_per_user", "output_tokens_per_s", "memory_free_bytes",
        "input_length_mean", "realised_input_length_mean", "usd_per_device_hour", "relax_to", "admitted_then",
    )
)  # fmt: skip


def told_columns(report: Report) -> frozenset[str] | None:
    """The columns that tables of a report show under any options, and what is said beside them; None for all."""
    if "" not in report.shows or report.verdict is not None or report.best_of is not None:
        return None
    return _BESIDE.union(one.name for shown in report.shows.values() for one in shown)


def only_columns(sql: str, columns: Collection[str]) -> str:
    """A statement that yields those of its columns alone; DuckDB reads no others, and keeps the order of rows."""
    wanted = literal(sorted(columns))
    return f"SELECT COLUMNS(lambda name: list_contains({wanted}, name)) FROM (\n{sql.rstrip().rstrip(';')}\n)"  # noqa: S608
