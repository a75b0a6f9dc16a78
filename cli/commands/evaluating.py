"""evaluate and explain: options into a request, a report into lines. Not here: evaluating (evaluator.sweep)."""

from __future__ import annotations

import sys
from collections.abc import Set as AbstractSet
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import (
    FormatOption,
    OutputOption,
    StoreOption,
    parse_batch_range,
    parse_names,
    parse_rates,
    parse_sizes,
)
from cli.output import check_format, say, write_rows, write_text
from store.errors import EvaluationError, InputError
from store.location import parse_url

if TYPE_CHECKING:
    from evaluator.sweep import SweepReport

INTERRUPTED = 130


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("evaluate")(evaluate)
    app.command("explain")(explain)


# Longer than a screen because a command line is declared here and nowhere else: Typer reads options from one signature
# and has no groups of them. Nothing is computed between the declaration and SweepOptions.
def evaluate(  # noqa: PLR0917  one parameter an option
    model: Annotated[str | None, typer.Argument(help="id, directory or config.json; several by commas")] = None,
    device: Annotated[str, typer.Option(help="device names or profile files")] = "TEST_DEVICE",
    num_devices: Annotated[int | None, typer.Option(help="devices of one instance [default: 1]")] = None,
    prefill_devices_per_instance: Annotated[int | None, typer.Option(help="devices of a prefill instance")] = None,
    decode_devices_per_instance: Annotated[int | None, typer.Option(help="devices of a decode instance")] = None,
    input_length: Annotated[str | None, typer.Option(help="prompt tokens, or a length distribution FILE")] = None,
    output_length: Annotated[float | None, typer.Option(help="generated tokens")] = None,
    workload: Annotated[str | None, typer.Option(help="named workloads of the store, instead of lengths")] = None,
    prefix_cache_hit_rate: Annotated[float, typer.Option(help="share of a prompt found in cache, [0, 1)")] = 0.0,
    max_batched_tokens: Annotated[
        int | None, typer.Option(help="token budget of one step of a replica [default: 8192, or the engine's]")
    ] = None,
    quantize_linear_action: Annotated[
        str, typer.Option(help="format of linears; NATIVE: as the weights are published")
    ] = "W8A8_DYNAMIC",
    quantize_experts_action: Annotated[str | None, typer.Option(help="format of experts [default: as linears]")] = None,
    quantize_attention_action: Annotated[str, typer.Option(help="KV cache: DISABLED, INT8 or FP8")] = "DISABLED",
    mxfp4_group_size: Annotated[int, typer.Option(help="weights that share one MXFP4 scale")] = 32,
    num_mtp_tokens: Annotated[int, typer.Option(help="tokens drafted a step, 0-9")] = 0,
    mtp_acceptance_rate: Annotated[str | None, typer.Option(help="acceptance of each drafted token")] = None,
    compile: Annotated[bool, typer.Option("--compile/--eager", help="compiled or eager graph")] = True,  # noqa: A002
    convention: Annotated[str, typer.Option(help="physical or upstream")] = "physical",
    mode: Annotated[
        str | None, typer.Option(help="prefill, decode, aggregated; several by commas [default: all]")
    ] = None,
    search: Annotated[str, typer.Option(help="every legal plan, or tp (seed 001's rule)")] = "every",
    tp_sizes: Annotated[str | None, typer.Option(help="tensor parallel sizes; none given: powers of two")] = None,
    pp_sizes: Annotated[str | None, typer.Option(help="pipeline stages; searched only when asked")] = None,
    dp_sizes: Annotated[str | None, typer.Option(help="data parallel replicas")] = None,
    ep_sizes: Annotated[str | None, typer.Option(help="expert parallel sizes")] = None,
    moe_tp_sizes: Annotated[str | None, typer.Option(help="tensor parallel sizes inside experts")] = None,
    moe_dp_sizes: Annotated[str | None, typer.Option(help="replicas of the expert group")] = None,
    batch_range: Annotated[str | None, typer.Option(help="[min] max batch size of a replica")] = None,
    serving_cost: Annotated[float, typer.Option(help="fixed cost of delivery, ms")] = 0.0,
    serving_model: Annotated[
        str,
        typer.Option(
            help="how steps become latencies: waves, seed002, an engine (vllm, sglang, trtllm) or its FILE.yaml"
        ),
    ] = "waves",
    family: Annotated[str, typer.Option(help="auto, theoretical or calibrated cost model")] = "auto",
    sweep: Annotated[
        Path | None, typer.Option("--sweep", help="YAML file: products of models, devices, workloads")
    ] = None,
    label: Annotated[str | None, typer.Option(help="a name for this sweep")] = None,
    jobs: Annotated[int, typer.Option(help="threads that evaluate while rows are written")] = 8,
    dry_run: Annotated[bool, typer.Option(help="say how much would be evaluated, and stop")] = False,
    ttft_limits: Annotated[str | None, typer.Option(hidden=True)] = None,
    tpot_limits: Annotated[str | None, typer.Option(hidden=True)] = None,
    reserved_memory_gb: Annotated[str | None, typer.Option(hidden=True)] = None,
    format_: Annotated[str, typer.Option("--format", help="table or json")] = "table",
    store: StoreOption = None,
) -> int:
    """Evaluate every plan and batch size, and store every point."""
    if any(value is not None for value in (ttft_limits, tpot_limits, reserved_memory_gb)):
        raise InputError(
            "limits belong to query", hint="evaluate stores every point; then: sweepdb query --tpot-limits 50"
        )
    check_format(format_, None, known=("table", "json"))
    if jobs < 1:
        raise InputError(f"--jobs must be at least 1, not {jobs}")
    from cli.flows.requests import SweepOptions, build_request

    options = SweepOptions(
        models=parse_names(model),
        devices=parse_names(device),
        num_devices=num_devices,
        prefill_devices=prefill_devices_per_instance,
        decode_devices=decode_devices_per_instance,
        input_length=input_length,
        output_length=output_length,
        workload_names=parse_names(workload),
        prefix_cache_hit_rate=prefix_cache_hit_rate,
        max_batched_tokens=max_batched_tokens,
        linear=quantize_linear_action,
        experts=quantize_experts_action,
        attention=quantize_attention_action,
        mxfp4_group_size=mxfp4_group_size,
        mtp_tokens=num_mtp_tokens,
        mtp_acceptance=parse_rates(mtp_acceptance_rate, "--mtp-acceptance-rate"),
        compile=compile,
        convention=convention,
        modes=parse_names(mode),
        search=search,
        tp_sizes=parse_sizes(tp_sizes, "--tp-sizes"),
        pp_sizes=parse_sizes(pp_sizes, "--pp-sizes"),
        dp_sizes=parse_sizes(dp_sizes, "--dp-sizes"),
        ep_sizes=parse_sizes(ep_sizes, "--ep-sizes"),
        moe_tp_sizes=parse_sizes(moe_tp_sizes, "--moe-tp-sizes"),
        moe_dp_sizes=parse_sizes(moe_dp_sizes, "--moe-dp-sizes"),
        batch_range=parse_batch_range(batch_range),
        serving_cost_ms=serving_cost,
        serving_model=serving_model,
        family=family,
    )
    requests = build_request(options, sweep, store)
    if dry_run:
        return _dry_run(requests, format_)
    from cli.flows.evaluating import evaluate_requests
    from cli.render.progress import ProgressBar

    if serving_model.endswith((".yaml", ".yml")):
        from cli.flows.serving_fit import keep_given_profile

        keep_given_profile(Path(serving_model), store)
    with ProgressBar(sys.stderr) as bar:
        reports = evaluate_requests(requests, store, label=label, jobs=jobs, on_progress=bar.show)
    phases = {phase for request in requests for phase in request.phases}
    return _report(reports, format_, store, question=_next_question(phases))


