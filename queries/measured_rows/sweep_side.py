"""A sweep's predictions as a side: at measured settings, or all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from queries.measured_rows.predicted import stored_scenarios
from queries.measured_rows.servers import NamedServer
from queries.scoping.names import NoSweepError, find_sweep
from store.errors import InputError
from store.reading import read_transaction
from store.sealing import put_temporary

if TYPE_CHECKING:
    from queries.connect import StoreConnection

METRICS = ("ttft_ms", "tpot_exclusive_ms", "e2e_ms", "output_tokens_per_s", "requests_per_s")
_OF_A_DEPLOYMENT = frozenset({"output_tokens_per_s", "requests_per_s"})  # so many times as there are instances
_COLUMNS = ", ".join(METRICS)
_WANTED = [("place", "INTEGER"), ("scenario_id", "BIGINT"), ("concurrency", "DOUBLE")]
_AT = f"""
    SELECT place, {_COLUMNS}
    FROM measured_place
    JOIN sweep_probe USING (scenario_id, concurrency)
    WHERE sweep = $sweep
    ORDER BY place, batch_size
"""  # noqa: S608  our names
_SUBJECT = ("model", "device", "serving_model", "phase", "workload")
_ALL = f"""
    SELECT concat_ws(' ', {", ".join(_SUBJECT)}, plan, linear_quantization, attention_quantization,
        'concurrency=' || concurrency::BIGINT, 'subject=' || left(subject, 8)) AS setting, {_COLUMNS}
    FROM sweep_probe
    WHERE sweep = $sweep
        AND ($model IS NULL OR contains(lower(model), lower($model)))
        AND ($device IS NULL OR contains(lower(device), lower($device)))
    ORDER BY formula_version, subject, batch_size, scenario
"""  # noqa: S608  our names
Values = Mapping[str, float]


class StoredSweep(NamedTuple):
    """With predictions."""

    key: str
    scenarios: frozenset[int]


class MeasuredSetting(NamedTuple):
    """Deployment and concurrency."""

    server: NamedServer
    input_length: float | None
    output_length: float | None
    phase: str | None
    instances: int
    concurrency: float | None  # of all instances; None of requests that arrive at a rate


def sweep_named(connection: StoreConnection, name: str) -> StoredSweep | None:
    """By key or label; an InputError where it predicts nothing."""
    with read_transaction(connection.location) as transaction:
        try:
            number = find_sweep(transaction, name)
        except NoSweepError:
            return None
        (key,) = transaction.values(str, "SELECT key FROM sweep WHERE id = ?", (number,))
        asked = "SELECT DISTINCT scenario_id FROM sweep_interval WHERE sweep_id = ?"
        found = frozenset(transaction.values(int, asked, (number,)))
    if not found:
        raise InputError(f"sweep {name} holds no predictions", hint="sweepdb sweeps lists those that evaluated")
    return StoredSweep(key, found)


_TOLD_APART = (
    "model", "device", "serving_model", "linear_quantization", "attention_quantization", "tp", "pp", "dp", "ep",
)  # fmt: skip


def predicted_otherwise(connection: StoreConnection, sweep: StoredSweep, one: MeasuredSetting) -> str:
    """The first fact of a setting that no prediction has."""
    with read_transaction(connection.location) as transaction:
        alike = stored_scenarios(transaction, sweep.scenarios)
    for name in _TOLD_APART:
        measured = getattr(one.server, name)
        same = [told for told in alike if getattr(told, name) == measured]
        if not same:
            listed = ", ".join(sorted({str(getattr(told, name)) for told in alike}))
            return f"{name} was {measured}, and is predicted for {listed or 'nothing'}"
        alike = same
    return "the shapes of the model, the lengths or the requests in flight are others"


def predicted_at(
    connection: StoreConnection, sweep: StoredSweep, settings: Sequence[MeasuredSetting]
) -> dict[int, Values]:
    """By place, where the sweep has the same server and load."""
    with read_transaction(connection.location) as transaction:
        known = stored_scenarios(transaction, sweep.scenarios)
    wanted = []
    for place, one in enumerate(settings):
        near = [(told.apart(one), -told.scenario_id) for told in known if told.is_subject_of(one)]
        if near and one.concurrency is not None:
            wanted.append((place, -min(near)[1], one.concurrency / one.instances))
    put_temporary(connection.duckdb, "measured_place", _WANTED, wanted)
    rows = connection.execute(_AT, {"sweep": sweep.key}).fetchall()
    return {place: _values(values, settings[place].instances) for place, *values in rows}


def predicted_settings(
    connection: StoreConnection, sweep: StoredSweep, model: str | None, device: str | None
) -> dict[str, Values]:
    """By a text of subject and load."""
    asked = {"sweep": sweep.key, "model": model, "device": device}
    return {setting: _values(values, 1) for setting, *values in connection.execute(_ALL, asked).fetchall()}


def _values(values: Sequence[float | None], instances: int) -> Values:
    return dict(_known(values, instances))


def _known(values: Sequence[float | None], instances: int) -> Iterator[tuple[str, float]]:
    for name, value in zip(METRICS, values, strict=True):
        if value is not None and value > 0:
            yield name, value * (instances if name in _OF_A_DEPLOYMENT else 1)
