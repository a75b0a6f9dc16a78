"""Measured settings of a question, their groups, and their relation.

Filters mean what they mean of predictions: model, device, engine, formats, lengths."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import TYPE_CHECKING, NamedTuple

from queries.asking.declaring import declared
from queries.asking.options import Scope
from queries.asking.parameters import instance_budget
from queries.asking.question import Question
from queries.learning.own_points import NEAR_LENGTHS
from queries.measured_rows.asked import BOTH, MEASURED, check_pairs
from queries.measured_rows.kept_settings import KeptSettings
from queries.measured_rows.predicted import groups_of, subjects_of
from queries.measured_rows.relation import (
    RELATIONS,
    Ladder,
    Read,
    join_predicted,
    make_base,
    make_rows,
    read_ladders,
    runs_meet,
)
from queries.measured_rows.servers import NO_KV_FORMAT, ServerNamer
from queries.measured_rows.sides import side_of
from queries.scoping.names import unknown
from queries.scoping.scope import NO_LARGEST_BATCH, ResolvedScope, ScopeRow
from store.errors import InputError
from store.reading import read_store_id
from store.schema import FORMULA_MODELS
from store.texts import counted

if TYPE_CHECKING:
    from queries.connect import StoreConnection
    from store.reading import ReadTransaction

_ONE_IMPORT = timedelta(minutes=1)  # points of one import are stored one after the other
_RUNS = """
    SELECT key, coalesce(engine_version, '') AS version, coalesce(tags, '') AS tags, CAST(measured_at AS DATE) AS day
    FROM main.measurement
    WHERE family = 'measured'
"""
# All that a point says, but where its copy lies and when it came there.
_POINTS = """
    SELECT key, CAST(to_json(said) AS VARCHAR)
    FROM (SELECT * EXCLUDE (id, source, file, read_as, imported_at) FROM raw.measurement) AS said
    WHERE key IN ({among})
    ORDER BY key
"""
_OF_KEYS = "SELECT unnest($keys::VARCHAR[])"
_OF_LADDERS = """
    SELECT unnest(measurements) FROM main.measured_setting WHERE left(first_measurement, 12) IN (
        SELECT probe FROM measured_row WHERE scenario_id IN (SELECT unnest($ladders::BIGINT[])))
"""
_AS_THEY_ARE = """
    INSERT INTO factors BY NAME
    SELECT DISTINCT scenario_id, 0 AS first_batch_size, 2147483647 AS last_batch_size, 1.0 AS ttft, 1.0 AS pair_ttft,
        1.0 AS tpot_inclusive, 1.0 AS tpot_exclusive
    FROM scope
    WHERE scenario_id < 0
