"""Turns a question's scope into scenarios: names resolved, newest formula version of each subject, failures apart.

Reads the small dimension tables of the store itself; probes are never touched here."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from queries.question import Scope
from queries.voided import read_hidden
from store.errors import InputError
from store.readers import ReadTransaction
from store.wide import SCENARIO_TABLES

LARGEST_BATCH = 2**31 - 1
_VOIDED_SWEEPS = "SELECT sweep_id FROM tombstone WHERE lifted_at IS NULL AND sweep_id IS NOT NULL"
_HAS_PROBES = "EXISTS (SELECT 1 FROM block b WHERE b.scenario_id = sc.id)"
_OF_SWEEP = (
    "({wanted}) IN (SELECT {wanted} FROM sweep_interval i JOIN scenario s2 ON s2.id = i.scenario_id"
    " JOIN subject sj ON sj.id = s2.subject_id WHERE i.sweep_id = ? AND s2.status = 'ok')"
)
_PLAIN = {
    "input_length": "w.input_length",
    "output_length": "w.output_length",
    "prefix_cache_hit_rate": "w.prefix_cache_hit_rate",
    "max_batched_tokens": "w.max_batched_tokens",
    "mtp_tokens": "w.mtp_tokens",
    "serving_cost_ms": "sj.serving_cost_ms",
    "instance_devices": "p.num_devices",
}
_NAMED = {
    "linear_quantization": ("pr.linear_quantization", "precision", "linear_quantization"),
    "attention_quantization": ("pr.attention_quantization", "precision", "attention_quantization"),
    "convention": ("sj.convention", "subject", "convention"),
    "serving_model": ("sj.serving_model", "subject", "serving_model"),
    "family": ("d.family", "device", "family"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeRow:
    """A scenario of the scope with the batch sizes asked for and the group it is ranked in."""

    scenario_id: int
    first_batch_size: int
    last_batch_size: int
    question_group: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedScope:
    """Scenarios, and a line for each group: model, workload, precision, convention, serving model."""

    rows: tuple[ScopeRow, ...]
    groups: tuple[str, ...]
    phases: frozenset[str] = frozenset()
    formula_versions: tuple[int, ...] = ()
    families: tuple[str, ...] = ()
    serving_models: tuple[str, ...] = ()
    assumptions: Mapping[str, str] = field(default_factory=dict)  # by scenario key: dtypes widened, formulas missing


@dataclass(slots=True)
class _Filter:
    conditions: list[str] = field(default_factory=lambda: ["sc.status = 'ok'", _HAS_PROBES])
    parameters: list[object] = field(default_factory=list)

    def add(self, condition: str, *parameters: object) -> None:
        self.conditions.append(condition)
        self.parameters.extend(parameters)


def resolve_scope(
    transaction: ReadTransaction,
    scope: Scope,
    *,
    over_workloads: bool = False,
    workloads: Sequence[int] = (),
    title: str = "every workload",
) -> ResolvedScope:
    """The scenarios a scope stands for; an empty store or an unknown name is an error that says what to do. With
    `over_workloads` the workload divides no groups, whose title then stands for it, and no filter means every workload
    rather than the newest one's."""
    wanted = _Filter()
    _leave_out_voided(transaction, wanted)
    sweep_id = None
    if scope.sweep is not None or scope.last:
        sweep_id = _sweep_id(transaction, scope)
    elif scope.is_default:
        same = "sj.model_id, sj.precision_id, sj.convention" + ("" if over_workloads else ", sj.workload_id")
        wanted.add(_OF_SWEEP.format(wanted=same), _newest_sweep(transaction))
    if workloads:
        wanted.add(f"sj.workload_id IN ({_marks(workloads)})", *workloads)
    _add_filters(transaction, scope, wanted)
    return _resolved(transaction, scope, sweep_id, wanted, title=title if over_workloads else None)


def resolve_whole_store(transaction: ReadTransaction, scope: Scope) -> ResolvedScope:
    """Every scenario, failures included, that the filters alone leave: what coverage is about."""
    wanted = _Filter(conditions=["1 = 1"])
    _leave_out_voided(transaction, wanted)
    sweep_id = _sweep_id(transaction, scope) if scope.sweep is not None or scope.last else None
    _add_filters(transaction, scope, wanted)
    return _resolved(transaction, replace(scope, all_versions=True), sweep_id, wanted, first_batch=0)


