"""Writes macros and views out in place of each call.

DuckDB plans a macro at its creation and at each call; creating took as long as answering. A parameterless table that
is read twice becomes one of the WITH."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path

from queries.asking.macros import JUDGED, SCOPED, SERVED, Macro, macros, read_macros, read_sql, scoped_view
from queries.narrow.tokens import Tokens, end_of_brackets, is_whole, listed, named, text_at, tokens_of
from store.light_dataclass import NamedTuple

_FOLDER = Path(__file__).parent
_VIEWS = frozenset({SCOPED, JUDGED})
_CREATED = frozenset({"MACRO", "VIEW"})  # words before the name of what is created
_SELECTED = frozenset({"FROM", "JOIN"})  # words before a view
_SELECTS = frozenset({"SELECT", "WITH"})  # first words of what may have a WITH
_ABOVE = "once_"  # before the name of a table of the WITH
_NAMES = frozenset({".", "AS"})  # what stands before a column or an alias of the same letters


class Look(NamedTuple):
    """Rows that relations show."""

    of_loads: bool = False  # points are loads rather than probes
    served: bool = True  # engines serve some of the scope
    formulas: bool = True  # and formulas some
    measured: bool = False  # measured settings are among the rows
    narrow: bool = False  # judged rows come from a narrow table
    confident: bool = False  # limits are compared with bounds of measured values, by the table `factors`


class Parameter(NamedTuple):
    """An argument's place in a macro's body."""

    name: str


class Table(NamedTuple):
    """A parameterless table's place."""

    name: str


Piece = str | Parameter | Table
Pieces = Sequence[Piece]


class _Written(NamedTuple):
    """A body that calls no other."""

    parameters: Mapping[str, Pieces]  # with what each is by default
    body: Pieces
    is_table: bool
    is_shared: bool = False  # the same wherever it is read


@lru_cache(maxsize=512)  # of the same texts at every question
def written_out(sql: str, look: Look) -> str:
    """Calls become expressions or subqueries."""
    tokens = tokens_of(sql)
    pieces = _pieces(tokens, look, {})
    times: dict[str, int] = {}
    begins = text_at(tokens, 0)
    if begins in _SELECTS:
        _count(pieces, look, times)
    above = [name for name, read in times.items() if read > 1]
    told = _put(pieces, look, above)
    if not above:
        return told
    tables = ", ".join(f"{_ABOVE}{name} AS MATERIALIZED ({_body(name, look, above)})" for name in above)
    return f"WITH {tables}, {told.removeprefix('WITH')}" if begins == "WITH" else f"WITH {tables} {told}"


def _count(pieces: Pieces, look: Look, times: dict[str, int]) -> None:
    """Reads of each parameterless table, none before one it reads."""
    for piece in pieces:
        if isinstance(piece, Table):
            if piece.name not in times:
                _count(_written(piece.name, look).body, look, times)
            times[piece.name] = times.get(piece.name, 0) + 1


def _put(pieces: Pieces, look: Look, above: Collection[str]) -> str:
    return "".join(
        one
        if isinstance(one, str)
        else f"{_ABOVE}{one.name}"
        if one.name in above
        else f"({_body(one.name, look, above)})"
        for one in pieces
    )


def _body(name: str, look: Look, above: Collection[str]) -> str:
    return _put(_written(name, look).body, look, above)


@cache
def _macros(look: Look) -> Mapping[str, Macro]:
    """As for rows of this kind."""
    known = dict(macros(of_loads=look.of_loads))
    if not look.served:
        known |= _read("unserved.sql")
    if not look.formulas:
        known |= _read("engines_alone.sql")
    if look.measured:
        known |= {f"predicted_{name}": known[name] for name in SERVED}  # that measured ones stand in place of
        known |= _read("measured.sql")
    return known


def _read(file: str) -> Mapping[str, Macro]:
    return read_macros((_FOLDER / file).read_text(encoding="utf-8"))


def _text(name: str, look: Look) -> str:
    """The creating statement."""
    if name == SCOPED:
        return scoped_view(confident=look.confident)
    if name == JUDGED and look.narrow:
        return read_sql(_FOLDER / "judged.sql", confident=look.confident)
    return _macros(look)[name].sql


@cache
def _written(name: str, look: Look) -> _Written:
    """From `CREATE ... MACRO name(a, b := 1) AS [TABLE] body;` or `CREATE ... VIEW name AS body;`."""
    tokens = tokens_of(_text(name, look))
    begins = next(place for place in range(len(tokens)) if text_at(tokens, place - 1) in _CREATED) + 1
    if text_at(tokens, begins) != "(":
        return _Written({}, _pieces(tokens[begins + 1 : -1], look, {}), is_table=True)
    ends = end_of_brackets(tokens, begins)
    declared = {one[0].text: one[2:] for one in listed(tokens[begins + 1 : ends])}
    parameters = {one: _argument(default, look, {}) if default else () for one, default in declared.items()}
    is_table = text_at(tokens, ends + 2) == "TABLE"
    body = tokens[ends + 2 + is_table : -1]
    return _Written(parameters, _pieces(body, look, parameters), is_table, is_shared=is_table and not parameters)


def _expanded(tokens: Tokens, look: Look, parameters: Mapping[str, Pieces]) -> Iterator[Piece]:
    """Without the leading space."""
    known = _macros(look)
    place, plain = 0, list[str]()
    while place < len(tokens):
        space, text = tokens[place]
        if place:
            plain.append(space)
        if text in parameters and _is_value(tokens, place):
            yield from ("".join(plain), Parameter(text))
            plain = []
        elif text in known and _is_called(tokens, place):
            ends = end_of_brackets(tokens, place + 1) if text not in _VIEWS else place
            written = _written(text, look)
            given = {
                (name or list(written.parameters)[number]): _argument(value, look, parameters)
                for number, (name, value) in enumerate(map(named, listed(tokens[place + 2 : ends])))
            }
            yield "".join(plain)
            yield from [Table(text)] if written.is_shared else _called(written, given)
            plain = [f" AS {text}"] if written.is_table and text_at(tokens, ends + 1) != "AS" else []
            place = ends
        else:
            plain.append(text)
        place += 1
    yield "".join(plain)


def _is_value(tokens: Tokens, place: int) -> bool:
    return text_at(tokens, place - 1) not in _NAMES and text_at(tokens, place + 1) not in {":=", "("}


def _is_called(tokens: Tokens, place: int) -> bool:
    before, behind = text_at(tokens, place - 1), text_at(tokens, place + 1)
    if tokens[place].text in _VIEWS:
        return before in _SELECTED and behind != "("
    return before not in _NAMES and behind == "("


def _argument(tokens: Tokens, look: Look, parameters: Mapping[str, Pieces]) -> Pieces:
    pieces = _pieces(tokens, look, parameters)
    return pieces if is_whole(tokens) else ("(", *pieces, ")")


def _pieces(tokens: Tokens, look: Look, parameters: Mapping[str, Pieces]) -> Pieces:
    """As `_expanded`, adjacent texts joined."""
    found = list[Piece]()
    for piece in _expanded(tokens, look, parameters):
        if isinstance(piece, str) and found and isinstance(found[-1], str):
            found[-1] += piece
        else:
            found.append(piece)
    return tuple(found)


def _called(written: _Written, given: Mapping[str, Pieces]) -> Iterator[Piece]:
    values = {**written.parameters, **given}
    yield "("
    for piece in written.body:
        if isinstance(piece, Parameter):
            yield from values[piece.name]
        else:
            yield piece
    yield ")"
