"""Subjects of rows, and errors that the store holds of them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

from queries.asking.question import own_tpot
from queries.errors.expected import PAIRED, HeldOut, OwnError, Stored, Subject
from queries.errors.spreads import ASKED, KNOWN, LEVELS, ErrorFigures, family_of, known_of
from store.light_dataclass import NamedTuple, dataclass
from store.reading import ReadTransaction
from store.schema import FORMULAS, SCENARIO_TABLES, with_scenarios, words_sql

_T = TypeVar("_T")
_AT_ONCE = 200  # conditions of one statement
KEY_LENGTH = 8  # of the scenario in a probe's reference
NO_KEY = ""  # of a measured row, which is of no scenario
_OF_ENGINES = "engine "  # before the names of engine profiles, among the calibrations of devices
_AFTER_HEX = "g"
SERVING: Mapping[str, str] = {"aggregated": "Aggregated serving", "pd": "Disaggregated serving"}
# A decode instance of a deployment whose sides are apart is one; its rate is of both sides, and so are first tokens.
_PHASES = {"prefill": "prefill", "decode": "decode", "aggregated": "aggregated", "disaggregated": "decode"}
_METRICS: Mapping[str, Mapping[str, str]] = {
    "prefill": {"ttft_ms": "ttft_ms", "prefill_latency_ms": "ttft_ms"},
    "decode": {"tpot_exclusive_ms": "tpot_exclusive_ms", "decode_step_ms": "tpot_exclusive_ms"},
    "disaggregated": {"tpot_exclusive_ms": "tpot_exclusive_ms", "ttft_ms": "ttft_ms"},
    "aggregated": {
        "ttft_ms": "ttft_ms",
        "tpot_exclusive_ms": "tpot_exclusive_ms",
        "output_tokens_per_s": "output_tokens_per_s",
        "e2e_ms": "tpot_inclusive_ms",
    },
}
_OF_SUBJECTS = (
    "SELECT sc.id, sc.key, d.name, d.key, m.active_parameters < m.parameters, sj.phase, d.family, sj.convention,"  # noqa: S608  our text
    " sj.serving_model, w.input_length, w.prefix_cache_hit_rate, w.mtp_tokens, sj.unusual_service,"
    f" w.host_hit_rate + w.ssd_hit_rate + w.remote_hit_rate, w.images, m.name, {words_sql('p')}"
    f" FROM {SCENARIO_TABLES} WHERE "
)
_OF_VALIDATIONS = (
    "SELECT v.measurement_id, d.family, sj.serving_model, v.metric, v.measured, v.predicted, v.device, v.kind,"  # noqa: S608  our text
    " v.engine, v.mode, m.name, w.output_length, sj.unusual_service"
    f" FROM {with_scenarios('validation v', 'v.scenario_id', 'm', 'd', 'w')}"
    f" WHERE sj.serving_model <> '{FORMULAS}' AND ("  # nobody's engine: predicted by none that a probe can have
)


class _About(NamedTuple):
    scenario_id: int
    key: str
    device: str
    device_key: str
    moe: bool
    phase: str
    family: str
    convention: str
    serving_model: str
    input_length: int | None
    hit_rate: float
    mtp_tokens: int
    unusual_service: str | None
    outside_hit_rate: float
    images: int | None
    model: str
    shares: str

    @property
    def unmeasured(self) -> tuple[str, ...]:
        """Features that the summary's measured points lack."""
        has = {
            "a distribution of lengths": self.input_length is None,
            "cached prefixes": self.hit_rate,
            "drafted tokens": self.mtp_tokens,
            "keys outside the devices": self.outside_hit_rate,
            "images": self.images,
        }
        return (*(what for what, there in has.items() if there), *self.shares.splitlines())


class _Validated(NamedTuple):
    measurement_id: int
    family: str
    serving_model: str
    metric: str
    measured: float
    predicted: float
    device: str
    kind: str
    engine: str
    mode: str
    model: str
    output_length: float
    unusual_service: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSubject:
    """By number and beginning of its key."""

    scenario_id: int
    key: str
    subject: Subject


def scenarios_of_keys(transaction: ReadTransaction, keys: Sequence[str]) -> tuple[int, ...]:
    found: list[int] = []
    for some in _portions(keys):
        # Each by the index: of ranges that are joined by OR a database looks at every scenario.
        statement = " UNION ALL ".join("SELECT id FROM scenario WHERE key >= ? AND key < ?" for _ in some)
        found += transaction.values(int, statement, [bound for key in some for bound in (key, key + _AFTER_HEX)])
    return tuple(found)


def subjects_of_scenarios(
    transaction: ReadTransaction, scenario_ids: Iterable[int], tpot_rule: str | None
) -> tuple[StoredSubject, ...]:
    every: list[StoredSubject] = []
    for numbers in _portions(list(dict.fromkeys(scenario_ids))):
        every += _read(transaction, numbers, tpot_rule)
    return tuple(every)


