"""Relations that every evaluated row keeps, whatever the coefficients (tests/sweepdb/test_believable.py)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

import numpy as np

from evaluator.arrivals import edges_ms
from evaluator.evaluate import cost_of, moved_bytes
from evaluator.scenario import Scenario
from evaluator.serving import Run, cache_bytes, serving_model_of
from evaluator.version import formula_version
from store.errors import InputError
from store.loads import LoadRecord
from store.records import BlockRecord, ScenarioRecord
from sweepdb.restoring import planned_of

_Columns = Mapping[str, np.ndarray]
_LEAST_WEIGHT, _MOST_WEIGHT = 0.3, 8.0  # bytes a parameter: of 4 bits in part, and of 16 with copies and drafts
_IN_A_STEP = 100.0  # a first token comes no faster than this share of a full step: steps are shared by requests
_QUEUED = 50.0  # steps that a request waits for, by those of all before it
_FEW_TOKENS = 16.0
_BESIDE_MS = 10_000.0  # what engines take beside steps
_SAME = 1e-3
_OF_ENGINES = 0.3  # requests of several lengths have a mean each of their times and their lengths


def refuse_unbelievable(record: ScenarioRecord, block: BlockRecord) -> None:
    sizes = np.asarray(block.batch_sizes)
    absent = np.full(sizes.shape, np.nan)
    columns = {
        name: absent if values is None else np.asarray(values, dtype=np.float64)
        for name, values in block.columns.items()
    }
    with np.errstate(all="ignore"):  # NaN is what a row does not have, and keeps every relation
        for wrong, what in _broken(record, _scenario_of(record), sizes, columns):
            if wrong.any():
                size = int(sizes[np.flatnonzero(wrong)[0]])
                raise InputError(
                    f"No evaluation gives scenario {record.key[:12]} at batch size {size}: {what}.",
                    hint="Rows come from sweepdb alone; export them again from the store that evaluated them.",
                )


def refuse_unbelievable_load(load: LoadRecord) -> None:
    cells, edges = np.asarray(load.cells), edges_ms()
    held = cells[cells[:, 2:].sum(axis=1) > 0]
    for column, name in ((0, "ttft_mean_ms"), (1, "load_tpot_mean_ms")):
        bins, mean = held[:, column], getattr(load, name)
        if not bins.size:
            continue
        least = (
            edges[min(bins.min(), edges.size - 1)] if column == 0 and bins.min() > 0 else 0.0
        )  # TPOT: of answers of two tokens and more
        most = edges[bins.max() + 1] if bins.max() + 2 < edges.size else np.inf  # the last bin holds what is beyond
        if not least * (1 - _SAME) <= mean <= most * (1 + _SAME):
            raise InputError(
                f"No simulation gives load {load.key[:12]}: {name} lies beyond the times of its requests.",
                hint="Loads come from sweepdb alone; export them again from the store that evaluated them.",
            )
    if load.busy_share > 1:
        raise InputError(f"No simulation gives load {load.key[:12]}: busy_share is above 1.", hint="Export it again.")


@lru_cache(maxsize=64)  # blocks of a scenario follow each other
def _scenario_of(record: ScenarioRecord) -> Scenario:
    return planned_of(record).scenario


def _broken(
    record: ScenarioRecord, scenario: Scenario, sizes: np.ndarray, columns: _Columns
) -> Iterator[tuple[np.ndarray, str]]:
    yield from _broken_bytes(record, scenario, sizes, columns)
    yield from _broken_sums(scenario, columns)
    yield from _broken_times(scenario, sizes, columns)


def _broken_bytes(
    record: ScenarioRecord, scenario: Scenario, sizes: np.ndarray, columns: _Columns
) -> Iterator[tuple[np.ndarray, str]]:
    weights, parameters = columns["weight_bytes"], record.subject.model.parameters
    yield (
        weights * record.subject.plan.num_devices < _LEAST_WEIGHT * parameters,
        "weight_bytes are too few for the parameters of the model",
    )
    yield weights > _MOST_WEIGHT * parameters, "weight_bytes are too many for the parameters of the model"
    if scenario.convention == "upstream" or record.formula_version != formula_version(scenario.convention):
        return  # which another step or other formulas decide
    try:
        made = cached_bytes(scenario, sizes)
    except InputError:  # of an engine that is not known here
        return
    for name, values in made.items():
        off = np.abs(columns[name] - values) > 1 + _SAME * values
        yield off, f"{name} is not what its lengths, model and plan take"


def _broken_sums(scenario: Scenario, columns: _Columns) -> Iterator[tuple[np.ndarray, str]]:
    """A request's time against its time per token."""
    length, e2e = scenario.workload.output_length, columns["e2e_ms"]
    inclusive, exclusive = columns["tpot_inclusive_ms"], columns["tpot_exclusive_ms"]
    if scenario.phase == "decode":
        yield np.abs(inclusive - exclusive) > _SAME * inclusive, "tpot_exclusive_ms is not tpot_inclusive_ms"
        return
    # Under upstream, of prompts in chunks, e2e is that of the last request.
    late = (columns["prefill_chunks"] > 1) & (scenario.convention == "upstream")
    whole = inclusive * length - e2e
    yield np.where(late, whole, np.abs(whole)) > _SAME * e2e, "tpot_inclusive_ms is not e2e_ms of a token"
    later = e2e - columns["ttft_ms"]
    odd = exclusive * max(length - 1.0, 1.0) - later
    tolerance = _SAME * e2e + (_OF_ENGINES * later if scenario.workload.bins else 0.0)
    yield np.where(late, odd, np.abs(odd)) > tolerance, "tpot_exclusive_ms does not fit e2e_ms and ttft_ms"


