"""Scopes to scenarios: names, newest formula version, failures apart.

Reads small tables, never probes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace

from queries.asking.options import Scope
from queries.scoping.filters import Filter, add_filters, bound_devices, leave_out_voided, marks
from queries.scoping.groups import COLUMNS, Found, Grouping
from queries.scoping.names import asked_models, find_sweep
from queries.scoping.newest import check_filled, left_out, like_newest, newest_request
from store.errors import InputError
from store.light_dataclass import NamedTuple, dataclass
from store.reading import ReadTransaction, flat_names
from store.schema import FORMULA_MODELS, PHASES, SCENARIO_TABLES, scenario_tables
from store.texts import arguments_of

NO_LARGEST_BATCH = 2**31 - 1
_SCENARIO_COLUMNS = ("scenario", "prefill_scenario", "decode_scenario")
DEVICES_A_GROUP = 1000  # where each device is by itself: its group's number times this, and its own
_UNTIMED = (
    "note: an answer of one token has no time between tokens: TPOT and tokens/s of a user say nothing here, nor do"
    " limits on them; limit TTFT"
)
LooksAt = Callable[[Collection[str]], Collection[str]]  # of the phases stored, those a report looks at
# Formula versions are never mixed in one ranking: of what is else alike in a phase, the newest version counts.
_ALIKE = (
    "sj.model_id, sj.workload_id, sj.precision_id, sj.convention, sj.serving_model, sj.compile, sj.serving_cost_ms,"
    " sj.phase"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeRow:
    """Batch sizes asked for, and its group."""

    scenario_id: int
    first_batch_size: int
    last_batch_size: int
    question_group: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedScope:
    """With a line for each group: model, workload, precision, and what else differs."""

    rows: tuple[ScopeRow, ...]
    groups: tuple[str, ...]
    phases: frozenset[str] = frozenset()
    formula_versions: tuple[int, ...] = ()
    families: tuple[str, ...] = ()
    serving_models: tuple[str, ...] = ()
    assumptions: Mapping[str, str] = field(default_factory=dict)  # by scenario key: dtypes widened, formulas missing
    older_versions: tuple[int, ...] = ()  # formula versions that are stored of the same, and left out
    left_out: str | None = None  # what else the store holds, where no filter was given
    of_phases: bool = False  # other phases would be grouped in another way
    of_measured: bool = False  # measured settings are among the rows
    untimed: bool = False  # answers of one token are among the rows

    @property
    def versions(self) -> dict[str, list[object]]:
        """Values that told these rows apart."""
        return {
            "formula_version": list(self.formula_versions),
            "family": list(self.families),
            "serving_model": list(self.serving_models),
            "older_formula_versions": list(self.older_versions),
        }

    def notes_on(
        self, columns: Sequence[str], rows: Sequence[Sequence[object]], phases: Sequence[str]
    ) -> tuple[str, ...]:
        """Assumptions of their scenarios, and what is not timed in these phases."""
        places = [columns.index(name) for name in _SCENARIO_COLUMNS if name in columns]
        used = {str(row[place]) for row in rows for place in places}
        texts = (text for key, text in self.assumptions.items() if key in used)
        untimed = self.untimed and {*phases} != {"prefill"} and any("tpot" in name for name in columns)
        told = (line for text in texts for line in text.splitlines() if line)
        return (*dict.fromkeys(told), *((_UNTIMED,) if untimed else ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouped:
    """`over_workloads`: the workload divides no groups.

    `title` stands for it; a blend joins workloads whatever they draft. `by_device`: a group's number is times
    DEVICES_A_GROUP, plus the device's."""

    over_workloads: bool = False
    by_device: bool = False
    blended: bool = False
    title: str | None = None
    looks_at: LooksAt = lambda _: PHASES


