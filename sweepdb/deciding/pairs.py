"""Disaggregated settings of a decision: concurrency of a unit of prefill and decode instances.

A unit is a ratio's fewest instances, such as 2P1D; a deployment has several. Times are the closed form of
evaluator.serving.pairs over draws."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from evaluator import serving
from sweepdb.deciding.settings import Pair, Server, Setting, rising

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from queries.connect import StoreConnection

    Floats = NDArray[np.float64]

_MOST_INSTANCES = 8  # of a side in a unit, as questions without a budget have it
_LEAST_BUSY = 0.15  # of prefill servers: fewer of them do as well
_STEP = 2.0**0.5  # between the users of two settings of a unit
_HALVINGS = 26
_ROWS = f"""
SELECT
    probe, batch_size, concurrency, ttft_ms, makespan_ms, prompt_service_ms, tpot_exclusive_ms, tokens_per_step,
    kv_bytes_per_request, coalesce(prompts_per_user, {serving.PROMPTS_PER_USER}),
    (1 + coalesce(shortest_length, 1)) / 2,
    (SELECT any_value(string_split(link_bandwidths, ' | ')[1])::DOUBLE FROM device WHERE key = device_key)
FROM probe
WHERE probe IN (SELECT unnest($probes::VARCHAR[]))
ORDER BY probe
"""  # noqa: S608  a number of ours


class _Row(NamedTuple):
    probe: str
    batch_size: int
    concurrency: int
    ttft_ms: float
    makespan_ms: float
    service_ms: float | None  # None under formulas
    tpot_ms: float
    tokens_per_step: float
    kv_bytes: float
    prompts_per_user: int
    mean_share: float  # of nominal lengths
    link_bytes_per_s: float


_Prompts = tuple[Server, _Row]
_Steps = tuple[Server, tuple[_Row, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSides:
    """Single prompts, and ladders of decode rows."""

    prefills: Mapping[int, _Prompts] = field(default_factory=dict)  # by scenario
    decodes: Mapping[int, _Steps] = field(default_factory=dict)
    plans: Mapping[str, str] = field(default_factory=dict)  # by the scenario's first digits

    @property
    def scenarios(self) -> frozenset[int]:
        return frozenset((*self.prefills, *self.decodes))

    @classmethod
    def of(
        cls, connection: StoreConnection, servers: Mapping[str, Server], plans: Mapping[str, str],
        prompts: Sequence[str], steps: Sequence[str],
    ) -> StoredSides:  # fmt: skip
        """Only those that fit memory."""
        found = connection.execute(_ROWS, {"probes": [*prompts, *steps]}).fetchall()
        rows = {row.probe: row for row in map(_Row._make, found)}
        ladders: dict[str, list[_Row]] = defaultdict(list)
        for probe in steps:
            ladders[probe.partition(":")[0]].append(rows[probe])
        lone = [(servers[probe.partition(":")[0]], rows[probe]) for probe in prompts if rows[probe].batch_size == 1]
        return cls(
            prefills={server.scenario_id: (server, row) for server, row in lone if row.service_ms},
            decodes={
                servers[name].scenario_id: (servers[name], tuple(sorted(ladder, key=lambda row: row.batch_size)))
                for name, ladder in ladders.items()
            },
            plans=plans,
        )

    def settings(self, budget: int | None) -> Iterator[Setting]:
        """Every unit within budget whose prefill keeps up and is not far too large."""
        for prompts, steps in product(self.prefills.values(), self.decodes.values()):
            (prefill, lone), (decode, ladder) = prompts, steps
            if prefill.group != decode.group:
                continue
            for taking, decoding in _units(prefill.num_devices, decode.num_devices, budget):
                pair = _unit(prompts, taking, steps, decoding)
                for row in rising(ladder, lambda row: row.concurrency, _STEP):
                    found = serving.pair_times(pair.prompts, _side(row, decoding), pair.load)
                    if found is not None and (taking == 1 or found.prefill_utilisation >= _LEAST_BUSY):
                        yield self._setting(pair, lone, row, found)

    def of_run(self, prompts: int, steps: int, counts: tuple[int, int], users: int) -> Setting | None:
        """As it was run."""
        if prompts not in self.prefills or steps not in self.decodes:
            return None
        (_, lone), (_, ladder) = sides = self.prefills[prompts], self.decodes[steps]
        pair = _unit(sides[0], counts[0], sides[1], counts[1])
        found = serving.pair_of_users(pair.prompts, pair.steps, pair.load, users)
        row = min(ladder, key=lambda one: abs(math.log(one.concurrency * counts[1] / _decoding(found))))
        return self._setting(pair, lone, row, found)

    def _setting(self, pair: Pair, lone: _Row, row: _Row, found: serving.PairTimes) -> Setting:
        sides, counts = (pair.prefill, pair.decode), f"{pair.prefill_instances}P{pair.decode_instances}D"
        first, second = (self.plans[one.scenario] for one in sides)
        scenario = f"{pair.prefill.scenario} {pair.decode.scenario} {counts}"
        devices = pair.prefill_instances * pair.prefill.num_devices + pair.decode_instances * pair.decode.num_devices
        return Setting(
            probe=f"{lone.probe} {row.probe} {counts}",
            server=pair.decode._replace(scenario=scenario, num_devices=devices),
            plan=f"{pair.prefill_instances} x {first} + {pair.decode_instances} x {second}",
            concurrency=max(round(found.users), 1),
            batch_size=row.batch_size,
            ttft_ms=found.ttft_ms,
            tpot_ms=found.tpot_ms,
            pair=replace(pair, decoding=_decoding(found)),
        )


def _decoding(found: serving.PairTimes) -> float:
    return found.requests_per_s * (found.e2e_ms - found.ttft_ms) / 1e3


def _units(prefill: int, decode: int, budget: int | None) -> Iterator[tuple[int, int]]:
    for taking, decoding in product(range(1, _MOST_INSTANCES + 1), repeat=2):
        fits = budget is None or taking * prefill + decoding * decode <= budget
        if fits and math.gcd(taking, decoding) == 1:
            yield taking, decoding


def _unit(prompts: _Prompts, taking: int, steps: _Steps, decoding: int) -> Pair:
    (prefill, lone), (decode, ladder) = prompts, steps
    receiving, share = lone.ttft_ms - lone.makespan_ms, lone.mean_share
    moving = serving.transfer_ms(
        share * lone.kv_bytes, prefill.tp * prefill.pp, serving.moving_bytes_per_s(lone.link_bytes_per_s)
    )
    return Pair(
        prefill=prefill,
        decode=decode,
        prefill_instances=taking,
        decode_instances=decoding,
        prompts=serving.PrefillSide(
            alone_ms=share * lone.makespan_ms + receiving,
            service_ms=share * (lone.service_ms or 0.0),
            servers=taking * prefill.dp,
            request_ms=receiving,
        ),
        load=serving.PairLoad(
            output_length=decode.output_length, transfer_ms=moving, prompts_per_user=lone.prompts_per_user
        ),
        steps=tuple(_side(row, decoding) for row in ladder),
    )


def _side(row: _Row, instances: int) -> serving.DecodeSide:
    return serving.DecodeSide(
        decoding=float(row.concurrency * instances), tpot_ms=row.tpot_ms, tokens_per_step=row.tokens_per_step
    )


class PairsInWorlds:
    """As arrays over factors of prompts and steps."""

    def __init__(self, settings: Sequence[Setting]) -> None:
        pairs = [one.pair for one in settings if one.pair is not None]
        prompts = [pair.prompts for pair in pairs]
        self._alone = np.array([one.alone_ms + one.request_ms for one in prompts])
        self._service = np.array([one.service_ms for one in prompts])
        self._servers = np.array([float(one.servers) for one in prompts])
        self._transfer = np.array([pair.load.transfer_ms for pair in pairs])
        self._first = np.array([1.0 / pair.load.prompts_per_user for pair in pairs])
        self._tokens = np.array([max(pair.load.output_length - 1.0, 1.0) for pair in pairs])
        self._users = np.array([float(one.concurrency) for one in settings])
        self._slot = np.array([0.5 * pair.steps[0].tokens_per_step for pair in pairs])
        self._decoding = np.array([pair.decoding for pair in pairs])
        self._tpot = np.array([one.tpot_ms for one in settings])
        self._least = np.array([pair.steps[0].tpot_ms for pair in pairs])
        self._slope = np.array([_slope(pair, one.tpot_ms) for pair, one in zip(pairs, settings, strict=True)])

    def times(self, longer: Floats, slower: Floats) -> tuple[Floats, Floats]:
        """By factors [world, setting].

        Bisected for the number decoding: more who decode are more who wait."""
        low, high = np.zeros(longer.shape), np.broadcast_to(self._users, longer.shape).copy()
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            too_many = self._at(middle, longer, slower)[0] > self._users
            high = np.where(too_many, middle, high)
            low = np.where(too_many, low, middle)
        users, ttft, tpot = self._at(low, longer, slower)
        rate = np.maximum(low / (self._tokens * tpot), 1e-12)
        return ttft + (1.0 - self._first) * serving.left_over_ms(self._users, users, rate), tpot

    def _at(self, decoding: Floats, longer: Floats, slower: Floats) -> tuple[Floats, Floats, Floats]:
        """Infinite where prefill cannot keep up; and their times."""
        tpot = slower * np.maximum(self._least, self._tpot + self._slope * (decoding - self._decoding))
        answer, service = self._tokens * tpot, self._service * longer
        rate = decoding / answer
        offered = rate * service / self._servers
        unqueued = self._alone * longer + self._transfer + self._slot * tpot
        load = serving.others_load(rate, unqueued + answer, service, self._servers)
        wait = serving.queueing_ms(np.minimum(load, 1.0 - 1e-9), service)
        users = np.where(offered < 1.0, rate * (unqueued + wait + answer), np.inf)
        burst = serving.burst_ms(self._users, service, self._servers)
        return users, serving.first_token_ms(unqueued, wait, burst, self._first), tpot


def _slope(pair: Pair, tpot_ms: float) -> float:
    """TPOT per further request decoding, from the ladder's first row."""
    first = pair.steps[0]
    apart = pair.decoding - first.decoding
    return max(tpot_ms - first.tpot_ms, 0.0) / apart if apart > 0.0 else 0.0