def resolve_two_sweeps(transaction: ReadTransaction, first: str, second: str) -> ResolvedScope:
    """What two sweeps asked for, as groups 0 and 1; an error when they have no subject in common."""
    sides = [resolve_scope(transaction, Scope(sweep=reference, all_versions=True)) for reference in (first, second)]
    subjects = [_subjects(transaction, side) for side in sides]
    if not subjects[0] & subjects[1]:
        raise InputError(
            f"sweeps {first} and {second} have no subject in common: {_differing(transaction, sides)}",
            hint="diff compares sweeps of the same model, device, plan, precision, workload, phase and convention",
        )
    return ResolvedScope(
        rows=tuple(replace(row, question_group=group) for group, side in enumerate(sides) for row in side.rows),
        groups=(f"first: {first}", f"second: {second}"),
        phases=sides[0].phases | sides[1].phases,
        formula_versions=tuple(sorted({*sides[0].formula_versions, *sides[1].formula_versions})),
        families=tuple(sorted({*sides[0].families, *sides[1].families})),
        serving_models=tuple(sorted({*sides[0].serving_models, *sides[1].serving_models})),
        assumptions={**sides[0].assumptions, **sides[1].assumptions},
    )


def resolve_probes(transaction: ReadTransaction, references: Sequence[str]) -> ResolvedScope:
    """Probes by reference, as groups 1 and 2, and their next batch sizes as 11 and 12."""
    rows: list[ScopeRow] = []
    found: list[Sequence[object]] = []
    for number, reference in enumerate(references, start=1):
        row, batch = _find_probe(transaction, reference)
        found.append(row)
        rows += [
            ScopeRow(scenario_id=int(str(row[0])), first_batch_size=size, last_batch_size=size, question_group=group)
            for size, group in ((batch, number), (batch + 1, number + 10))
        ]
    return ResolvedScope(
        rows=tuple(rows),
        groups=tuple(references),
        phases=frozenset(str(row[2]) for row in found),
        formula_versions=tuple(sorted({int(str(row[3])) for row in found})),
        families=tuple(sorted({str(row[4]) for row in found})),
        serving_models=tuple(sorted({str(row[5]) for row in found})),
    )


def _find_probe(transaction: ReadTransaction, reference: str) -> tuple[Sequence[object], int]:
    key, _, batch = reference.partition(":")
    if not key or not batch.isdecimal() or not key.isalnum():
        raise InputError(f"{reference!r} is no probe reference", hint="such as a1b2c3d4:175, as every table prints")
    rows = list(
        transaction.rows(
            "SELECT sc.id, sc.key, sj.phase, sc.formula_version, d.family, sj.serving_model"  # noqa: S608  our text
            f" FROM {SCENARIO_TABLES} WHERE sc.key LIKE ? AND EXISTS (SELECT 1 FROM block b WHERE b.scenario_id = sc.id"
            " AND b.first_batch_size <= ? AND b.last_batch_size >= ?)",
            (key.lower() + "%", int(batch), int(batch)),
        )
    )
    if not rows:
        raise InputError(f"no probe {reference} in this store", hint="sweepdb query best lists some")
    if len(rows) > 1:
        raise InputError(
            f"{reference} stands for {len(rows)} probes", hint=f"write more of the key: {rows[0][1]}:{batch}"
        )
    return rows[0], int(batch)


def _subjects(transaction: ReadTransaction, side: ResolvedScope) -> set[object]:
    ids = {row.scenario_id for row in side.rows}
    return {row[1] for row in transaction.rows("SELECT id, subject_id FROM scenario") if int(str(row[0])) in ids}


def _differing(transaction: ReadTransaction, sides: Sequence[ResolvedScope]) -> str:
    names = ("model", "device", "precision", "workload", "phase", "convention")
    statement = (
        "SELECT sc.id, m.name, d.name, pr.linear_quantization, COALESCE(w.name, w.label), sj.phase, sj.convention"  # noqa: S608
        f" FROM {SCENARIO_TABLES}"
    )
    described = {int(str(row[0])): row[1:] for row in transaction.rows(statement)}
    for position, name in enumerate(names):
        values = [{str(described[row.scenario_id][position]) for row in side.rows} for side in sides]
        if not values[0] & values[1]:
            return f"{name} {', '.join(sorted(values[0])[:3])} against {', '.join(sorted(values[1])[:3])}"
    return "their combinations of model, device, plan, precision and workload differ"


def _leave_out_voided(transaction: ReadTransaction, wanted: _Filter) -> None:
    hidden = read_hidden(transaction).whole_scenarios
    if hidden:
        wanted.add(f"sc.id NOT IN ({', '.join(map(str, hidden))})")