def resolve_scope(
    transaction: ReadTransaction,
    scope: Scope,
    grouped: Grouped = Grouped(),
    *,
    workloads: Sequence[int] = (),
    most_devices: int | None = None,
) -> ResolvedScope:
    """Errors about empty stores and unknown names say what to do.

    Without filters: like the newest request, over all workloads where asked. `most_devices` bounds one instance."""
    wanted = Filter()
    leave_out_voided(transaction, wanted)
    sweep_id, asked = None, None
    if scope.sweep is not None or scope.last:
        sweep_id = _sweep_id(transaction, scope)
    elif scope.is_default:
        conditions, asked = like_newest(transaction, over_workloads=grouped.over_workloads)
        for condition, parameters in conditions:
            wanted.add(condition, *parameters)
    if workloads:
        wanted.add(f"sj.workload_id IN ({marks(workloads)})", *workloads)
    bound_devices(wanted, most_devices)
    add_filters(transaction, scope, wanted)
    found = _read(transaction, scope, sweep_id, wanted)
    if not found.rows:
        check_filled(transaction)
        raise _nothing(scope, most_devices)
    resolved = _resolved(found, grouped, asked, _asked_models(transaction, scope, sweep_id))
    if not scope.is_default or workloads:
        return resolved
    return replace(resolved, left_out=left_out(transaction, [row.scenario_id for row in resolved.rows]))


def resolve_whole_store(
    transaction: ReadTransaction, scope: Scope, *, most_devices: int | None = None
) -> ResolvedScope:
    """Failures too: what coverage is about."""
    wanted = Filter(conditions=["1 = 1"])
    leave_out_voided(transaction, wanted)
    bound_devices(wanted, most_devices)
    sweep_id = _sweep_id(transaction, scope) if scope.sweep is not None or scope.last else None
    add_filters(transaction, scope, wanted)
    found = _read(transaction, replace(scope, all_versions=True), sweep_id, wanted, first_batch=0)
    if not found.rows:
        check_filled(transaction)
        raise _nothing(scope, most_devices)
    resolved = _resolved(found, Grouped(), None, {})
    once = {(row.scenario_id, row.first_batch_size): row for row in resolved.rows}  # nothing is ranked here
    return replace(resolved, rows=tuple(once.values()))


def resolve_two_sweeps(
    transaction: ReadTransaction, first: str, second: str, *, most_devices: int | None = None
) -> ResolvedScope:
    """As groups 0 and 1.

    An error where they share no subject."""
    asked = (Scope(sweep=reference, all_versions=True) for reference in (first, second))
    sides = [resolve_scope(transaction, scope, most_devices=most_devices) for scope in asked]
    subjects = [_subjects(transaction, side) for side in sides]
    if not subjects[0] & subjects[1]:
        raise InputError(
            f"sweeps {first} and {second} have no subject in common: {_differing(transaction, sides)}",
            hint="diff compares sweeps of the same model, device, plan, precision, workload, phase and convention",
        )
    return ResolvedScope(
        rows=tuple(
            dict.fromkeys(replace(row, question_group=group) for group, side in enumerate(sides) for row in side.rows)
        ),
        groups=(f"first: {first}", f"second: {second}"),
        phases=sides[0].phases | sides[1].phases,
        formula_versions=tuple(sorted({*sides[0].formula_versions, *sides[1].formula_versions})),
        families=tuple(sorted({*sides[0].families, *sides[1].families})),
        serving_models=tuple(sorted({*sides[0].serving_models, *sides[1].serving_models})),
        assumptions={**sides[0].assumptions, **sides[1].assumptions},
    )


def resolve_probes(
    transaction: ReadTransaction, references: Sequence[str], *, most_devices: int | None = None
) -> ResolvedScope:
    rows: list[ScopeRow] = []
    found: list[_Probed] = []
    for number, reference in enumerate(references, start=1):
        row, batch = _find_probe(transaction, reference)
        if most_devices is not None and row.num_devices > most_devices:
            raise InputError(
                f"{reference} is of an instance of {row.num_devices} devices, beyond `num_devices={most_devices}`"
            )
        found.append(row)
        rows += [
            ScopeRow(scenario_id=row.scenario_id, first_batch_size=size, last_batch_size=size, question_group=group)
            for size, group in ((batch, number), (batch + 1, number + 10))
        ]
    return ResolvedScope(
        rows=tuple(rows),
        groups=tuple(references),
        phases=frozenset(row.phase for row in found),
        formula_versions=tuple(sorted({row.formula_version for row in found})),
        families=tuple(sorted({row.family for row in found})),
        serving_models=tuple(sorted({row.serving_model for row in found})),
    )


class _Probed(NamedTuple):
    scenario_id: int
    key: str
    phase: str
    formula_version: int
    family: str
    serving_model: str
    num_devices: int