def _next_question(phases: AbstractSet[str]) -> str:
    """A question that rows of these phases answer."""
    if "aggregated" in phases:
        return "best --tpot-limits 50"
    if phases == {"prefill", "decode"}:
        return "pd-ratio --ttft-limits 1000 --tpot-limits 50"
    return "prefill --ttft-limits 1000" if phases == {"prefill"} else "decode --tpot-limits 50"


def _dry_run(requests: tuple[object, ...], format_: str) -> int:
    from cli.flows.evaluating import count_requests

    counts = count_requests(requests)  # type: ignore[arg-type]
    if format_ == "json":
        write_rows(list(asdict(counts)), [list(asdict(counts).values())], "json")
    else:
        say(f"{counts.scenarios} scenarios ({counts.illegal} illegal), {counts.probes:,} probes; nothing was stored")
    return 0


def _report(reports: list[SweepReport], format_: str, store: str | None, *, question: str) -> int:
    if format_ == "json":
        columns = [
            "sweep",
            "scenarios",
            "probes_stored",
            "probes_known",
            "operators_captured",
            "failures",
            "interrupted",
        ]
        rows = [
            [
                item.sweep,
                item.scenarios,
                item.probes_stored,
                item.probes_known,
                item.operators_captured,
                [asdict(failure) for failure in item.failures],
                item.interrupted,
            ]
            for item in reports
        ]
        write_rows(columns, rows, "json")
    for item in reports:
        _say_report(item)
    if any(item.interrupted for item in reports):
        say("interrupted: what is stored is kept; run the same command again to go on")
        return INTERRUPTED
    failed = sum(failure.scenarios for item in reports for failure in item.failures)
    if failed == sum(item.scenarios for item in reports):
        reason = reports[0].failures[0].reason if reports[0].failures else "nothing was evaluated"
        raise InputError(f"nothing could be evaluated: {reason}")
    if not any(item.fitting_scenarios for item in reports):
        raise InputError(
            "the model does not fit the device memory at batch size 1 in any plan (the rows are stored all the same)",
            hint="more devices an instance (--num-devices), a larger device, or a smaller format"
            " (--quantize-linear-action FP8)",
        )
    say(f"next: sweepdb query {question}{parse_url(store).argument}")
    if any(failure.status == "error" for item in reports for failure in item.failures):
        raise EvaluationError("some scenarios ended in an error; the others are stored", hint="sweepdb show SWEEP")
    return 0


