"""Which requests of a length distribution a probe's batch holds: the rows that stand beside it in the store.

Not here: how batches are composed (evaluator.composition)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from queries.probes import find_scenario, parse_reference
from store.location import StoreLocation
from store.readers import read_transaction

_ROWS = (
    "SELECT b.bin_index, b.input_length, b.output_length, b.weight, b.prefix_cache_hit_rate, c.samples"
    " FROM composition c JOIN scenario sc ON sc.id = c.scenario_id JOIN subject sj ON sj.id = sc.subject_id"
    " JOIN workload_bin b ON b.workload_id = sj.workload_id AND b.bin_index = c.bin_index"
    " WHERE c.scenario_id = ? AND c.batch_size = ? ORDER BY b.input_length, b.bin_index"
)
COLUMNS = ("probe", "bin", "input_length", "query_length", "output_length", "ratio", "samples")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompositionRow:
    """Requests of one bin in one replica's batch. `query_length` is what is left to prefill after the prefix cache."""

    bin_index: int
    input_length: float
    query_length: float
    output_length: float
    ratio: float
    samples: int


def composition_rows(location: StoreLocation, probe: str) -> tuple[CompositionRow, ...]:
    """The bins with requests in a probe's batch, short prompts first; none for fixed lengths."""
    reference = parse_reference(probe)
    scenario_id = find_scenario(location, reference.scenario)
    with read_transaction(location) as transaction:
        return tuple(_row(row) for row in transaction.rows(_ROWS, (scenario_id, reference.batch_size)))


def _row(row: Sequence[object]) -> CompositionRow:
    index, input_length, output_length, weight, hit_rate, samples = (float(str(value)) for value in row)
    return CompositionRow(
        bin_index=int(index),
        input_length=input_length,
        query_length=max(1.0, input_length - int(input_length * hit_rate + 1e-9)),
        output_length=output_length,
        ratio=weight,
        samples=int(samples),
    )


def composition_table(location: StoreLocation, probes: Sequence[str]) -> list[list[object]]:
    """Rows under COLUMNS for several probes."""
    return [
        [probe, row.bin_index, row.input_length, row.query_length, row.output_length, row.ratio, row.samples]
        for probe in dict.fromkeys(probes)
        for row in composition_rows(location, probe)
    ]
