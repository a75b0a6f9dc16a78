"""A plan as text: what was asked, a table of whole deployments, then sentences and commands to go on with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cli.derived import spelled
from cli.render.answers import answer_lines, header_lines, price_notes, ttft_spans
from cli.render.expected_error import expected_error_lines
from cli.render.rows import Paragraph, table_lines
from sweepdb.asking import Answer
from sweepdb.planning import STARTED, DeploymentPlan, NextCommand, ServerPlan, holds_of, readable_row

_PROBES = ("probe", "prefill_probe", "decode_probe")
# Columns of a person's tables: what is shown, and what it is called.
_SHOWN = (
    ("rank", "rank"), ("device", "device"), ("basis", "basis"), ("quantization", "quantization"),
    ("deployment", "deployment"), ("devices_used", "devices"), ("carries_target", "carries"),
    ("system_qps", "requests/s"), ("goodput", "goodput"), ("users", "concurrency"), ("output_tokens_per_s", "tokens/s"),
    ("ttft_ms", "ttft_ms"), ("tpot_ms", "tpot_ms"), ("e2e_ms", "e2e_ms"), ("memory_free_gib", "free_gib"),
    ("usd_per_hour", "usd/h"), ("usd_per_million_output_tokens", "usd/M output"),
    ("holds", "holds"), ("rows", "rows"),
)  # fmt: skip


def plan_lines(plan: DeploymentPlan, *, wide: bool, explain: bool) -> Iterator[str]:
    """Everything about a plan; the nearest misses where nothing satisfies the limits."""
    whole = plan.best is None or wide
    if whole:
        yield from answer_lines(plan.answer, wide=wide, explain=explain)
    else:
        yield from map(str, header_lines(plan.answer) if explain else ())
        yield from _tables(plan)
    for sentence in list(plan.sentences())[plan.best is None :]:  # that nothing satisfies limits is said
        yield Paragraph(sentence)
    if plan.best is not None:
        if not explain:
            yield from _trust(plan.answer)
        for note in () if whole else _notes(plan, explain=explain):
            yield Paragraph(note, indent="  ")
        yield "\n"
    yield from _next(plan)


def _next(plan: DeploymentPlan | ServerPlan) -> Iterator[str]:
    for number, command in enumerate(plan.next_commands()):
        yield f"{'next: ' if number == 0 else '      '}{_typed(command)}{plan.store.argument}\n"


_SERVER = (
    ("concurrency", "concurrency"), ("deployment", "deployment"), ("plan", "plan"), ("requests_per_s", "requests/s"),
    ("output_tokens_per_s", "tokens/s"), ("ttft_ms", "ttft_ms"), ("tpot_ms", "tpot_ms"), ("e2e_ms", "e2e_ms"),
    ("within_limits", "limits kept"), ("probe", "row"),
)  # fmt: skip


def server_lines(plan: ServerPlan) -> Iterator[str]:
    """Everything about a server that runs: a table with it and its best changes, then sentences and lines to copy."""
    spans = ttft_spans(plan.answer)
    yield f"{STARTED}: {plan.named}\n"
    yield from (f"{line}\n" for line in plan.answer.scope)
    yield from _table(
        [{**row, "ttft_ms": spans.get(str(row["probe"]), row["ttft_ms"])} for row in plan.dicts()], _SERVER
    )
    yield "\n"
    for sentence in plan.sentences():
        yield Paragraph(sentence)
    yield from _trust(plan.answer)
    yield "\n"
    for name, line in plan.lines.items():
        times = next((row["instances"] for row in plan.dicts() if row["deployment"] == name), 1)
        yield f"{name}{f', {times} servers' if times != 1 else ''}: {line}\n"
    yield from _next(plan)


def _notes(plan: DeploymentPlan, *, explain: bool) -> Iterator[str]:
    """What costs lack, and what the rows assume where they are to be explained."""
    yield from dict.fromkeys(price_notes(plan.answer))
    for note in dict.fromkeys(plan.answer.notes if explain else ()):
        yield note if note.startswith("note:") else f"assumed: {note}"


def _typed(command: NextCommand) -> str:
    options = (f" {spelled(name)} {_value(value)}" for name, value in command.options.items())
    return f"sweepdb {' '.join(command.words)}{''.join(options)}"


def _value(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _trust(answer: Answer) -> Iterator[str]:
    """How far such answers have been off, in a line a distinct figure."""
    for line in dict.fromkeys(expected_error_lines(answer.expected_error)):
        yield Paragraph(f"Expected error: {line}", indent="  ")


def _tables(plan: DeploymentPlan) -> Iterator[str]:
    spans, limits = ttft_spans(plan.answer), plan.answer.question.limits
    for title, found in plan.tables():
        rows = [
            {
                **readable_row(row), "goodput": plan.kept_per_s(row),
                "ttft_ms": spans.get(str(row["probe"]), row["ttft_ms"]),
                "holds": (holds_of(row, limits) or "-") if limits.on_times else None,
                "rows": " ".join(str(row[name]) for name in _PROBES if row[name] is not None),
            }
            for row in found
        ]  # fmt: skip
        yield f"{title}\n"
        yield from _table(rows, _SHOWN)
        yield "\n"


def _table(rows: Sequence[Mapping[str, object]], columns: Sequence[tuple[str, str]]) -> Iterator[str]:
    chosen = [(name, called) for name, called in columns if any(row.get(name) is not None for row in rows)]
    yield from table_lines([called for _, called in chosen], [[row.get(name) for name, _ in chosen] for row in rows])
