"""evaluate, worker, explain and launch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from cli import shared_options
from cli.derived import as_typed, with_parameters
from cli.output import FORMATS, INTERRUPTED, check_format, say, tell, write_rows, write_text
from cli.render.rows import table_lines
from store.errors import EvaluationError, InputError
from store.texts import counted
from sweepdb import evaluating, launching, reporting, working
from sweepdb.evaluating import options_by_keyword, options_of
from sweepdb.stores import is_standard_output, is_stream, parse_url

_REASONS = 3  # why plans are illegal, of a dry run


@with_parameters({key: item for key, item in options_by_keyword().items() if key != "model"}, {}, after="model")
def evaluate(
    model: Annotated[str | None, typer.Argument(help="id, directory or config.json; several by commas")] = None,
    *,
    sweep: Annotated[
        Path | None,
        typer.Option("--sweep", help="YAML file: products of models, devices, workloads; - is standard input"),
    ] = None,
    sweep_schema: Annotated[
        bool, typer.Option("--sweep-schema", help="print the JSON Schema of sweep files, for editors, and stop")
    ] = False,
    from_deployment: Annotated[
        str | None,
        typer.Option(help="servers as a file starts them: a script, manifest, folder of launch, InferenceX::NAME"),
    ] = None,
    label: Annotated[str | None, typer.Option(help="a name for this sweep")] = None,
    jobs: shared_options.JobsOption = 8,
    workers: shared_options.WorkersOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="say how much would be evaluated, and stop")] = False,
    ttft_limit: Annotated[str | None, typer.Option(hidden=True)] = None,
    tpot_limit: Annotated[str | None, typer.Option(hidden=True)] = None,
    reserved_memory_gb: Annotated[str | None, typer.Option(hidden=True)] = None,
    format_: Annotated[str, typer.Option("--format", help="table or json")] = "table",
    store: shared_options.StoreOption = None,
    **options: Any,  # noqa: ANN401  those that sweepdb.evaluating.sweep_options declares
) -> int:
    """Evaluate every plan and batch size, and store every point."""
    if any(value is not None for value in (ttft_limit, tpot_limit, reserved_memory_gb)):
        raise InputError(
            "limits belong to query", hint="evaluate stores every point; then: sweepdb query --tpot-limit 50"
        )
    check_format(format_, None, known=("table", "json"))
    if sweep_schema:
        return _write_schema()
    from cli.render.progress import READING, ProgressBar

    with ProgressBar(sys.stderr).begin(READING):
        evaluating.check_jobs(jobs)
        asked = options_of({"model": model, **shared_options.joined_numbers(options, options_by_keyword())})
        built = evaluating.build_request(asked, sweep, store, deployment=from_deployment)
    for note in built.notes:
        say(as_typed(note))
    if dry_run:
        return _dry_run(built.parts, format_, store)
    with ProgressBar(sys.stderr) as bar:
        report = evaluating.run_request(
            asked, built, store, label=label, jobs=jobs, on_progress=bar.show, workers=workers
        )
    phases = {phase for part in built.parts for phase in part.phases}
    played = bool(report.loads_stored or report.loads_known)
    return _report(report, format_, store, question=_next_question(phases, played=played))


def worker(
    scheduler: Annotated[str, typer.Argument(help="HOST:PORT of a Dask scheduler")],
    count: Annotated[int, typer.Option("--count", min=1, help="worker processes of this machine")] = 1,
) -> None:
    """Evaluate shards of sweeps for a Dask scheduler, until it ends."""
    working.parse_workers(f"dask://{scheduler}")
    working.serve_worker(scheduler, count=count)


def _write_schema() -> int:
    write_text((evaluating.sweep_schema(),))
    return 0


def _next_question(phases: AbstractSet[str], *, played: bool) -> str:
    if played:
        if phases in ({"prefill"}, {"decode"}):
            return (
                "best --by goodput --mode prefill --ttft-limit 1000"
                if "prefill" in phases
                else "best --by goodput --mode decode --tpot-limit 50"
            )
        return f"best --by goodput {'' if 'aggregated' in phases else '--mode pd '}--ttft-limit 1000 --tpot-limit 50"
    if "aggregated" in phases:
        return "best --tpot-limit 50"
    if phases == {"prefill", "decode"}:
        return "pd-ratio --ttft-limit 1000 --tpot-limit 50"
    return "prefill --ttft-limit 1000" if phases == {"prefill"} else "decode --tpot-limit 50"


def _dry_run(parts: Sequence[evaluating.SweepRequest], format_: str, store: str | None) -> int:
    from cli.render.progress import ProgressLine

    with ProgressLine(sys.stderr) as line:
        counts = evaluating.count_request(
            parts,
            store,
            lambda progress: line.show(progress.scenarios_done, progress.scenarios, "scenarios counted"),
        )
    if format_ == "json":
        write_rows(list(asdict(counts)), [list(asdict(counts).values())], "json")
    else:
        tell(
            f"{counted(counts.scenarios, 'scenario')} ({counts.illegal} illegal),"
            f" {counted(counts.probes, 'probe')}; nothing was stored"
        )
        shown = counts.reasons[:_REASONS]
        for reason in shown:
            tell(as_typed(f"  illegal: {reason}"))
        if counts.illegal == counts.scenarios:
            tell("No plan is legal: widen the sizes, or change --num-devices.")
    return 0


def _report(report: evaluating.SweepReport, format_: str, store: str | None, *, question: str) -> int:
    if format_ == "json":
        outcome = {field.name: getattr(report, field.name) for field in fields(report)}
        del outcome["fitting_scenarios"]
        outcome["unplayed"] = [asdict(failure) for failure in report.unplayed]
        if not (report.loads_stored or report.loads_known or report.unplayed):  # nobody asked for any
            for name in ("loads_stored", "loads_known", "unplayed"):
                del outcome[name]
        if not report.side_faults:
            del outcome["side_faults"]
        outcome["failures"] = [asdict(failure) for failure in report.failures]
        write_rows(list(outcome), [list(outcome.values())], "json")
    _say_report(report)
    if report.interrupted:
        say("run the same command again to go on")
        return INTERRUPTED
    evaluating.check_outcome(report)
    say(as_typed(f"next: sweepdb query {question}{parse_url(store).argument}"))
    if any(failure.status == "error" for failure in report.failures):
        raise EvaluationError("some scenarios ended in an error; the others are stored", hint="sweepdb show SWEEP")
    return 0


def _say_report(item: evaluating.SweepReport) -> None:
    parts = [f"{counted(item.probes_stored, 'probe')} stored"]
    if item.probes_known:
        parts.append(f"{item.probes_known:,} already there")
    if item.loads_stored:
        parts.append(f"{counted(item.loads_stored, 'load')} stored")
    if item.loads_known:
        parts.append(f"{counted(item.loads_known, 'load')} already there")
    say(f"sweep {item.sweep}: {counted(item.scenarios, 'scenario')}, {', '.join(parts)}")
    if item.side_faults:
        say(
            f"note: {item.side_faults} groups of scenarios were evaluated one by one, which takes longer and changes no"
            " number: please report the warning above"
        )
    for failure in item.unplayed:
        say(as_typed(f"  {failure.scenarios} not simulated: {failure.reason}"))
    for failure in item.failures:
        say(as_typed(f"  {failure.scenarios} {failure.status}: {failure.reason}"))


def explain(  # noqa: PLR0917  one parameter an option
    probe: Annotated[list[str], typer.Argument(help="one probe, or two to set side by side (a1b2c3d4:175)")],
    top: Annotated[int | None, typer.Option(min=1, help="only the longest operators")] = None,
    step: Annotated[str | None, typer.Option(help="encode, prefill or decode [default: those there are]")] = None,
    format_: Annotated[
        str, typer.Option("--format", help="table, csv, json, jsonl, parquet; a picture: svg, png, pdf, html, vl")
    ] = "table",
    output: shared_options.OutputOption = None,
    store: shared_options.StoreOption = None,
) -> int:
    """The operators of a stored step: FLOPs, bytes, time, bound and share; they sum to the stored time."""
    from cli.pictures import PICTURES, check_picture, write_specification

    check_format(format_, output, known=(*FORMATS, *PICTURES))
    check_picture(format_, output)
    if len(probe) > 2:
        raise InputError(f"explain takes one or two probes, not {len(probe)}")
    from sweepdb.explaining import explain_probes

    explained = explain_probes(probe, store, step=step)
    if format_ in PICTURES:
        write_specification(reporting.explained_picture(explained), format_, output)
        return 0
    columns, rows = explained.side_by_side(top) if len(probe) == 2 else explained.rows(top)
    if format_ == "table":
        write_text((*(f"{line}\n" for line in explained.headline()), *table_lines(columns, rows)), output)
    else:
        write_rows(columns, rows, format_, output)
    return 0


def launch(  # noqa: PLR0917  one parameter an option
    rows: Annotated[list[str], typer.Argument(help="PROBE, or PREFILL DECODE with their instances: 4P1D")],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            parser=shared_options.output_path,
            metavar=shared_options.OUTPUT_SHAPE,
            help="the folder to write; a pipe, or standard output (-), gets it as a tar archive",
        ),
    ],
    engine: Annotated[str | None, typer.Option(help="vllm, sglang or trtllm [default: the row's]")] = None,
    engine_version: Annotated[
        str | None, typer.Option(help="flags of this version [default: the newest known]")
    ] = None,
    draft_model: Annotated[
        str | None, typer.Option(help="id or folder of the draft, of rows that draft with a model beside theirs")
    ] = None,
    target: Annotated[str, typer.Option(help="shell, compose, k8s, llm-d, kserve or dynamo")] = "shell",
    force: Annotated[bool, typer.Option("--force", help="write into a folder that is not empty")] = False,
    store: shared_options.StoreOption = None,
) -> None:
    """Write what starts a stored row as it was evaluated: scripts, settings, manifests, a benchmark, expectations."""
    found = launching.write_launch(
        rows,
        output,
        engine=engine,
        engine_version=engine_version,
        draft_model=draft_model,
        target=target,
        force=force,
        store=store,
    )
    if is_standard_output(output):
        say("\n".join(found.files))
    else:
        write_text(f"{name if is_stream(output) else output / name}\n" for name in found.files)
    for line in found.not_set:
        say(as_typed(f"not set: {line}"))
