"""An answer as text: what was looked at and under which rules, then about ten columns of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from cli.derived import spelled
from cli.render.expected_error import error_lines
from cli.render.rows import Aside, Paragraph, Table, cell, table_lines
from store.texts import counted
from sweepdb import asking, planning

SHOWN_OF_LONG = 40  # rows of a report without a rank of its own, where no --top ends them
_GIBIBYTE = 2**30
_PLANS = ("plan", "prefill_plan", "decode_plan")
_PAIRED = frozenset({
    *_PLANS, *asking.HELD, "instances", "prefill_instances", "decode_instances",
})  # fmt: skip  # said by the deployment and its probes
_CLOSE = 0.1  # of a limit: a decimal tells more there
_LEFT_OUT = ": --top N shows more of them"


def answer_lines(answer: asking.Answer, *, wide: bool, explain: bool = False) -> Iterator[str]:
    """Header, then a table for each group, or the nearest misses. Asides come where it is to explain."""
    lines = list(_lines(answer, wide=wide))
    asides = not explain and any(isinstance(line, Aside) for line in lines)
    for line in lines:
        if not isinstance(line, Aside):
            yield line
        elif explain:
            yield Paragraph(line, indent="  ")
    if asides:
        yield "\nrules, cost model and assumptions: --explain\n"


def _lines(answer: asking.Answer, *, wide: bool) -> Iterator[str]:
    yield from header_lines(answer)
    if answer.rows:
        rows = with_relaxed(answer.columns, answer.rows, answer)
        yield from _groups(answer.columns, rows, answer, None if wide else shown_columns(answer))
    elif (too_much := _too_much_reserved(answer)) is not None:
        yield from ("\n", Paragraph(too_much))
    elif answer.nearest:
        yield "\nNothing satisfies the limits. The nearest misses:\n"
        nearest = with_relaxed(answer.nearest_columns, answer.nearest, answer)
        yield from _groups(answer.nearest_columns, nearest, answer, None if wide else nearest_columns(answer))
    else:
        yield "\n(no rows)\n"
    of_answers = (bias_notes, price_notes, memory_notes, unit_notes)
    notes = tuple(dict.fromkeys((*answer.notes, *(note for each in of_answers for note in each(answer)))))
    for line in answer.verdict:
        yield from ("\n", Paragraph(line))
    told = [note for note in notes if note.startswith("note:") or _LEFT_OUT in note]
    if notes:
        yield "\n" if told else Aside("")
    for note in notes:
        yield Paragraph(note, indent="  ") if note in told else Aside(f"assumed: {note}")


def _too_much_reserved(answer: asking.Answer) -> str | None:
    misses = answer.nearest_dicts()
    reserve = answer.question.limits.reserved_gib
    # A miss of memory is a share of the device: what is lacking over it is the device's whole memory.
    memory = {
        str(row["device"]): -int(str(row["memory_free_bytes"])) / _GIBIBYTE / float(str(row["miss"]))
        for row in misses
        if row["binding_limit"] == "memory"
    }
    if not misses or any(memory.get(str(row["device"]), reserve + 1) > reserve for row in misses):
        return None
    told = ", ".join(f"{device} has {size:.4g} GiB" for device, size in memory.items())
    return f"Nothing fits beside a reserve of {reserve:g} GiB: {told}. Type --reserved-memory-gb 10."


def with_relaxed(
    columns: Sequence[str], rows: Sequence[Sequence[object]], answer: asking.Answer
) -> Sequence[Sequence[object]]:
    """Nearest misses with `relax_to` in the digits that admit them; other rows as they are."""
    if "relax_to" not in columns:
        return rows
    told = []
    for row in rows:
        named = dict(zip(columns, row, strict=True))
        named["relax_to"] = asking.relaxed_to(named, answer.question.limits)
        if named["relax_to"] is None:
            named["admitted_then"] = None
        told.append(tuple(named.values()))
    return told


def memory_notes(answer: asking.Answer) -> Iterator[str]:
    """A row that no reserve admits needs another deployment, not another limit."""
    of_misses = "relax_to" in answer.columns
    columns = answer.columns if of_misses else answer.nearest_columns
    rows = with_relaxed(columns, answer.rows if of_misses else answer.nearest, answer)
    if rows and all(row[columns.index("relax_to")] is None for row in rows):
        yield (
            "note: none of these fits even with no memory reserved: evaluate more devices an instance (--num-devices),"
            " a larger device, or a smaller format (--quantization FP8)"
        )


def unit_notes(answer: asking.Answer) -> Iterator[str]:
    """A limit that no device can keep may be meant in seconds."""
    for one, limit in () if answer.rows else answer.question.limits.given:
        if one.option.unit == "ms" and not one.least and limit < 1:
            typed = f"{spelled(one.keyword)} {1000 * limit:g}"
            yield f"note: limits are in ms: for {limit:g} s, type {typed}, or {limit:g}s"


def is_long(answer: asking.Answer) -> bool:
    return asking.report(answer.report).layout == "long"


def shortened(answer: asking.Answer, rows_a_group: int) -> asking.Answer:
    position = answer.columns.index("question_group") if "question_group" in answer.columns else None
    seen: Counter[object] = Counter()
    kept = []
    for row in answer.rows:
        group = None if position is None else row[position]
        seen[group] += 1
        if seen[group] <= rows_a_group:
            kept.append(row)
    left_out = len(answer.rows) - len(kept)
    note = (f"{left_out:,} more {'rows' if left_out > 1 else 'row'}{_LEFT_OUT}, --format csv all",) if left_out else ()
    return replace(answer, rows=tuple(kept), notes=(*answer.notes, *note))


def price_notes(answer: asking.Answer) -> Iterator[str]:
    """Cost without a price is no cost: say what to enter."""
    if "usd_per_device_hour" not in answer.columns:
        return
    yield from price_note(row["device"] for row in answer.dicts() if row["usd_per_device_hour"] is None)


def price_note(devices: Iterable[object]) -> Iterator[str]:
    if named := [str(device) for device in dict.fromkeys(devices)]:
        typed = " ".join(f"{device} USD" for device in named)
        yield f"note: no price of {' or '.join(named)} is stored. Type the USD an hour: sweepdb prices set {typed}"


def bias_notes(answer: asking.Answer) -> Iterator[str]:
    """Small batches miss rare bins of a length distribution: say where the mean prompt is off by more than 5 %."""
    for prefix in ("", "prefill_"):
        realised = f"{prefix}realised_input_length_mean"
        if realised not in answer.columns or "input_length_mean" not in answer.columns:
            continue
        for row in answer.dicts():
            wanted, found = row["input_length_mean"], row[realised]
            if isinstance(wanted, float) and isinstance(found, float):
                from cli.render.expected_error import bias_note

                yield from bias_note(
                    asking.RealisedMean(probe=str(row[f"{prefix}probe"]), realised=found, wanted=wanted)
                )


def header_lines(answer: asking.Answer) -> Iterator[str]:
    kind = answer.counts.removesuffix("s")
    looked_at = f"{counted(answer.probes_considered, kind)} of {counted(answer.scenarios_considered, 'scenario')}"
    yield f"{answer.report}: {looked_at} looked at\n"
    if answer.left_out is not None:
        yield Paragraph(answer.left_out, unbroken=True)
    # Coverage judges no number; counts of the best pair judge that pair.
    if "reserved_gib" in answer.parameters or asking.report(answer.report).best_of is not None:
        yield from _rule_lines(answer)
    elif "ttft_limit_ms" in answer.parameters and asking.report(answer.report).of_loads:
        yield load_limits(answer)
    if answer.question.options.rows == "measured":
        yield Aside(f"measured settings of {answer.version('serving_model')}")
        yield from _ranking_lines(answer)
        return
    older = f" (of {answer.version('older_formula_versions')} too: --all-versions)"
    yield Aside(
        f"cost model: {answer.version('family')}, serving model {answer.version('serving_model')},"
        f" formula version {answer.version('formula_version')}"
        f"{older if answer.versions.get('older_formula_versions') else ''}"
    )
    yield from _ranking_lines(answer)
    for line in error_lines(answer):
        yield Paragraph(f"expected error: {line}", indent="  ")


def _ranking_lines(answer: asking.Answer) -> Iterator[str]:
    """Lines about what ranks instances of several sizes, where nobody asked for another objective."""
    ranked = {row.get("ranked_by") for row in answer.dicts()}
    budget = answer.question.pairs.num_devices
    if ranked & {"system_output_tokens_per_s", "system_input_tokens_per_s"}:
        yield f"ranked by tokens/s of the copies that {budget} devices hold\n"
    elif budget is not None and asking.instance_budget(answer.question) is not None:
        yield f"instances of at most {counted(budget, 'device')}\n"
    if any(str(one).endswith("_per_device") for one in ranked) and answer.question.options.rank_by is None:
        told = "ranked by tokens/s per device: instances here differ in size (--num-devices N: by what N devices hold)"
        yield Paragraph(told, unbroken=True)


def load_limits(answer: asking.Answer) -> str:
    said = answer.question.limits.said()
    if not said:
        return "limits: none\n"
    share = answer.parameters.get("attainment")
    of = f" of {100 * share:g} % of the requests" if isinstance(share, float) else ""
    how = ", each limit by itself" if answer.parameters.get("marginal") else ", all at once" if len(said) > 1 else ""
    return f"limits{of}: {', '.join(said)}{how}\n"


def _rule_lines(answer: asking.Answer) -> Iterator[str]:
    limits, rules = answer.question.limits, answer.question.definitions
    ignored = asking.report(answer.report).ignores
    if ignored:  # limits on time are all that a report may ignore
        limits = asking.Limits(reserved_gib=limits.reserved_gib)
    measured = answer.question.options.rows == "measured"
    reserve = [] if measured else [f"{limits.reserved_gib:g} GiB reserved"]
    said = [*limits.said(), *limits.surely, *reserve] or ["none"]
    every = f" (a {answer.report} shows every point that fits memory, whatever its times)" if ignored else ""
    yield Paragraph(f"limits: {', '.join(said)}{every}", indent="  ", unbroken=True)
    if measured:
        return
    yield Aside(
        f"rules: tpot {answer.tpot}, prefill rate {rules.prefill_qps}, decode rate {rules.decode_qps},"
        f" throughput {rules.throughput}, allocation {rules.allocation}, KV charge {rules.kv_charge}"
    )


def _groups(
    columns: Sequence[str], rows: Sequence[Sequence[object]], answer: asking.Answer, shown: Sequence[str] | None
) -> Iterator[str]:
    if "question_group" not in columns:
        yield "\n"
        yield from _table(columns, rows, shown, answer)
        return
    position = columns.index("question_group")
    for group in dict.fromkeys(row[position] for row in rows):
        yield f"\n{answer.scope[int(str(group))]}\n"
        mine = [row for row in rows if row[position] == group]
        yield from _table(
            columns,
            mine,
            shown,
            answer,
            turned=asking.report(answer.report).layout == "turned" and columns == answer.columns,
        )


def _table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    shown: Sequence[str] | None,
    answer: asking.Answer,
    *,
    turned: bool = False,
) -> Iterator[str]:
    called, spans = _called(answer), ttft_spans(answer)
    names, held = list(columns), [list(row) for row in rows]
    if "memory_free_bytes" in names:
        position = names.index("memory_free_bytes")
        names.append("memory_free_gib")
        for row in held:
            value = row[position]
            row.append(None if value is None else float(str(value)) / _GIBIBYTE)
    chosen = [name for name in (shown or columns) if name in names and name != "question_group"]
    if shown is not None or turned:  # what no row has is no column of a person's table
        chosen = [name for name in chosen if any(row[names.index(name)] is not None for row in held)]
    indices = [names.index(name) for name in chosen]
    heads = [called.get(name, name) for name in chosen]
    probe = names.index("probe") if "probe" in names else None
    cells = [
        [
            spans.get(str(row[probe]), row[index])
            if probe is not None and names[index] == "ttft_ms" and row[index] is not None
            else _number_of(row[index], names[index])
            for index in indices
        ]
        for row in held
    ]
    if turned:
        heads, cells = (
            [heads[0], *(str(row[0]) for row in cells)],
            [list(line) for line in zip(heads, *cells, strict=True)][1:],
        )
    for piece in table_lines(heads, cells):
        if isinstance(piece, Table) and shown is not None and not turned:
            named = [dict(zip(names, row, strict=True)) for row in held]
            piece.may_miss, piece.beside = True, _beside(chosen, heads, named, answer.question.limits)
            piece.replaced = _PAIRED if "deployment" in piece.beside else frozenset()
        yield piece


def ttft_spans(answer: asking.Answer) -> Mapping[str, str]:
    """First tokens that lie between two numbers, as a table shows them, by probe."""
    return {one.probe: f"{cell(one.least_ms)}-{cell(one.most_ms)}" for one in answer.ttft_intervals}


def _beside(
    chosen: Sequence[str], heads: Sequence[str], rows: Sequence[Mapping[str, object]], limits: asking.Limits
) -> dict[str, list[str]]:
    """Columns of a terminal: plans as people write them, and the room that the nearest limit on a time leaves."""
    found = {
        head: [planning.short_plan(str(row[name])) if row[name] is not None else "-" for row in rows]
        for name, head in zip(chosen, heads, strict=True)
        if name in _PLANS
    }
    if "deployment" in chosen or {"prefill_plan", "decode_plan"} <= set(chosen):
        found["deployment"] = [_deployment(row) for row in rows]
        probes = [
            " ".join(str(row[name]) for name in asking.HELD if row.get(name) is not None and name in chosen)
            for row in rows
        ]
        found |= {"probes": probes} if any(probes) else {}  # loads have none
    slacks = [_slack(row, limits) for row in rows]
    return {**found, "slack": slacks} if any(slacks) else found


def _deployment(row: Mapping[str, object]) -> str:
    """The instances of a row and their plans: `2 x TP1 + 1 x TP2` of disaggregated serving."""
    sides = [(row.get(f"{side}instances"), row.get(f"{side}plan")) for side in ("prefill_", "decode_", "")]
    return " + ".join(
        planning.short_plan(str(label)) if count is None else f"{count} x {planning.short_plan(str(label))}"
        for count, label in sides
        if label is not None
    )


def _slack(row: Mapping[str, object], limits: asking.Limits) -> str:
    """The limit on a time that is nearest, with the percent of it that are left; empty without one."""
    left = [
        (1 - value / limit, one.short)
        for one, limit in limits.given
        if not one.least and isinstance(value := row.get(str(one.metric)), float)
    ]
    if not left:
        return ""
    share, name = min(left)
    return f"{100 * share:.{1 if abs(share) < _CLOSE else 0}f} % {name}"


def _called(answer: asking.Answer) -> Mapping[str, str]:
    """The names that a table gives to columns whose meaning only the question knows."""
    vary = answer.question.options.vary
    grid = {name: f"{limit}_limit" for name, limit in zip(("first_limit", "second_limit"), vary, strict=False)}
    return grid if len(vary) == 2 else {}


def _number_of(value: object, name: str) -> object:
    """`why` has numbers and names in one column, so numbers come as text; a table shows them as numbers."""
    if name not in {"first", "second"} or not isinstance(value, str):
        return value
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def with_holds(columns: Sequence[str], answer: asking.Answer) -> Sequence[str]:
    held = asking.HELD if answer.question.limits.on_times else {}
    told = (asking.BASIS, *(("rows",) if answer.question.options.rows == "both" else ()))
    first = next((name for name in ("device", "prefill_device", "system_requests_per_s") if name in columns), None)
    beside = ((held.get(column), column, *(told if column == "device" else told[1:] if column == first else ()))
              for column in columns)  # fmt: skip
    return [name for names in beside for name in names if name is not None]


def shown_columns(answer: asking.Answer) -> Sequence[str] | None:
    columns = asking.shown_names(asking.report(answer.report), answer.given)
    return None if columns is None else with_holds(columns, answer)


def nearest_columns(answer: asking.Answer) -> Sequence[str]:
    return with_holds(asking.shown_names(asking.report(asking.NEAREST), answer.given) or answer.nearest_columns, answer)