def _say_report(item: SweepReport) -> None:
    parts = [f"{item.probes_stored:,} probes stored"]
    if item.probes_known:
        parts.append(f"{item.probes_known:,} already there")
    say(f"sweep {item.sweep}: {item.scenarios} scenarios, {', '.join(parts)}")
    for failure in item.failures:
        say(f"  {failure.scenarios} {failure.status}: {failure.reason}")


def explain(  # noqa: PLR0917  one parameter an option
    probe: Annotated[list[str], typer.Argument(help="one probe, or two to set side by side (a1b2c3d4:175)")],
    top: Annotated[int | None, typer.Option(min=1, help="only the longest operators")] = None,
    step: Annotated[str | None, typer.Option(help="prefill or decode [default: both where there are both]")] = None,
    format_: FormatOption = "table",
    output: OutputOption = None,
    store: StoreOption = None,
) -> int:
    """The operators of a stored step: FLOPs, bytes, time, bound and share; they sum to the stored time."""
    check_format(format_, output)
    if len(probe) > 2:
        raise InputError(f"explain takes one or two probes, not {len(probe)}")
    from cli.flows.explaining import explain_probes
    from cli.render.rows import table_lines

    explained = explain_probes(probe, store, step=step)
    columns, rows = explained.side_by_side(top) if len(probe) == 2 else explained.rows(top)
    if format_ == "table":
        write_text((*(f"{line}\n" for line in explained.headline()), *table_lines(columns, rows)), output)
    else:
        write_rows(columns, rows, format_, output)
    return 0
