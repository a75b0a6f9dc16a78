"""What the rows of an answer are about, and the errors that the store itself holds of it.

Not here: looking up expected errors (queries.expected_error)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from queries.expected_error import OwnError, Subject
from queries.question import own_tpot
from store.readers import ReadTransaction
from store.wide import SCENARIO_TABLES

if TYPE_CHECKING:
    from queries.question import Answer

_T = TypeVar("_T")
_AT_ONCE = 200  # conditions of one statement
_KEY_LENGTH = 8  # of the scenario in a probe's reference
_AFTER_HEX = "g"
_KEYS = "(sc.key >= ? AND sc.key < ?)"  # by the index, in any collation
# A decode instance of a deployment whose sides are apart is one; its first tokens and its rate are of both sides.
_PHASES = {"prefill": "prefill", "decode": "decode", "aggregated": "aggregated", "disaggregated": "decode"}
_METRICS: Mapping[str, Mapping[str, str]] = {
    "prefill": {"ttft_ms": "ttft_ms", "prefill_latency_ms": "ttft_ms"},
    "decode": {"tpot_exclusive_ms": "tpot_exclusive_ms", "decode_step_ms": "tpot_exclusive_ms"},
    "disaggregated": {"tpot_exclusive_ms": "tpot_exclusive_ms"},
    "aggregated": {
        "ttft_ms": "ttft_ms",
        "tpot_exclusive_ms": "tpot_exclusive_ms",
        "output_tokens_per_s": "output_tokens_per_s",
        "e2e_ms": "tpot_inclusive_ms",
    },
}
_OF_SUBJECTS = (
    "SELECT sc.key, d.name, d.key, m.active_parameters < m.parameters, sj.phase, d.family, sj.convention,"  # noqa: S608  our text
    f" sj.serving_model, w.input_length, w.prefix_cache_hit_rate, w.mtp_tokens FROM {SCENARIO_TABLES} WHERE "
)
# Fewer joins than SCENARIO_TABLES: nothing of plan, precision or model is asked for.
_OF_VALIDATIONS = (
    "SELECT v.measurement_id, v.metric, v.measured, v.predicted, v.region, d.family, w.output_length FROM validation v"
    " JOIN scenario sc ON sc.id = v.scenario_id JOIN subject sj ON sj.id = sc.subject_id"
    " JOIN device d ON d.id = sc.device_id JOIN workload w ON w.id = sj.workload_id"
    " WHERE sj.serving_model <> 'waves' AND ("  # nobody's engine: predicted by none that a probe can have
)


def subjects_of(transaction: ReadTransaction, answer: Answer, scenario_ids: Iterable[int]) -> tuple[Subject, ...]:
    """What the probes among the rows are of, in the order of the rows; of the nearest misses where there are no rows,
    and of the whole scope where rows name no probes."""
    rule = answer.question.definitions.tpot
    keys = _keys(answer.columns, answer.rows) or _keys(answer.nearest_columns, answer.nearest)
    if keys:
        found: dict[str, Subject] = {}
        for some in _portions(keys):
            bounds = [bound for key in some for bound in (key, key + _AFTER_HEX)]
            found.update(_read(transaction, " OR ".join(_KEYS for _ in some), bounds, rule))
        return tuple(dict.fromkeys(found[key] for key in keys if key in found))
    every: list[tuple[str, Subject]] = []
    for numbers in _portions(list(dict.fromkeys(scenario_ids))):
        every += _read(transaction, f"sc.id IN ({', '.join('?' for _ in numbers)})", numbers, rule)
    return tuple(dict.fromkeys(subject for _, subject in every))


def _keys(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    places = [index for index, name in enumerate(columns) if name == "probe" or name.endswith("_probe")]
    references = (str(row[place]) for row in rows for place in places if row[place] is not None)
    return list(dict.fromkeys(reference[:_KEY_LENGTH] for reference in references))


def _portions(values: Sequence[_T]) -> Iterator[Sequence[_T]]:
    return (values[start : start + _AT_ONCE] for start in range(0, len(values), _AT_ONCE))


def _read(
    transaction: ReadTransaction, condition: str, parameters: Sequence[object], tpot_rule: str | None
) -> list[tuple[str, Subject]]:
    """(beginning of the scenario's key, what it is about)."""
    found = []
    for row in transaction.rows(f"{_OF_SUBJECTS}{condition} ORDER BY sc.id", parameters):
        key, device, device_key, moe, phase, family, convention, serving_model, *workload = row
        subject = Subject(
            device=str(device),
            kind="moe" if moe else "dense",
            phase=str(phase),
            family=str(family),
            convention=str(convention),
            serving_model=str(serving_model),
            tpot_rule=tpot_rule or own_tpot(str(serving_model)),
            device_key=str(device_key),
            unmeasured=_unmeasured(*workload),
        )
        found.append((str(key)[:_KEY_LENGTH], subject))
    return found


def _unmeasured(input_length: object, hit_rate: object, mtp_tokens: object) -> tuple[str, ...]:
    """What a workload has that the measured points of the summary have not."""
    has = {"a distribution of lengths": input_length is None, "cached prefixes": hit_rate, "drafted tokens": mtp_tokens}
    return tuple(what for what, there in has.items() if there)


def own_errors(transaction: ReadTransaction, subjects: Iterable[Subject]) -> list[OwnError]:
    """Errors of the points that were validated in this store, of devices and kinds of model as the subjects have; those
    of an end-to-end time follow from both latencies of a point."""
    beginnings = sorted({f"{subject.device}, {subject.kind}, %" for subject in subjects})
    if not beginnings or not list(transaction.rows("SELECT 1 FROM validation LIMIT 1")):
        return []
    condition = " OR ".join("v.region LIKE ?" for _ in beginnings)
    points: dict[object, list[Sequence[object]]] = defaultdict(list)
    # A point that was validated again, by newer formulas, counts once: the newest scenario is the last.
    for row in transaction.rows(f"{_OF_VALIDATIONS}{condition}) ORDER BY v.scenario_id", beginnings):
        points[row[0], row[5]].append(row)
    return [error for rows in points.values() for error in _of_point(rows)]


def _of_point(rows: Sequence[Sequence[object]]) -> Iterator[OwnError]:
    _, _, _, _, region, family, output = rows[0]
    device, kind, engine, mode, *_ = (*str(region).split(", "), "", "", "", "")
    metrics = _METRICS.get(mode, {})
    values = {str(row[1]): (_number(row[2]), _number(row[3])) for row in rows}
    if mode == "aggregated" and "e2e_ms" not in values and {"ttft_ms", "tpot_exclusive_ms"} <= values.keys():
        more = max(_number(output) - 1.0, 0.0)
        ttft, tpot = values["ttft_ms"], values["tpot_exclusive_ms"]
        whole = (ttft[0] + more * tpot[0], ttft[1] + more * tpot[1])
        values["e2e_ms"] = whole
        values.setdefault("output_tokens_per_s", (1.0 / whole[0], 1.0 / whole[1]))
    for name, (measured, predicted) in values.items():
        if name in metrics and measured > 0:
            yield OwnError(
                device=device,
                kind=kind,
                phase=_PHASES[mode],
                engine=engine,
                family=str(family),
                metric=metrics[name],
                error=predicted / measured - 1.0,
            )


def _number(value: object) -> float:
    return value if isinstance(value, float) else float(str(value))
