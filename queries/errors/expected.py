"""Expected errors on own servers, tuned ones, and unmeasured ones.

In order: held-out points of the user's fit, the store's validations, what ships."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Final

from queries.errors.spreads import (
    ANY,
    ASKED,
    CARRIED_STEPS,
    DATA_SHEET,
    ENGINE,
    FITTED_BASIS,
    MEASURED,
    OTHERS,
    OWN,
    TUNED,
    UNKNOWN_STEPS,
    ErrorFigures,
    Key,
    device_basis,
    devices,
    figures_of,
    parts_of,
    region,
    seldom_measured,
    shipped_spreads,
)
from store.light_dataclass import dataclass
from store.schema import FORMULA_MODELS, FORMULAS, USUAL_CONVENTION

LEAST_POINTS = 5  # fewer say nothing of a region
NEARER_SHARE = 0.5  # of the error of formulas, from which an engine is worth naming
NONE = "no measurements near this"
EVERY = "every measured server"  # the region where none is near
ELSEWHERE = "other people's servers"  # the region of those that nobody measured
_FROM = {DATA_SHEET: "those of its data sheet"}
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
class Subject:
    """Facts of rows that errors depend on."""

    device: str
    kind: str  # dense or moe
    phase: str
    family: str
    convention: str
    serving_model: str
    basis: str = ASKED
    tpot_rule: str = "exclusive"
    known_family: bool = True  # whether somebody measured a model of its family
    device_key: str = ""  # content key of the profile it was evaluated with
    unmeasured: tuple[str, ...] = ()  # what it has that no measured point has

    @property
    def engine(self) -> str | None:
        return None if self.serving_model in FORMULA_MODELS else self.serving_model.partition("@")[0]

    @property
    def metrics(self) -> tuple[str, ...]:
        """Inclusive TPOT has its own errors where a request waits for its prompt."""
        inclusive = self.tpot_rule == "inclusive" and self.phase == "aggregated"
        return tuple(
            "tpot_inclusive_ms" if inclusive and metric == "tpot_exclusive_ms" else metric
            for metric in METRICS[self.phase]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedError:
    """Of one metric on one kind of servers: the user's, tuned ones, or others'.

    The bias is the median signed error: above 0, predictions are too high. The spread of log(measured / predicted) has
    two standard deviations: shared by a server's points, and the rest."""

    subject: str
    metric: str
    median_ape_percent: float
    p90_ape_percent: float
    bias_percent: float
    points: int
    agreeing: int  # pairs or sources whose own errors have the sign of the bias
    quantiles: tuple[float, ...]  # of log(measured / predicted) at LEVELS
    region: str
    pairs: int | None = None  # of device and model that the points are of
    note: str | None = None
    servers: str = TUNED  # tuned, others or own
    sources: int | None = None  # that the points are of, on others' servers
    common: float | None = None  # None: the points are of the user's own servers, which share it with the next one
    rest: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnError:
    """Signed and relative, validated here or derived."""

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
    """Of one metric, under fits of the user's profile that left points out."""

    label: str  # NAME@key, as scenarios call the profile
    metric: str
    devices: tuple[str, ...]
    figures: ErrorFigures


@dataclass(frozen=True, slots=True)
class Stored:
    """Points validated and profiles fitted in this store."""

    own: Mapping[Key, Sequence[OwnError]]
    held_out: Mapping[tuple[str, str], HeldOut]

    @classmethod
    def of(cls, own: Iterable[OwnError] = (), held_out: Iterable[HeldOut] = ()) -> Stored:
        by_place: dict[Key, list[OwnError]] = {}
        for one in own:
            place = (one.device, one.kind, one.phase, one.family, one.basis, one.metric)
            by_place.setdefault(place, []).append(one)
        return cls(by_place, {(one.label, one.metric): one for one in held_out})


NOTHING_STORED = Stored({}, {})


def expected_errors(subjects: Iterable[Subject], stored: Stored = NOTHING_STORED) -> tuple[ExpectedError, ...]:
    """By metric, first on tuned servers, then on others'.

    The user's own points stand for both."""
    found: list[ExpectedError] = []
    for subject in dict.fromkeys(subjects):
        tuned = [_on_tuned(subject, metric, stored) for metric in subject.metrics]
        found += tuned
        found += (_on_others(subject, one) for one in tuned)
    return tuple(dict.fromkeys(found))


def nearest_error(subject: Subject, metric: str, stored: Stored, servers: str) -> ExpectedError:
    tuned = _on_tuned(subject, metric, stored)
    return tuned if servers == TUNED else _on_others(subject, tuned)


