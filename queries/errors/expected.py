"""How far off a prediction is expected to be: errors of the measured points nearest to it, or none where none are near.

First come held-out points of a user's own fit, then a store's own validations, then the shipped summary. Not here:
predicting and comparing (sweepdb.measuring), limits (queries.judging.confidence), how it looks (cli.render)."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Final

from queries.errors.figures import ErrorFigures, figures_of
from store.light_dataclass import dataclass
from store.schema import FORMULA_MODELS

FOLDER = Path(__file__).parents[1] / "ledger"
SUMMARY = FOLDER / "summary.csv"
DEVICES = FOLDER / "devices.csv"
POINTS = FOLDER / "errors.csv"  # behind the summary; read by tests and by whoever wants to state it anew
ENGINE = "engine"  # serving model of the summary: the engine that served the point
ANY = "any"
ASKED: Final = "asked"  # basis: a question says plan, formats, lengths, users and a token budget
KNOWN: Final = "known"  # basis: the source's client, launch and routing are said too
LEAST_POINTS = 5  # fewer say nothing of a region
NEARER_SHARE = 0.5  # of the error of formulas, from which an engine is worth naming
NONE = "no measurements near this"
BASIS: Final = "basis"  # the column that says what a device's rates rest on
DATA_SHEET: Final = "data sheet"
FITTED_BASIS: Final = "fitted to serving points"
BASED = frozenset({"best", "devices", "cost", "deployments", "capacity"})  # reports that compare devices
PAIRED: Final = "disaggregated"  # phase of what both sides of a deployment have together
# What is said of each phase, in the order of a reader's interest. An instance of one phase has no other latency.
METRICS: Mapping[str, tuple[str, ...]] = {
    "prefill": ("ttft_ms",),
    "decode": ("tpot_exclusive_ms",),  # tokens/s are its inverse
    "aggregated": ("tpot_exclusive_ms", "ttft_ms", "output_tokens_per_s"),
    PAIRED: ("ttft_ms",),
}
_PAST = re.compile(r"_v0$|_locked$|^eager$")  # engines that nobody deploys any more


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """One row of the shipped summary. `reach` says what `device` stands for: itself, or all that carry its kernels."""

    family: str
    convention: str
    serving_model: str
    basis: str
    reach: str
    device: str
    kind: str
    phase: str
    engine: str
    metric: str
    points: int
    pairs: int
    agreeing: int  # pairs whose own median error has the sign of the bias
    median_ape_percent: float
    p90_ape_percent: float
    bias_percent: float
    quantiles: str  # of log(measured / predicted) at LEVELS
    engines: str  # that served the points, joined by +


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The subject of rows of an answer, as far as errors depend on it."""

    device: str
    kind: str  # dense or moe
    phase: str
    family: str
    convention: str
    serving_model: str
    basis: str = ASKED
    tpot_rule: str = "exclusive"
    device_key: str = ""  # content key of the profile it was evaluated with
    unmeasured: tuple[str, ...] = ()  # what it has that no measured point has

    @property
    def engine(self) -> str | None:
        """The engine that its serving model is a profile of; None for formulas."""
        return None if self.serving_model in FORMULA_MODELS else self.serving_model.partition("@")[0]

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics whose errors are looked up for it.

        An inclusive TPOT has errors of its own where a request waits for its prompt."""
        inclusive = self.tpot_rule == "inclusive" and self.phase == "aggregated"
        return tuple(
            "tpot_inclusive_ms" if inclusive and metric == "tpot_exclusive_ms" else metric
            for metric in METRICS[self.phase]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedError:
    """Errors of one metric in the nearest region. Without measurements near, figures and region are None.

    The bias is the median signed error: above 0, predictions are too high."""

    subject: str
    metric: str
    median_ape_percent: float | None = None
    p90_ape_percent: float | None = None
    bias_percent: float | None = None
    points: int = 0
    pairs: int | None = None  # of device and model that the points are of, where known
    agreeing: int | None = None  # of these, whose own errors have the sign of the bias
    quantiles: tuple[float, ...] | None = None  # of log(measured / predicted) at LEVELS
    region: str | None = None
    note: str | None = NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnError:
    """A signed relative error of a point that was validated in the store itself, or a derived one."""

    device: str
    kind: str
    phase: str
    engine: str
    family: str
    metric: str
    error: float
    model: str = ""
    basis: str = ASKED


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """The errors of points, for one metric, under fits of a user's own engine profile that left them out."""

    label: str  # NAME@key, as scenarios call the profile
    metric: str
    devices: tuple[str, ...]
    figures: ErrorFigures


