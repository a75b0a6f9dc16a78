"""evaluate and explain: options into a request, a report into lines. Not here: evaluating (evaluator.sweep)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.output import check_format, say, write_rows, write_text
from cli.shared_options import (
    FormatOption,
    OutputOption,
    StoreOption,
    parse_batch_range,
    parse_names,
    parse_rates,
    parse_sizes,
)
from store.errors import EvaluationError, InputError
from store.location import parse_url

if TYPE_CHECKING:
    from evaluator.request import SweepRequest
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
    num_devices: Annotated[
        str | None, typer.Option(help="devices of one instance; several sizes: 4,8,16 [default: 1]")
    ] = None,
    total_devices: Annotated[
        int | None, typer.Option(help="instead: instances of every size that divides this many devices")
    ] = None,
    prefill_devices_per_instance: Annotated[str | None, typer.Option(help="devices of a prefill instance")] = None,
    decode_devices_per_instance: Annotated[str | None, typer.Option(help="devices of a decode instance")] = None,
    input_length: Annotated[str | None, typer.Option(help="prompt tokens, or a length distribution FILE")] = None,
    output_length: Annotated[float | None, typer.Option(help="generated tokens")] = None,
    workload: Annotated[str | None, typer.Option(help="named workloads of the store, instead of lengths")] = None,
    prefix_cache_hit_rate: Annotated[float, typer.Option(help="share of a prompt found in cache, [0, 1)")] = 0.0,
    max_batched_tokens: Annotated[
        int | None, typer.Option(help="token budget of one step of a replica [default: 8192, or the engine's]")
    ] = None,
    quantize_linear_action: Annotated[
        str | None,
        typer.Option(help="format of linears; several by commas [default: NATIVE, as the weights are published]"),
    ] = None,
    quantize_experts_action: Annotated[
        str | None, typer.Option(help="format of experts [default: as named for linears, else NATIVE]")
    ] = None,
    quantize_attention_action: Annotated[
        str | None, typer.Option(help="KV cache: DISABLED, INT8 or FP8 [default: NATIVE]")
    ] = None,
    mxfp4_group_size: Annotated[int, typer.Option(help="weights that share one MXFP4 scale")] = 32,
    num_mtp_tokens: Annotated[int, typer.Option(help="tokens drafted a step, 0-9")] = 0,
    mtp_acceptance_rate: Annotated[str | None, typer.Option(help="acceptance of each drafted token")] = None,
    compile: Annotated[bool, typer.Option("--compile/--eager", help="compiled or eager graph")] = True,  # noqa: A002
    convention: Annotated[str, typer.Option(help="physical or upstream")] = "physical",
    mode: Annotated[
        str | None, typer.Option(help="prefill, decode, aggregated; several by commas [default: all]")
    ] = None,
    search: Annotated[
        str | None,
        typer.Option(
            help="launchable: plans that the engine launches as one server; every legal plan; tp (seed 001's rule)"
            " [default: launchable; every without an engine]"
        ),
    ] = None,
    tp_sizes: Annotated[str | None, typer.Option(help="tensor parallel sizes; none given: powers of two")] = None,
    pp_sizes: Annotated[str | None, typer.Option(help="pipeline stages; searched only when asked")] = None,
    dp_sizes: Annotated[str | None, typer.Option(help="data parallel replicas")] = None,
    ep_sizes: Annotated[str | None, typer.Option(help="expert parallel sizes")] = None,
    moe_tp_sizes: Annotated[str | None, typer.Option(help="tensor parallel sizes inside experts")] = None,
    moe_dp_sizes: Annotated[str | None, typer.Option(help="replicas of the expert group")] = None,
    batch_range: Annotated[str | None, typer.Option(help="[min] max batch size of a replica")] = None,
    serving_cost: Annotated[float, typer.Option(help="fixed cost of delivery, ms")] = 0.0,
    serving_model: Annotated[
        str | None,
        typer.Option(
            help="how steps become latencies: an engine (vllm, sglang, trtllm) or its FILE.yaml, waves, seed002;"
            " several by commas [default: vllm where the device has it, else waves]"
        ),
    ] = None,
    client_lengths: Annotated[
        float | None, typer.Option(help="shortest request as a share of the lengths [default: the engine's client]")
    ] = None,
    prompts_per_user: Annotated[int | None, typer.Option(help="requests that each user sends in turn")] = None,
    poll_steps: Annotated[int | None, typer.Option(help="decode steps between two looks for new requests")] = None,
    seats: Annotated[int | None, typer.Option(help="most requests of a replica in flight [default: all]")] = None,
    wait_steps: Annotated[int | None, typer.Option(help="decode steps that a prompt waits for others")] = None,
    routing: Annotated[
        str | None, typer.Option(help="tokens over experts: balanced, power_law_1.2 or auto [default: auto]")
    ] = None,
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
    from sweepdb.evaluating.requests import build_request
    from sweepdb.evaluating.sweep_options import SweepOptions

    options = SweepOptions(
        models=parse_names(model),
        devices=parse_names(device),
        num_devices=parse_sizes(num_devices, "--num-devices") or (),
        total_devices=total_devices,
        prefill_devices=parse_sizes(prefill_devices_per_instance, "--prefill-devices-per-instance") or (),
        decode_devices=parse_sizes(decode_devices_per_instance, "--decode-devices-per-instance") or (),
        input_length=input_length,
        output_length=output_length,
        workload_names=parse_names(workload),
        prefix_cache_hit_rate=prefix_cache_hit_rate,
        max_batched_tokens=max_batched_tokens,
        linears=parse_names(quantize_linear_action),
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
        serving_models=parse_names(serving_model),
        client_shortest=client_lengths,
        prompts_per_user=prompts_per_user,
        poll_steps=poll_steps,
        seats=seats,
        wait_steps=wait_steps,
        routing=routing,
        family=family,
    )
    built = build_request(options, sweep, store)
    for note in built.notes:
        say(note)
    if dry_run:
        return _dry_run(built.parts, format_)
    from cli.render.progress import ProgressBar
    from sweepdb.evaluating.storing import evaluate_requests

    if serving_model is not None and serving_model.endswith((".yaml", ".yml")):
        from sweepdb.measuring.engine_fitting import keep_given_profile

        keep_given_profile(Path(serving_model), store)
    with ProgressBar(sys.stderr) as bar:
        report = evaluate_requests(built.parts, store, label=label, jobs=jobs, on_progress=bar.show)
    phases = {phase for part in built.parts for phase in part.phases}
    return _report(report, format_, store, question=_next_question(phases))


def _next_question(phases: AbstractSet[str]) -> str:
    """A question that rows of these phases answer."""
    if "aggregated" in phases:
        return "best --tpot-limits 50"
    if phases == {"prefill", "decode"}:
        return "pd-ratio --ttft-limits 1000 --tpot-limits 50"
    return "prefill --ttft-limits 1000" if phases == {"prefill"} else "decode --tpot-limits 50"


def _dry_run(parts: Sequence[SweepRequest], format_: str) -> int:
    from sweepdb.evaluating.storing import count_request

    counts = count_request(parts)
    if format_ == "json":
        write_rows(list(asdict(counts)), [list(asdict(counts).values())], "json")
    else:
        say(f"{counts.scenarios} scenarios ({counts.illegal} illegal), {counts.probes:,} probes; nothing was stored")
    return 0


def _report(report: SweepReport, format_: str, store: str | None, *, question: str) -> int:
    if format_ == "json":
        outcome = {field.name: getattr(report, field.name) for field in fields(report)}
        del outcome["fitting_scenarios"]
        outcome["failures"] = [asdict(failure) for failure in report.failures]
        write_rows(list(outcome), [list(outcome.values())], "json")
    _say_report(report)
    if report.interrupted:
        say("interrupted: what is stored is kept; run the same command again to go on")
        return INTERRUPTED
    if sum(failure.scenarios for failure in report.failures) == report.scenarios:
        reason = report.failures[0].reason if report.failures else "nothing was evaluated"
        raise InputError(f"nothing could be evaluated: {reason}")
    if not report.fitting_scenarios:
        raise InputError(
            "the model does not fit the device memory at batch size 1 in any plan (the rows are stored all the same)",
            hint="more devices an instance (--num-devices), a larger device, or a smaller format"
            " (--quantize-linear-action FP8)",
        )
    say(f"next: sweepdb query {question}{parse_url(store).argument}")
    if any(failure.status == "error" for failure in report.failures):
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
    from cli.render.rows import table_lines
    from sweepdb.explaining import explain_probes

    explained = explain_probes(probe, store, step=step)
    columns, rows = explained.side_by_side(top) if len(probe) == 2 else explained.rows(top)
    if format_ == "table":
        write_text((*(f"{line}\n" for line in explained.headline()), *table_lines(columns, rows)), output)
    else:
        write_rows(columns, rows, format_, output)
    return 0