"""
Group = tuple[object, ...]


class _Run(NamedTuple):
    key: str
    version: str
    tags: frozenset[str]
    day: date | None


class Placed(NamedTuple):
    """A scope with measured settings, and where rows are read."""

    scope: ResolvedScope
    relation: str


class MeasuredRows:
    """Read again when the store is."""

    def __init__(self, connection: StoreConnection, named: ServerNamer) -> None:
        self._connection = connection
        self._named = named
        self._ladders: tuple[Ladder, ...] = ()
        self._read_at: object = None
        self._kept = KeptSettings(
            connection.duckdb, connection.location, read_store_id(connection.location), named.decided_by()
        )
        self._state: list[object] | None = None  # of the store, before its settings were read
        self._sides_read: tuple[tuple[str, ...], ...] = ()  # keys of the runs that each side of a question has
        self._loaded: list[object] | None = None  # of the store, when what was loaded of it was kept
        self._rows = Read((), (), 0)

    def notes(self) -> tuple[str, ...]:
        if not self._rows.left_out:
            return ()
        return (f"note: {self._rows.left_out} measured settings are left out: users in flight or mode are not known",)

    def place(self, transaction: ReadTransaction, question: Question, predicted: ResolvedScope, source: str) -> Placed:
        """Alone, or beside `predicted`, whose rows are `source`'s."""
        if question.options.sweeps:
            return self._sides(transaction, question, predicted, source)
        self._sides_read = ()
        self._read(())
        ladders = _within(self._ladders, instance_budget(question))
        if question.options.rows == MEASURED:
            whole = _alone(_wanted(ladders, question.scope), ladders)
            check_pairs(question, whole.phases)
            return Placed(whole, RELATIONS[MEASURED])
        beside = groups_of(transaction, predicted, ladders)
        own = [] if _names_predictions(question.scope) else _wanted(ladders, question.scope)
        join_predicted(self._connection.duckdb, source, {})
        joined = [one for one in ladders if one.scenario_id in beside]
        alone = [one for one in own if one.scenario_id not in beside]
        return Placed(_joined(predicted, beside, joined, alone), RELATIONS[BOTH])

    @property
    def are_gone(self) -> bool:
        """The rows were kept, and no longer are."""
        return self._kept.are_gone

    def loads_kept(self, question: Question) -> bool:
        """Then their points need not be read."""
        if question.options.sweeps:
            return False
        self._state = self._kept.state()
        if self._loaded is None or self._loaded != self._state or self.are_gone:
            self._read_at = None
            kept = self._kept.load(self._state)
            self._loaded, self._rows = (None, self._rows) if kept is None else (self._state, kept)
        return self._loaded is not None

    def points(self, scope: ResolvedScope) -> list[tuple[str, str]]:
        """By content key, with digests."""
        self._connection.provide({"measurement", "measured_setting"})
        ladders = [row.scenario_id for row in scope.rows if row.scenario_id < 0]
        keys = [key for side in self._sides_read for key in side]
        asked = {"keys": keys} if keys else {"ladders": ladders}
        with runs_meet(self._connection.duckdb):
            told = self._connection.duckdb.execute(_POINTS.format(among=_OF_KEYS if keys else _OF_LADDERS), asked)
            return [(key, hashlib.sha256(said.encode()).hexdigest()[:32]) for key, said in told.fetchall()]

    def read_as_they_are(self) -> None:
        self._connection.duckdb.execute(_AS_THEY_ARE)

    def _sides(self, transaction: ReadTransaction, question: Question, predicted: ResolvedScope, source: str) -> Placed:
        runs = [_Run(key, version, frozenset(filter(None, tags.split(","))), day)
                for key, version, tags, day in self._connection.duckdb.execute(_RUNS).fetchall()]  # fmt: skip
        names, rows = question.options.sweeps, question.options.rows
        taken = {row.question_group for row in predicted.rows}
        self._sides_read = tuple(() if number in taken else tuple(side_of(runs, name))
                                 for number, name in enumerate(names))  # fmt: skip
        self._read(self._sides_read)
        if rows == BOTH:
            join_predicted(self._connection.duckdb, source, subjects_of(transaction, predicted, self._ladders))
        scope = replace(
            predicted,
            rows=(*predicted.rows, *(_row(one, one.side) for one in self._ladders)),
            groups=tuple(f"{side}: {name}" for side, name in zip(("first", "second"), names, strict=True)),
            phases=predicted.phases | {one.phase for one in self._ladders},
            families=tuple(sorted({*predicted.families, MEASURED})),
            serving_models=tuple(sorted({*predicted.serving_models, *_engines(self._ladders)})),
            of_measured=True,
        )
        return Placed(scope, RELATIONS[rows])

    def _read(self, sides: tuple[tuple[str, ...], ...]) -> None:
        moment = (self._connection.loaded, sides)
        if self._read_at != moment:
            self._read_at = None
            if sides or self._loaded is None:
                self._loaded = None
                make_base(self._connection.duckdb, sides)
                self._rows = make_rows(self._connection.duckdb, self._named)
                if not sides:
                    self._kept.keep(self._rows, self._state)
            self._ladders = read_ladders(self._connection.duckdb, self._rows)
            self._read_at = moment if not sides else None  # subjects of a side may be rewritten
        if not self._ladders:
            raise InputError(
                "this store holds no measured setting", hint="fill it with: sweepdb measurements import FILE..."
            )


