"""query: options into a question, an answer into a table, CSV or JSON. Some reports read no store."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from cli.derived import as_typed, with_parameters
from cli.ending import ENDING
from cli.help.report_help import OTHERS, STORELESS
from cli.output import check_format, pieces_of, say, write_rows, write_text
from cli.shared_options import OUTPUT_SHAPE, FailEmptyOption, OutputOption, PresetOption, StoreOption, output_path
from store.errors import InputError, NothingFits
from sweepdb import asking, evaluating, measuring, own_runs, stores
from sweepdb.asking import option_table
from sweepdb.stores import is_standard_output

_LIMITS = {"ttft_limit": "ttft_ms", "tpot_limit": "tpot_ms", "e2e_limit": "e2e_ms"}
_OF_PREFIXES = ("model", "device", "input_length", "num_devices", "kv_transfer_gb_per_s")


def answer_storeless(
    report: str, names: Sequence[str], options: Mapping[str, Any], format_: str, output: Path | None
) -> int:
    """Refuses options about stored rows."""
    takes = _LIMITS if report == "conforming" else _OF_PREFIXES
    for keyword, value in options.items():
        if keyword not in takes and value not in {None, (), False}:
            if keyword == "preset" and value == "sweepdb":
                continue
            raise InputError(f"report {report} does not take `{keyword}`", hint=f"it takes {', '.join(takes)}")
    as_rows = "json" if format_ == "json-full" else format_
    return (
        _conforming(names, options, as_rows, output)
        if report == "conforming"
        else _bandwidth(names, options, as_rows, output)
    )


def _conforming(files: Sequence[str], options: Mapping[str, Any], format_: str, output: Path | None) -> int:
    if not files:
        raise InputError("report conforming reads logs", hint="query conforming FILE... --ttft-limit 200")
    limits = {name: options[keyword] for keyword, name in _LIMITS.items()}
    found = measuring.conforming([Path(name) for name in files], **limits)
    write_rows(
        measuring.CONFORMING_COLUMNS,
        [[getattr(one, name) for name in measuring.CONFORMING_COLUMNS] for one in found],
        format_,
        output,
    )
    return 0


def _bandwidth(names: Sequence[str], options: Mapping[str, Any], format_: str, output: Path | None) -> int:
    if names:
        raise InputError(f"report bandwidth takes no names, but got {' '.join(names)}")
    length = options["input_length"]
    if not options["model"] or not options["device"] or length is None or not str(length).isdecimal():
        raise InputError(
            "report bandwidth needs `model`, `device` and `input_length`, in tokens",
            hint="query bandwidth --model Qwen/Qwen3-32B --device h100_sxm --input-length 8192",
        )
    rows = []
    for model in str(options["model"]).split(","):
        for device in str(options["device"]).split(","):
            found = evaluating.prefix_transfer(
                model,
                device,
                input_length=int(length),
                num_devices=options["num_devices"] or evaluating.BANDWIDTH_DEVICES,
                kv_transfer_gb_per_s=options["kv_transfer_gb_per_s"],
            )
            rows.append([getattr(found, name) for name in evaluating.BANDWIDTH_COLUMNS])
    write_rows(evaluating.BANDWIDTH_COLUMNS, rows, format_, output)
    return 0


_DIGITS = 18  # of a number that is typed
PICTURES = ("svg", "png", "pdf", "html", "vl")
FORMATS = ("table", "csv", "json", "jsonl", "parquet", "json-full", *PICTURES)
# What a command line writes otherwise than Python: a number or a file, and NAME=WEIGHT once for each.
_WRITTEN = {"input_length": str | None, "mix": list[str] | None}


@with_parameters(option_table(), _WRITTEN, after="names")
def query(
    report: Annotated[
        str, typer.Argument(help="best, prefill, decode, pd-ratio ...; query reports lists them")
    ] = "best",
    names: Annotated[list[str] | None, typer.Argument(help="what the report compares: probes or sweeps")] = None,
    *,
    preset: PresetOption = "sweepdb",
    composition: Annotated[
        bool, typer.Option("--composition", help="add the requests of each length bin in each row's batch")
    ] = False,
    wide: Annotated[bool, typer.Option("--wide", "--all-columns", help="every column in a table")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="rules, cost model and assumptions on a terminal, too")
    ] = False,
    plot: Annotated[bool, typer.Option("--plot", help="a chart of characters below the table, too")] = False,
    show_sql: Annotated[
        bool, typer.Option("--show-sql", help="print the SQL instead, for a DuckDB shell over an export")
    ] = False,
    proof: Annotated[
        Path | None,
        typer.Option(
            parser=output_path,
            metavar=OUTPUT_SHAPE,
            help="write the question, digests of its rows and answer to this file or pipe; - is standard output",
        ),
    ] = None,
    sign: Annotated[Path | None, typer.Option(help="sign the proof with this Ed25519 key (PEM)")] = None,
    fail_empty: FailEmptyOption = False,
    format_: Annotated[
        str,
        typer.Option("--format", help="table, csv, json, jsonl, parquet, json-full; picture: svg, png, pdf, html, vl"),
    ] = "table",
    output: OutputOption = None,
    store: StoreOption = None,
    **options: Any,  # noqa: ANN401  those that queries.asking.options declares
) -> int:
    """Answer a question from the stored rows, evaluating nothing."""
    if report == "reports":
        return _list_reports(format_, output)
    check_format(format_, output, known=FORMATS)
    _check_apart(proof, output)
    if report in STORELESS:
        return answer_storeless(report, names or [], options, format_, output)
    question = _question(report, names or [], {**options, "preset": preset}, store)
    with ENDING.closing(asking.open_session(store)) as session:
        more = wide or plot or show_sql or composition or proof is not None
        answer = _as_typed(session.ask(question, for_table=format_ == "table" and not more))
        if proof is not None:
            _prove(answer, session, proof, sign)
        chart = _chart(answer, format_) if plot else ()
        answer = _cut(answer, options["top"], format_)
        answer = _with_bias(answer, session.location, format_)
        if show_sql:
            write_text((session.shell_sql(answer),), output)
            return 0
        composed = _composition(answer, session.location, format_) if composition else None
    shown = _Shown(wide=wide, explain=explain, fail_empty=fail_empty, composition=composed, chart=chart)
    return _show(answer, format_, output, shown)


def _check_apart(proof: Path | None, output: Path | None) -> None:
    if proof is not None and is_standard_output(proof) and (output is None or is_standard_output(output)):
        raise InputError(
            "The proof and the answer would both go to standard output.", hint="Name a file for one: --output FILE."
        )


def _prove(answer: asking.Answer, session: asking.Session, proof: Path, sign: Path | None) -> None:
    asking.write_proof(answer, proof, session.location, session.pinned(), points=session.points(), key_file=sign)
    if not is_standard_output(proof):
        say(f"proof written to {proof}; check it with: sweepdb verify {proof}")


def _question(report: str, names: Sequence[str], options: Mapping[str, Any], store: str | None) -> asking.Question:
    """Text of lengths may name a file, a blend has shares, names have no keys."""
    if (note := asking.old_name_note(report, options.get("rank_by"))) is not None:
        say(f"note: {as_typed(note)}")
    given = typed_keywords(options, store)
    named = asking.question_report(report).names
    if named is not None:
        given[named.options[0]] = tuple(names)
    elif names:
        raise InputError(f"report {report} takes no names, but got {' '.join(names)}")
    return asking.question_of(report, given)


def typed_keywords(options: Mapping[str, Any], store: str | None) -> dict[str, Any]:
    """Reads the file of lengths, and shares of a blend."""
    from sweepdb.length_scope import with_lengths

    text = options["input_length"]
    mix = tuple(map(_weighted, options.get("mix") or ())) or None
    length = int(text) if text is not None and text.isdecimal() and len(text) <= _DIGITS else text
    return with_lengths({**options, "input_length": length, "mix": mix}, store)


def _as_typed(answer: asking.Answer) -> asking.Answer:
    """Sentences name options as the command line does."""
    told = [replace(one, note=one.note and as_typed(one.note)) for one in answer.expected_error]
    return replace(
        answer,
        notes=tuple(map(as_typed, answer.notes)),
        verdict=tuple(map(as_typed, answer.verdict)),
        left_out=answer.left_out and as_typed(answer.left_out),
        expected_error=tuple(told),
    )


def _cut(answer: asking.Answer, top: int | None, format_: str) -> asking.Answer:
    """Unranked reports end at --top, and tables where a person stops reading."""
    from cli.render.answers import SHOWN_OF_LONG, is_long, shortened

    if "top" in answer.parameters or (top is None and (format_ != "table" or not is_long(answer))):
        return answer
    return shortened(answer, SHOWN_OF_LONG if top is None else top)


def _with_bias(answer: asking.Answer, location: stores.StoreLocation, format_: str) -> asking.Answer:
    """Notes batches too small for their length bins, unless columns tell."""
    if format_ != "table" or any(name.endswith("realised_input_length_mean") for name in answer.columns):
        return answer
    from cli.render.expected_error import bias_summary

    return replace(
        answer, notes=(*answer.notes, *bias_summary(asking.realised_means(location, asking.probes_of(answer))))
    )


def _composition(answer: asking.Answer, location: stores.StoreLocation, format_: str) -> list[list[object]] | None:
    """Batches and length bins, in formats with room for a second table."""
    if format_ not in {"table", "json-full"}:
        say("--composition is shown with --format table or json-full")
        return None
    rows = asking.composition_table(location, asking.probes_of(answer))
    if not rows:
        say("note: no length distribution among these rows; --composition has nothing to add")
    return rows


def _composition_lines(rows: list[list[object]] | None) -> Iterable[str]:
    if not rows:
        return ()
    from cli.render.rows import table_lines

    return ("\n", *table_lines(asking.COMPOSITION_COLUMNS, rows))


def _weighted(text: str) -> tuple[str, float]:
    name, separator, weight = text.rpartition("=")
    if not separator or not name:
        raise InputError(f"--mix {text[:100]}: a workload and its weight are expected", hint="such as --mix chat=0.6")
    try:
        return name, float(weight)
    except ValueError:
        raise InputError(f"--mix {text[:100]}: {weight!r} is no weight", hint="such as --mix chat=0.6") from None


def _list_reports(format_: str, output: Path | None) -> int:
    found = {item.name: item.summary for item in asking.asked_reports().values()}
    found |= OTHERS
    write_rows(["report", "summary"], [[name, found[name]] for name in sorted(found)], format_, output)
    return 0


class _Shown(NamedTuple):
    """An answer, and what stands below it."""

    wide: bool
    explain: bool
    fail_empty: bool
    composition: list[list[object]] | None
    chart: Iterable[str]


def _show(
    answer: asking.Answer,
    format_: str,
    output: Path | None,
    shown: _Shown,
) -> int:
    if format_ in PICTURES:
        from cli.pictures import write_picture

        write_picture(answer, format_, output)
    elif format_ == "json-full":
        write_text(_full_text(answer, shown.composition), output)
    elif format_ == "table":
        from cli.render.answers import answer_lines

        lines = answer_lines(answer, wide=shown.wide, explain=shown.explain)
        write_text((*lines, *_composition_lines(shown.composition), *shown.chart), output)
    else:
        write_rows(answer.columns, answer.rows, format_, output)
        _say_expected_error(answer)
        if not answer.rows:
            say("nothing satisfies the limits; --format table or json-full shows the nearest misses")
    if shown.fail_empty and not answer.rows:
        raise NothingFits("nothing satisfies the limits")
    return 0


def _chart(answer: asking.Answer, format_: str) -> Iterable[str]:
    if format_ != "table":
        raise InputError("--plot stands below a table", hint=f"--format {format_} has none; --format svg is a picture")
    from cli.pictures import chart_lines

    return tuple(chart_lines(answer))


def _say_expected_error(answer: asking.Answer) -> None:
    from cli.render.expected_error import error_lines

    for line in error_lines(answer):
        say(f"expected error: {line}")


def _full_text(answer: asking.Answer, composition: list[list[object]] | None) -> Iterable[str]:
    return json.dumps(full_answer(answer) | _full_composition(composition), ensure_ascii=False, indent=1), "\n"


def written_for(location: stores.StoreLocation) -> Callable[[asking.Answer, str, bool], Iterable[str]]:
    """As `query` writes answers, to compare with its file."""

    def written(answer: asking.Answer, format_: str, composed: bool) -> Iterable[str]:
        typed = _as_typed(answer)
        if format_ != "json-full":
            return pieces_of(typed.columns, typed.rows, format_)
        return _full_text(typed, _composition(typed, location, format_) if composed else None)

    return written


def _full_composition(rows: list[list[object]] | None) -> dict[str, object]:
    return (
        {}
        if rows is None
        else {"composition": [stores.plain(dict(zip(asking.COMPOSITION_COLUMNS, row, strict=True))) for row in rows]}
    )


def full_answer(answer: asking.Answer) -> dict[str, object]:
    question: asking.Question = answer.question
    return {
        "question": stores.plain({
            "report": answer.report, "scope": question.scope.described(), "groups": list(answer.scope),
            "limits": asdict(question.limits), "pairs": asdict(question.pairs), "top": question.options.top,
            "rank_by": question.options.rank_by,
        }),
        "definitions": {**asdict(question.definitions), "tpot": answer.tpot},
        "left_out": answer.left_out,
        "versions": stores.plain(dict(answer.versions)),
        "expected_error": [asdict(one) for one in answer.expected_error],
        **({"own_runs": asdict(answer.own_runs)} if answer.own_runs else {}),
        **({"verdict": list(answer.verdict)} if answer.verdict else {}),
        **({"ttft_intervals": [asdict(one) for one in answer.ttft_intervals]} if answer.ttft_intervals else {}),
        f"{answer.counts}_considered": answer.probes_considered,
        "rows": [stores.plain(row) for row in answer.dicts()],
        "nearest": [stores.plain(row) for row in answer.nearest_dicts()],
    }  # fmt: skip


def verify(
    proof: Annotated[Path, typer.Argument(help="a file written by query --proof")],
    answer: Annotated[Path | None, typer.Argument(help="the answer, kept with query --output")] = None,
    signed_by: Annotated[Path | None, typer.Option(help="the public key (PEM) it must be signed for")] = None,
    store: StoreOption = None,
) -> None:
    """Ask a proof's question again, of the rows in a store's database, and name the first thing that differs."""
    from sweepdb.sessions import SERVERS

    location = stores.parse_url(store)

    kept = None if answer is None else asking.KeptAnswer(answer, written_for(location))
    outcome = asking.verify_proof(
        proof, location, kept=kept, public_file=signed_by, own_points=own_runs.read_own_points, named=SERVERS
    )
    say(as_typed(outcome))