_Key = tuple[str, ...]
_NAMES = tuple(item.name for item in fields(Region))
_KEY_LENGTH = _NAMES.index("points")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShippedDevice:
    """A device of the summary. Keys are the beginnings of its profiles' content keys, empty where it has none."""

    device: str
    calibrated_from: str  # itself, where its own kernels were measured or it has no calibration
    calibrated_key: str
    theoretical_key: str
    fitted_from: str = ""  # itself or another device, to whose serving points its data sheet's shares are fitted


@cache
def _summary() -> Mapping[_Key, Sequence[str]]:
    with SUMMARY.open(encoding="utf-8", newline="") as file:
        return {tuple(row[:_KEY_LENGTH]): row for row in csv.reader(file)}


def shipped_regions() -> list[Mapping[str, str]]:
    """The rows of the shipped summary, by the names of Region, in the order of the file."""
    with SUMMARY.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@cache
def _devices() -> Mapping[str, ShippedDevice]:
    with DEVICES.open(encoding="utf-8", newline="") as file:
        return {row["device"]: ShippedDevice(**row) for row in csv.DictReader(file)}


def basis_of(subject: Subject) -> str:
    """The basis of a device's rates: its measured kernels or serving points, those of another device, or its data
    sheet."""
    shipped = _devices().get(subject.device)
    if subject.family == "theoretical":
        return _fitted_basis(subject, shipped)
    donor = subject.device if shipped is None else shipped.calibrated_from
    keys = () if shipped is None else tuple(shipped.calibrated_key.split("+"))
    carried = donor != subject.device and (not subject.device_key or subject.device_key.startswith(keys))
    return f"carried from {donor}" if carried else "measured"


def _fitted_basis(subject: Subject, shipped: ShippedDevice | None) -> str:
    """The basis of a profile without kernels. One that somebody changed rests on what it states."""
    changed = shipped is not None and subject.device_key and not subject.device_key.startswith(shipped.theoretical_key)
    if shipped is None or not shipped.fitted_from or changed:
        return DATA_SHEET
    return FITTED_BASIS if shipped.fitted_from == subject.device else f"carried from {shipped.fitted_from}"


@dataclass(frozen=True, slots=True)
class Stored:
    """The errors that a store itself holds: of points validated in it, and of profiles fitted in it."""

    own: Mapping[_Key, Sequence[OwnError]]
    held_out: Mapping[tuple[str, str], HeldOut]

    @classmethod
    def of(cls, own: Iterable[OwnError] = (), held_out: Iterable[HeldOut] = ()) -> Stored:
        """Errors by the place they are looked up at."""
        by_place: dict[_Key, list[OwnError]] = {}
        for one in own:
            place = (one.device, one.kind, one.phase, one.family, one.basis, one.metric)
            by_place.setdefault(place, []).append(one)
        return cls(by_place, {(one.label, one.metric): one for one in held_out})


NOTHING_STORED = Stored({}, {})


def expected_errors(subjects: Iterable[Subject], stored: Stored = NOTHING_STORED) -> tuple[ExpectedError, ...]:
    """Errors of every metric of each subject, in their order."""
    return tuple(
        nearest_error(subject, metric, stored) for subject in dict.fromkeys(subjects) for metric in subject.metrics
    )


