"""sweeps, show, void and unvoid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli.output import check_format, say, write_rows, write_text
from cli.render.rows import table_lines
from cli.shared_options import FormatOption, OutputOption, StoreOption
from store.texts import counted
from sweepdb import stores

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

COLUMNS = ("sweep", "kind", "started_at", "status", "probes_stored", "probes_known", "failed", "label", "version",
           "voided", "asked")  # fmt: skip
_FIELDS = {"sweep": "key", "failed": "scenarios_failed", "version": "program_version"}  # of columns named otherwise


def sweeps(
    limit: Annotated[int, typer.Option(min=1, help="how many")] = 20,
    format_: FormatOption = "table",
    output: OutputOption = None,
    store: StoreOption = None,
) -> None:
    """List sweeps, the newest first."""
    check_format(format_, output)
    found = stores.list_sweeps(stores.parse_url(store), limit=limit)
    write_rows(COLUMNS, [_told(item) if format_ == "table" else _row(item) for item in found], format_, output)


def _row(item: stores.SweepSummary) -> list[object]:
    return [
        *(getattr(item, _FIELDS.get(name, name)) for name in COLUMNS[:-1]),
        f"{_some(item.models)} on {_some(item.devices)}",
    ]


def _told(item: stores.SweepSummary) -> list[object]:
    """With the progress of its shards."""
    return [item.status_told if name == "status" else value for name, value in zip(COLUMNS, _row(item), strict=True)]


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")


def show(
    reference: Annotated[str, typer.Argument(help="a sweep (its key, or its label), or a probe (a1b2c3d4:175)")],
    format_: FormatOption = "table",
    output: OutputOption = None,
    store: StoreOption = None,
) -> None:
    """Show a sweep: what it asked for and how its scenarios ended; or every column of a probe."""
    check_format(format_, output)
    location = stores.parse_url(store)
    if ":" in reference:
        columns, row = stores.find_probe(location, reference)
        if format_ == "table":
            write_rows(["column", "value"], list(zip(columns, row, strict=True)), format_, output)
        else:
            write_rows(columns, [row], format_, output)
        return
    detail = stores.show_sweep(location, reference)
    if format_ == "table":
        write_text(_sweep_lines(detail), output)
        if detail.summary.status == "interrupted":
            say("interrupted: run the same evaluate again; it adds what is missing, as a sweep of its own")
        return
    columns = (*COLUMNS, "arguments", "outcomes", "contents")
    outcomes = [{"status": o.status, "reason": o.reason, "scenarios": o.scenarios} for o in detail.outcomes]
    contents_json = [
        {"model": c.model, "device": c.device, "workload": c.workload, "phase": c.phase, "scenarios": c.scenarios,
         "probes": c.probes}
        for c in detail.contents
    ]  # fmt: skip
    row_json = [*_row(detail.summary), detail.summary.arguments, outcomes, contents_json]
    write_rows(columns, [row_json], format_, output)


def _sweep_lines(detail: stores.SweepDetail) -> Iterator[str]:
    yield from table_lines(("sweep", "value"), list(zip(COLUMNS, _told(detail.summary), strict=True)))
    yield "\n"
    contents = [[c.model, c.device, c.workload, c.phase, c.scenarios, c.probes] for c in detail.contents]
    yield from table_lines(("model", "device", "workload", "phase", "scenarios", "probes"), contents)
    if detail.summary.shard_failed is not None:
        yield f"\na shard was given up: {detail.summary.shard_failed}\n"
    failed = [[o.status, o.scenarios, o.reason] for o in detail.outcomes if o.status != "ok"]
    if failed:
        yield "\n"
        yield from table_lines(("status", "scenarios", "reason"), failed)


def void(
    reference: Annotated[str, typer.Argument(help="a sweep or a scenario")],
    reason: Annotated[str, typer.Option(help="why; every later reader sees it")],
    store: StoreOption = None,
) -> None:
    """Hide a sweep or a scenario from every answer; unvoid brings it back."""
    with stores.open_store(store) as opened:
        done = stores.void(opened, reference, reason)
    if done.still_asked:
        say(f"{counted(done.still_asked, 'scenario')} of it stay visible: another sweep asked for them too")
    say(f"{done.kind} {done.key[:12]} is void: {done.reason}; undo with: sweepdb unvoid {done.key[:12]}")


def unvoid(reference: Annotated[str, typer.Argument(help="a sweep or a scenario")], store: StoreOption = None) -> None:
    """Show a voided sweep or scenario again."""
    with stores.open_store(store) as opened:
        done = stores.unvoid(opened, reference)
    say(f"{done.kind} {done.key[:12]} counts again (it was void: {done.reason})")
