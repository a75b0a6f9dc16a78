"""The settings among which a question decides: stored aggregated rows, as many of each server as a ladder may need."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from queries.asking import Answer, Limits, Question, ReportOptions
from queries.connect import StoreConnection
from queries.judging import KEY_LENGTH
from queries.probes import find_scenario
from queries.session import Session
from store.errors import InputError
from store.reading import read_transaction
from sweepdb.planning.ranking import number_of

CURVE = "curve"
_EVERY = 10_000  # servers
_STEP = 2.0 ** (1.0 / 3.0)  # between the users of two rungs, where so many are stored
_SERVERS = """
SELECT
    left(scenario, 8) AS scenario, any_value(scenario_id) AS scenario_id, any_value(model) AS model,
    any_value(device) AS device,
    any_value(serving_model) AS engine, any_value(linear_quantization) AS quantization,
    any_value(tp) AS tp, any_value(pp) AS pp, any_value(dp) AS dp, any_value(ep) AS ep,
    any_value(num_devices) AS num_devices, any_value(input_length_mean) AS input_length,
    any_value(output_length * (1 + coalesce(shortest_length, 1)) / 2) AS output_length
FROM probe
WHERE probe IN (SELECT unnest($probes::VARCHAR[]))
GROUP BY left(scenario, 8)
"""


class Server(NamedTuple):
    scenario: str
    scenario_id: int
    model: str
    device: str
    engine: str
    quantization: str
    tp: int
    pp: int
    dp: int
    ep: int
    num_devices: int
    input_length: float
    output_length: float  # in the mean, as clients see it

    @property
    def group(self) -> tuple[str, ...]:
        return self.model, self.device, self.engine, self.quantization


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A server at so many users, and what is predicted of it."""

    probe: str
    server: Server
    plan: str
    concurrency: int
    batch_size: int  # of one replica and pipeline stage
    ttft_ms: float
    tpot_ms: float

    @property
    def e2e_ms(self) -> float:
        return self.ttft_ms + (self.server.output_length - 1.0) * self.tpot_ms


def stored_settings(session: Session, question: Question) -> tuple[Answer, list[Setting]]:
    curve = session.ask(
        Question(
            report=CURVE,
            scope=question.scope,
            definitions=question.definitions,
            limits=Limits(reserved_gib=question.limits.reserved_gib),
            options=ReportOptions(mode="aggregated", as_predicted=True),
        )
    )
    rows = curve.dicts()
    if not rows:
        raise InputError(
            "no aggregated rows that fit memory are stored of this question", hint="sweepdb plan MODEL evaluates them"
        )
    firsts = {str(row["probe"]).partition(":")[0]: str(row["probe"]) for row in rows}
    servers = _servers(session, list(firsts.values()))
    if len({(one.model, one.input_length, one.output_length) for one in servers.values()}) > 1:
        raise InputError(
            f"a decision is about one model and workload; this question is about {len(curve.scope)} groups",
            hint="choose with `model`, `workload` or `sweep`; stored: " + "; ".join(curve.scope[:4]),
        )
    return curve, [
        Setting(
            probe=str(row["probe"]),
            server=servers[str(row["probe"]).partition(":")[0]],
            plan=str(row["plan"]),
            concurrency=int(number_of(row["concurrency"])),
            batch_size=int(number_of(row["batch_size"])),
            ttft_ms=number_of(row["ttft_ms"]),
            tpot_ms=number_of(row["tpot_ms"]),
        )
        for row in rows
    ]


def carried_rates(session: Session, question: Question) -> Mapping[str, float]:
    """Requests/s that an instance of each scenario keeps within the limits when they arrive, as simulated.

    Empty where no loads of the question are stored."""
    limits = Limits(ttft_ms=question.limits.ttft_ms, tpot_ms=question.limits.tpot_ms)
    if not limits.given or not _has_loads(session):
        return {}
    options = ReportOptions(mode="aggregated", by="goodput", as_predicted=True, top=_EVERY)
    try:
        found = session.ask(Question(report="best", scope=question.scope, limits=limits, options=options))
    except InputError:  # loads are of other scenarios
        return {}
    return {str(row["scenario"])[:KEY_LENGTH]: number_of(row["goodput"] or 0.0) for row in found.dicts()}


def _has_loads(session: Session) -> bool:
    with read_transaction(session.location) as transaction:
        return bool(list(transaction.values(int, "SELECT id FROM load LIMIT 1")))


def _servers(session: Session, probes: Sequence[str]) -> dict[str, Server]:
    ids = [find_scenario(session.location, probe.partition(":")[0]) for probe in probes]
    with StoreConnection(session.location) as connection:
        connection.narrow_to(ids)
        found = [Server(*row) for row in connection.execute(_SERVERS, {"probes": list(probes)}).fetchall()]
    return {one.scenario: one for one in found}


def rungs(settings: Iterable[Setting], kept: Collection[str]) -> Iterator[Setting]:
    ordered = sorted(settings, key=lambda one: (one.server.scenario, one.concurrency))
    for _, of_server in groupby(ordered, key=lambda one: one.server.scenario):
        ladder, next_users = list(of_server), 0.0
        for one in ladder:
            if one.concurrency >= next_users or one.probe in kept or one is ladder[-1]:
                yield one
            if one.concurrency >= next_users:
                next_users = max(one.concurrency * _STEP, one.concurrency + 1)
