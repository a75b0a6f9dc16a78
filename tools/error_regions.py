"""Errors of measured points by region, written and read.

Made by tools.ledger_summary; stated by tools.error_statements."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from evaluator.arithmetic import FloatArray
from queries.errors import ANY, ENGINE, LEAST_POINTS, PAIRED, QUANTILE_DIGITS, Region
from tools.error_statements import (
    LeftOut,
    PairErrors,
    Sample,
    Statement,
    Width,
    drawn_width,
    pooled,
    stated,
    width_of,
)

UNSTATED = "unstated"
SMALLEST = -0.999  # a prediction of nothing has no logarithm
_DIGITS = 3  # of an error: a tenth of a percent
_SHIPPED_POINTS = ("calibrated", "physical")  # family and convention of the points that are written beside the summary
_POINT_COLUMNS = ("family", "convention", "serving_model", "basis", "phase", "metric", "device", "model", "kind",
                  "engine", "permille")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """Poolable errors: one way to predict, one phase, one metric."""

    family: str
    convention: str
    serving_model: str  # waves, or the engine that served the point
    basis: str  # asked or known
    phase: str
    metric: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PointError:
    """predicted / measured - 1."""

    field: Field
    device: str
    model: str
    kind: str
    engine: str | None
    error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """`reach`: `device` alone, or all of its kernels."""

    reach: str
    device: str
    kind: str
    engine: str

    def holds(self, one: PairErrors, donor_of: Mapping[str, str]) -> bool:
        device = one.device if self.reach == "device" else donor_of[one.device]
        return device == self.device and _like(one, self.kind, self.engine)


Fields = Mapping[Field, Sequence[PairErrors]]


def _like(one: PairErrors, kind: str, engine: str) -> bool:
    return kind in {ANY, one.kind} and engine in {ANY, one.engine}


def fields_of(errors: Iterable[PointError]) -> dict[Field, list[PairErrors]]:
    """Rounded as written."""
    groups: dict[Field, dict[tuple[str, str, str, str], list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in errors:
        pair = (one.device, one.model, one.kind, one.engine or UNSTATED)
        groups[one.field][pair].append(max(round(one.error, _DIGITS), SMALLEST))
    return {
        field: [
            PairErrors(device=device, model=model, kind=kind, engine=engine, errors=np.sort(np.asarray(values)))
            for (device, model, kind, engine), values in sorted(pairs.items())
        ]
        for field, pairs in sorted(groups.items(), key=lambda item: _key_of(item[0]))
    }


def _key_of(field: Field) -> tuple[str, ...]:
    return tuple(getattr(field, name) for name in Field.__slots__)


def places_of(field: Field, pairs: Sequence[PairErrors], donor_of: Mapping[str, str]) -> list[Place]:
    """Regions with enough points, and roll-ups: any engine, any kind of model, devices on the same kernels.

    Formulas know no engine; a region of several devices tells none apart."""
    points: dict[Place, int] = defaultdict(int)
    for one in pairs:
        engines = (one.engine, ANY) if field.serving_model == ENGINE and one.engine != UNSTATED else (ANY,)
        for kind in (one.kind, ANY):
            for engine in engines:
                points[Place(reach="device", device=one.device, kind=kind, engine=engine)] += one.errors.size
            donor = Place(reach="donor", device=donor_of[one.device], kind=kind, engine=ANY)
            points[donor] += one.errors.size
    return [place for place, count in points.items() if count >= LEAST_POINTS]


def sample_of(
    place: Place,
    pairs: Sequence[PairErrors],
    donor_of: Mapping[str, str],
    *,
    without: tuple[str, str] | None = None,
) -> Sample | None:
    """Expected errors of an unseen pair.

    Its own pairs, shrunk towards its engine and kind on any device, its engine, then all. `without` leaves out a
    (device, model) pair."""
    left = [one for one in pairs if one.pair != without]
    wider = dict.fromkeys(((place.kind, place.engine), (ANY, place.engine), (ANY, ANY)))
    own = [one for one in left if place.holds(one, donor_of)]
    return pooled([own, *([one for one in left if _like(one, kind, engine)] for kind, engine in wider)])


def left_out(place: Place, pairs: Sequence[PairErrors], donor_of: Mapping[str, str]) -> Iterator[LeftOut]:
    """Each pair, with the statement made without it."""
    own: dict[tuple[str, str], list[FloatArray]] = defaultdict(list)
    for one in pairs:
        if place.holds(one, donor_of):
            own[one.pair].append(one.errors)
    for pair, errors in own.items():
        sample = sample_of(place, pairs, donor_of, without=pair)
        if sample is not None:
            yield LeftOut(pair=pair, errors=np.concatenate(errors), sample=sample)


def widths_of(fields: Fields, donor_of: Mapping[str, str]) -> dict[tuple[str, ...], Width]:
    """By `width_key`, over all regions and phases."""
    groups: dict[tuple[str, ...], list[LeftOut]] = defaultdict(list)
    for field, pairs in fields.items():
        for place in places_of(field, pairs, donor_of):
            groups[width_key(field, place)] += left_out(place, pairs, donor_of)
    of_every_engine: dict[tuple[str, ...], list[LeftOut]] = defaultdict(list)
    for (*key, engine), members in groups.items():
        if engine != ANY:
            of_every_engine[tuple(key)] += members
    wider = {key: width_of(members) for key, members in of_every_engine.items()}
    return {
        key: width_of(members) if key[-1] == ANY else drawn_width(members, wider[key[:-1]])
        for key, members in groups.items()
    }


def width_key(field: Field, place: Place) -> tuple[str, ...]:
    """Engine, metric and way to predict; roll-ups apart.

    TTFT of pairs has its own: it waits for more than an instance."""
    rolled_up, phase = ANY if place.kind == ANY else "", PAIRED if field.phase == PAIRED else ""
    return (*_key_of(replace(field, phase=phase)), place.reach, rolled_up, place.engine)


def regions_of(errors: Iterable[PointError], donor_of: Mapping[str, str]) -> list[Region]:
    """Sorted; each states what it would of an unseen pair."""
    fields = fields_of(errors)
    widths = widths_of(fields, donor_of)
    found = [
        _region(field, place, pairs, donor_of, widths[width_key(field, place)])
        for field, pairs in fields.items()
        for place in places_of(field, pairs, donor_of)
    ]
    names = Region.__slots__[: Region.__slots__.index("points")]
    return sorted(found, key=lambda one: tuple(getattr(one, name) for name in names))


def _region(
    field: Field, place: Place, pairs: Sequence[PairErrors], donor_of: Mapping[str, str], width: Width
) -> Region:
    own = [one for one in pairs if place.holds(one, donor_of)]
    sample = sample_of(place, pairs, donor_of)
    if sample is None:
        raise ValueError(f"no measured point lies in {place}")
    said = stated(sample, width)
    return Region(
        family=field.family,
        convention=field.convention,
        serving_model=field.serving_model,
        basis=field.basis,
        reach=place.reach,
        device=place.device,
        kind=place.kind,
        phase=field.phase,
        engine=place.engine,
        metric=field.metric,
        points=sum(one.errors.size for one in own),
        pairs=len({one.pair for one in own}),
        agreeing=agreeing(own, said),
        median_ape_percent=round(said.median_ape, 2),
        p90_ape_percent=round(said.p90_ape, 2),
        bias_percent=round(said.bias, 2),
        quantiles=" ".join(f"{value:.{QUANTILE_DIGITS}f}" for value in said.quantiles),
        engines="+".join(sorted({one.engine for one in own})),
    )


def agreeing(own: Sequence[PairErrors], said: Statement) -> int:
    """Their median error has the sign of the stated bias."""
    by_pair: dict[tuple[str, str], list[FloatArray]] = defaultdict(list)
    for one in own:
        by_pair[one.pair].append(one.errors)
    return sum(float(np.median(np.concatenate(errors))) * said.bias > 0 for errors in by_pair.values())


def write_points(path: Path, errors: Iterable[PointError]) -> None:
    """Calibrated devices under the physical convention, a line a pair, in thousandths."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_POINT_COLUMNS)
        for field, pairs in fields_of(errors).items():
            if (field.family, field.convention) == _SHIPPED_POINTS:
                for one in pairs:
                    values = " ".join(str(round(1000 * value)) for value in one.errors)
                    writer.writerow([*_key_of(field), one.device, one.model, one.kind, one.engine, values])


def read_points(path: Path) -> list[PointError]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        PointError(
            field=Field(**{name: row[name] for name in Field.__slots__}),
            device=row["device"],
            model=row["model"],
            kind=row["kind"],
            engine=None if row["engine"] == UNSTATED else row["engine"],
            error=int(value) / 1000,
        )
        for row in rows
        for value in row["permille"].split()
    ]
