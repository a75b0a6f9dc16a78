"""Headers of report files: what a report is about, needs, takes and shows, in comment lines before its SQL.

`-- key: value | value`, some keys more than once:

    name, summary        what it is called and answers
    column               name | unit | meaning
    columns like         report whose other columns have the same meaning here
    needs                phases that must be stored together; of several lines one is enough
    modes                phases of which one is looked at: the one asked for, else what is stored
    scope                question (where nothing is said), workloads, blend, whole, sweeps or probes
    divides              devices: each device by itself; its SQL names groups by `question_group // 1000`
    names                what is compared by name: probes or sweeps | what is said without two of them | hint
    allocates            pairs or instances of several kinds within the device budget
    reads                loads: what requests that arrive met, not probes | the ladders whose cells can matter
    timed                pairs: those of an engine have an end-to-end time
    requires             option | what is said without it | hint
    refuses, instead     option | what is said | hint; option that is not used | hint
    ignores              options that are given for other reports beside it
    leaves out           options that macros read and it does not take: they are not given
    variant              report | what must be so for it to answer: an SQL variable that is set, or served
    best of              the report whose best row sets variables
    answered by          report that answers under the name of this one | what must be so
    of loads             report about requests that arrive that answers in its place | the option that asks for it
    of deployments       report on whole deployments that answers in its place | options that ask for it, by commas
    part of              the report that it is a variant of
    narrow               judged: its probes are those of `judged`, `admitted` and `picked` alone (queries/narrow)
    suffices             winners: rows that can win are all it reads (queries/thinned)
    predicts, nearest    nothing: no number of it is a prediction; none: no misses are looked up
    verdict              sentences: which wins (deployments, goodputs, separation of a pair), or changes between sweeps
    layout               long or turned
    shows                columns of a table, each `NAME` or `NAME if OPTION or OPTION`; `shows with OPTION` goes before

Not here: which reports there are (queries.asking.library)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from queries.asking.limits import with_limits
from queries.asking.variables import literal

Verdict = Literal["deployments", "goodputs", "separation", "changes"]
ScopeKind = Literal["question", "workloads", "blend", "whole", "sweeps", "probes"]
_LINE = re.compile(r"^-- ([a-z][a-z0-9_ ]*?): (.*)$")
_COMMENT = re.compile(r"--[^\n]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderColumn:
    """A column a report or view explains in its header."""

    name: str
    unit: str
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A message about an option, and what to do next."""

    option: str
    message: str = ""
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Other:
    """Another report that answers in place of one, and when."""

    report: str
    when: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A column of a table, and the options of which one must be given for it."""

    name: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One SQL file with its header."""

    name: str
    summary: str
    sql: str
    columns: tuple[HeaderColumn, ...] = ()
    columns_like: str | None = None
    needs: tuple[tuple[str, ...], ...] = ()
    modes: tuple[str, ...] = ()
    scope: ScopeKind = "question"
    by_device: bool = False
    names: Told | None = None
    allocates: Literal["pairs", "instances"] | None = None
    timed: bool = False
    ladders: str | None = None  # of reports about loads
    requires: tuple[Told, ...] = ()
    refuses: tuple[Told, ...] = ()
    instead: tuple[Told, ...] = ()
    ignores: tuple[str, ...] = ()
    leaves_out: tuple[str, ...] = ()
    variants: tuple[Other, ...] = ()
    best_of: str | None = None
    answered_by: Other | None = None
    loaded: Other | None = None  # `when` is an option
    deployed: Other | None = None  # `when` lists options
    part_of: str | None = None
    narrow: bool = False
    suffices: bool = False
    predicts: bool = True
    nearest: bool = True
    verdict: Verdict | None = None
    layout: Literal["long", "turned"] | None = None
    shows: Mapping[str, tuple[Shown, ...]] = field(default_factory=dict)  # by the option that chooses, "" for none

    @property
    def of_loads(self) -> bool:
        """Whether it is about requests that arrive, not about probes."""
        return self.ladders is not None

    @property
    def public_names(self) -> frozenset[str]:
        """Words of the SQL, among which are the views it is built on."""
        return frozenset(re.findall(r"(?:FROM|JOIN)\s+([a-z_]+)", _COMMENT.sub("", self.sql)))


def read_header(path: Path) -> Report:
    """A SQL file as a report; a malformed header is an error of the program, named by file and line."""
    text = with_limits(path.read_text(encoding="utf-8"))
    found: dict[str, object] = {"sql": text}
    several: dict[str, list[object]] = {}
    shows: dict[str, tuple[Shown, ...]] = {}
    for number, line in enumerate(_header_of(text), start=1):
        match = _LINE.match(line)
        key, value = match.groups() if match is not None else ("", line)
        parts = [part.strip() for part in value.split("|")]
        if key == "shows" or key.startswith("shows with "):
            shows[key.removeprefix("shows").removeprefix(" with ")] = tuple(map(_shown, value.split(",")))
        elif key in _SEVERAL and len(parts) == _SEVERAL[key].parts:
            several.setdefault(_SEVERAL[key].field, []).append(_SEVERAL[key].read(parts))
        elif key in _ONCE and len(parts) == _ONCE[key].parts:
            found[_ONCE[key].field] = _ONCE[key].read(parts)
        else:
            raise ValueError(f"{path.name}, line {number}: no line of a header: {line}")
    if found.get("name") not in {path.stem, path.stem.replace("_", "-")}:
        raise ValueError(f"{path.name}: the header's name is {found.get('name')!r}")
    return Report(**found, **{name: tuple(items) for name, items in several.items()}, shows=shows)  # type: ignore[arg-type]


