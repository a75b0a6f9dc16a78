"""A plan as text: what was asked, a table of whole deployments, then sentences and commands to go on with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cli.derived import spelled
from cli.render.answers import answer_lines, header_lines, load_limits, price_note, price_notes, ttft_spans
from cli.render.expected_error import winner_lines
from cli.render.rows import Aside, Paragraph, table_lines
from sweepdb import planning
from sweepdb.asking import HELD

# Columns of a person's tables: what is shown, and what it is called.
_SHOWN = (
    ("rank", "rank"), ("device", "device"), ("basis", "basis"), ("quantization", "quantization"),
    ("deployment", "deployment"), ("devices_used", "devices"), ("carries_target", "carries"),
    ("system_requests_per_s", "requests/s"), ("goodput", "goodput"), ("users", "concurrency"),
    ("output_tokens_per_s", "tokens/s"),
    ("ttft_ms", "ttft_ms"), ("tpot_ms", "tpot_ms"), ("e2e_ms", "e2e_ms"), ("memory_free_gib", "free_gib"),
    ("usd_per_hour", "usd/h"), ("usd_per_million_output_tokens", "usd/M output"),
    ("holds", "holds"), ("rows", "rows"),
)  # fmt: skip


_SAID_OF_LOADS = ("bursts:", "nobody measured")  # beginnings of notes that bear on buying a disaggregated deployment
_RATED = (
    ("rank", "rank"), ("device", "device"), ("basis", "basis"), ("quantization", "quantization"),
    ("deployment", "deployment"),
    ("devices_with_margin", "devices_with_margin"), ("devices", "devices"), ("carries", "carries"),
    ("goodput_per_instance", "goodput/instance"), ("goodput", "goodput"), ("attained", "attained"),
    ("usd_per_hour", "usd/h"), ("rows", "rows"),
)  # fmt: skip


def plan_lines(plan: planning.DeploymentPlan | planning.RatePlan, *, wide: bool, explain: bool) -> Iterator[str]:
    if isinstance(plan, planning.RatePlan):
        yield from _rate_lines(plan, wide=wide, explain=explain)
    else:
        yield from _waiting_lines(plan, wide=wide, explain=explain)
    yield from _next(plan)


def _next(plan: planning.DeploymentPlan | planning.RatePlan | planning.ServerPlan) -> Iterator[str]:
    for number, command in enumerate(plan.next_commands()):
        yield f"{'next: ' if number == 0 else '      '}{_typed(command)}{plan.store.argument}\n"


_SERVER = (
    ("concurrency", "concurrency"), ("deployment", "deployment"), ("plan", "plan"), ("requests_per_s", "requests/s"),
    ("output_tokens_per_s", "tokens/s"), ("ttft_ms", "ttft_ms"), ("tpot_ms", "tpot_ms"), ("e2e_ms", "e2e_ms"),
    ("within_limits", "limits kept"), ("probe", "row"),
)  # fmt: skip


def server_lines(plan: planning.ServerPlan) -> Iterator[str]:
    """Everything about a server that runs: a table with it and its best changes, then sentences and lines to copy."""
    spans = ttft_spans(plan.answer)
    yield f"{planning.STARTED}: {plan.named}\n"
    yield from (f"{line}\n" for line in plan.answer.scope)
    rows = [{**row, "ttft_ms": spans.get(str(row["probe"]), row["ttft_ms"])} for row in plan.dicts()]
    yield from _table(rows, _SERVER)
    yield "\n"
    for sentence in plan.sentences():
        yield Paragraph(sentence)
    yield from _trust(plan)
    yield "\n"
    for name, line in plan.lines.items():
        times = next((row["instances"] for row in plan.dicts() if row["deployment"] == name), 1)
        yield f"{name}{f', {times} servers' if times != 1 else ''}: {line}\n"
    yield from _next(plan)


def _waiting_lines(plan: planning.DeploymentPlan, *, wide: bool, explain: bool) -> Iterator[str]:
    whole = plan.best is None or wide
    if whole:
        yield from answer_lines(plan.answer, wide=wide, explain=explain)
    else:
        yield from _header(plan) if explain else ()
        yield from _tables(plan)
    for sentence in list(plan.sentences())[plan.best is None :]:  # that nothing satisfies limits is said
        yield Paragraph(sentence)
    if plan.best is not None:
        if not explain:
            yield from _trust(plan)
        for note in () if whole else _notes(plan, explain=explain):
            yield Paragraph(note, indent="  ")
        yield "\n"


def _rate_lines(plan: planning.RatePlan, *, wide: bool, explain: bool) -> Iterator[str]:
    """A plan for a rate: what to buy comes first, then what it rests on."""
    for sentence in plan.sentences():
        yield Paragraph(sentence)
    yield "\n"
    whole = plan.missed or (plan.answer if wide else None)
    if whole is not None:
        yield from answer_lines(whole, wide=wide, explain=explain)
        yield "\n"
        return
    yield from _header(plan) if explain else (load_limits(plan.answer),)
    for title, found in plan.tables():
        yield f"{title}\n"
        rows = [
            {
                **row, "rows": " ".join(plan.probes_of(row)),
                "carries": None if plan.budget is None else row["carries_target"],  # without a budget any number does
            }
            for row in found
        ]  # fmt: skip
        yield from _table(rows, _RATED)
        yield "\n"
    if not explain:
        yield from _trust(plan)
    apart = plan.best is not None and plan.best["mode"] == "pd"
    for note in plan.answer.notes:
        if explain or (apart and note.startswith(_SAID_OF_LOADS)):
            yield Paragraph(f"assumed: {note}", indent="  ")
    for note in price_note(row["device"] for row in plan.dicts() if row["usd_per_hour"] is None):
        yield Paragraph(note, indent="  ")
    yield "\n"


def _header(plan: planning.DeploymentPlan | planning.RatePlan) -> Iterator[str]:
    yield from (f"{line}\n" if isinstance(line, Aside) else line for line in header_lines(plan.answer))


def _notes(plan: planning.DeploymentPlan, *, explain: bool) -> Iterator[str]:
    yield from dict.fromkeys(price_notes(plan.answer))
    for note in dict.fromkeys(plan.answer.notes if explain else plan.not_started):
        yield note if note.startswith("note:") else f"assumed: {note}"


def _typed(command: planning.NextCommand) -> str:
    options = (f" {spelled(name)} {_value(value)}" for name, value in command.options.items())
    return f"sweepdb {' '.join(command.words)}{''.join(options)}"


def _value(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _trust(plan: planning.DeploymentPlan | planning.RatePlan | planning.ServerPlan) -> Iterator[str]:
    """How far such answers have been off, of the first deployment; the header of `--explain` has every region."""
    first = {"device": plan.device} if isinstance(plan, planning.ServerPlan) else plan.best
    for line in winner_lines(plan.answer, first):
        yield Paragraph(f"Expected error: {line}.", indent="  ")


def _tables(plan: planning.DeploymentPlan) -> Iterator[str]:
    spans, limits = ttft_spans(plan.answer), plan.answer.question.limits
    for title, found in plan.tables():
        rows = [
            {
                **planning.readable_row(row), "goodput": plan.kept_per_s(row),
                "ttft_ms": spans.get(str(row["probe"]), row["ttft_ms"]),
                "holds": (planning.holds_of(row, limits) or "-") if limits.on_times else None,
                "rows": " ".join(str(row[name]) for name in HELD if row[name] is not None),
            }
            for row in found
        ]  # fmt: skip
        yield f"{title}\n"
        yield from _table(rows, _SHOWN)
        yield "\n"


def _table(rows: Sequence[Mapping[str, object]], columns: Sequence[tuple[str, str]]) -> Iterator[str]:
    chosen = [(name, called) for name, called in columns if any(row.get(name) is not None for row in rows)]
    yield from table_lines([called for _, called in chosen], [[row.get(name) for name, _ in chosen] for row in rows])
