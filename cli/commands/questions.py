"""query: options into a question, an answer into a table, CSV or JSON. Not here: SQL (queries)."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import OutputOption, StoreOption, parse_names
from cli.output import check_format, say, write_rows, write_text
from store.errors import InputError, NothingFits

if TYPE_CHECKING:
    from queries.question import Answer, Definitions, Question
    from store.location import StoreLocation

FORMATS = ("table", "csv", "json", "jsonl", "parquet", "json-full")


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("query")(query)
    app.command("verify")(verify)


# Longer than a screen because a command line is declared here and nowhere else: Typer reads options from one signature
# and has no groups of them. Nothing is computed between the declaration and Question.
def query(  # noqa: PLR0917  one parameter an option
    report: Annotated[
        str, typer.Argument(help="best, prefill, decode, pd-ratio ... (sweepdb query reports lists them)")
    ] = "best",
    names: Annotated[list[str] | None, typer.Argument(help="what the report compares: probes or sweeps")] = None,
    model: Annotated[str | None, typer.Option(help="only this model")] = None,
    device: Annotated[str | None, typer.Option(help="only these devices")] = None,
    sweep: Annotated[str | None, typer.Option(help="only what this sweep asked for")] = None,
    last: Annotated[bool, typer.Option("--last", help="only what the newest request asked for")] = False,
    every: Annotated[
        bool, typer.Option("--all", help="every subject of the store [default: what the newest request was about]")
    ] = False,
    workload: Annotated[str | None, typer.Option(help="only this workload, by name or label")] = None,
    input_length: Annotated[
        str | None, typer.Option(help="only this prompt length, or the length distribution in this FILE")
    ] = None,
    output_length: Annotated[float | None, typer.Option(help="only this output length")] = None,
    prefix_cache_hit_rate: Annotated[float | None, typer.Option(help="only this hit rate")] = None,
    max_batched_tokens: Annotated[int | None, typer.Option(help="only this token budget")] = None,
    quantize_linear_action: Annotated[str | None, typer.Option(help="only this format of linears")] = None,
    quantize_attention_action: Annotated[str | None, typer.Option(help="only this KV format")] = None,
    convention: Annotated[str | None, typer.Option(help="physical or upstream")] = None,
    family: Annotated[str | None, typer.Option(help="theoretical or calibrated")] = None,
    serving_model: Annotated[str | None, typer.Option(help="only this serving model")] = None,
    serving_cost: Annotated[float | None, typer.Option(help="only this fixed cost of delivery, ms")] = None,
    num_mtp_tokens: Annotated[int | None, typer.Option(help="only this many drafted tokens")] = None,
    compile: Annotated[bool | None, typer.Option("--compile/--eager", help="only this graph")] = None,  # noqa: A002
    shortest_length: Annotated[float | None, typer.Option(help="only clients with this shortest share")] = None,
    prompts_per_user: Annotated[int | None, typer.Option(help="only clients that ask so often")] = None,
    poll_steps: Annotated[int | None, typer.Option(help="only engines that look for prompts so often")] = None,
    seats: Annotated[int | None, typer.Option(help="only servers with so many seats")] = None,
    wait_steps: Annotated[int | None, typer.Option(help="only servers whose prompts wait so long")] = None,
    routing: Annotated[str | None, typer.Option(help="only this routing of experts")] = None,
    instance_devices: Annotated[int | None, typer.Option(help="only instances of this many devices")] = None,
    all_versions: Annotated[bool, typer.Option("--all-versions", help="older formula versions too")] = False,
    ttft_limits: Annotated[float | None, typer.Option("--ttft-limits", "--ttft-limit", help="ms")] = None,
    tpot_limits: Annotated[float | None, typer.Option("--tpot-limits", "--tpot-limit", help="ms")] = None,
    e2e_limits: Annotated[float | None, typer.Option("--e2e-limits", "--e2e-limit", help="ms")] = None,
    min_tokens_per_s_per_user: Annotated[float | None, typer.Option(help="tokens/s of one user")] = None,
    reserved_memory_gb: Annotated[float, typer.Option(help="GiB of each device that stay free")] = 10.0,
    confidence: Annotated[
        float | None, typer.Option(help="limits are of measured values, kept with this probability each, such as 0.8")
    ] = None,
    preset: Annotated[str, typer.Option(help="definitions: sweepdb, upstream, seed000 or seed001")] = "sweepdb",
    tpot_definition: Annotated[
        str | None, typer.Option(help="inclusive or exclusive [default: the serving model's]")
    ] = None,
    prefill_qps: Annotated[str | None, typer.Option(help="capacity or ttft")] = None,
    decode_qps: Annotated[str | None, typer.Option(help="minus-one or full")] = None,
    throughput: Annotated[str | None, typer.Option(help="once or twice")] = None,
    allocation: Annotated[str | None, typer.Option(help="budget or exact")] = None,
    kv_charge: Annotated[str | None, typer.Option(help="full or mean")] = None,
    num_devices: Annotated[int | None, typer.Option(help="device budget; copies of an instance share it")] = None,
    target_qps: Annotated[float | None, typer.Option(help="requests/s to carry")] = None,
    prefill_device: Annotated[str | None, typer.Option(help="prefill instances on this device")] = None,
    decode_device: Annotated[str | None, typer.Option(help="decode instances on this device")] = None,
    prefill_devices_per_instance: Annotated[
        int | None, typer.Option(help="only prefill instances of this size")
    ] = None,
    decode_devices_per_instance: Annotated[int | None, typer.Option(help="only decode instances of this size")] = None,
    kv_transfer_gb_per_s: Annotated[float | None, typer.Option(help="decimal GB/s between instances")] = None,
    all_pairs: Annotated[bool, typer.Option("--all-pairs", help="every stored row of both sides")] = False,
    prefill_degradation: Annotated[float, typer.Option(help="share of prefill QPS kept in service")] = 1.0,
    decode_degradation: Annotated[float, typer.Option(help="share of decode QPS kept in service")] = 1.0,
    rank_by: Annotated[str | None, typer.Option(help="throughput, qps, ttft, ... (a wrong one lists them)")] = None,
    top: Annotated[int | None, typer.Option(help="rows a group [default: 10; 40 of curves and steps]")] = None,
    composition: Annotated[
        bool, typer.Option("--composition", help="add the requests of each length bin in each row's batch")
    ] = False,
    wide: Annotated[bool, typer.Option("--wide", "--all-columns", help="every column in a table")] = False,
    show_sql: Annotated[bool, typer.Option("--show-sql", help="print the SQL and its parameters instead")] = False,
    proof: Annotated[Path | None, typer.Option(help="write SQL, parameters, probes and hash to this file")] = None,
    fail_empty: Annotated[bool, typer.Option("--fail-empty", help="exit 5 when nothing fits")] = False,
    mode: Annotated[
        str | None,
        typer.Option(help="which phase: aggregated, prefill or decode; devices: pd too"),
    ] = None,
    vary: Annotated[str | None, typer.Option(help="sensitivity: one or two of ttft, tpot, e2e, memory")] = None,
    mix: Annotated[list[str] | None, typer.Option(help="mix: WORKLOAD=WEIGHT, once for each workload")] = None,
    steps: Annotated[int, typer.Option(help="sensitivity over two limits: values of each")] = 5,
    price_date: Annotated[str | None, typer.Option(help="prices of this ISO date [default: the newest]")] = None,
    format_: Annotated[str, typer.Option("--format", help="table, csv, json, jsonl, parquet or json-full")] = "table",
    output: OutputOption = None,
    store: StoreOption = None,
) -> int:
    """Answer a question from the stored rows, evaluating nothing."""
    if report == "reports":
        return _list_reports(format_, output)
    if names and report not in {"why", "diff"}:
        raise InputError(f"report {report} takes no names, but got {' '.join(names)}")
    check_format(format_, output, known=FORMATS)
    _check_date(price_date)
    from cli.flows.length_scope import length_scope
    from queries.question import Limits, PairOptions, Question, ReportOptions, Scope
    from queries.session import open_session

    lengths = length_scope(input_length, output_length, store)
    if workload is not None and lengths.workload is not None:
        raise InputError(f"--input-length {input_length}: not a whole number, and no such file")
    question = Question(
        report=report,
        scope=Scope(
            models=parse_names(model),
            devices=parse_names(device),
            sweep=sweep,
            last=last,
            workload=workload or lengths.workload,
            workload_keys=lengths.workload_keys,
            input_length=lengths.input_length,
            output_length=output_length,
            prefix_cache_hit_rate=prefix_cache_hit_rate,
            max_batched_tokens=max_batched_tokens,
            linear_quantization=quantize_linear_action,
            attention_quantization=quantize_attention_action,
            convention=convention,
            family=family,
            serving_model=serving_model,
            serving_cost_ms=serving_cost,
            mtp_tokens=num_mtp_tokens,
            compile=compile,
            shortest_length=shortest_length,
            prompts_per_user=prompts_per_user,
            poll_steps=poll_steps,
            seats=seats,
            wait_steps=wait_steps,
            routing=routing,
            instance_devices=instance_devices,
            all_versions=all_versions,
            all_subjects=every,
        ),
        limits=Limits(
            ttft_ms=ttft_limits,
            tpot_ms=tpot_limits,
            e2e_ms=e2e_limits,
            min_tokens_per_s_per_user=min_tokens_per_s_per_user,
            reserved_gib=reserved_memory_gb,
            confidence=confidence,
        ),
        definitions=_definitions(
            preset,
            tpot=tpot_definition,
            prefill_qps=prefill_qps,
            decode_qps=decode_qps,
            throughput=throughput,
            allocation=allocation,
            kv_charge=kv_charge,
        ),
        pairs=PairOptions(
            num_devices=num_devices,
            target_qps=target_qps,
            prefill_device=prefill_device,
            decode_device=decode_device,
            prefill_devices_per_instance=prefill_devices_per_instance,
            decode_devices_per_instance=decode_devices_per_instance,
            kv_transfer_gb_per_s=kv_transfer_gb_per_s,
            all_pairs=all_pairs,
            prefill_degradation=prefill_degradation,
            decode_degradation=decode_degradation,
        ),
        top=10 if top is None else top,
        rank_by=rank_by,
        options=ReportOptions(
            mode=mode,
            probes=tuple(names or ()) if report == "why" else (),
            sweeps=tuple(names or ()) if report == "diff" else (),
            vary=parse_names(vary),
            steps=steps,
            mix=tuple(map(_weighted, mix or ())),
            price_date=price_date,
        ),
    )
    with open_session(store) as session:
        answer = session.ask(question)
        if proof is not None:
            from queries.proof import write_proof

            write_proof(answer, proof, session.location, session.pinned())
            say(f"proof written to {proof}; check it with: sweepdb verify {proof}")
        answer = _cut(answer, top, format_)
        if format_ == "table":
            answer = _with_bias(answer, session.location)
        composed = _composition(answer, session.location, format_) if composition else None
    return _show(answer, format_, output, wide=wide, show_sql=show_sql, fail_empty=fail_empty, composition=composed)


def _check_date(text: str | None) -> None:
    from datetime import date

    try:
        date.fromisoformat(text or "2000-01-01")
    except ValueError:
        raise InputError(f"--price-date must be a date such as 2026-01-31, not {text!r}") from None


def _cut(answer: Answer, top: int | None, format_: str) -> Answer:
    """Reports without a rank of their own end where --top says, and in a table where a person stops reading."""
    from cli.render.answers import LONG, SHOWN_OF_LONG, shortened

    if "top" in answer.parameters or (top is None and (format_ != "table" or answer.report not in LONG)):
        return answer
    return shortened(answer, SHOWN_OF_LONG if top is None else top)


def _with_bias(answer: Answer, location: StoreLocation) -> Answer:
    """Note batches too small for their length bins, where the report's own columns do not tell."""
    from cli.render.bias import bias_summary
    from queries.composition import realised_means
    from queries.proof import probes_of

    if any(name.endswith("realised_input_length_mean") for name in answer.columns):
        return answer
    return replace(answer, notes=(*answer.notes, *bias_summary(realised_means(location, probes_of(answer)))))


