"""Simulates a shard's scenarios."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from evaluator.arrivals import ArrivalRequest, arrival_record, scenario_loads
from evaluator.evaluate import cost_of
from evaluator.graph import OperatorSet
from evaluator.shards import ShardScenario
from store.errors import SweepdbError
from store.loads import LoadRecord
from store.opening import Store
from store.writing import put_loads


@dataclass(frozen=True, slots=True, kw_only=True)
class Plays:
    """Requests for every scenario, and stored loads."""

    asked: ArrivalRequest
    known: Mapping[int, frozenset[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """New loads, how many were there, and failures by status and reason."""

    loads: Mapping[int, tuple[LoadRecord, ...]]
    made: int
    known: int
    unplayed: Mapping[int, tuple[str, str]]

    def stored(self) -> Played:
        return replace(self, loads={})


def play_shard(items: Iterable[ShardScenario], operators: Mapping[str, OperatorSet], plays: Plays) -> Played:
    loads: dict[int, tuple[LoadRecord, ...]] = {}
    unplayed: dict[int, tuple[str, str]] = {}
    known = 0
    for item in items:
        try:
            found, there = _of_scenario(item, operators, plays.asked, plays.known.get(item.scenario_id, frozenset()))
        except SweepdbError as error:
            unplayed[item.scenario_id] = ("unsupported", error.message)
        except Exception as error:  # noqa: BLE001  one scenario's failure is named, not the shard's end
            unplayed[item.scenario_id] = ("error", f"{type(error).__name__}: {error}")
        else:
            known += there
            if found:
                loads[item.scenario_id] = found
    return Played(loads=loads, made=sum(map(len, loads.values())), known=known, unplayed=unplayed)


def _of_scenario(
    item: ShardScenario, operators: Mapping[str, OperatorSet], asked: ArrivalRequest, known: Collection[str]
) -> tuple[tuple[LoadRecord, ...], int]:
    sets = {trace: operators[key] for trace, key in item.operators.items()}
    ready = scenario_loads(item.scenario, item.key, sets, cost_of(item.scenario), asked)
    return tuple(ready.play(known)), len(ready.keys.keys() & set(known))


def store_loads(store: Store, sweep_id: int, asked: ArrivalRequest, loads: Mapping[int, tuple[LoadRecord, ...]]) -> int:
    record = arrival_record(asked.settings.process)
    return sum(put_loads(store, sweep_id, scenario_id, record, loads[scenario_id]) for scenario_id in sorted(loads))