def keys_of(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Beginnings of the keys of scenarios that rows name, and NO_KEY where some name what was measured."""
    places = [index for index, name in enumerate(columns) if name == "probe" or name.endswith("_probe")]
    references = (str(row[place]) for row in rows for place in places if row[place] is not None)
    return list(dict.fromkeys(reference[:KEY_LENGTH] if ":" in reference else NO_KEY for reference in references))


def _portions(values: Sequence[_T]) -> Iterator[Sequence[_T]]:
    return (values[start : start + _AT_ONCE] for start in range(0, len(values), _AT_ONCE))


def _read(transaction: ReadTransaction, numbers: Sequence[int], tpot_rule: str | None) -> list[StoredSubject]:
    found = []
    marks = ", ".join("?" for _ in numbers)
    for row in transaction.rows(_About, f"{_OF_SUBJECTS}sc.id IN ({marks}) ORDER BY sc.id", numbers):
        subject = Subject(
            device=row.device,
            kind="moe" if row.moe else "dense",
            phase=row.phase,
            family=row.family,
            convention=row.convention,
            serving_model=row.serving_model,
            basis=_basis(row.unusual_service),
            tpot_rule=tpot_rule or own_tpot(row.serving_model),
            known_family=bool(known_of("family", family_of(row.model))),
            # A profile whose host link is read has a key of its own, and the kernels of the shipped one.
            device_key="" if row.outside_hit_rate else row.device_key,
            unmeasured=row.unmeasured,
        )
        found.append(StoredSubject(scenario_id=row.scenario_id, key=row.key[:KEY_LENGTH], subject=subject))
    return found


def _basis(unusual_service: str | None) -> str:
    return KNOWN if unusual_service else ASKED


def stored_errors(transaction: ReadTransaction, subjects: Iterable[Subject]) -> Stored:
    subjects = tuple(dict.fromkeys(subjects))
    return Stored.of(own_errors(transaction, subjects), held_out_errors(transaction, subjects))


def held_out_errors(transaction: ReadTransaction, subjects: Iterable[Subject]) -> list[HeldOut]:
    """Of the user's fitted engine profiles, kept from their fits."""
    labels = {subject.serving_model for subject in subjects if "@" in subject.serving_model}
    found: list[HeldOut] = []
    for label in sorted(labels):
        key = label.partition("@")[2]
        statement = "SELECT errors FROM calibration WHERE device_name LIKE ? AND key >= ? AND key < ? ORDER BY key"
        for errors in transaction.values(str, statement, (f"{_OF_ENGINES}%", key, key + _AFTER_HEX)):
            kept = json.loads(errors or "{}").get("expected")
            if kept:
                found += _held_out(label, kept)
    return found


def _held_out(label: str, kept: Mapping[str, Any]) -> Iterator[HeldOut]:
    for metric, figures in kept["metrics"].items():
        if len(figures["quantiles"]) != len(LEVELS):
            continue  # kept by a program that knew other levels
        values = {**figures, "quantiles": tuple(figures["quantiles"])}
        yield HeldOut(label=label, metric=metric, devices=tuple(kept["devices"]), figures=ErrorFigures(**values))


def own_errors(transaction: ReadTransaction, subjects: Iterable[Subject]) -> list[OwnError]:
    """Of points validated here, for these devices and kinds of model.

    End-to-end errors follow from both latencies."""
    wanted = sorted({(subject.device, subject.kind) for subject in subjects})
    if not wanted or not list(transaction.values(int, "SELECT 1 FROM validation LIMIT 1")):
        return []
    condition = " OR ".join("(v.device = ? AND v.kind = ?)" for _ in wanted)
    points: dict[tuple[int, str, str, str], list[_Validated]] = defaultdict(list)
    # A point that was validated again, by newer formulas, counts once: the newest scenario is the last.
    newest_last = f"{_OF_VALIDATIONS}{condition}) ORDER BY v.scenario_id"
    for row in transaction.rows(_Validated, newest_last, [*chain.from_iterable(wanted)]):
        basis = _basis(row.unusual_service)
        points[row.measurement_id, row.serving_model, row.family, basis].append(row)
    return [error for (_, _, family, basis), rows in points.items() for error in _of_point(family, basis, rows)]


def _of_point(family: str, basis: str, rows: Sequence[_Validated]) -> Iterator[OwnError]:
    device, kind, engine, mode = rows[0].device, rows[0].kind, rows[0].engine, rows[0].mode
    metrics = _METRICS.get(mode, {})
    values = {row.metric: (row.measured, row.predicted) for row in rows}
    if mode == "aggregated" and "e2e_ms" not in values and {"ttft_ms", "tpot_exclusive_ms"} <= values.keys():
        more = max(rows[0].output_length - 1.0, 0.0)
        ttft, tpot = values["ttft_ms"], values["tpot_exclusive_ms"]
        whole = (ttft[0] + more * tpot[0], ttft[1] + more * tpot[1])
        values["e2e_ms"] = whole
        values.setdefault("output_tokens_per_s", (1.0 / whole[0], 1.0 / whole[1]))
    for name, (measured, predicted) in values.items():
        if name in metrics and measured > 0:
            yield OwnError(
                device=device,
                kind=kind,
                phase=PAIRED if (mode, name) == (PAIRED, "ttft_ms") else _PHASES[mode],
                engine=engine,
                family=family,
                basis=basis,
                model=rows[0].model,
                metric=metrics[name],
                error=predicted / measured - 1.0,
            )
