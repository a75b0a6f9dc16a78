"""The named reports: queries/reports/*.sql, their headers, and the check that headers and SQL agree.

A header is comment lines: `-- name: x`, `-- summary: x`, `-- parameter: name | type | unit | what NULL means` and
`-- column: name | unit | meaning`. Not here: running them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from store.errors import InputError

FOLDER = Path(__file__).parent / "reports"
CONFIDENT = Path(__file__).parent / "confident.sql"  # its first view again, where limits are read with a confidence
SHARED = tuple(Path(__file__).parent / name for name in ("scoped.sql", "paired.sql", "deployed.sql"))
_HEADER = re.compile(r"^-- (name|summary|parameters|parameter|column): (.*)$")
_PARAMETER = re.compile(r"\$([a-z_][a-z0-9_]*)", re.IGNORECASE)
_COMMENT = re.compile(r"--[^\n]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A named parameter of a report."""

    name: str
    type: str
    unit: str
    null: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderColumn:
    """A column a report or view explains in its header."""

    name: str
    unit: str
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One SQL file with its header."""

    name: str
    summary: str
    parameters: tuple[Parameter, ...]
    columns: tuple[HeaderColumn, ...]
    sql: str

    @property
    def parameter_names(self) -> frozenset[str]:
        """Parameters that the SQL itself mentions."""
        return frozenset(_PARAMETER.findall(_COMMENT.sub("", self.sql)))

    @property
    def public_names(self) -> frozenset[str]:
        """Words of the SQL, among which are the views it is built on."""
        return frozenset(re.findall(r"(?:FROM|JOIN)\s+([a-z_]+)", _COMMENT.sub("", self.sql)))


def _parameter(name: str, type_: str, unit: str, null: str) -> Parameter:
    return Parameter(name=name, type=type_, unit=unit, null=null)


# What nearly every report takes; its header says `parameters: rules` and `parameters: limits`.
SHARED_PARAMETERS = {
    "rules": (
        _parameter("reserved_gib", "DOUBLE", "GiB", "never NULL"),
        _parameter("kv_charge", "VARCHAR", "none", "never NULL: full or mean"),
        _parameter("tpot_rule", "VARCHAR", "none", "each serving model's own: exclusive under engines, else inclusive"),
        _parameter("prefill_qps_rule", "VARCHAR", "none", "never NULL: capacity or ttft"),
        _parameter("decode_qps_rule", "VARCHAR", "none", "never NULL: minus-one or full"),
        _parameter("throughput_rule", "VARCHAR", "none", "never NULL: once or twice"),
    ),
    "limits": (
        _parameter("ttft_limit_ms", "DOUBLE", "ms", "no limit"),
        _parameter("tpot_limit_ms", "DOUBLE", "ms", "no limit"),
        _parameter("e2e_limit_ms", "DOUBLE", "ms", "no limit"),
        _parameter("min_user_rate", "DOUBLE", "tokens/s", "no limit"),
    ),
}


@cache
def shared_sql() -> str:
    """What every report is built on: rows of the question's scope, and pairs of them."""
    return "\n".join(path.read_text(encoding="utf-8") for path in SHARED)


@cache
def reports() -> dict[str, Report]:
    """Every report by name."""
    return {report.name: report for report in map(read_header, sorted(FOLDER.glob("*.sql")))}


def _nearest(nearest: Sequence[str], known: Collection[str]) -> str:
    return f"nearest: {', '.join(nearest)}" if nearest else f"known: {', '.join(sorted(known))}"


def report(name: str) -> Report:
    """One report; an unknown name lists the nearest."""
    known = reports()
    if name not in known:
        nearest = difflib.get_close_matches(name, known, n=3, cutoff=0.3)
        raise InputError(f"unknown report {name!r}", hint=_nearest(nearest, known))
    return known[name]


def read_header(path: Path) -> Report:
    """A SQL file as a report; a malformed header is an error of the program, named by file and line."""
    text = path.read_text(encoding="utf-8")
    single: dict[str, str] = {}
    parameters: list[Parameter] = []
    columns: list[HeaderColumn] = []
    for number, line in enumerate(text.splitlines(), start=1):
        match = _HEADER.match(line)
        if match is None:
            continue
        kind, value = match.groups()
        if kind == "parameters":
            parameters += SHARED_PARAMETERS[value.strip()]
        elif kind == "parameter":
            name, type_, unit, null = _parts(value, 4, path, number)
            parameters.append(Parameter(name=name, type=type_, unit=unit, null=null))
        elif kind == "column":
            name, unit, meaning = _parts(value, 3, path, number)
            columns.append(HeaderColumn(name=name, unit=unit, meaning=meaning))
        else:
            single[kind] = value.strip()
    if single.get("name") != path.stem.replace("_", "-") and single.get("name") != path.stem:
        raise ValueError(f"{path.name}: the header's name is {single.get('name')!r}")
    return Report(
        name=single["name"],
        summary=single["summary"],
        parameters=tuple(parameters),
        columns=tuple(columns),
        sql=text,
    )


def _parts(value: str, count: int, path: Path, number: int) -> Sequence[str]:
    parts = [part.strip() for part in value.split("|")]
    if len(parts) != count:
        raise ValueError(f"{path.name}, line {number}: expected {count} parts between |, found {len(parts)}")
    return parts
