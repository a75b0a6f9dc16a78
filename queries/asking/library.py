"""The named reports: every file of queries/reports."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from queries.asking.declaring import Declared, declared, objective_today, old_word_note
from queries.asking.headers import FOLDER, VARIANTS, Report, read_forms
from queries.asking.limits import limit_table
from queries.asking.macros import macros_of, names_in, variables_of
from queries.asking.options import PARTS, option_table
from store.errors import InputError
from store.schema import OLD_COLUMNS as STORED_UNDER

NEAREST = "nearest"  # the report that is asked where nothing satisfies the limits
BY_GOODPUT = "{} by goodput"  # the form of a report about requests that arrive
# Names of before, which answer for one release.
OLD_NAMES: Mapping[str, str] = {
    "goodput": "best",
    "goodput-capacity": "capacity",
    "goodput-compare": "compare",
    "goodput-cost": "cost",
    "goodput-sensitivity": "sensitivity",
}
# Columns of answers, views and pages by their names of before. Views have both until the next release.
OLD_COLUMNS: Mapping[str, str] = {
    **STORED_UNDER,
    "play_seats": "max_num_seqs",
    "rate (tokens/s)": "output_tokens_per_s, of prefill input_tokens_per_s",
    "rate_per_device": "output_tokens_per_s_per_device, of prefill input_tokens_per_s_per_device",
    "system_rate": "system_output_tokens_per_s, of prefill system_input_tokens_per_s",
    "ranked_rate": "ranked_tokens_per_s",
    "rate_change_percent": "throughput_change_percent",
    "qps": "requests_per_s",
    "qps_per_device": "requests_per_s_per_device",
    "qps_per_device_bound": "requests_per_s_per_device_bound",
    "system_qps": "system_requests_per_s",
    "served_qps": "served_requests_per_s",
    "balanced_qps": "balanced_requests_per_s",
    "prefill_qps": "prefill_requests_per_s",
    "decode_qps": "decode_requests_per_s",
}
_LONGEST = 100  # letters of a name
_EVERYWHERE = ("num_devices", "top")  # a budget bounds instances where nothing is allocated, and every list can end
_NAME = re.compile(r"[a-z][a-z0-9_, -]*")


@cache
def reports() -> dict[str, Report]:
    return {form.name: form for path in sorted(FOLDER.glob("*.sql")) for form in read_forms(path)}


def _paths_of(name: str) -> Iterator[Path]:
    """Its own file, or that of the report that its name begins with."""
    first = name.partition(" ")[0]
    for stem in (first, first.rpartition("-")[0]):
        path = FOLDER / f"{stem.replace('-', '_')}.sql"
        if stem and path.is_file():
            yield path


def _nearest(nearest: Sequence[str], known: Collection[str]) -> str:
    return f"nearest: {', '.join(nearest)}" if nearest else f"known: {', '.join(sorted(known))}"


@cache
def variables_read(name: str) -> frozenset[str]:
    asked = report(name)
    return variables_of(asked.sql, of_loads=asked.of_loads)


@cache
def names_below(name: str) -> frozenset[str]:
    asked = report(name)
    return asked.public_names.union(*(names_in(macro.sql) for macro in macros_of(asked.sql, of_loads=asked.of_loads)))


@cache
def variables_taken(name: str) -> frozenset[str]:
    left_out = {option for told in report(name).refuses if not told.message for option in told.options}
    return variables_read(name) - {option_table()[keyword].option.variable for keyword in left_out}


@cache
def is_timed(name: str) -> bool:
    asked = report(name)
    names = (name, *variants_of(asked), *((asked.best_of,) if asked.best_of else ()))
    return any("engine_decodes" in names_below(one) for one in names)


def has_nearest(asked: Report) -> bool:
    """Misses are looked up where nothing satisfies the limits."""
    limited = asked.predicts and not asked.of_loads and asked.scope in {"question", "devices", "blend"}
    return limited and asked.name != NEAREST


@cache  # a question asks for the same ones a dozen times
def report(name: str) -> Report:
    if len(name) <= _LONGEST and _NAME.fullmatch(name):
        for found in (form for path in _paths_of(name) for form in read_forms(path)):
            if found.name == name:
                return found
    name = name[:_LONGEST]
    asked = [item.name for item in reports().values() if item.part_of is None]
    nearest = difflib.get_close_matches(name, asked, n=3, cutoff=0.3)
    raise InputError(f"unknown report {name!r}", hint=_nearest(nearest, asked))


def asked_instead(name: str, given: Collection[str]) -> str:
    """Another form or report, where an option that was given asks for it."""
    if name in OLD_NAMES:
        return BY_GOODPUT.format(OLD_NAMES[name])
    found = report(name)
    if found.part_of is not None and name != BY_GOODPUT.format(found.part_of):
        raise _is_a_part(found)
    for other in found.others:
        if (other.when - VARIANTS) & set(given):
            return other.report
    if "by" in given and not found.of_loads:
        takers = [one.name for one in reports().values() if any("by" in other.when for other in one.others)]
        raise InputError(f"report {name} makes no use of `by`", hint=f"these do: {', '.join(takers)}")
    return name


def old_name_note(name: str, rank_by: object = None) -> str | None:
    """A line about an old name of a report, or of what ranks it."""
    if name in OLD_NAMES:
        return f"{name} is an old name, gone with the next release: ask {OLD_NAMES[name]} with `by=goodput`"
    if isinstance(rank_by, str) and "qps" in rank_by:
        return old_word_note(f"rank_by={rank_by}", f"rank_by={objective_today(rank_by)}")
    return None


def question_report(name: str) -> Report:
    """Other reports' forms cannot be asked for."""
    found = report(OLD_NAMES.get(name, name))
    if found.part_of is not None:
        raise _is_a_part(found)
    return found


def _is_a_part(found: Report) -> InputError:
    return InputError(f"report {found.name} is part of another one", hint=f"ask {found.part_of}")


def variants_of(asked: Report) -> list[str]:
    return [other.report for other in asked.others if VARIANTS & other.when]


@cache
def all_variables_taken(asked: Report) -> frozenset[str]:
    """Also of reports asked on the way or instead."""
    others = [*variants_of(asked), *((asked.best_of,) if asked.best_of else ())]
    return variables_taken(asked.name).union(*map(variables_taken, others))


def answering_for(asked: Report, values: Mapping[str, object]) -> Report:
    for other in asked.others:
        if any(values[name] not in {None, False} for name in VARIANTS & other.when):
            return report(other.report)
    return asked


@cache
def _of_scope() -> frozenset[str]:
    return frozenset(item.keyword for item in declared(PARTS["scope"]))


def takes(asked: Report, item: Declared) -> bool:
    """Itself, or the report that answers instead."""
    if item.keyword in _of_scope():
        return asked.scope not in {"sweeps", "probes"}
    if any(item.keyword in told.options for told in asked.refuses):
        return False
    if item.keyword in {"confidence", "tuned_servers"}:
        limited = bool(all_variables_taken(asked) & {one.variable for one in limit_table() if one.errors_known})
        # A report that ignores limits says of its rows whether they hold.
        return limited or (item.keyword == "tuned_servers" and bool(asked.ignores))
    of_report = {"as_predicted": asked.predicts, "mode": bool(asked.modes), "rows": asked.of_measured}
    if item.keyword in of_report:
        return of_report[item.keyword]
    if item.keyword in _EVERYWHERE or any(item.keyword in other.when for other in asked.others):
        return True
    return item.option.variable in all_variables_taken(asked)
