"""Shipped errors: laboratories' regions, whose kernels a device has, and what a row's numbers rest on.

Statements on servers that nobody measured have a centre and width of log(measured / predicted): for tuned servers
where no region is near, and others'."""

from __future__ import annotations

import csv
import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from store.light_dataclass import dataclass

if TYPE_CHECKING:
    from queries.errors.expected import Subject

FOLDER = Path(__file__).parents[1] / "ledger"
SUMMARY = FOLDER / "summary.csv"
DEVICES = FOLDER / "devices.csv"
POINTS = FOLDER / "errors.csv"  # behind the summary; read by tests and by whoever wants to state it anew
ANY = "any"
ASKED: Final = "asked"  # basis: a question says plan, formats, lengths, users and a token budget
KNOWN: Final = "known"  # basis: the source's client, launch and routing are said too
BASIS: Final = "basis"  # the column that says what the numbers of a device under an engine rest on
DATA_SHEET: Final = "data sheet"
MEASURED: Final = "measured near"
UNSEEN_ENGINE: Final = "engine not measured"
FITTED_BASIS: Final = "fitted to serving points"
SEEN_PAIRS = 2  # pairs from which an engine was measured more than once
Key = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """`reach`: `device` itself, or all with its kernels."""

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


REGION_NAMES = tuple(item.name for item in fields(Region))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShippedDevice:
    """Keys are beginnings of content keys, empty where it has no such profile."""

    device: str
    calibrated_from: str  # itself, where its own kernels were measured or it has no calibration
    calibrated_key: str
    theoretical_key: str
    fitted_from: str = ""  # itself or another device, to whose serving points its data sheet's shares are fitted


@cache
def _lines() -> Sequence[str]:
    return sorted(SUMMARY.read_text(encoding="utf-8").splitlines())


def region(key: Key) -> Mapping[str, str] | None:
    """By its first values; a question needs a few of 1,600, and none is quoted."""
    begins = "".join(f"{value}," for value in key)
    place = bisect_left(_lines(), begins)
    line = _lines()[place] if place < len(_lines()) else ""
    return dict(zip(REGION_NAMES, line.split(","), strict=True)) if line.startswith(begins) else None


@cache
def devices() -> Mapping[str, ShippedDevice]:
    with DEVICES.open(encoding="utf-8", newline="") as file:
        return {row["device"]: ShippedDevice(**row) for row in csv.DictReader(file)}


LEVELS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # of the quantiles that are kept
QUANTILE_DIGITS = 4
_SMALLEST = -0.999  # a prediction of nothing has no logarithm


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorFigures:
    """The bias is the median signed error; quantiles are of log(measured / predicted)."""

    points: int
    pairs: int
    agreeing: int  # pairs whose own median error has the sign of the bias
    median_ape_percent: float
    p90_ape_percent: float
    bias_percent: float
    quantiles: tuple[float, ...]  # at LEVELS


def figures_of(errors: Mapping[str, Sequence[float]]) -> ErrorFigures:
    """Of signed relative errors by pair; at least one.

    Worked: errors of -0.1 and 0.25: sizes 10 and 25 %, median 17.5; measured / predicted = 1 / 0.9 and 1 / 1.25."""
    signed = sorted(100.0 * error for values in errors.values() for error in values)
    sizes = sorted(abs(error) for error in signed)
    ratios = sorted(-math.log1p(max(error / 100.0, _SMALLEST)) for error in signed)
    bias = percentile(signed, 50)
    return ErrorFigures(
        points=len(signed),
        pairs=len(errors),
        agreeing=sum(percentile(sorted(values), 50) * bias > 0 for values in errors.values()),
        median_ape_percent=round(percentile(sizes, 50), 2),
        p90_ape_percent=round(percentile(sizes, 90), 2),
        bias_percent=round(bias, 2),
        quantiles=tuple(round(percentile(ratios, 100 * level), QUANTILE_DIGITS) for level in LEVELS),
    )


def percentile(ascending: Sequence[float], share: float) -> float:
    place = share / 100.0 * (len(ascending) - 1)
    below = int(place)
    above = min(below + 1, len(ascending) - 1)
    return ascending[below] + (place - below) * (ascending[above] - ascending[below])