def _add_filters(transaction: ReadTransaction, scope: Scope, wanted: _Filter) -> None:
    _filter_names(transaction, scope, wanted)
    for name, column in _PLAIN.items():
        if getattr(scope, name) is not None:
            wanted.add(f"{column} = ?", getattr(scope, name))
    if scope.compile is not None:
        wanted.add("sj.compile = ?", scope.compile)


def find_sweep(transaction: ReadTransaction, reference: str) -> int:
    """The integer id of a sweep by its reference, the beginning of one, or its label."""
    rows = list(
        transaction.rows(
            "SELECT id, key, label FROM sweep WHERE key LIKE ? OR label = ? ORDER BY id DESC",
            (reference.replace("%", "") + "%", reference),
        )
    )
    exact = [row for row in rows if row[1] == reference] or rows
    if not exact:
        raise InputError(f"no sweep {reference!r} in this store", hint="sweepdb sweeps lists them")
    if len({row[0] for row in exact}) > 1 and not any(row[2] == reference for row in exact):
        raise InputError(f"{reference!r} stands for {len(exact)} sweeps: {', '.join(str(row[1]) for row in exact[:4])}")
    return int(str(exact[0][0]))


def _sweep_id(transaction: ReadTransaction, scope: Scope) -> int:
    return find_sweep(transaction, scope.sweep) if scope.sweep is not None else _newest_sweep(transaction)


def _newest_sweep(transaction: ReadTransaction) -> int:
    statement = (
        f"SELECT s.id FROM sweep s WHERE s.id NOT IN ({_VOIDED_SWEEPS})"  # noqa: S608  our text
        " AND EXISTS (SELECT 1 FROM sweep_interval i WHERE i.sweep_id = s.id AND i.first_batch_size > 0)"
        " ORDER BY s.id DESC LIMIT 1"
    )
    for (sweep_id,) in transaction.rows(statement):
        return int(str(sweep_id))
    raise InputError(
        "this store holds no probes yet",
        hint="fill it with: sweepdb evaluate Qwen/Qwen3-32B --device TEST_DEVICE --num-devices 8"
        " --input-length 3500 --output-length 1500",
    )


def _filter_names(transaction: ReadTransaction, scope: Scope, wanted: _Filter) -> None:
    if scope.models:
        ids = [_model_id(transaction, name) for name in scope.models]
        wanted.add(f"sj.model_id IN ({_marks(ids)})", *ids)
    if scope.devices:
        names = [device_name(transaction, name) for name in scope.devices]
        wanted.add(f"sj.device_name IN ({_marks(names)})", *names)
    if scope.workload is not None:
        ids = workload_ids(transaction, scope.workload)
        wanted.add(f"sj.workload_id IN ({_marks(ids)})", *ids)
    if scope.workload_keys:
        wanted.add(f"w.key IN ({_marks(scope.workload_keys)})", *scope.workload_keys)
    for name, (column, table, source) in _NAMED.items():
        value = getattr(scope, name)
        if value is not None:
            known = [str(row[0]) for row in transaction.rows(f"SELECT DISTINCT {source} FROM {table}")]  # noqa: S608
            folded = {item.lower(): item for item in known}
            found = folded.get(_canonical(value).lower()) or folded.get(str(value).lower())
            if found is None:
                raise _unknown(name.replace("_", " "), value, known)
            wanted.add(f"{column} = ?", found)


def _canonical(value: str) -> str:
    return "BF16" if value.upper() == "DISABLED" else value


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" for _ in values)


def _model_id(transaction: ReadTransaction, name: str) -> int:
    rows = [(str(row[0]), int(str(row[1]))) for row in transaction.rows("SELECT alias, model_id FROM model_alias")]
    rows += [(str(row[0]), int(str(row[1]))) for row in transaction.rows("SELECT name, id FROM model")]
    exact = {alias.lower(): model_id for alias, model_id in rows}
    short = {alias.lower().rsplit("/", 1)[-1]: model_id for alias, model_id in rows}
    found = exact.get(name.lower(), short.get(name.lower()))
    if found is None:
        raise _unknown("model", name, [alias for alias, _ in rows])
    return found


def device_name(transaction: ReadTransaction, name: str) -> str:
    """A stored device by its name in any case, or by an unmistakable beginning of it (`H200` for `h200_sxm`)."""
    known = [str(row[0]) for row in transaction.rows("SELECT DISTINCT name FROM device ORDER BY name")]
    folded = name.lower().replace("-", "_").replace(" ", "_")
    exact = [item for item in known if item.lower() == folded]
    begins = [item for item in known if item.lower().startswith(folded)]
    if exact or len(begins) == 1:
        return (exact or begins)[0]
    raise _unknown("device", name, known)


