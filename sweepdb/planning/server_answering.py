"""`plan` of a server that somebody starts, as a function: evaluates what the store lacks, then answers from rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Unpack

from evaluator.inputs import LAUNCHERS, load_device, load_model
from queries.asking import question_of
from queries.probes import find_probe
from queries.session import Session, open_session
from store.errors import InputError
from store.location import StoreLocation, parse_url
from store.schema import read_label, short_plan
from sweepdb.evaluating.deployments import deployed_servers, options_of_server
from sweepdb.evaluating.option_values import JOBS, check_jobs, with_keywords
from sweepdb.evaluating.requests import BuiltRequest, build_request
from sweepdb.evaluating.sweep_options import SweepOptions
from sweepdb.launching import EAGER, cache_room, changed_flags, holding
from sweepdb.launching.reading import FoundServer, changed_line
from sweepdb.planning.answering import evaluated_now, stored_or_evaluated
from sweepdb.planning.formats import request_in_formats
from sweepdb.planning.planning_options import plan_options, server_asked
from sweepdb.planning.ranking import Row, number_of, parts_of_title
from sweepdb.planning.server_plan import SERVER_COLUMNS, STARTED, CacheRoom, ServerPlan

if TYPE_CHECKING:
    from evaluator.sweep import Progress
    from queries.asking import Answer
    from sweepdb.planning.plan_keywords import PlanKeywords  # a stub: types alone

_GIB = 2**30
_KV_FORMAT = "FP8"
_BUDGETS = (2048, 4096, 8192, 16384)  # tokens a step that servers usually take
_RATES = ("system_output_tokens_per_s", "system_requests_per_s")
_CHANGES = 3  # shown where one number of users is asked about; of several the best of each


def plan_server(
    started: str,
    model: str | None = None,
    *,
    store: str | None = None,
    jobs: int = JOBS,
    progress: bool | Callable[[Progress], None] = False,
    on_notes: Callable[[Sequence[str]], None] = lambda _: None,
    **options: Unpack[PlanKeywords],
) -> ServerPlan:
    """Predict a server for numbers of users, beside what its cache holds and the best changes of its flags.

    `started` is how it is started: a command line, a file, or - for standard input. Keywords are those of `plan`;
    `concurrency` may be several numbers of users. Where none is given, powers of four up to what it serves."""
    check_jobs(jobs)
    asked, ladder, limits = server_asked(model, options)
    server, notes = _one_server(asked, started)
    formats, asked = asked.linear, replace(asked, linear=())
    stated = options_of_server(asked, server)
    on_notes(notes)
    evaluating = _Evaluating(store=store, jobs=jobs, progress=progress, say=on_notes, told=set(notes))
    sweep, location = evaluating.sweep(stated), parse_url(store)
    with open_session(store) as session:
        room, reserve = _room(session, location, server, sweep)
    most = min(room.requests, server.instances * _most(stated, room))
    users = ladder or _usual_ladder(most)
    changed = _changed(stated, server, formats, max(users))
    about = request_in_formats(changed, store)
    others = evaluating.sweep(changed, about.built)
    waiting = [_waiting(stated, server, room, n) for n in users]
    with open_session(store) as session:
        crowded = [[*_crowded(session, others, changed, n, reserve)] for n in users]
    own = [sweep if one is None else evaluating.sweep(one) for one in waiting]
    flags = [*evaluating.possible(_flags(stated, max(users)))]
    changes = [[others, *flags, *map(evaluating.sweep, those)] for those in crowded]
    evaluating.leave_newest(stated)
    question = {**limits, "num_devices": _devices(stated, server), "reserved_memory_gb": reserve, "top": 1000}
    with open_session(store) as session:
        asking = _Asking(
            session=session, location=location, server=server, question=question, sweep=sweep, origins=about.origins,
        )  # fmt: skip
        rows = asking.rows(users, own, changes)
        answer = asking.of(sweep, 1)
    return ServerPlan(
        columns=SERVER_COLUMNS,
        rows=rows,
        named=started,
        device=load_device(stated.devices[0]).name,
        room=room,
        at_once=most,
        lines=asking.lines,
        answer=answer,
        sweep=sweep,
        probes_evaluated=evaluating.probes,
        notes=notes,
        store=location,
    )


with_keywords(plan_server, plan_options())


@dataclass(slots=True, kw_only=True)
class _Evaluating:
    """Sweeps, evaluated where the store lacks them; what is assumed is said once."""

    store: str | None
    jobs: int
    progress: bool | Callable[[Progress], None]
    say: Callable[[Sequence[str]], None]
    told: set[str]
    probes: int = 0

    def sweep(self, one: SweepOptions, built: BuiltRequest | None = None) -> str:
        built = built or build_request(one, None, self.store)
        fresh = [note for note in built.notes if note not in self.told]
        self.told.update(fresh)
        sweep, count = stored_or_evaluated(
            one, built, self.store, jobs=self.jobs, progress=self.progress, on_notes=lambda _: self.say(fresh)
        )
        self.probes += count
        return sweep

    def leave_newest(self, one: SweepOptions) -> None:
        """A question without filters is about the newest sweep: about the server, not about the last of its changes."""
        if self.probes:
            built = build_request(one, None, self.store)
            evaluated_now(one, built, self.store, jobs=self.jobs, progress=False)

    def possible(self, wanted: Iterable[SweepOptions]) -> Iterator[str]:
        for one in wanted:
            with suppress(InputError):
                yield self.sweep(one)


def _one_server(asked: SweepOptions, started: str) -> tuple[FoundServer, tuple[str, ...]]:
    servers, notes = deployed_servers(asked, started)
    if len(servers) > 1 or servers[0].role != "server":
        raise InputError(
            f"plan is about one server that does prefill and decode, and this starts {len(servers)}:"
            f" {', '.join(one.where for one in servers[:3])}",
            hint="`evaluate` takes all of them",
        )
    if len(asked.devices) > 1:
        raise InputError("a server is on one device", hint="`device`: that which it runs on")
    return servers[0], notes


def _devices(stated: SweepOptions, server: FoundServer) -> int:
    return stated.num_devices[0] * server.instances


def _most(stated: SweepOptions, room: CacheRoom) -> int:
    most = stated.batch_range[1]
    return room.requests if most is None else most * (stated.dp_sizes or (1,))[0] * (stated.pp_sizes or (1,))[0]


def _usual_ladder(most: int) -> tuple[int, ...]:
    found = [4**power for power in range(10) if 4**power < most]
    return (*found, most)


def _room(session: Session, location: StoreLocation, server: FoundServer, sweep: str) -> tuple[CacheRoom, float]:
    """The room of the cache, and GiB of a device that this leaves free: activations are those of as many requests."""
    share = server.memory_share or holding(server.engine).usual_share
    stated = _row_of(session, location, sweep, 1)
    if stated is None:
        raise InputError(f"{server.where}: not even one request fits its device")
    one = _bytes(stated, "kv_cache")
    requests, replicas = 1, server.dp * server.pp * server.instances
    for _ in range(2):
        device, weights, activations = (_bytes(stated, name) for name in ("device_memory", "weight", "activation"))
        room = cache_room(server.engine, share, device=device, weights=weights, activations=activations)
        requests = room // one * replicas
        if not requests:
            raise InputError(f"{server.where}: {share:g} of the device's memory holds no request beside the weights")
        most = min(requests, (server.most_requests or requests) * replicas)
        stated = _row_of(session, location, sweep, most) or stated
    tokens = math.ceil(number_of(stated["input_length_mean"]) + number_of(stated["output_length"]))
    found = CacheRoom(
        tokens=int(room / one * tokens) * replicas,
        requests=requests,
        request_tokens=tokens,
        share=share,
        stated=server.memory_share is not None,
    )
    return found, max(device - weights - activations - room, 0) / _GIB


def _row_of(session: Session, location: StoreLocation, sweep: str, users: int) -> Row | None:
    asked = {"sweep": sweep, "concurrency": users, "reserved_memory_gb": 0}
    rows = session.ask(question_of("concurrency", asked)).dicts()
    return dict(zip(*find_probe(location, str(rows[0]["probe"])), strict=True)) if rows else None


def _bytes(row: Row, part: str) -> int:
    return int(number_of(row[f"{part}_bytes"]))


def _changed(stated: SweepOptions, server: FoundServer, formats: tuple[str, ...], users: float) -> SweepOptions:
    usual = SweepOptions()
    sizes = ("tp_sizes", "pp_sizes", "dp_sizes", "ep_sizes", "moe_tp_sizes", "moe_dp_sizes", "dcp_sizes", "pcp_sizes",
             "redundant_experts", "micro_batches")  # fmt: skip
    return replace(
        stated,
        **{name: getattr(usual, name) for name in sizes},
        num_devices=(),
        total_devices=_devices(stated, server),
        linear=formats or stated.linear,
        compile=True,
        batch_range=(1, math.ceil(users)),
    )


def _flags(stated: SweepOptions, users: float) -> Iterator[SweepOptions]:
    """The server as it is started with FP8 keys and values, and with other usual numbers of tokens a step."""
    as_many = replace(stated, batch_range=(1, math.ceil(users)))
    if stated.attention != _KV_FORMAT:
        yield replace(as_many, attention=_KV_FORMAT)
    yield from (replace(as_many, max_batched_tokens=one) for one in _BUDGETS if one != stated.max_batched_tokens)


def _waiting(stated: SweepOptions, server: FoundServer, room: CacheRoom, users: float) -> SweepOptions | None:
    replicas = (stated.dp_sizes or (1,))[0] * server.instances
    seats = min(room.requests // replicas, _most(stated, room) // (stated.dp_sizes or (1,))[0])
    each = math.ceil(users / replicas)
    if each <= seats:
        return None
    return replace(stated, seats=seats, batch_range=(each, each))


def _crowded(
    session: Session, others: str, changed: SweepOptions, users: int, reserve: float
) -> Iterator[SweepOptions]:
    """Each other plan with more users than its cache holds, the others waiting."""
    asked: dict[str, object] = {"sweep": others, "mode": "aggregated", "reserved_memory_gb": reserve}
    answer = session.ask(question_of("curve", asked))
    rows = sorted(answer.dicts(), key=lambda row: int(number_of(row["concurrency"])))
    most = {str(row["probe"]).partition(":")[0]: row for row in rows}
    for row in most.values():
        sizes = read_label(str(row["plan"]))
        devices = sizes["tp"] * sizes["pp"] * sizes["dp"] * sizes["pcp"]
        replicas = (changed.total_devices or devices) // devices * sizes["dp"]
        seats, each = int(number_of(row["concurrency"])) // sizes["dp"], math.ceil(users / replicas)
        if each <= seats:
            continue
        model, form = (parts_of_title(answer, row)[place] for place in (0, 2))
        native = load_model(model)[1].native_linear.upper()
        linear = () if form.partition(",")[0] == native else (form.partition(",")[0],)
        yield replace(
            changed, models=(model,), num_devices=(devices,), total_devices=None, tp_sizes=(sizes["tp"],),
            dp_sizes=(sizes["dp"],), ep_sizes=(sizes["ep"],), moe_tp_sizes=(sizes["moetp"],),
            moe_dp_sizes=(sizes["moedp"],), pp_sizes=(sizes["pp"],), linear=linear, seats=seats,
            batch_range=(each, each),
        )  # fmt: skip


def _worth_showing(changes: Sequence[Row], started: Row | None) -> Sequence[Row]:
    """Changes that make more tokens/s; slower ones only where nothing else keeps limits that the server misses."""
    if started is None:
        return changes
    more = [row for row in changes if number_of(row[_RATES[0]]) > number_of(started[_RATES[0]])]
    settled = started["within_limits"] or any(row["within_limits"] for row in more)
    return more if settled else changes


@dataclass(slots=True, kw_only=True)
class _Asking:
    """Rows about numbers of users; each change of flags gets its number where it is first shown."""

    session: Session
    location: StoreLocation
    server: FoundServer
    question: Mapping[str, object]
    sweep: str  # of the server
    origins: Mapping[str, str]  # of narrower formats: a checkpoint, or how weights come about
    lines: dict[str, str] = field(default_factory=dict)

    @property
    def limited(self) -> bool:
        return bool(question_of("concurrency", {**self.question, "concurrency": 1}).limits.said())

    def of(self, sweep: str, users: float) -> Answer:
        return self.session.ask(question_of("concurrency", {**self.question, "sweep": sweep, "concurrency": users}))

    def rows(
        self, users: Sequence[int], started: Sequence[str], others: Sequence[Sequence[str]]
    ) -> tuple[tuple[object, ...], ...]:
        """The server with each number of users, by its sweep, then the best changes of flags, by theirs."""
        most = 1 if len(users) > 1 else _CHANGES
        asked = zip(users, started, others, strict=True)
        found = (row for count, mine, those in asked for row in self._rows_of_users(count, mine, those, most))
        return tuple(tuple(row[name] for name in SERVER_COLUMNS) for row in found)

    def _rows_of_users(self, users: float, started: str, others: Sequence[str], most: int) -> Iterator[Row]:
        found = self._rows_of(started, users)
        yield self._row(users, STARTED, found[0] if found else {}, self.server.instances)
        own = {str(row["probe"]) for row in found}
        ranked = sorted(
            (row for sweep in others for row in self._rows_of(sweep, users) if row["probe"] not in own),
            key=lambda row: (
                not row["within_limits"],
                -number_of(row["system_output_tokens_per_s"]),
                str(row["probe"]),
            ),
        )
        for row in _worth_showing(ranked, found[0] if found else None)[:most]:
            yield self._row(users, self._change(row), row, int(number_of(row["instances"])))

    def _rows_of(self, sweep: str, users: float) -> list[Row]:
        """Rows of a sweep, their rates those of as many users: by Little's law, where copies hold a few more."""
        answer = self.of(sweep, users)
        return [
            {
                **row, "form": parts_of_title(answer, row)[2],
                **{name: number_of(row[name]) * users / number_of(row["users"]) for name in _RATES},
            }
            for row in answer.dicts()
        ]  # fmt: skip

    def _row(self, users: float, named: str, row: Row, instances: int) -> Row:
        plan = f"{instances} x {short_plan(str(row['plan']))} {row['form']}" if row else None
        return {
            "concurrency": users, "deployment": named, "instances": instances, "plan": plan, "users": row.get("users"),
            "output_tokens_per_s": row.get("system_output_tokens_per_s"),
            "requests_per_s": row.get("system_requests_per_s"),
            "ttft_ms": row.get("ttft_ms"), "tpot_ms": row.get("tpot_ms"), "e2e_ms": row.get("e2e_ms"),
            "within_limits": row.get("within_limits") if self.limited else None, "probe": row.get("probe"),
        }  # fmt: skip

    def _change(self, row: Row) -> str:
        engine = self.server.engine
        (first, *_) = self.of(self.sweep, 1).dicts()
        changed = changed_flags(self.location, str(first["probe"]), str(row["probe"]), engine)
        changes, seats = dict(changed.changes), self.server.most_requests
        origin = self.origins.get(str(row["form"]), "")
        model = (str(self.server.model), origin) if "/" in origin else ()
        without = changed.without if self.server.compile else (*changed.without, *EAGER.get(engine, ()))
        each = math.ceil(number_of(row["users"]) / int(number_of(row["instances"])))
        if seats is not None and each > seats * self.server.dp:
            changes[holding(engine).seats] = str(each)
        if self.server.words and engine in LAUNCHERS:
            line = changed_line(self.server.words, changes, without, model)
        else:
            said = [name if value is None else f"{name} {value}" for name, value in changes.items()]
            line = "; ".join([*model[1:], *said, *(f"without {name}" for name in without)])
        return self._next(line)

    def _next(self, line: str) -> str:
        name = f"change {len(self.lines) + 1}"
        known = next((one for one, said in self.lines.items() if said == line), None)
        if known is None:
            self.lines[name] = line
        return known or name
