"""Requests of a length distribution in a probe's batch, as stored beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from queries.connect import StoreConnection
from queries.probes import find_scenario, parse_reference
from store.location import StoreLocation
from store.reading import read_transaction
from store.schema import with_scenarios

_ROWS = (
    "SELECT b.bin_index, b.input_length, b.output_length, b.weight, b.prefix_cache_hit_rate, c.samples"  # noqa: S608  our text
    f" FROM {with_scenarios('composition c', 'c.scenario_id', 'sj')}"
    " JOIN workload_bin b ON b.workload_id = sj.workload_id AND b.bin_index = c.bin_index"
    " WHERE c.scenario_id = ? AND c.batch_size = ? ORDER BY b.input_length, b.bin_index"
)
_MEANS = (
    "SELECT w.input_length_mean, SUM(c.samples * b.input_length), SUM(c.samples)"  # noqa: S608  our text
    f" FROM {with_scenarios('composition c', 'c.scenario_id', 'w')}"
    " JOIN workload_bin b ON b.workload_id = w.id AND b.bin_index = c.bin_index"
    " WHERE sc.key LIKE ? AND c.batch_size = ? AND sj.phase <> 'decode' GROUP BY w.input_length_mean"
)
# Seed 002, 7.4, for probes of any phase.
COMPOSITION_COLUMNS = (
    "probe", "plan", "num_input_tokens", "query_length", "output_length", "request_ratio", "samples", "concurrency",
    "batch_size", "ttft_ms", "tpot_ms", "tokens_per_s",
)  # fmt: skip
_AGGREGATES = (
    "SELECT scenario_id, batch_size, plan, concurrency, ttft_ms, tpot_inclusive_ms,"
    " CASE phase WHEN 'prefill' THEN input_tokens_per_s ELSE output_tokens_per_s END AS tokens_per_s FROM probe"
    " WHERE scenario_id IN (SELECT unnest($scenarios::BIGINT[]))"
    " AND batch_size IN (SELECT unnest($batches::BIGINT[]))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompositionRow:
    """One bin's requests in a replica. `query_length` remains after the prefix cache."""

    bin_index: int
    input_length: float
    query_length: float
    output_length: float
    ratio: float
    samples: int


def composition_rows(location: StoreLocation, probe: str) -> tuple[CompositionRow, ...]:
    """Short prompts first; none for fixed lengths."""
    reference = parse_reference(probe)
    scenario_id = find_scenario(location, reference.scenario)
    with read_transaction(location) as transaction:
        return tuple(map(_row, transaction.rows(_Bin, _ROWS, (scenario_id, reference.batch_size))))


class _Bin(NamedTuple):
    bin_index: int
    input_length: float
    output_length: float
    weight: float
    prefix_cache_hit_rate: float
    samples: int


def _row(row: _Bin) -> CompositionRow:
    return CompositionRow(
        bin_index=row.bin_index,
        input_length=row.input_length,
        query_length=max(1.0, row.input_length - int(row.input_length * row.prefix_cache_hit_rate + 1e-9)),
        output_length=row.output_length,
        ratio=row.weight,
        samples=row.samples,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RealisedMean:
    """Mean prompt length in a batch, and in its workload."""

    probe: str
    realised: float
    wanted: float

    @property
    def bias(self) -> float:
        return self.realised / self.wanted - 1


class _Mean(NamedTuple):
    wanted: float
    tokens: float
    samples: int


def realised_means(location: StoreLocation, probes: Sequence[str]) -> list[RealisedMean]:
    """Of length distributions that prefill."""
    found = []
    with read_transaction(location) as transaction:
        if not list(transaction.values(int, "SELECT 1 FROM workload_bin LIMIT 1")):
            return []
        for probe in dict.fromkeys(probes):
            reference = parse_reference(probe)
            means = transaction.rows(_Mean, _MEANS, (reference.scenario + "%", reference.batch_size))
            found += [RealisedMean(probe=probe, realised=row.tokens / row.samples, wanted=row.wanted) for row in means]
    return found


def composition_table(location: StoreLocation, probes: Sequence[str]) -> list[list[object]]:
    """Under COMPOSITION_COLUMNS: each probe, then its bins without metrics."""
    wanted = {probe: composition_rows(location, probe) for probe in dict.fromkeys(probes)}
    wholes = _wholes(location, [probe for probe, bins in wanted.items() if bins])
    return [row for probe, whole in wholes.items() for row in _rows_of(probe, whole, wanted[probe])]


def _wholes(location: StoreLocation, probes: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    keys = {}
    for probe in probes:
        reference = parse_reference(probe)
        keys[probe] = (find_scenario(location, reference.scenario), reference.batch_size)
    if not keys:
        return {}
    lists = {"scenarios": [key[0] for key in keys.values()], "batches": [key[1] for key in keys.values()]}
    with StoreConnection(location) as connection:
        connection.narrow_to(lists["scenarios"])
        found = {row[:2]: row for row in connection.execute(_AGGREGATES, lists).fetchall()}
    return {probe: found[key] for probe, key in keys.items() if key in found}


def _rows_of(probe: str, whole: tuple[Any, ...], bins: Sequence[CompositionRow]) -> Iterator[list[object]]:
    _, batch_size, plan, concurrency, *metrics = whole
    yield [probe, plan, "all", None, None, 1.0, concurrency, concurrency, batch_size, *metrics]
    for row in bins:
        lengths = [round(row.input_length), row.query_length, row.output_length]
        yield [probe, plan, *lengths, row.ratio, row.samples, concurrency, batch_size, None, None, None]