def workload_ids(transaction: ReadTransaction, name: str) -> list[int]:
    """The workloads that a name, a label or the beginning of a key stands for; an unknown one names the nearest."""
    statement = (
        "SELECT w.id FROM workload w LEFT JOIN workload_name n ON n.workload_id = w.id"
        " WHERE n.name = ? OR w.name = ? OR w.label = ? OR w.key LIKE ?"
    )
    like = name.replace("%", "") + "%" if len(name) >= 8 else name
    found = sorted({int(str(row[0])) for row in transaction.rows(statement, (name, name, name, like))})
    if not found:
        known = [str(value) for row in transaction.rows("SELECT name, label FROM workload") for value in row if value]
        raise _unknown("workload", name, known)
    return found


def _unknown(what: str, value: str, known: Sequence[str]) -> InputError:
    folded = {item.lower(): item for item in known}
    nearest = difflib.get_close_matches(value.lower(), folded, n=3, cutoff=0.3)
    if nearest:
        return InputError(
            f"no {what} {value!r} in this store", hint=f"nearest: {', '.join(folded[n] for n in nearest)}"
        )
    listed = ", ".join(sorted(set(known))[:8])
    return InputError(
        f"no {what} {value!r} in this store", hint=f"stored: {listed}" if listed else "the store is empty"
    )


def _resolved(
    transaction: ReadTransaction,
    scope: Scope,
    sweep_id: int | None,
    wanted: _Filter,
    *,
    first_batch: int = 1,
    title: str | None = None,
) -> ResolvedScope:
    newest = "1 = 1" if scope.all_versions or sweep_id is not None else "age = 1"
    joined = (
        "" if sweep_id is None else " JOIN sweep_interval asked ON asked.scenario_id = sc.id AND asked.sweep_id = ?"
    )
    interval = (
        f"{first_batch}, {LARGEST_BATCH}" if sweep_id is None else "asked.first_batch_size, asked.last_batch_size"
    )
    statement = (
        "SELECT * FROM (SELECT sc.id, "  # noqa: S608  our text; values are parameters
        f"{interval}, m.name, COALESCE(w.name, w.label), pr.linear_quantization, pr.experts_quantization,"
        " pr.attention_quantization, sj.convention, sj.phase, sc.formula_version, d.family, sj.serving_model,"
        " sj.model_id, sj.workload_id, sj.precision_id, sc.key, sc.assumptions,"
        " ROW_NUMBER() OVER (PARTITION BY sc.subject_id ORDER BY sc.formula_version DESC, sc.id DESC) AS age"
        f" FROM {SCENARIO_TABLES}{joined} WHERE {' AND '.join(wanted.conditions)}) q WHERE {newest}"
        " ORDER BY model_id, workload_id, precision_id, convention, serving_model, id"
    )
    first = [] if sweep_id is None else [sweep_id]
    rows = list(transaction.rows(statement, (*first, *wanted.parameters)))
    if not rows:
        _newest_sweep(transaction)  # an empty store is another message
        raise InputError(
            "nothing stored matches this question's filters",
            hint="sweepdb query coverage shows what is stored; " + _narrowed(scope),
        )
    groups: dict[tuple[object, ...], int] = {}
    lines: list[str] = []
    scoped = []
    for row in rows:
        group_key = (row[13], None if title else row[14], row[15], row[8], row[12])
        if group_key not in groups:
            groups[group_key] = len(groups)
            lines.append(_line(row, title or str(row[4])))
        scoped.append(
            ScopeRow(
                scenario_id=int(str(row[0])),
                first_batch_size=int(str(row[1])),
                last_batch_size=int(str(row[2])),
                question_group=groups[group_key],
            )
        )
    return ResolvedScope(
        rows=tuple(scoped),
        groups=tuple(lines),
        phases=frozenset(str(row[9]) for row in rows),
        formula_versions=tuple(sorted({int(str(row[10])) for row in rows})),
        families=tuple(sorted({str(row[11]) for row in rows})),
        serving_models=tuple(sorted({str(row[12]) for row in rows})),
        assumptions={str(row[16]): str(row[17]) for row in rows if row[17]},
    )


def _line(row: Sequence[object], workload: str) -> str:
    experts = f", experts {row[6]}" if row[6] != row[5] else ""
    attention = f", KV {row[7]}" if row[7] != "DISABLED" else ""
    engine = "" if row[12] == "waves" else f" · {row[12]}"
    return f"{row[3]} · {workload} · {row[5]}{experts}{attention} · {row[8]}{engine}"


def _narrowed(scope: Scope) -> str:
    described = scope.described()
    return (
        "filters: " + ", ".join(f"{name} {value}" for name, value in described.items()) if described else "no filters"
    )