def _header_of(text: str) -> Sequence[str]:
    lines = text.splitlines()
    return lines[: next((place for place, line in enumerate(lines) if not line.startswith("--")), len(lines))]


@dataclass(frozen=True, slots=True)
class _Key:
    """How a line is read: the field of a report, how many parts the value has, and what they make."""

    field: str
    parts: int
    read: Callable[[Sequence[str]], object]


def _listed(parts: Sequence[str]) -> tuple[str, ...]:
    return tuple(name.strip() for name in parts[0].split(","))


def _word(*known: str) -> Callable[[Sequence[str]], str]:
    def read(parts: Sequence[str]) -> str:
        if parts[0] not in known:
            raise ValueError(f"{parts[0]!r} is not one of {', '.join(known)}")
        return parts[0]

    return read


def _told(parts: Sequence[str]) -> Told:
    return Told(option=parts[0], message=parts[1], hint=parts[2])


def _other(parts: Sequence[str]) -> Other:
    return Other(report=parts[0], when=parts[1])


def _shown(text: str) -> Shown:
    name, _, options = text.strip().partition(" if ")
    return Shown(name=name, options=tuple(options.split(" or ")) if options else ())


_SEVERAL: Mapping[str, _Key] = {
    "column": _Key("columns", 3, lambda parts: HeaderColumn(name=parts[0], unit=parts[1], meaning=parts[2])),
    "needs": _Key("needs", 1, _listed),
    "requires": _Key("requires", 3, _told),
    "refuses": _Key("refuses", 3, _told),
    "instead": _Key("instead", 2, lambda parts: Told(option=parts[0], hint=parts[1])),
    "variant": _Key("variants", 2, _other),
}
_ONCE: Mapping[str, _Key] = {
    "name": _Key("name", 1, lambda parts: parts[0]),
    "summary": _Key("summary", 1, lambda parts: parts[0]),
    "modes": _Key("modes", 1, _listed),
    "scope": _Key("scope", 1, _word("question", "workloads", "blend", "whole", "sweeps", "probes")),
    "divides": _Key("by_device", 1, lambda parts: _word("devices")(parts) == "devices"),
    "names": _Key("names", 3, _told),
    "allocates": _Key("allocates", 1, _word("pairs", "instances")),
    "reads": _Key("ladders", 2, lambda parts: _word("loads")(parts) and parts[1]),
    "timed": _Key("timed", 1, lambda parts: _word("pairs")(parts) == "pairs"),
    "ignores": _Key("ignores", 1, _listed),
    "leaves out": _Key("leaves_out", 1, _listed),
    "columns like": _Key("columns_like", 1, lambda parts: parts[0]),
    "best of": _Key("best_of", 1, lambda parts: parts[0]),
    "answered by": _Key("answered_by", 2, _other),
    "of loads": _Key("loaded", 2, _other),
    "of deployments": _Key("deployed", 2, _other),
    "part of": _Key("part_of", 1, lambda parts: parts[0]),
    "narrow": _Key("narrow", 1, lambda parts: _word("judged")(parts) == "judged"),
    "suffices": _Key("suffices", 1, lambda parts: _word("winners")(parts) == "winners"),
    "predicts": _Key("predicts", 1, lambda parts: _word("nothing")(parts) != "nothing"),
    "nearest": _Key("nearest", 1, lambda parts: _word("none")(parts) != "none"),
    "verdict": _Key("verdict", 1, _word(*get_args(Verdict))),
    "layout": _Key("layout", 1, _word("long", "turned")),
}


def shown_names(report: Report, given: Collection[str]) -> Sequence[str] | None:
    """The columns of a report's table where these options were given; None for all there are."""
    of_options = [shows for option, shows in report.shows.items() if option in given]
    chosen = of_options[-1] if of_options else report.shows.get("")
    if chosen is None:
        return None
    return [one.name for one in chosen if not one.options or set(one.options) & set(given)]


# What groups and ranks rows, refers to them, is judged beside them or said below them.
_BESIDE = frozenset(
    f"{side}{name}"
    for side in ("", "prefill_", "decode_")
    for name in (
        "question_group", "ranked_by", "users", "probe", "scenario", "device", "plan", "instances", "ttft_ms",
        "ttft_in_step_ms", "tpot_ms", "e2e_ms", "tokens_per_s_per_user", "output_tokens_per_s", "memory_free_bytes",
        "input_length_mean", "realised_input_length_mean", "usd_per_device_hour", "relax_to", "admitted_then",
    )
)  # fmt: skip


def told_columns(*reports: Report) -> frozenset[str] | None:
    """The columns that tables of reports show under any options, and what is said beside them; None for all."""
    if any("" not in one.shows or one.verdict is not None or one.best_of is not None for one in reports):
        return None
    return _BESIDE.union(one.name for report in reports for shown in report.shows.values() for one in shown)


def only_columns(sql: str, columns: Collection[str]) -> str:
    """A statement that yields those of its columns alone; DuckDB reads no others, and keeps the order of rows."""
    wanted = literal(sorted(columns))
    return f"SELECT COLUMNS(lambda name: list_contains({wanted}, name)) FROM (\n{sql.rstrip().rstrip(';')}\n)"  # noqa: S608