SPREADS = Path(__file__).parents[1] / "ledger" / "servers.csv"
KNOWN_NAMES = SPREADS.with_name("known.csv")  # engines and families of models that somebody measured
SERVER_POINTS = SPREADS.with_name("others.csv")  # errors on others' servers; read by tests, and to learn anew
ENGINE: Final = "engine"  # serving model of what ships: the engine that served the point
TUNED: Final = "tuned"  # like the servers of the laboratories that the engines were fitted to
OTHERS: Final = "others"
OWN: Final = "own"  # points of the user's own servers
METRIC_NAMES: Final = {
    "ttft_ms": "TTFT", "tpot_exclusive_ms": "TPOT", "tpot_inclusive_ms": "TPOT", "output_tokens_per_s": "tokens/s",
}  # fmt: skip
WHOSE: Final = {TUNED: "on servers tuned like the benchmarks'", OTHERS: "on others'", OWN: "on your own servers"}
# How much wider a statement is for a step of what is not known. Fixed: few sources do not tell it. A device whose
# kernels were carried from another is one step; a data sheet, an engine or a family of models never measured is two.
WIDER: Final = math.sqrt(1.25)
CARRIED_STEPS, UNKNOWN_STEPS = 1, 2
_STEPS_OF_SHARES = 200  # shares at which sizes of errors are read off
_DECILES = 2 * 1.2816  # standard deviations between the first and the last decile of a normal distribution
_PERCENT = 100.0
_FIGURE_DIGITS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """Percent, and quantiles of log(measured / predicted); spread as what a server's points share, and the rest."""

    median_ape_percent: float
    p90_ape_percent: float
    bias_percent: float
    quantiles: tuple[float, ...]  # at LEVELS
    common: float
    rest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    servers: str  # tuned or others
    convention: str
    serving_model: str  # waves, or `engine` for the one that served the point
    metric: str
    centre: float  # of log(measured / predicted)
    scale: float  # of Student's t with four degrees of freedom, where nothing is unknown
    rest_share: float  # of the variance: what points of one server do not share
    points: int
    units: int  # pairs of a device and a model, or servers: device, model and engine of a source
    sources: int
    agreeing: int  # sources whose own median error has the sign of the centre

    def stated(self, steps: int, least: tuple[float, ...] | None = None) -> Stated:
        """Never narrower than the quantiles `least` are about their middle."""
        return _stated(self, steps, least)


def student(share: float) -> float:
    """Quantile of Student's t with 4 degrees of freedom (Shaw 2006, Journal of Computational Finance 9:4, 37).

    Worked: a = 4 x 0.9 x 0.1 = 0.36, cos(acos(0.6) / 3) / 0.6 = 1.5879, 2 x sqrt(0.5879) = 1.533."""
    root = math.sqrt(4.0 * share * (1.0 - share))
    size = 2.0 * math.sqrt(max(math.cos(math.acos(min(root, 1.0)) / 3.0) / root - 1.0, 0.0))
    return math.copysign(size, share - 0.5) if share != 0.5 else 0.0


@cache
def _students() -> tuple[float, ...]:
    return tuple(student((place + 0.5) / _STEPS_OF_SHARES) for place in range(_STEPS_OF_SHARES))


@cache
def _stated(spread: Spread, steps: int, least: tuple[float, ...] | None) -> Stated:
    scale = spread.scale * WIDER**steps
    middle = None if least is None else least[LEVELS.index(0.5)]
    quantiles = []
    for place, level in enumerate(LEVELS):
        size = scale * abs(student(level))
        if least is not None and middle is not None:
            size = max(size, abs(least[place] - middle))
        quantiles.append(round(spread.centre + math.copysign(size, level - 0.5), QUANTILE_DIGITS))
    sizes = [_sizes(spread, one) for one in range(steps + 1)]  # wider where less is known, whatever the centre is
    common, rest = parts_of(quantiles, spread.rest_share)
    return Stated(
        median_ape_percent=round(max(median for median, _ in sizes), _FIGURE_DIGITS),
        p90_ape_percent=round(max(p90 for _, p90 in sizes), _FIGURE_DIGITS),
        bias_percent=round(_PERCENT * math.expm1(-spread.centre), _FIGURE_DIGITS),
        quantiles=tuple(quantiles),
        common=common,
        rest=rest,
    )


