"""Names that users type, found in the store; unknown ones list the nearest."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from store.errors import InputError
from store.light_dataclass import NamedTuple
from store.reading import ReadTransaction


class _Sweep(NamedTuple):
    sweep_id: int
    key: str
    label: str | None


class _Alias(NamedTuple):
    alias: str
    model_id: int


class NoSweepError(InputError):
    pass


def find_sweep(transaction: ReadTransaction, reference: str) -> int:
    rows = list(
        transaction.rows(
            _Sweep,
            "SELECT id, key, label FROM sweep WHERE key LIKE ? OR label = ? ORDER BY id DESC",
            (reference.replace("%", "") + "%", reference),
        )
    )
    exact = [row for row in rows if row.key == reference] or rows
    if not exact:
        raise NoSweepError(f"no sweep {reference!r} in this store", hint="sweepdb sweeps lists them")
    if len({row.sweep_id for row in exact}) > 1 and not any(row.label == reference for row in exact):
        raise InputError(f"{reference!r} stands for {len(exact)} sweeps: {', '.join(row.key for row in exact[:4])}")
    return exact[0].sweep_id


def find_model(transaction: ReadTransaction, name: str) -> int:
    """In any case, and without its owner."""
    known = _known_models(transaction)
    if name.lower() not in known:
        raise unknown("model", name, [one.alias for one in known.values()])
    return known[name.lower()].model_id


def asked_models(transaction: ReadTransaction, names: Sequence[object]) -> dict[int, str]:
    """Names of one shape are one stored model; here it has the first that is asked for."""
    known = _known_models(transaction)
    found = [known.get(str(name).lower()) for name in reversed(names)]
    return {one.model_id: one.alias for one in found if one is not None}


def _known_models(transaction: ReadTransaction) -> dict[str, _Alias]:
    rows = [
        *transaction.rows(_Alias, "SELECT alias, model_id FROM model_alias"),
        *transaction.rows(_Alias, "SELECT name, id FROM model"),
    ]
    short = {one.alias.lower().rsplit("/", 1)[-1]: one for one in rows}
    return {**short, **{one.alias.lower(): one for one in rows}}


def device_name(transaction: ReadTransaction, name: str) -> str:
    """In any case, or by a unique beginning (`H200` for `h200_sxm`)."""
    known = list(transaction.values(str, "SELECT DISTINCT name FROM device ORDER BY name"))
    folded = name.lower().replace("-", "_").replace(" ", "_")
    exact = [item for item in known if item.lower() == folded]
    begins = [item for item in known if item.lower().startswith(folded)]
    if exact or len(begins) == 1:
        return (exact or begins)[0]
    raise unknown("device", name, known)


def workload_ids(transaction: ReadTransaction, name: str) -> list[int]:
    """By name, label or beginning of a key."""
    statement = (
        "SELECT w.id FROM workload w LEFT JOIN workload_name n ON n.workload_id = w.id"
        " WHERE n.name = ? OR w.name = ? OR w.label = ? OR w.key LIKE ?"
    )
    like = name.replace("%", "") + "%" if len(name) >= 8 else name
    found = sorted(set(transaction.values(int, statement, (name, name, name, like))))
    if not found:
        known = list(
            transaction.values(
                str, "SELECT name FROM workload WHERE name IS NOT NULL UNION ALL SELECT label FROM workload"
            )
        )
        raise unknown("workload", name, known)
    return found


def find_value(transaction: ReadTransaction, what: str, value: str, source: tuple[str, str]) -> str:
    """(table, column) as stored, in any case.

    DISABLED stands for BF16 where that is kept."""
    table, column = source
    statement = f"SELECT DISTINCT {column} FROM {table} WHERE {column} IS NOT NULL"  # noqa: S608  our names
    known = list(transaction.values(str, statement))
    folded = {item.lower(): item for item in known}
    canonical = "BF16" if value.upper() == "DISABLED" else value
    found = folded.get(canonical.lower()) or folded.get(value.lower())
    if found is None:
        raise unknown(what, value, known)
    return found


def unknown(what: str, value: str, known: Sequence[str]) -> InputError:
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