def _composition(answer: Answer, location: StoreLocation, format_: str) -> list[list[object]] | None:
    """The batches of an answer and their length bins, in the forms that have room for a second table."""
    from queries.composition import composition_table
    from queries.proof import probes_of

    if format_ not in {"table", "json-full"}:
        say("--composition is shown with --format table or json-full")
        return None
    rows = composition_table(location, probes_of(answer))
    if not rows:
        say("note: no length distribution among these rows; --composition has nothing to add")
    return rows


def _weighted(text: str) -> tuple[str, float]:
    name, separator, weight = text.rpartition("=")
    if not separator or not name:
        raise InputError(f"--mix {text}: a workload and its weight are expected", hint="such as --mix chat=0.6")
    try:
        return name, float(weight)
    except ValueError:
        raise InputError(f"--mix {text}: {weight!r} is no weight", hint="such as --mix chat=0.6") from None


def _definitions(preset: str, **rules: str | None) -> Definitions:
    from queries.question import RULES, preset_named

    given = {name: value for name, value in rules.items() if value is not None}
    for name, value in given.items():
        if value not in RULES[name]:
            option = "tpot-definition" if name == "tpot" else name.replace("_", "-")
            raise InputError(f"--{option} {value} is not one of {', '.join(RULES[name])}")
    return replace(preset_named(preset), **given)  # type: ignore[arg-type]