@cache
def _sizes(spread: Spread, steps: int) -> tuple[float, float]:
    """Median and 90th percentile of |predicted / measured - 1|, in percent."""
    scale = spread.scale * WIDER**steps
    sizes = sorted(_PERCENT * abs(math.expm1(-spread.centre - scale * one)) for one in _students())
    return percentile(sizes, 50), percentile(sizes, 90)


def parts_of(quantiles: Sequence[float], rest_share: float) -> tuple[float, float]:
    total = (quantiles[LEVELS.index(0.9)] - quantiles[LEVELS.index(0.1)]) / _DECILES
    return (
        round(total * math.sqrt(1.0 - rest_share), QUANTILE_DIGITS),
        round(total * math.sqrt(rest_share), QUANTILE_DIGITS),
    )


def read_spreads(path: Path) -> list[Spread]:
    kinds = {item.name: item.type for item in fields(Spread)}
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [Spread(**{name: _of(str(kinds[name]), text) for name, text in row.items()}) for row in rows]


def _of(kind: str, text: str) -> Any:  # noqa: ANN401  by the type of a field
    return float(text) if kind == "float" else int(text) if kind == "int" else text


def by_place(spreads: Iterable[Spread]) -> Mapping[tuple[str, ...], Spread]:
    return {(one.servers, one.convention, one.serving_model, one.metric): one for one in spreads}


@cache
def shipped_spreads() -> Mapping[tuple[str, ...], Spread]:
    return by_place(read_spreads(SPREADS))


@cache
def _known() -> Mapping[tuple[str, str], int]:
    with KNOWN_NAMES.open(encoding="utf-8", newline="") as file:
        return {(row["what"], row["name"]): int(row["pairs"]) for row in csv.DictReader(file)}


def known_of(what: str, name: str) -> int:
    """Measured pairs of device and model, of an `engine` or a `family` of models."""
    return _known().get((what, name), 0)


def family_of(model: str) -> str:
    """First word of the name: Qwen/Qwen3-32B is of qwen, nvidia/DeepSeek-V3.1-NVFP4 of deepseek.

    Makers put their own name before others' models."""
    words = model.rsplit("/", 1)[-1].lower().replace("meta-", "").replace("nvidia-", "").split("-")
    return words[0].rstrip("0123456789.")


def basis_of(subject: Subject) -> str:
    based = device_basis(subject)
    return UNSEEN_ENGINE if based == MEASURED and seldom_measured(subject) else based


def device_basis(subject: Subject) -> str:
    """Its own kernels or serving points, another device's, or the data sheet."""
    shipped = devices().get(subject.device)
    if subject.family == "theoretical":
        return _fitted_basis(subject, shipped)
    donor = subject.device if shipped is None else shipped.calibrated_from
    keys = () if shipped is None else tuple(shipped.calibrated_key.split("+"))
    carried = donor != subject.device and (not subject.device_key or subject.device_key.startswith(keys))
    return f"carried from {donor}" if carried else MEASURED


def seldom_measured(subject: Subject) -> bool:
    """No engine that was measured more than once. A user's own profile is measured."""
    engine = subject.engine
    return engine is not None and "@" not in subject.serving_model and known_of("engine", engine) < SEEN_PAIRS


def kernels_lack(basis: object) -> str:
    """Words for a sentence; empty where kernels are measured, or carried from measured ones."""
    if basis == DATA_SHEET:
        return "its numbers follow from its data sheet"
    if basis == FITTED_BASIS:
        return "its numbers are fitted to serving points of other people's servers"
    donor = devices().get(str(basis).removeprefix("carried from "))
    if donor is not None and donor.fitted_from:
        return f"its numbers are those of {donor.device}, which are fitted to serving points"
    return ""


def _fitted_basis(subject: Subject, shipped: ShippedDevice | None) -> str:
    """Without kernels. A changed profile rests on what it states."""
    changed = shipped is not None and subject.device_key and not subject.device_key.startswith(shipped.theoretical_key)
    if shipped is None or not shipped.fitted_from or changed:
        return DATA_SHEET
    return FITTED_BASIS if shipped.fitted_from == subject.device else f"carried from {shipped.fitted_from}"
