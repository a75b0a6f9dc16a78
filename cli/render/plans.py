"""A plan as text: what was asked, a table of whole deployments, then sentences and commands to go on with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cli.derived import spelled
from cli.render.answers import answer_lines, load_limits, price_note, price_notes, ttft_spans
from cli.render.expected_error import expected_error_lines
from cli.render.rows import Paragraph, table_lines
from sweepdb.planning import DeploymentPlan, NextCommand, RatePlan, deployment_label, readable_row, to_buy

_PROBES = ("probe", "prefill_probe", "decode_probe")
# Columns of a person's tables: what is shown, and what it is called.
_SERVED = (
    ("rank", "rank"), ("device", "device"), ("deployment", "deployment"), ("devices_used", "devices"),
    ("carries_target", "carries"), ("system_qps", "requests/s"), ("goodput", "goodput"), ("users", "in flight"),
    ("output_tokens_per_s", "tokens/s"), ("ttft_ms", "ttft_ms"), ("tpot_ms", "tpot_ms"),
    ("e2e_ms", "e2e_ms"), ("memory_free_gib", "free_gib"),
    ("holds", "holds"), ("rows", "rows"),
)  # fmt: skip
_COST = (
    ("rank", "rank"), ("device", "device"), ("devices_used", "devices"), ("devices_idle", "idle"),
    ("usd_per_device_hour", "usd/device/h"), ("usd_per_hour", "usd/h"), ("usd_per_month", "usd/month"),
    ("usd_per_million_input_tokens", "usd/M input"), ("usd_per_million_uncached_tokens", "usd/M uncached"),
    ("usd_per_million_output_tokens", "usd/M output"),
)  # fmt: skip


_SAID_OF_LOADS = ("bursts:", "nobody measured")  # beginnings of notes that bear on what to buy
_RATED = (
    ("rank", "rank"), ("device", "device"), ("deployment", "deployment"),
    ("devices_with_margin", "devices_with_margin"), ("devices", "devices"), ("carries_target", "carries"),
    ("goodput_per_instance", "goodput/instance"), ("goodput", "goodput"), ("attained", "attained"),
    ("usd_per_hour", "usd/h"), ("rows", "rows"),
)  # fmt: skip


def plan_lines(plan: DeploymentPlan | RatePlan, *, wide: bool, explain: bool) -> Iterator[str]:
    """Everything about a plan; the nearest misses where nothing satisfies the limits."""
    if isinstance(plan, RatePlan):
        yield from _rate_lines(plan, wide=wide, explain=explain)
    elif plan.best is None or explain or wide:
        yield from answer_lines(plan.answer, wide=wide, explain=explain)
    else:
        yield from _tables(plan)
    if isinstance(plan, DeploymentPlan) and plan.best is not None:
        for sentence in plan.sentences():
            yield Paragraph(sentence)
        if not explain:
            yield from _trust(plan)
        for note in dict.fromkeys(price_notes(plan.answer)):
            yield Paragraph(note, indent="  ")
        yield "\n"
    for number, command in enumerate(plan.next_commands()):
        yield f"{'next: ' if number == 0 else '      '}{_typed(command)}{plan.store.argument}\n"


def _typed(command: NextCommand) -> str:
    options = (f" {spelled(name)} {_value(value)}" for name, value in command.options.items())
    return f"sweepdb {' '.join(command.words)}{''.join(options)}"


def _value(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _rate_lines(plan: RatePlan, *, wide: bool, explain: bool) -> Iterator[str]:
    """A plan for a rate: what to buy comes first, then what it rests on."""
    for sentence in plan.sentences():
        yield Paragraph(sentence)
    yield "\n"
    if plan.missed is not None:
        yield from answer_lines(plan.missed, wide=wide, explain=explain)
        yield "\n"
        return
    if explain or wide:
        yield from answer_lines(plan.answer, wide=wide, explain=explain)
    else:
        yield load_limits(plan.answer)
        rows = [
            {**row, "deployment": deployment_label(to_buy(row)), "rows": " ".join(plan.probes_of(row))}
            for row in plan.dicts()
        ]
        for number in dict.fromkeys(row["question_group"] for row in rows):
            yield f"{plan.answer.scope[int(str(number))]}\n"
            shown = [one for one in _RATED if plan.budget is not None or one[0] != "carries_target"]
            yield from _table([row for row in rows if row["question_group"] == number], shown)
            yield "\n"
        yield from _trust(plan)
    for note in plan.answer.notes:
        if note.startswith(_SAID_OF_LOADS):
            yield Paragraph(f"assumed: {note}", indent="  ")
    for device in dict.fromkeys(row["device"] for row in plan.dicts() if row["usd_per_hour"] is None):
        yield Paragraph(price_note(device), indent="  ")
    yield "\n"


def _trust(plan: DeploymentPlan | RatePlan) -> Iterator[str]:
    """How far such answers have been off, in a line a distinct figure."""
    for line in dict.fromkeys(expected_error_lines(plan.answer.expected_error)):
        yield Paragraph(f"Expected error: {line}", indent="  ")


def _tables(plan: DeploymentPlan) -> Iterator[str]:
    spans = ttft_spans(plan.answer)
    rows = [
        {
            **readable_row(row), "goodput": plan.kept_per_s(row),
            "ttft_ms": spans.get(str(row["probe"]), row["ttft_ms"]),
            "rows": " ".join(str(row[name]) for name in _PROBES if row[name] is not None),
        }
        for row in plan.dicts()
    ]  # fmt: skip
    for number in dict.fromkeys(row["question_group"] for row in rows):
        yield f"{plan.answer.scope[int(str(number))]}\n"
        mine = [row for row in rows if row["question_group"] == number]
        yield from _table(mine, _SERVED)
        if any(row["usd_per_hour"] is not None for row in mine):
            yield "\n"
            cached = any(row["usd_per_million_uncached_tokens"] != row["usd_per_million_input_tokens"] for row in mine)
            yield from _table(mine, [one for one in _COST if cached or one[1] != "usd/M uncached"])
        yield "\n"


def _table(rows: Sequence[Mapping[str, object]], columns: Sequence[tuple[str, str]]) -> Iterator[str]:
    chosen = [(name, called) for name, called in columns if any(row.get(name) is not None for row in rows)]
    yield from table_lines([called for _, called in chosen], [[row.get(name) for name, _ in chosen] for row in rows])