def _list_reports(format_: str, output: Path | None) -> int:
    from queries.library import reports

    write_rows(["report", "summary"], [[name, item.summary] for name, item in reports().items()], format_, output)
    return 0


def _show(
    answer: Answer,
    format_: str,
    output: Path | None,
    *,
    wide: bool,
    show_sql: bool,
    fail_empty: bool,
    composition: list[list[object]] | None,
) -> int:
    if show_sql:
        from queries.library import shared_sql

        parameters = json.dumps(dict(answer.parameters), indent=2, default=str)
        text = f"{shared_sql()}\n{answer.sql}\n-- parameters:\n"
        write_text((text, *(f"-- {line}\n" for line in parameters.splitlines())), output)
        return 0
    if format_ == "json-full":
        document = full_answer(answer) | _full_composition(composition)
        write_text((json.dumps(document, ensure_ascii=False, indent=1), "\n"), output)
    elif format_ == "table":
        from cli.render.answers import answer_lines
        from cli.render.rows import table_lines
        from queries.composition import COLUMNS

        below = ("\n", *table_lines(COLUMNS, composition)) if composition else ()
        write_text((*answer_lines(answer, wide=wide), *below), output)
    else:
        write_rows(answer.columns, answer.rows, format_, output)
        _say_expected_error(answer)
        if not answer.rows:
            say("nothing satisfies the limits; --format table or json-full shows the nearest misses")
    if fail_empty and not answer.rows:
        raise NothingFits("nothing satisfies the limits")
    return 0