def _on_tuned(subject: Subject, metric: str, stored: Stored) -> ExpectedError:
    near = (next(find(subject, metric, stored), None) for find in (_own_of, _candidates))
    return next((one for one in near if one is not None), None) or _stated_of(subject, metric, TUNED, None)


def _on_others(subject: Subject, tuned: ExpectedError) -> ExpectedError:
    return tuned if tuned.servers == OWN else _stated_of(subject, tuned.metric, OTHERS, tuned)


def steps_of_device(based: str, family: str) -> int:
    """Steps of widening: a data sheet, or another device's serving points, count in full.

    Another device's kernels, or own serving points, count half."""
    if based == MEASURED:
        return 0
    sheet = based == DATA_SHEET or (family == "theoretical" and based != FITTED_BASIS)
    return UNKNOWN_STEPS if sheet else CARRIED_STEPS


def unknowns_of(subject: Subject) -> dict[str, int]:
    """Unmeasured parts in words, with steps of widening."""
    based = device_basis(subject)
    steps = {
        f"its device's rates are {_FROM.get(based, based)}": steps_of_device(based, subject.family),
        "its engine was measured once or never": UNKNOWN_STEPS if seldom_measured(subject) else 0,
        "no model of its family was measured": 0 if subject.known_family else UNKNOWN_STEPS,
        "disaggregated servers were measured by one laboratory": UNKNOWN_STEPS if subject.phase == PAIRED else 0,
    }
    return {said: count for said, count in steps.items() if count}


def _stated_of(subject: Subject, metric: str, servers: str, tuned: ExpectedError | None) -> ExpectedError:
    """Where no region states one. Never narrower on others' servers than on tuned ones."""
    spreads, model = shipped_spreads(), ENGINE if subject.engine else FORMULAS
    found = (spreads.get((servers, one, model, metric)) for one in (subject.convention, USUAL_CONVENTION))
    spread = next(one for one in found if one is not None)
    unknowns = unknowns_of(subject)
    least = None if tuned is None else tuned.quantiles
    said = spread.stated(sum(unknowns.values()), least)
    median, p90 = said.median_ape_percent, said.p90_ape_percent
    if tuned is not None:
        median, p90 = max(median, tuned.median_ape_percent), max(p90, tuned.p90_ape_percent)
    near = (NONE,) if servers == TUNED else ()
    return ExpectedError(
        subject=_named(subject),
        metric=metric,
        median_ape_percent=median,
        p90_ape_percent=p90,
        bias_percent=said.bias_percent,
        points=spread.points,
        pairs=spread.units if servers == TUNED else None,
        agreeing=spread.agreeing,
        quantiles=said.quantiles,
        region=EVERY if servers == TUNED else ELSEWHERE,
        note=_note(subject, *near, *unknowns) if servers == TUNED else "; ".join(unknowns) or None,
        servers=servers,
        sources=None if servers == TUNED else spread.sources,
        common=said.common,
        rest=said.rest,
    )


def in_pairs(subject: Subject, stored: Stored) -> Subject:
    """For TTFT of pairs with this prefill pool.

    The pair where pairs were measured near, else the pool; formulas give a pair its prefill pool's time."""
    if subject.engine is None or subject.phase != "prefill":
        return subject
    together = replace(subject, phase=PAIRED)
    measured = (next(find(together, "ttft_ms", stored), None) for find in (_own_of, _candidates))
    return subject if all(one is None for one in measured) else together


def _own_of(subject: Subject, metric: str, stored: Stored) -> Iterator[ExpectedError]:
    """From the user's points of this serving model."""
    yield from _held_out(subject, metric, stored)
    if subject.engine is not None:
        yield from _own(subject, metric, _stored_at(subject, metric, stored), engine=subject.engine)


def _stored_at(subject: Subject, metric: str, stored: Stored) -> Sequence[OwnError]:
    place = (subject.device, subject.kind, subject.phase, subject.family, subject.basis, metric)
    return stored.own.get(place, ())


def _candidates(subject: Subject, metric: str, stored: Stored) -> Iterator[ExpectedError]:
    own = _stored_at(subject, metric, stored)
    for reach, device, kind, engine in _places(subject):
        if reach == "donor":  # before another device: this one, predicted by another serving model
            yield from _own(subject, metric, own, engine=None)
        row = _shipped(subject, (reach, device, kind, subject.phase, engine, metric))
        if row is not None:
            yield _of_region(subject, row)
    yield from _own(subject, metric, own, engine=None)


