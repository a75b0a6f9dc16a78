"""Headers of report files: what a report is about, needs, takes and shows, in comment lines before its SQL.

`-- key: value | value`, some keys more than once:

    summary              what it answers
    column               name | unit | meaning; names whose meaning columns.csv has, or the view `probe`; as REPORT:
                         those of another one
    needs                phases that must be stored together; of several lines one is enough
    modes                phases of which one is looked at: the one asked for, else what is stored
    scope                question (where nothing is said), devices (each by itself), workloads, blend, whole, sweeps
                         or probes
    allocates            pairs or instances of several kinds within the device budget
    reads                narrow: `judged`, `admitted` and `picked` alone (queries/narrow); winners: rows that can win
                         alone (queries/thinned); measured: measured settings, too, where `rows` asks for them
                         (queries/measured_rows); loads | the ladders whose cells can matter: what requests that
                         arrive met
    requires             option | what is said without it | hint; of probes or sweeps two are named
    refuses              options; options | hint; option | what is said | hint
    ignores              options that are given for other reports beside it
    best of              the report whose best row sets variables
    verdict              sentences: which wins (deployments, goodputs, separation of a pair), changes between sweeps, or
                         none: no number of it is a prediction
    layout               long or turned
    shows                columns of a table, each `NAME` or `NAME if OPTION or OPTION`; `shows with OPTION` goes before
    when                 options | the report that answers in its place where one of them is given

A line `-- when: options | name` behind a statement begins another form of the report, with a header and SQL of its own.
It answers where one of its options is given, or one of VARIANTS is so."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from queries.asking.limit_sql import with_limits
from queries.asking.macros import without_comments
from store.light_dataclass import dataclass
from store.schema import VIEW_COLUMNS, filled

Verdict = Literal["deployments", "goodputs", "separation", "changes", "none"]
ScopeKind = Literal["question", "devices", "workloads", "blend", "whole", "sweeps", "probes"]
VARIANTS = frozenset(("split", "served", "scale", "vary_second"))  # values of variables that choose a form
FOLDER = Path(__file__).parents[1] / "reports"
_LINE = re.compile(r"^-- ([a-z][a-z0-9_ ]*?): (.*)$")
_FORM = re.compile(r"(?<=;\n\n)(?=-- when: )")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderColumn:
    """A column that a header explains."""

    name: str
    unit: str
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    options: tuple[str, ...]
    message: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Other:
    """A form or report that answers in place of one, and what asks for it."""

    when: frozenset[str]
    report: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    name: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Report:
    name: str
    summary: str
    sql: str
    columns: tuple[HeaderColumn, ...] = ()
    needs: tuple[tuple[str, ...], ...] = ()
    modes: tuple[str, ...] = ()
    scope: ScopeKind = "question"
    allocates: Literal["pairs", "instances"] | None = None
    reads: tuple[str, ...] = ()
    ladders: str | None = None  # of reports about loads
    requires: tuple[Told, ...] = ()
    refuses: tuple[Told, ...] = ()
    ignores: tuple[str, ...] = ()
    others: tuple[Other, ...] = ()
    best_of: str | None = None
    part_of: str | None = None  # the report that it is a form of
    verdict: Verdict | None = None
    layout: Literal["long", "turned"] | None = None
    shows: Mapping[str, tuple[Shown, ...]] = field(default_factory=dict)  # by the option that chooses, "" for none

    @property
    def of_loads(self) -> bool:
        return self.ladders is not None

    @property
    def of_measured(self) -> bool:
        return "measured" in self.reads

    @property
    def by_device(self) -> bool:
        """Its SQL groups by `question_group // 1000`: each device by itself."""
        return self.scope == "devices"

    @property
    def names(self) -> Told | None:
        return next((told for told in self.requires if told.options[0] in {"probes", "sweeps"}), None)

    @property
    def predicts(self) -> bool:
        return self.verdict != "none"

    @property
    def public_names(self) -> frozenset[str]:
        """Words of the SQL, among which are the views it is built on."""
        return frozenset(re.findall(r"(?:FROM|JOIN)\s+([a-z_]+)", without_comments(self.sql)))


def read_header(path: Path) -> Report:
    """The file's first form. A malformed header is a bug that names file and line."""
    return read_forms(path)[0]


