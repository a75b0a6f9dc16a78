"""Step seconds for simulations: decodes by the keys they hold, images apart from attention."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evaluator.arithmetic import FloatArray
from evaluator.arrivals.play_rules import StepPrices
from evaluator.inputs.engines.engine_profiles import EngineProfile
from evaluator.serving.batches import FixedLengths
from evaluator.serving.encoding import encoder_table
from evaluator.serving.engine.request_kinds import RequestKind, weights_of
from evaluator.serving.engine.stages import round_table
from evaluator.serving.engine.step_tables import SPACING, StepTable, TableExtents, launched
from evaluator.serving.engine.tier_loads import reads_before, with_loads
from evaluator.serving.interface import Run
from evaluator.serving.waves.mixed import MixedLengths

_FEW = 0.5  # of the mean keys of a sequence; a line through decodes at these and at three times as many prices all


def prices_of(
    run: Run,
    engine: EngineProfile,
    sequences: int,
    kinds: tuple[RequestKind, ...],
    *,
    stretches: int | None = None,
    keys: float | None = None,
) -> tuple[StepPrices, StepTable]:
    """One replica's prices, and their table; `engine` has a round's tokens.

    `stretches` divide a prompt's attention; `keys` replaces the mean of the kinds."""
    scenario, drafts = run.scenario, run.scenario.workload.mtp_tokens
    longest = max(kind.new_tokens for kind in kinds)
    extents = TableExtents(
        kinds=kinds,
        sequences=sequences,
        tokens=min(engine.token_budget, sequences * longest) + sequences * (1 + drafts),
        drafts=drafts,
    )
    if stretches is not None:
        extents = replace(extents, stretches=stretches)
    few = max(1, round(_FEW * (mean_keys(kinds) if keys is None else keys)))
    table, lower, upper = (
        _table(run, engine, one) for one in (extents, _holding(extents, few), _holding(extents, 3 * few))
    )
    own, own_key = _line(lower.decode_own, upper.decode_own, few + 0.5, 3 * few + 0.5)
    if scenario.phase != "decode" and not reads_before(scenario):
        table = with_loads(scenario, table, kinds, engine.token_budget, engine.prefill_factor).table
    table = launched(table, engine, scenario.layers, scenario.latent_layers, scenario.state_layers)
    return replace(with_engine(table, engine, own, own_key), encoder_s=encoder_table(run, engine.token_budget)), table


def with_engine(table: StepTable, engine: EngineProfile, own: FloatArray, own_key: FloatArray) -> StepPrices:
    sequences = np.arange(table.decode_linear.size)
    host = engine.step_s() + 1e-3 * engine.step_per_decode_ms * sequences
    return StepPrices(
        step_s=engine.step_s(),
        prompt_step_s=engine.prompt_step_s(),
        per_prompt_s=1e-3 * engine.step_per_prompt_ms,
        per_decode_s=1e-3 * engine.step_per_decode_ms,
        prefill_factor=engine.prefill_factor,
        decode_factor=engine.decode_factor,
        spacing=table.spacing,
        linear=table.linear,
        attention=table.attention,
        stretches=table.stretches,
        own_s=own,
        own_key_s=own_key,
        decode_s=host + engine.decode_factor * (table.decode_linear + own),
        decode_key_s=engine.decode_factor * own_key,
    )


def mean_keys(kinds: tuple[RequestKind, ...]) -> float:
    """Long answers count by their length."""
    # Prompts of 1,000, answers of 200: 1,100.
    outputs = weights_of(kinds) * [kind.output_length for kind in kinds]
    held = [kind.new_tokens + kind.cached + kind.output_length / 2 for kind in kinds]
    return float((outputs * held).sum() / outputs.sum())


def _holding(extents: TableExtents, keys: int) -> TableExtents:
    return replace(extents, kinds=(RequestKind(new_tokens=keys, output_length=1.0),), tokens=SPACING)


def _table(run: Run, engine: EngineProfile, extents: TableExtents) -> StepTable:
    # A phase alone has one trace; what the table takes from the other is not asked for.
    traces = {name: run.steps.get(name) or run.steps[run.scenario.phase] for name in ("prefill", "decode")}
    windows = run.source.windows if isinstance(run.source, FixedLengths | MixedLengths) else ()
    return round_table(
        traces,
        run.cost,
        extents,
        engine.token_budget,
        node_devices=run.scenario.device.grid[-1],
        windows=windows,
    )


def _line(few: FloatArray, many: FloatArray, few_keys: float, many_keys: float) -> tuple[FloatArray, FloatArray]:
    """Seconds without keys, and a key, by sequences; never negative.

    Through both points if it starts at zero or above, else from zero through the second."""
    # 4 sequences: 2 ms with 100 keys each, 3 ms with 300: 1.5 ms and 1.25 us a key.
    sequences = np.maximum(np.arange(few.size), 1.0)
    each = np.maximum((many - few) / (sequences * (many_keys - few_keys)), 0.0)
    without = few - each * sequences * few_keys
    below = without < 0.0
    each = np.where(below, many / (sequences * many_keys), each)
    each[0] = 0.0
    without = np.where(below, 0.0, without)
    without[0] = few[0]
    return without, each