def _shipped(subject: Subject, place: Key) -> Mapping[str, str] | None:
    """About which as much is known.

    Formulas know no client, so they have one basis."""
    start = (subject.family, subject.convention, ENGINE if subject.engine else FORMULAS)
    found = (region((*start, basis, *place)) for basis in dict.fromkeys((subject.basis, ASKED)))
    return next((row for row in found if row is not None), None)


def _places(subject: Subject) -> Iterator[tuple[str, str, str, str]]:
    """(reach, device, kind, engine), near to far."""
    engines = (ANY,) if subject.engine is None else (subject.engine, ANY)
    for kind in (subject.kind, ANY):
        for engine in engines:
            yield "device", subject.device, kind, engine
    shipped = devices().get(subject.device)
    if shipped is not None:
        for kind in (subject.kind, ANY):
            yield "donor", shipped.calibrated_from, kind, ANY


def _of_region(subject: Subject, row: Mapping[str, str]) -> ExpectedError:
    device = row["device"] if row["reach"] == "device" else f"{row['device']} and devices that carry its calibration"
    kind = "dense and moe" if row["kind"] == ANY else row["kind"]
    unusual = [value for value in (row["family"], row["convention"]) if value not in {"calibrated", USUAL_CONVENTION}]
    quantiles = tuple(map(float, row["quantiles"].split()))
    common, rest = parts_of(quantiles, _rest_share(row))
    return ExpectedError(
        subject=_named(subject),
        metric=row["metric"],
        median_ape_percent=float(row["median_ape_percent"]),
        p90_ape_percent=float(row["p90_ape_percent"]),
        bias_percent=float(row["bias_percent"]),
        points=int(row["points"]),
        pairs=int(row["pairs"]),
        agreeing=int(row["agreeing"]),
        quantiles=quantiles,
        common=common,
        rest=rest,
        region=", ".join((device, kind, subject.phase, _predictor(row), *unusual)),
        note=_note(subject, *_other_profile(subject), *_nearer(subject, row)),
    )


def _rest_share(row: Mapping[str, str]) -> float:
    """Variance that points of a pair do not share, over all pairs of the metric."""
    places = ((TUNED, one, row["serving_model"], row["metric"]) for one in (row["convention"], USUAL_CONVENTION))
    return next(shipped_spreads()[place].rest_share for place in places if place in shipped_spreads())


def _nearer(subject: Subject, row: Mapping[str, str]) -> Iterator[str]:
    """Engines with less than half of the formulas' error here: what to evaluate with."""
    place = (ASKED, "device", row["device"], row["kind"], row["phase"], ANY, "tpot_exclusive_ms")
    start = (row["family"], row["convention"])
    here, there = (region((*start, model, *place)) for model in (FORMULAS, ENGINE))
    if subject.engine is not None or here is None or there is None:
        return
    names = [name for name in there["engines"].split("+") if not _PAST.search(name)]
    if names and float(there["median_ape_percent"]) < NEARER_SHARE * float(here["median_ape_percent"]):
        yield f"nearer: `serving_model={', '.join(names)}`, TPOT +-{float(there['median_ape_percent']):.0f} %"


def _predictor(row: Mapping[str, str]) -> str:
    """With the engine, where another one served all points."""
    alone = "+" not in row["engines"]
    if row["serving_model"] == ENGINE:
        return "any engine" if row["engine"] == ANY and not alone else row["engines"]
    return f"{row['serving_model']} (all served by {row['engines']})" if alone else row["serving_model"]


def _other_profile(subject: Subject) -> Iterator[str]:
    shipped = devices().get(subject.device)
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
    """At the subject's place: of one engine, or of any by another serving model."""
    errors = [one for one in own if engine in {None, one.engine}]
    if len(errors) < LEAST_POINTS or subject.convention != USUAL_CONVENTION:
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
        **asdict(figures),
        region=region,
        note=note,
        servers=OWN,
    )


def _held_out(subject: Subject, metric: str, stored: Stored) -> Iterator[ExpectedError]:
    """Closed loops, so aggregated instances only."""
    found = stored.held_out.get((subject.serving_model, metric))
    if found is None or subject.phase != "aggregated" or subject.convention != USUAL_CONVENTION:
        return
    elsewhere = () if subject.device in found.devices else (f"measured on {', '.join(found.devices)}",)
    said = [*elsewhere, *(f"no measured point has {what}" for what in subject.unmeasured)]
    region = f"held out of the fit {subject.serving_model}"
    yield _of_figures(subject, metric, found.figures, region, "; ".join(said) or None)


def _named(subject: Subject) -> str:
    kind = (subject.device, subject.kind, subject.phase)
    return ", ".join((*kind, subject.family, subject.convention, subject.serving_model))