@cache
def read_forms(path: Path) -> tuple[Report, ...]:
    name, found, line, chosen = path.stem.replace("_", "-"), list[Report](), 0, 0
    for text in _FORM.split(path.read_text(encoding="utf-8")):
        form = _read_form(path, name, text.rstrip() + "\n", line)
        line += text.count("\n")
        if found:
            way = form.others[0]
            place = chosen if way.when <= VARIANTS else 0  # variants are of the form before
            found[place] = replace(found[place], others=(way, *found[place].others))
            form = replace(form, name=way.report, others=form.others[1:], part_of=name)
            chosen = chosen if way.when <= VARIANTS else len(found)
        found.append(form)
    return tuple(found)


def _read_form(path: Path, name: str, text: str, line_before: int) -> Report:
    text = with_limits(filled(text))
    found: dict[str, Any] = {"name": name, "sql": text, "shows": {}}
    lines = text.splitlines()
    header = lines[: next((place for place, line in enumerate(lines) if not line.startswith("--")), len(lines))]
    for number, line in enumerate(header, start=line_before + 1):
        match = _LINE.match(line)
        key, value = match.groups() if match is not None else ("", line)
        parts = [part.strip() for part in value.split("|")]
        key, _, option = key.partition(" with ")
        try:
            if key == "shows":
                found["shows"][option] = tuple(map(_shown, value.split(",")))
            elif key in _SEVERAL:
                held, read = _SEVERAL[key]
                found[held] = (*found.get(held, ()), *read(*parts))
            else:
                found |= _ONCE[key](*parts)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path.name}, line {number}: no line of a header: {line}") from error
    columns = {column.name: column for column in found.pop("columns", ())}  # a column's own words come last
    return Report(**found, columns=tuple(columns.values()))


def _listed(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))


def _word(key: str, *known: str) -> Callable[[str], dict[str, str]]:
    return lambda word: {key: {one: one for one in known}[word]}


def _columns(name: str, unit: str = "", meaning: str = "") -> Iterable[HeaderColumn]:
    """Explained here, in another report, or once for all."""
    if meaning:
        return (HeaderColumn(name=name, unit=unit, meaning=meaning),)
    if name.startswith("as "):
        return read_header(FOLDER / f"{name.removeprefix('as ').replace('-', '_')}.sql").columns
    return map(_common().__getitem__, _listed(name))


@cache
def _common() -> Mapping[str, HeaderColumn]:
    stored = {one.name: HeaderColumn(name=one.name, unit=one.unit, meaning=one.meaning) for one in VIEW_COLUMNS}
    with (FOLDER / "columns.csv").open(encoding="utf-8", newline="") as file:
        return stored | {row["name"]: HeaderColumn(**row) for row in csv.DictReader(file)}


def _told(options: str, *said: str) -> Iterable[Told]:
    message, hint = ("", *said)[-2:] if said else ("", "")
    return (Told(options=_listed(options), message=message, hint=hint),)


def _shown(text: str) -> Shown:
    name, _, options = text.strip().partition(" if ")
    return Shown(name=name, options=tuple(options.split(" or ")) if options else ())


_SEVERAL: Mapping[str, tuple[str, Callable[..., Iterable[object]]]] = {
    "column": ("columns", _columns),
    "needs": ("needs", lambda phases: (_listed(phases),)),
    "requires": ("requires", _told),
    "refuses": ("refuses", _told),
    "when": ("others", lambda options, report: (Other(when=frozenset(_listed(options)), report=report),)),
}
_ONCE: Mapping[str, Callable[..., Mapping[str, object]]] = {
    "summary": lambda text: {"summary": text},
    "modes": lambda phases: {"modes": _listed(phases)},
    "reads": lambda kinds, ladders=None: {"reads": _listed(kinds), "ladders": ladders},
    "ignores": lambda options: {"ignores": _listed(options)},
    "best of": lambda report: {"best_of": report},
    "scope": _word("scope", *get_args(ScopeKind)),
    "allocates": _word("allocates", "pairs", "instances"),
    "verdict": _word("verdict", *get_args(Verdict)),
    "layout": _word("layout", "long", "turned"),
}


def shown_names(report: Report, given: Collection[str]) -> Sequence[str] | None:
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


def told_columns(*forms: Report) -> frozenset[str] | None:
    if any("" not in one.shows or one.verdict is not None or one.best_of is not None for one in forms):
        return None
    return _BESIDE.union(one.name for form in forms for shown in form.shows.values() for one in shown)