def _within(ladders: Sequence[Ladder], most_devices: int | None) -> Sequence[Ladder]:
    if most_devices is None:
        return ladders
    return [one for one in ladders if one.num_devices is not None and one.num_devices <= most_devices]


def _row(one: Ladder, group: int) -> ScopeRow:
    return ScopeRow(
        scenario_id=one.scenario_id, first_batch_size=0, last_batch_size=NO_LARGEST_BATCH, question_group=group
    )


def _engines(ladders: Sequence[Ladder]) -> set[str]:
    return {one.server.serving_model for one in ladders}


def _group(one: Ladder) -> Group:
    server = one.server
    return (
        server.model_key or server.model.lower(), one.input_length, one.output_length, server.linear_quantization,
        server.experts_quantization, server.attention_quantization, server.serving_model,
    )  # fmt: skip


def _title(one: Ladder) -> str:
    server = one.server
    formats = [server.linear_quantization]
    if server.experts_quantization != server.linear_quantization:
        formats.append(f"{server.experts_quantization} experts")
    if server.attention_quantization != NO_KV_FORMAT:
        formats.append(f"{server.attention_quantization} KV")
    return " · ".join([server.model, _lengths(one), ", ".join(formats), "measured", server.serving_model])


def _lengths(one: Ladder) -> str:
    return "/".join("-" if length is None else f"{length:.0f}" for length in (one.input_length, one.output_length))


def _placed(ladders: Sequence[Ladder], first: int) -> tuple[list[ScopeRow], tuple[str, ...]]:
    numbers: dict[Group, int] = {}
    titles: list[str] = []
    rows = []
    for one in sorted(ladders, key=lambda one: (_title(one), -one.scenario_id)):
        if _group(one) not in numbers:
            numbers[_group(one)] = first + len(titles)
            titles.append(_title(one))
        rows.append(_row(one, numbers[_group(one)]))
    return rows, tuple(titles)


def _phases(ladders: Sequence[Ladder]) -> frozenset[str]:
    found = {one.phase for one in ladders}
    return frozenset(found | ({"prefill", "decode"} if "pd" in found else set()))


def _alone(ladders: Sequence[Ladder], every: Sequence[Ladder]) -> ResolvedScope:
    rows, titles = _placed(ladders, 0)
    others = len({_group(one) for one in every} - {_group(one) for one in ladders})
    return ResolvedScope(
        rows=tuple(rows),
        groups=titles,
        phases=_phases(ladders),
        families=(MEASURED,),
        of_measured=True,
        serving_models=tuple(sorted(_engines(ladders))),
        left_out=f"{counted(others, 'other measured subject')} in this store: `all`" if others else None,
    )


def _joined(
    predicted: ResolvedScope,
    beside: Mapping[int, Sequence[int]],
    joined: Sequence[Ladder],
    alone: Sequence[Ladder],
) -> ResolvedScope:
    own, titles = _placed(alone, len(predicted.groups))
    rows = [_row(one, group) for one in joined for group in beside[one.scenario_id]]
    return replace(
        predicted,
        rows=(*predicted.rows, *rows, *own),
        groups=(*predicted.groups, *titles),
        phases=predicted.phases | _phases([*joined, *alone]),
        families=tuple(sorted({*predicted.families, MEASURED})),
        of_measured=True,
        serving_models=tuple(sorted({*predicted.serving_models, *_engines(alone)})),
    )


Test = Callable[[Ladder, object], bool]


def _same(stored: str, asked: object) -> bool:
    """BF16 is also called no quantization."""
    formats = [name.upper().replace(NO_KV_FORMAT, "BF16") for name in (stored, str(asked))]
    return formats[0] == formats[1]


