"""Keywords become a question: scope, limits, definitions; and its answer."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from functools import cache
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal

from queries.asking.declaring import declared, in_new_words, other_words, plain_types, shown
from queries.asking.frames import Framed, html_table
from queries.asking.limits import Limits
from queries.asking.options import (
    LONGEST_NAME,
    PARTS,
    Definitions,
    PairOptions,
    ReportOptions,
    Scope,
    TpotRule,
    option_table,
    preset_named,
)
from queries.errors.expected import ExpectedError
from queries.errors.spreads import OWN
from store.errors import InputError
from store.light_dataclass import dataclass
from store.schema import FORMULA_MODELS
from store.texts import counted, element, html_of

if TYPE_CHECKING:
    from queries.judging.first_tokens import TtftInterval
    from queries.judging.learned import OwnRuns


def own_tpot(serving_model: str) -> TpotRule:
    """The TPOT that an engine's clients report; of formulas, the seeds'. Also in scoped.sql."""
    return "inclusive" if serving_model in FORMULA_MODELS else "exclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    report: str = "best"
    scope: Scope = field(default_factory=Scope)
    limits: Limits = field(default_factory=Limits)
    definitions: Definitions = field(default_factory=Definitions)
    pairs: PairOptions = field(default_factory=PairOptions)
    options: ReportOptions = field(default_factory=ReportOptions)

    @property
    def given(self) -> frozenset[str]:
        return frozenset(
            item.keyword
            for part in (self.limits, self.pairs, self.options)
            for item in declared(type(part))
            if getattr(part, item.field) != item.default
        )


def question_of(report: str, given: Mapping[str, object]) -> Question:
    """Keywords of Python and of the command line."""
    return Question(report=report, **_parts_of(given, report))


@cache
def _homes() -> Mapping[str, str]:
    """The part of a question for each keyword; three are no command-line options."""
    homes = {item.keyword: part for part, kind in PARTS.items() for item in declared(kind)}
    return {**homes, "workload_keys": "scope", "probes": "options", "sweeps": "options"}


def _parts_of(given: Mapping[str, object], report: str) -> dict[str, Any]:
    """None was not given; an unknown keyword lists the nearest."""
    values = in_new_words(given, option_table().values())
    base = preset_named(_text("preset", values.pop("preset", "sweepdb")))
    held: dict[str, dict[str, object]] = {part: {} for part in PARTS}
    held["definitions"] = {item.name: getattr(base, item.name) for item in fields(base)}
    for keyword, value in values.items():
        if keyword not in _homes():
            raise _unknown(keyword, report)
        item = option_table().get(keyword)
        several = item is None or tuple in plain_types(item.type)
        held[_homes()[keyword]][keyword if item is None else item.field] = _several(value) if several else _plain(value)
    return {part: kind(**held[part]) for part, kind in PARTS.items()}


def _plain(value: object) -> object:
    """Numbers of dataframes as Python's, which databases know."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def _several(value: object) -> object:
    """Commas separate; repetitions go."""
    if isinstance(value, str):
        return tuple(dict.fromkeys(part for part in value.split(",") if part))
    if not isinstance(value, Sequence):
        return value
    return tuple(tuple(one) if isinstance(one, list) else one for one in value)


def _text(keyword: str, value: object) -> str:
    if not isinstance(value, str):
        raise InputError(f"`{keyword}` is a text, not {shown(value)}")
    return value


