"""decide: the answer now, how sure it is, and the next run that is worth most for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.commands.planning import WRITTEN, asking
from cli.derived import with_parameters
from cli.output import check_format, say, typed, write_rows, write_text
from cli.render.decisions import decision_lines
from cli.shared_options import FailEmptyOption, JobsOption, StoreOption, joined_numbers
from store.errors import InputError, NothingFits
from store.texts import counted
from sweepdb import deciding, launching, running
from sweepdb.deciding import BUDGET, GAIN, MODE, MODES
from sweepdb.planning import decide_options
from sweepdb.running import READY_S, HowToRun


@with_parameters(decide_options(), WRITTEN, after="model")
def decide(
    model: Annotated[str, typer.Argument(help="id, directory or config.json")],
    *,
    budget: Annotated[int, typer.Option(help="starts of a server to plan for")] = BUDGET,
    gain: Annotated[float, typer.Option(help="share of the answer below which a run is not worth it")] = GAIN,
    mode: Annotated[str, typer.Option(help=f"servers to decide among: {', '.join(MODES)} (pd: disaggregated)")] = MODE,
    run: Annotated[
        bool, typer.Option("--run", help="make these starts here: start, measure, import, until decided")
    ] = False,
    client: Annotated[
        str | None, typer.Option(help="--run: vllm, guidellm or aiperf [default: which is installed]")
    ] = None,
    ready_within: Annotated[float, typer.Option(help="--run: most seconds until a server is ready")] = READY_S,
    jobs: JobsOption = 8,
    fail_empty: FailEmptyOption = False,
    format_: Annotated[str, typer.Option("--format", help="table, csv, json or jsonl")] = "table",
    output: Annotated[
        Path | None, typer.Option(help="folder for the scripts that start and measure the next run")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="write into a folder that is not empty")] = False,
    store: StoreOption = None,
    **options: Any,  # noqa: ANN401  those that sweepdb.planning.planning_options declares
) -> int:
    """The deployment to take now, how sure that is, and the next run worth most for this decision.

    Import its result and ask again: the answer is updated, until further runs gain too little."""
    check_format(format_, None, known=("table", "csv", "json", "jsonl"))
    given = joined_numbers(options, decide_options()) | {"mode": mode}
    if run and output is not None:
        raise InputError("--output is of scripts to start by hand; --run keeps its own beside the store")
    if str(output) == "-":
        raise InputError("--output is a folder here: the answer itself goes to standard output", hint="--output run1")
    with asking(store, jobs) as asked:

        def answer(starts: int) -> deciding.Decision:
            return deciding.decide(model, budget=starts, gain=gain, **asked, **given)

        if run:
            how = HowToRun(budget=budget, client=client, ready_s=ready_within)
            _make_starts(answer, {"model": model, **given}, how, store)
            asked["on_notes"] = lambda _: None  # said by now
        found = answer(1 if run else budget)
    _write(found, format_)
    if run and found.next_start is not None:
        say("the budget of starts is used; the same command makes as many more")
    else:
        _next(found, output, force=force, store=store)
    if fail_empty and found.answer is None:
        raise NothingFits("nothing satisfies the limits")
    return 0


def _make_starts(
    answer: Callable[[int], deciding.Decision], question: Mapping[str, object], how: HowToRun, store: str | None
) -> None:
    ran = running.run_starts(lambda: answer(1).next_start, question=question, store=store, how=how, say=say)
    say(f"{counted(ran.starts, 'start')} made, {counted(ran.points, 'point')} imported")


def _write(found: deciding.Decision, format_: str) -> None:
    if format_ == "table":
        write_text(typed(decision_lines(found)))
    elif format_ == "json":
        write_text((json.dumps(deciding.document(found), ensure_ascii=False, indent=1), "\n"))
    else:
        write_rows(found.columns, found.rows, format_)


def _next(found: deciding.Decision, output: Path | None, *, force: bool, store: str | None) -> None:
    start = found.next_start
    if start is None:
        if output is not None:
            say(f"nothing written to {output}: no run is worth it")
        if found.answer is not None:
            say(f"next: sweepdb launch {' '.join(found.answer.launched)} --output started{found.store.argument}")
        return
    if output is None:
        say("next: the same command with --output DIR writes the scripts that start and measure this run")
        return
    ladder = [one.concurrency for one in start.ladder]
    written = launching.write_launch(start.probe, output, force=force, store=store, ladder=ladder)
    for line in written.not_set:
        say(f"not set: {line}")
    say(f"written to {output}: start its server as README.md says, then run {output}/ladder.sh")
    say(f"next: sweepdb measurements import {output}{found.store.argument}")
    say("      then the same sweepdb decide again")