def nearest_error(subject: Subject, metric: str, stored: Stored) -> ExpectedError:
    """The error of the nearest region, or one that says that there is none."""
    found = next(_candidates(subject, metric, stored), None)
    return ExpectedError(subject=_named(subject), metric=metric) if found is None else found


def in_pairs(subject: Subject, stored: Stored) -> Subject:
    """The subject of the TTFT of pairs whose prefill side is `subject`.

    It is the pair where pairs were measured near, else the side. Formulas give a pair its prefill side's time."""
    if subject.engine is None or subject.phase != "prefill":
        return subject
    together = replace(subject, phase=PAIRED)
    return subject if nearest_error(together, "ttft_ms", stored).region is None else together


def _candidates(subject: Subject, metric: str, stored: Stored) -> Iterator[ExpectedError]:
    """Regions that hold enough points, nearest first."""
    yield from _held_out(subject, metric, stored)
    place = (subject.device, subject.kind, subject.phase, subject.family, subject.basis, metric)
    own = stored.own.get(place, ())
    if subject.engine is not None:
        yield from _own(subject, metric, own, engine=subject.engine)
    for reach, device, kind, engine in _places(subject):
        if reach == "donor":  # before another device: this one, predicted by another serving model
            yield from _own(subject, metric, own, engine=None)
        row = _shipped(subject, (reach, device, kind, subject.phase, engine, metric))
        if row is not None:
            yield _of_region(subject, row)
    yield from _own(subject, metric, own, engine=None)


def _shipped(subject: Subject, place: _Key) -> Mapping[str, str] | None:
    """The shipped row of a place, of scenarios about which as much is known.

    Formulas know no client, so they have one basis."""
    start = (subject.family, subject.convention, ENGINE if subject.engine else "waves")
    found = (_summary().get((*start, basis, *place)) for basis in dict.fromkeys((subject.basis, ASKED)))
    row = next((row for row in found if row is not None), None)
    return None if row is None else dict(zip(_NAMES, row, strict=True))


def _places(subject: Subject) -> Iterator[tuple[str, str, str, str]]:
    """(reach, device, kind, engine) from near to far."""
    engines = (ANY,) if subject.engine is None else (subject.engine, ANY)
    for kind in (subject.kind, ANY):
        for engine in engines:
            yield "device", subject.device, kind, engine
    shipped = _devices().get(subject.device)
    if shipped is not None:
        for kind in (subject.kind, ANY):
            yield "donor", shipped.calibrated_from, kind, ANY


def _of_region(subject: Subject, row: Mapping[str, str]) -> ExpectedError:
    device = row["device"] if row["reach"] == "device" else f"{row['device']} and devices that carry its calibration"
    kind = "dense and moe" if row["kind"] == ANY else row["kind"]
    unusual = [value for value in (row["family"], row["convention"]) if value not in {"calibrated", "physical"}]
    return ExpectedError(
        subject=_named(subject),
        metric=row["metric"],
        median_ape_percent=float(row["median_ape_percent"]),
        p90_ape_percent=float(row["p90_ape_percent"]),
        bias_percent=float(row["bias_percent"]),
        points=int(row["points"]),
        pairs=int(row["pairs"]),
        agreeing=int(row["agreeing"]),
        quantiles=tuple(map(float, row["quantiles"].split())),
        region=", ".join((device, kind, subject.phase, _predictor(row), *unusual)),
        note=_note(subject, *_other_profile(subject), *_nearer(subject, row)),
    )