def _find_probe(transaction: ReadTransaction, reference: str) -> tuple[_Probed, int]:
    key, _, batch = reference.partition(":")
    if not key or not batch.isdecimal() or not key.isalnum():
        raise InputError(f"{reference!r} is no probe reference", hint="such as a1b2c3d4:175, as every table prints")
    rows = list(
        transaction.rows(
            _Probed,
            "SELECT sc.id, sc.key, sj.phase, sc.formula_version, d.family, sj.serving_model, p.num_devices"  # noqa: S608  our text
            f" FROM {scenario_tables('d', 'p')} WHERE sc.key LIKE ?"
            " AND EXISTS (SELECT 1 FROM block b WHERE b.scenario_id = sc.id"
            " AND b.first_batch_size <= ? AND b.last_batch_size >= ?)",
            (key.lower() + "%", int(batch), int(batch)),
        )
    )
    if not rows:
        raise InputError(f"no probe {reference} in this store", hint="sweepdb query best lists some")
    if len(rows) > 1:
        raise InputError(
            f"{reference} stands for {len(rows)} probes", hint=f"write more of the key: {rows[0].key}:{batch}"
        )
    return rows[0], int(batch)


def _subjects(transaction: ReadTransaction, side: ResolvedScope) -> set[int]:
    ids = {row.scenario_id for row in side.rows}
    stored = transaction.numbers("SELECT id, subject_id FROM scenario")
    return {subject for scenario, subject in stored if scenario in ids}


class _Described(NamedTuple):
    scenario_id: int
    model: str
    device: str
    precision: str
    workload: str
    phase: str
    convention: str


def _differing(transaction: ReadTransaction, sides: Sequence[ResolvedScope]) -> str:
    statement = (
        "SELECT sc.id, m.name, d.name, pr.linear_quantization, COALESCE(w.name, w.label), sj.phase, sj.convention"  # noqa: S608
        f" FROM {SCENARIO_TABLES}"
    )
    described = {row.scenario_id: row for row in transaction.rows(_Described, statement)}
    for name in _Described._fields[1:]:
        values = [{str(getattr(described[row.scenario_id], name)) for row in side.rows} for side in sides]
        if not values[0] & values[1]:
            return f"{name} {', '.join(sorted(values[0])[:3])} against {', '.join(sorted(values[1])[:3])}"
    return "their combinations of model, device, plan, precision and workload differ"


def _sweep_id(transaction: ReadTransaction, scope: Scope) -> int:
    return find_sweep(transaction, scope.sweep) if scope.sweep is not None else newest_request(transaction)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """With batch sizes and assumptions, and older versions left out."""

    rows: tuple[Found, ...]
    intervals: tuple[tuple[int, int], ...]  # beside the rows
    assumptions: Mapping[str, str]
    older_versions: tuple[int, ...]


class _Asked(NamedTuple):
    """Batch sizes, assumptions, and the oldest formula version of its like."""

    first_batch: int
    last_batch: int
    assumptions: str | None
    oldest: int


def _read(
    transaction: ReadTransaction, scope: Scope, sweep_id: int | None, wanted: Filter, *, first_batch: int = 1
) -> _Read:
    newest = "1 = 1" if scope.all_versions or sweep_id is not None else "age = 1 AND formula_version = newest"
    joined = (
        "" if sweep_id is None else " JOIN sweep_interval asked ON asked.scenario_id = sc.id AND asked.sweep_id = ?"
    )
    interval = (
        f"{first_batch}, {NO_LARGEST_BATCH}" if sweep_id is None else "asked.first_batch_size, asked.last_batch_size"
    )
    names = (*flat_names(Found), *_Asked._fields)
    sources = (
        *COLUMNS,
        *interval.split(", "),
        "sc.assumptions",
        f"MIN(sc.formula_version) OVER (PARTITION BY {_ALIKE})",
    )
    selected = ", ".join(f"{source} AS {name}" for source, name in zip(sources, names, strict=True))
    statement = (
        f"SELECT {', '.join(names)} FROM (SELECT {selected},"  # noqa: S608  our text; values are parameters
        f" MAX(sc.formula_version) OVER (PARTITION BY {_ALIKE}) AS newest,"
        " ROW_NUMBER() OVER (PARTITION BY sc.subject_id ORDER BY sc.formula_version DESC, sc.id DESC) AS age"
        f" FROM {SCENARIO_TABLES}{joined} WHERE {' AND '.join(wanted.conditions)}) q WHERE {newest}"
        " ORDER BY model_id, workload_id, precision_id, convention, serving_model, id"
    )
    first = [] if sweep_id is None else [sweep_id]
    rows = list(transaction.pairs(Found, _Asked, statement, (*first, *wanted.parameters)))
    return _Read(
        rows=tuple(found for found, _ in rows),
        intervals=tuple((asked.first_batch, asked.last_batch) for _, asked in rows),
        assumptions={found.key: asked.assumptions for found, asked in rows if asked.assumptions},
        older_versions=tuple(
            sorted({asked.oldest for _, asked in rows} - {found.formula_version for found, _ in rows})
        ),
    )