def _broken_times(scenario: Scenario, sizes: np.ndarray, columns: _Columns) -> Iterator[tuple[np.ndarray, str]]:
    length, requests = scenario.workload.output_length, sizes * scenario.plan.pp * scenario.plan.dp
    prefill, decode = columns["prefill_step_ms"], columns["decode_step_ms"]
    a_token = decode / columns["tokens_per_step"]
    prompts = np.nan_to_num(prefill * columns["prefill_chunks"]) * requests
    beside = _BESIDE_MS + _QUEUED * scenario.serving_cost_ms * requests
    waited = _QUEUED * (prompts + np.nan_to_num(decode) * requests) + beside
    yield columns["ttft_ms"] * _IN_A_STEP < prefill, "ttft_ms is too short for its prefill_step_ms"
    yield columns["ttft_ms"] > waited, "ttft_ms is too long for its steps"
    yield columns["makespan_ms"] > waited, "makespan_ms is too long for its steps"
    own = columns["tpot_inclusive_ms" if scenario.phase == "decode" else "tpot_exclusive_ms"]
    if length > _FEW_TOKENS or scenario.phase == "decode":  # engines give few tokens within one step
        yield own * _IN_A_STEP < a_token, "its time per token is too short for its decode_step_ms"
    if length > 1.0:
        shared = _QUEUED * (a_token + prompts / (length - 1.0)) + beside / length
        yield own > shared, "its time per token is too long for its steps"


Bytes = dict[str, np.ndarray]


def cached_bytes(scenario: Scenario, batch_sizes: np.ndarray) -> Bytes:
    """As an evaluation rounds them; the full one only without composed batches."""
    run = Run(
        scenario=scenario,
        operators={},
        source=serving_model_of(scenario).source(scenario),
        cost=cost_of(scenario),
        batch_sizes=batch_sizes,
    )
    full, mean = cache_bytes(run, mean_only=bool(scenario.workload.bins))
    found = {"kv_cache_mean_bytes": np.rint(mean), "kv_bytes_per_request": moved_bytes(run)}
    if not scenario.workload.bins:
        found["kv_cache_bytes"] = np.rint(full)
    return found