def _nearer(subject: Subject, row: Mapping[str, str]) -> Iterator[str]:
    """Engines that miss by less than half of what formulas miss by, at the same place: what to evaluate with."""
    place = (ASKED, "device", row["device"], row["kind"], row["phase"], ANY, "tpot_exclusive_ms")
    start = (row["family"], row["convention"])
    formulas, engines = (_summary().get((*start, model, *place)) for model in ("waves", ENGINE))
    if subject.engine is not None or formulas is None or engines is None:
        return
    here, there = (dict(zip(_NAMES, found, strict=True)) for found in (formulas, engines))
    names = [name for name in there["engines"].split("+") if not _PAST.search(name)]
    if names and float(there["median_ape_percent"]) < NEARER_SHARE * float(here["median_ape_percent"]):
        yield f"nearer: `serving_model={', '.join(names)}`, TPOT +-{float(there['median_ape_percent']):.0f} %"


def _predictor(row: Mapping[str, str]) -> str:
    """The serving model, and the engine where all points were served by one that it is not."""
    alone = "+" not in row["engines"]
    if row["serving_model"] == ENGINE:
        return "any engine" if row["engine"] == ANY and not alone else row["engines"]
    return f"{row['serving_model']} (all served by {row['engines']})" if alone else row["serving_model"]


def _other_profile(subject: Subject) -> Iterator[str]:
    shipped = _devices().get(subject.device)
    if shipped is not None:
        key = shipped.theoretical_key if subject.family == "theoretical" else shipped.calibrated_key
        if key and subject.device_key and not subject.device_key.startswith(tuple(key.split("+"))):
            yield f"with the profile of {subject.device} that is shipped, not the one these numbers are of"


def _note(subject: Subject, *more: str) -> str | None:
    said = [*more]
    if "@" in subject.serving_model:
        said.append(f"by the engines that are shipped, not {subject.serving_model}")
    said += [f"no measured point has {what}" for what in subject.unmeasured]
    return "; ".join(said) or None


def _own(subject: Subject, metric: str, own: Sequence[OwnError], *, engine: str | None) -> Iterator[ExpectedError]:
    """The store's own points of the subject's place: of one engine, or of any by another serving model."""
    errors = [one for one in own if engine in {None, one.engine}]
    if len(errors) < LEAST_POINTS or subject.convention != "physical":
        return
    engines = ", ".join(sorted({one.engine for one in errors}))
    other = () if engine is not None else (f"by the closed loop of {engines}, not {subject.serving_model}",)
    by_model: dict[str, list[float]] = {}
    for one in errors:
        by_model.setdefault(one.model, []).append(one.error)
    region = f"this store's own: {subject.device}, {subject.kind}, {subject.phase}, {engines}"
    yield _of_figures(subject, metric, figures_of(by_model), region, _note(subject, *other))


def _of_figures(subject: Subject, metric: str, figures: ErrorFigures, region: str, note: str | None) -> ExpectedError:
    return ExpectedError(
        subject=_named(subject),
        metric=metric,
        median_ape_percent=figures.median_ape_percent,
        p90_ape_percent=figures.p90_ape_percent,
        bias_percent=figures.bias_percent,
        points=figures.points,
        pairs=figures.pairs,
        agreeing=figures.agreeing,
        quantiles=figures.quantiles,
        region=region,
        note=note,
    )


def _held_out(subject: Subject, metric: str, stored: Stored) -> Iterator[ExpectedError]:
    """Held-out points of the profile that the subject is served by: closed loops, so aggregated instances only."""
    found = stored.held_out.get((subject.serving_model, metric))
    if found is None or subject.phase != "aggregated" or subject.convention != "physical":
        return
    elsewhere = () if subject.device in found.devices else (f"measured on {', '.join(found.devices)}",)
    said = [*elsewhere, *(f"no measured point has {what}" for what in subject.unmeasured)]
    region = f"held out of the fit {subject.serving_model}"
    yield _of_figures(subject, metric, found.figures, region, "; ".join(said) or None)


def _named(subject: Subject) -> str:
    kind = (subject.device, subject.kind, subject.phase)
    return ", ".join((*kind, subject.family, subject.convention, subject.serving_model))
