"""Notes before a request runs: defaults taken, and what will be slow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from evaluator import inputs
from evaluator.request import SweepRequest
from store.schema import FORMULAS
from sweepdb.evaluating.sweep_options import SweepOptions

_SPREAD = 0.95  # of the lengths, the shortest of a client whose means are worth a word


def said_of_defaults(options: SweepOptions, parts: Sequence[SweepRequest]) -> tuple[str, ...]:
    """A line a part; none under upstream's convention."""
    if options.convention == "upstream":
        return ()
    lines = (", ".join(_defaults(options, part)) for part in parts)
    return tuple(f"assumed: {line}" for line in dict.fromkeys(lines) if line)


def said_of_drafts(drafts: inputs.Speculation | None) -> tuple[str, ...]:
    if drafts is None:
        return ()
    table, head = (
        drafts.table,
        f"drafts: {drafts.gained:g} tokens a step of {drafts.drafts} drafts ({drafts.table.name}",
    )
    if table.run is None:
        return (f"{head}, as stated{'' if table.drafting in {None, table.name} else f'; {table.drafting} drafts'})",)
    thinking = "thinking" if table.thinking else "not thinking"
    return (f"{head}, {table.method}, measured on SPEED-Bench coding, {thinking}, InferenceX run {table.run})",)


def _defaults(options: SweepOptions, part: SweepRequest) -> Iterator[str]:
    if not options.serving_models:
        served = "formulas (waves)" if part.serving_model == FORMULAS else part.serving_model
        yield f"{' and '.join(device.name for device in part.devices)} served by {served}"
    if not options.linear:
        (precision,) = part.precisions
        cache = "" if precision.attention == "DISABLED" else f", {precision.attention} KV cache"
        yield f"{' and '.join(precision.weights)} weights as published{cache}"
    if options.pp_sizes is None and part.search.pp_sizes is not None:
        yield "pipeline stages too, as the weights do not fit one node"
    if options.client_lengths is None and part.serving_model in inputs.list_engines():
        least = inputs.engine_profile(part.serving_model).client.shortest
        if least <= _SPREAD:
            yield f"lengths {least:g} to 1 of these (`client_lengths`)"
    engine = part.search.engine
    if options.search is None and not (engine and _launches_none(part, engine)):
        yield f"plans that {engine} launches as one server" if engine else "every legal plan"


def warnings_of(parts: Sequence[SweepRequest]) -> tuple[str, ...]:
    """Formats slower than 16 bits, and engines that launch none of the plans."""
    said = [
        f"warning: {sentence}"
        for part in parts
        for device in part.devices
        for precision in part.precisions
        for sentence in (
            *inputs.slow_formats(device, precision, part.convention),
            *(inputs.widened_formats(device, precision) if part.convention != "upstream" else ()),
        )
    ]
    said += [
        f"{part.search.engine} can launch no plan of these sizes as one server: every legal one is taken"
        for part in parts
        if part.search.engine is not None and _launches_none(part, part.search.engine)
    ]
    return tuple(dict.fromkeys(said))


def _launches_none(part: SweepRequest, engine: str) -> bool:
    for phase, model, form in product(part.phases, part.models, part.precisions):
        found = inputs.choices_of_sizes(model.spec, part.instance_sizes(phase), part.search, form)
        legal = [choice.plan for _, choice in found if choice.illegal is None]
        if legal and not any(engine in inputs.launchable_by(model.spec, plan, form) for plan in legal):
            return True
    return False