def _unknown(keyword: str, report: str) -> InputError:
    known = [*option_table(), *other_words(option_table().values()), "preset"]
    nearest = difflib.get_close_matches(keyword[:LONGEST_NAME], known, n=3, cutoff=0.5)
    return InputError(
        f"unknown option {keyword[:LONGEST_NAME]!r} of {report}", hint=f"nearest: {', '.join(nearest or sorted(known))}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Framed):
    """Rows with everything needed to read and to repeat them. `nearest` is filled when nothing satisfies the limits."""

    question: Question
    report: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    probes_considered: int
    scenarios_considered: int
    scope: tuple[str, ...]  # one line a group: model, workload, precision, convention
    versions: Mapping[str, object]
    sql: str
    parameters: Mapping[str, object]
    nearest_columns: tuple[str, ...] = ()
    nearest: tuple[tuple[object, ...], ...] = ()
    notes: tuple[str, ...] = ()
    verdict: tuple[str, ...] = ()  # compare: which deployment wins, a sentence a group
    ttft_intervals: tuple[TtftInterval, ...] = ()  # of the rows whose first tokens are no one number
    expected_error: tuple[ExpectedError, ...] = ()  # empty where a report judges no predicted number
    own_runs: OwnRuns | None = None  # where measured points of the store correct some of the rows
    counts: Literal["probes", "loads", "rows"] = "probes"  # what `probes_considered` is of
    left_out: str | None = None  # what else the store holds, where no filter was given

    @property
    def tpot(self) -> str:
        """Which TPOT is limited and shown: the rule asked for, else that of each serving model."""
        asked = self.question.definitions.tpot
        models = self.versions.get("serving_model")
        if asked is not None or not isinstance(models, list):
            return asked or "each serving model's own"
        by_rule: dict[str, list[str]] = {}
        for model in models:
            by_rule.setdefault(own_tpot(model), []).append(model)
        if len(by_rule) == 1:
            return next(iter(by_rule))
        return ", ".join(f"{rule} ({', '.join(names)})" for rule, names in sorted(by_rule.items()))

    def version(self, name: str) -> str:
        """A version of the rows by its name, such as the serving models that predicted them."""
        values = self.versions.get(name)
        return ", ".join(map(str, values)) if isinstance(values, list) else str(values)

    @property
    def given(self) -> frozenset[str]:
        """Options that were given, and facts of the rows: both say which columns a person's table has."""
        rows = self.dicts()
        facts = {
            "served": any(row.get("users") is not None for row in rows),
            "sized": any(str(row.get("ranked_by")).endswith("_per_device") for row in rows),
            "ttft_intervals": bool(self.ttft_intervals),
        }
        return self.question.given.union(name for name, holds in facts.items() if holds)

    @property
    def stated_errors(self) -> tuple[ExpectedError, ...]:
        """Expected errors on the servers that limits are read for, or on the user's own where points tell them."""
        wanted = {self.question.limits.servers, OWN}
        return tuple(one for one in self.expected_error if one.servers in wanted)

    def nearest_dicts(self) -> list[dict[str, object]]:
        return [dict(zip(self.nearest_columns, row, strict=True)) for row in self.nearest]

    def __repr__(self) -> str:
        rows = counted(len(self.rows), "row")
        return f"<Answer {self.report}: {rows} of {self.probes_considered:,} {self.counts} looked at>"

    def _repr_mimebundle_(self, **_: object) -> dict[str, object]:
        """The answer as a notebook shows it: the picture, where its report has one, and the table."""
        from queries.asking.pictures import picture_of, report_pictures

        shown: dict[str, object] = {"text/plain": repr(self), "text/html": self._repr_html_()}
        if self.rows and self.report in report_pictures():
            shown["application/vnd.vegalite.v5+json"] = picture_of(self)
        return shown

    def _repr_html_(self) -> str:
        """The columns that the command's table shows; the nearest misses where nothing satisfies the limits."""
        from queries.asking.headers import shown_names
        from queries.asking.library import NEAREST, report

        said = element("p", repr(self)[1:-1])
        if not self.rows and self.nearest:
            shown = shown_names(report(NEAREST), self.given)
            nearest = html_table(self.nearest_columns, self.nearest, shown)
            told = element("p", "Nothing satisfies the limits. The nearest misses:")
            return str(html_of([said, told, nearest]))
        return str(html_of([said, html_table(self.columns, self.rows, shown_names(report(self.report), self.given))]))