def _near(measured: float | None, asked: object) -> bool:
    return measured is not None and abs(measured - float(str(asked))) <= NEAR_LENGTHS * float(str(asked))


def _is_workload(one: Ladder, asked: str) -> bool:
    """As it is called, or near the lengths that a stored workload's name begins with."""
    lengths, _, more = asked.partition(" ")
    told = lengths.split("/")
    if not more or len(told) != 2 or not all(map(str.isdecimal, told)):
        return _lengths(one) == asked
    return _near(one.input_length, told[0]) and _near(one.output_length, told[1])


# Filters that measured settings have, by the field of a scope. Formulas stand for any engine.
_TESTS: Mapping[str, Test] = {
    "models": lambda one, asked: any(_is_model(one.server.model, str(name)) for name in _listed(asked)),
    "devices": lambda one, asked: any(_is_device(one.server.device, str(name)) for name in _listed(asked)),
    "workload": lambda one, asked: _is_workload(one, str(asked)),
    "input_length": lambda one, asked: _near(one.input_length, asked),
    "output_length": lambda one, asked: _near(one.output_length, asked),
    "linear_quantization": lambda one, asked: _same(one.server.linear_quantization, asked),
    "attention_quantization": lambda one, asked: _same(one.server.attention_quantization, asked),
    "serving_model": lambda one, asked: asked in FORMULA_MODELS or one.server.engine == str(asked).partition("@")[0],
    "instance_devices": lambda one, asked: one.num_devices == asked,
}
_NAMES: Mapping[str, Callable[[Ladder], str]] = {
    "models": lambda one: one.server.model,
    "devices": lambda one: one.server.device,
    "workload": _lengths,
    "serving_model": lambda one: one.server.serving_model,
}
_OF_EVERY = frozenset({"all_subjects", "all_versions"})


def _listed(asked: object) -> Sequence[object]:
    return asked if isinstance(asked, tuple) else (asked,)


def _is_model(name: str, asked: str) -> bool:
    return asked.lower() in {name.lower(), name.lower().rsplit("/", 1)[-1]}


def _is_device(name: str, asked: str) -> bool:
    return name.lower().startswith(asked.lower().replace("-", "_").replace(" ", "_"))


def _names_predictions(scope: Scope) -> bool:
    """Otherwise measured settings stand alone."""
    return scope.is_default or not scope.described().keys() <= _TESTS.keys() | _OF_EVERY


def _wanted(ladders: Sequence[Ladder], scope: Scope) -> list[Ladder]:
    asked = {name: value for name, value in scope.described().items() if name not in _OF_EVERY}
    keywords = {item.field: item.keyword for item in declared(Scope)}
    if unknown_filters := [keywords.get(name, name) for name in asked if name not in _TESTS]:
        listed = ", ".join(f"`{name}`" for name in unknown_filters)
        known = ", ".join(f"`{keywords[name]}`" for name in _TESTS)
        raise InputError(f"measured settings have no {listed}", hint=f"leave it out, or filter by {known}")
    if not asked and not scope.all_subjects:
        newest = max((one.imported_at for one in ladders), default=None)
        groups = {_group(one) for one in ladders if newest is not None and newest - one.imported_at <= _ONE_IMPORT}
        return [one for one in ladders if _group(one) in groups]
    kept = [one for one in ladders if all(_TESTS[name](one, value) for name, value in asked.items())]
    if not kept:
        raise _nothing(ladders, asked, keywords)
    return kept


def _nothing(ladders: Sequence[Ladder], asked: Mapping[str, object], keywords: Mapping[str, str]) -> InputError:
    for name, names_of in _NAMES.items():
        if name in asked and not any(_TESTS[name](one, asked[name]) for one in ladders):
            told = _listed(asked[name])[0]
            return unknown(f"measured {keywords[name]}", str(told), sorted({names_of(one) for one in ladders}))
    said = ", ".join(f"{keywords[name]} {value}" for name, value in asked.items())
    return InputError("no measured setting matches this question's filters", hint=f"filters: {said}")