def _asked_models(transaction: ReadTransaction, scope: Scope, sweep_id: int | None) -> Mapping[int, str]:
    """Models by the names in the question, else in the sweep it is about."""
    if scope.models:
        return asked_models(transaction, scope.models)
    about = newest_request(transaction)[0] if sweep_id is None and scope.is_default else sweep_id
    if about is None:
        return {}
    (text,) = transaction.values(str, "SELECT arguments FROM sweep WHERE id = ?", (about,))
    names = (arguments_of(text) or {}).get("models")
    return asked_models(transaction, names if isinstance(names, list) else ())


def _resolved(
    found: _Read, grouped: Grouped, asked: Collection[int] | None, models: Mapping[int, str]
) -> ResolvedScope:
    """With groups.

    A default scope keeps the newest request's groups."""
    stored = frozenset(row.phase for row in found.rows)
    grouping = Grouping(
        found.rows,
        grouped.looks_at(stored),
        over_workloads=grouped.over_workloads,
        blended=grouped.blended,
    )
    kept = _asked_groups(found.rows, grouping, asked)
    placed = [
        (row, interval, number)
        for row, interval, numbers in zip(found.rows, found.intervals, grouping.numbers, strict=True)
        for number in numbers
        if kept is None or number in kept
    ]
    rows = [row for row, _, _ in placed]
    devices = sorted({row.device for row in rows})
    return ResolvedScope(
        rows=tuple(
            ScopeRow(
                scenario_id=row.id,
                first_batch_size=first,
                last_batch_size=last,
                question_group=number * DEVICES_A_GROUP + devices.index(row.device) if grouped.by_device else number,
            )
            for row, (first, last), number in placed
        ),
        groups=grouping.titles(grouped.title, models),
        phases=frozenset(row.phase for row in rows),
        formula_versions=tuple(sorted({row.formula_version for row in rows})),
        families=tuple(sorted({row.family for row in rows})),
        serving_models=tuple(sorted({row.serving_model for row in rows})),
        assumptions=found.assumptions,
        older_versions=found.older_versions,
        untimed=any(
            row.output_length <= 1 and row.phase != "prefill" and row.serving_model not in FORMULA_MODELS
            for row in rows
        ),
        of_phases=any(len(numbers) != 1 for numbers in grouping.numbers),
    )


def _asked_groups(rows: Sequence[Found], grouping: Grouping, asked: Collection[int] | None) -> set[int] | None:
    """A row of several groups decides only where no other does."""
    if asked is None:
        return None
    numbers = [mine for row, mine in zip(rows, grouping.numbers, strict=True) if row.id in asked]
    kept = {mine[0] for mine in numbers if len(mine) == 1} or {number for mine in numbers for number in mine}
    bases = {grouping.groups[number].base for number in kept}
    older = {base[:-1] for base in bases}  # the same by other formula versions, where they are looked at
    return {
        number
        for number, group in enumerate(grouping.groups)
        if number in kept or (group.base not in bases and group.base[:-1] in older)
    } or None


def _nothing(scope: Scope, most_devices: int | None) -> InputError:
    described = {**scope.described(), **({} if most_devices is None else {"num_devices": most_devices})}
    said = "filters: " + ", ".join(f"{name} {value}" for name, value in described.items())
    return InputError(
        "nothing stored matches this question's filters",
        hint="sweepdb query coverage shows what is stored; " + (said if described else "no filters"),
    )