def _say_expected_error(answer: Answer) -> None:
    from cli.render.expected_error import expected_error_lines

    for line in expected_error_lines(answer.expected_error):
        say(f"expected error: {line}")


def _full_composition(rows: list[list[object]] | None) -> dict[str, object]:
    from cli.render.rows import plain
    from queries.composition import COLUMNS

    return {} if rows is None else {"composition": [plain(dict(zip(COLUMNS, row, strict=True))) for row in rows]}


def full_answer(answer: Answer) -> dict[str, object]:
    """Everything about an answer, for machines."""
    from cli.render.rows import plain

    question: Question = answer.question
    return {
        "question": plain({"report": answer.report, "scope": question.scope.described(), "groups": list(answer.scope),
                           "limits": asdict(question.limits), "pairs": asdict(question.pairs), "top": question.top,
                           "rank_by": question.rank_by}),
        "definitions": {**asdict(question.definitions), "tpot": answer.tpot},
        "left_out": answer.left_out,
        "versions": plain(dict(answer.versions)),
        "expected_error": [asdict(one) for one in answer.expected_error],
        **({"verdict": list(answer.verdict)} if answer.verdict else {}),
        "probes_considered": answer.probes_considered,
        "rows": [plain(row) for row in answer.dicts()],
        "nearest": [plain(row) for row in answer.nearest_dicts()],
    }  # fmt: skip


def verify(
    proof: Annotated[Path, typer.Argument(help="a file written by query --proof")],
    store: StoreOption = None,
) -> int:
    """Ask a proof's question again, of this or another copy of the store, and compare the answers."""
    from queries.proof import verify_proof
    from store.location import parse_url

    outcome = verify_proof(proof, parse_url(store))
    say(outcome)
    return 0
