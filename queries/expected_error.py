"""How far off the numbers of an answer are expected to be: figures of the nearest region of the ledger, or none.

First come a store's own validations, then the shipped summary (queries/ledger/*.csv): the same device and kind of
model, the device alone, then every device that stands on the same measured kernels. Not here: predicting and comparing
(cli.flows), and how it looks (cli.render.expected_error)."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "ledger"
SUMMARY = FOLDER / "summary.csv"
DEVICES = FOLDER / "devices.csv"
ENGINE = "engine"  # serving model of the summary: the engine that served the point
ANY = "any"
LEAST_POINTS = 5  # fewer say nothing of a region
NEARER_SHARE = 0.5  # of the error of formulas, from which an engine is worth naming
NONE = "no measurements near this"
# What is said of each phase, in the order of a reader's interest. An instance of one phase has no other latency.
METRICS: Mapping[str, tuple[str, ...]] = {
    "prefill": ("ttft_ms",),
    "decode": ("tpot_exclusive_ms",),  # tokens/s are its inverse
    "aggregated": ("tpot_exclusive_ms", "ttft_ms", "output_tokens_per_s"),
}
_PAST = re.compile(r"_v0$|^eager$")  # engines that nobody deploys any more
_FORMULAS = ("waves", "seed002")  # serving models that are no engine; seed002 differs for mixed lengths alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """One row of the shipped summary. `reach` says what `device` stands for: itself, or all that carry its kernels."""

    family: str
    convention: str
    serving_model: str
    reach: str
    device: str
    kind: str
    phase: str
    engine: str
    metric: str
    points: int
    pairs: int
    median_ape_percent: float
    mean_ape_percent: float
    p90_ape_percent: float
    bias_percent: float
    engines: str  # that served the points, joined by +


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What rows of an answer are about, as far as errors depend on it."""

    device: str
    kind: str  # dense or moe
    phase: str
    family: str
    convention: str
    serving_model: str
    tpot_rule: str = "exclusive"
    device_key: str = ""  # content key of the profile it was evaluated with
    unmeasured: tuple[str, ...] = ()  # what it has that no measured point has

    @property
    def engine(self) -> str | None:
        """The engine that its serving model is a profile of; None for formulas."""
        return None if self.serving_model in _FORMULAS else self.serving_model.partition("@")[0]

    @property
    def metrics(self) -> tuple[str, ...]:
        """What is looked up for it; an inclusive TPOT has errors of its own where a request waits for its prompt."""
        inclusive = self.tpot_rule == "inclusive" and self.phase == "aggregated"
        return tuple(
            "tpot_inclusive_ms" if inclusive and metric == "tpot_exclusive_ms" else metric
            for metric in METRICS[self.phase]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedError:
    """Errors of one metric in the nearest region. Without measurements near, figures and region are None. The bias is
    the median signed error: above 0, predictions are too high."""

    subject: str
    metric: str
    median_ape_percent: float | None = None
    p90_ape_percent: float | None = None
    bias_percent: float | None = None
    points: int = 0
    pairs: int | None = None  # of device and model that the points are of, where known
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


def expected_errors(subjects: Iterable[Subject], own: Iterable[OwnError] = ()) -> tuple[ExpectedError, ...]:
    """Errors of every metric of each subject, in their order."""
    by_place: dict[_Key, list[OwnError]] = {}
    for one in own:
        by_place.setdefault((one.device, one.kind, one.phase, one.family, one.metric), []).append(one)
    return tuple(
        _nearest(subject, metric, by_place.get(_place(subject, metric), ()))
        for subject in dict.fromkeys(subjects)
        for metric in subject.metrics
    )


def _place(subject: Subject, metric: str) -> _Key:
    return (subject.device, subject.kind, subject.phase, subject.family, metric)


def _nearest(subject: Subject, metric: str, own: Sequence[OwnError]) -> ExpectedError:
    found = next(_candidates(subject, metric, own), None)
    if found is None:
        return ExpectedError(subject=_named(subject), metric=metric)
    return found


def _candidates(subject: Subject, metric: str, own: Sequence[OwnError]) -> Iterator[ExpectedError]:
    """Regions that hold enough points, nearest first."""
    if subject.engine is not None:
        yield from _own(subject, metric, own, engine=subject.engine)
    for reach, device, kind, engine in _places(subject):
        if reach == "donor":  # before another device: this one, predicted by another serving model
            yield from _own(subject, metric, own, engine=None)
        key = (subject.family, subject.convention, ENGINE if subject.engine else "waves", reach, device, kind,
               subject.phase, engine, metric)  # fmt: skip
        row = _summary().get(key)
        if row is not None:
            yield _of_region(subject, dict(zip(_NAMES, row, strict=True)))
    yield from _own(subject, metric, own, engine=None)


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
        region=", ".join((device, kind, subject.phase, _predictor(row), *unusual)),
        note=_note(subject, *_other_profile(subject), *_nearer(subject, row)),
    )


def _nearer(subject: Subject, row: Mapping[str, str]) -> Iterator[str]:
    """Engines that miss by less than half of what formulas miss by, at the same place: what to evaluate with."""
    place = ("device", row["device"], row["kind"], row["phase"], ANY, "tpot_exclusive_ms")
    start = (row["family"], row["convention"])
    formulas, engines = (_summary().get((*start, model, *place)) for model in ("waves", ENGINE))
    if subject.engine is not None or formulas is None or engines is None:
        return
    here, there = (dict(zip(_NAMES, found, strict=True)) for found in (formulas, engines))
    names = [name for name in there["engines"].split("+") if not _PAST.search(name)]
    if names and float(there["median_ape_percent"]) < NEARER_SHARE * float(here["median_ape_percent"]):
        yield f"nearer: --serving-model {', '.join(names)}, TPOT +-{float(there['median_ape_percent']):.0f} %"


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
        if key and subject.device_key and not subject.device_key.startswith(key):
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
    signed = sorted(100.0 * one.error for one in errors)
    sizes = sorted(abs(error) for error in signed)
    yield ExpectedError(
        subject=_named(subject),
        metric=metric,
        median_ape_percent=round(percentile(sizes, 50), 2),
        p90_ape_percent=round(percentile(sizes, 90), 2),
        bias_percent=round(percentile(signed, 50), 2),
        points=len(errors),
        region=f"this store's own: {subject.device}, {subject.kind}, {subject.phase}, {engines}",
        note=_note(subject, *other),
    )


def percentile(ascending: Sequence[float], share: float) -> float:
    """Linear between the two nearest ranks, as the figures of the shipped regions are."""
    place = share / 100.0 * (len(ascending) - 1)
    below = int(place)
    above = min(below + 1, len(ascending) - 1)
    return ascending[below] + (place - below) * (ascending[above] - ascending[below])


def _named(subject: Subject) -> str:
    kind = (subject.device, subject.kind, subject.phase)
    return ", ".join((*kind, subject.family, subject.convention, subject.serving_model))
