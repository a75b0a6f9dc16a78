"""How far predictions are off on unmeasured servers, each source left out once.

Few servers tell it, so a metric has a centre and a scale only. Read by queries.errors.spreads."""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from evaluator.arithmetic import FloatArray
from queries.errors import OTHERS, UNKNOWN_STEPS, WIDER, Spread, Stated, family_of, student
from tools.error_statements import weighted_quantiles

DIGITS = 4
_INNER, _OUTER = 0.5, 0.9  # shares of the sizes of errors that are promised: a scale is read off both
_TINY = 1e-6
_MOST_REST = 0.95  # of a variance; servers share something


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerError:
    """log(measured / predicted), and what was unknown when it was predicted."""

    convention: str
    serving_model: str  # waves, or `engine`
    metric: str
    source: str
    device: str
    model: str
    engine: str
    steps: int  # of what is unknown but the family of its model
    ratio: float

    @property
    def server(self) -> tuple[str, str, str, str]:
        return self.source, self.device, self.model, self.engine


def spread_of(errors: Sequence[ServerError], servers: str, families: frozenset[str]) -> Spread:
    """Centre and scale, each server counting for what it tells.

    The scale puts half and nine tenths of sizes where Student's t has them (geometric mean), sizes with more unknowns
    counted less. Worked: 0.4 and 1.3: sqrt(0.4 / 0.741 x 1.3 / 2.132) = 0.574."""
    counts = Counter(one.server for one in errors)
    ratios = np.asarray([one.ratio for one in errors])
    sizes = np.asarray([counts[one.server] for one in errors], dtype=np.float64)
    rest_share = _rest_share(errors, _middle(ratios, 1.0 / sizes), 1.0 / sizes)
    weights = told_share(sizes, 1.0 - rest_share)
    centre = _middle(ratios, weights)
    wider = np.asarray([WIDER ** steps_of(one, families) for one in errors])
    scale = _scale(np.abs(ratios - centre) / wider, weights)
    return Spread(
        servers=servers,
        convention=errors[0].convention,
        serving_model=errors[0].serving_model,
        metric=errors[0].metric,
        centre=round(centre, DIGITS),
        scale=round(max(scale, _TINY), DIGITS),
        rest_share=round(rest_share, 2),
        points=len(errors),
        units=len(counts),
        sources=len({one.source for one in errors}),
        agreeing=_agreeing(errors, centre),
    )


def told_share(sizes: FloatArray, shared: float) -> FloatArray:
    """Weights of points that share variance with others of their server.

    n points tell n / (1 + (n - 1) x shared) servers (Kish 1965, Survey Sampling, 5.4): nine that share 0.95 tell 9 /
    (1 + 8 x 0.95) = 1.05, that share 0.3 tell 2.65."""
    return 1.0 / (1.0 + (sizes - 1.0) * shared)


def _middle(ratios: FloatArray, weights: FloatArray) -> float:
    """The trimean (Tukey 1977): between few servers a median jumps."""
    lower, median, upper = weighted_quantiles(ratios, weights, (0.25, 0.5, 0.75))
    return float((lower + 2.0 * median + upper) / 4.0)


def steps_of(one: ServerError, families: frozenset[str]) -> int:
    """Unknowns of device, engine and model family."""
    return one.steps + (0 if family_of(one.model) in families else UNKNOWN_STEPS)


def _scale(sizes: FloatArray, weights: FloatArray) -> float:
    inner, outer = weighted_quantiles(sizes, weights, (_INNER, _OUTER))
    return float(np.sqrt(inner / student((1 + _INNER) / 2) * outer / student((1 + _OUTER) / 2)))


def _rest_share(errors: Sequence[ServerError], centre: float, weights: FloatArray) -> float:
    """Variance not shared within a server, from median absolute deviations about server medians and the centre."""
    by_server: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for one in errors:
        by_server[one.server].append(one.ratio)
    middle = {server: float(np.median(found)) for server, found in by_server.items()}
    within = np.asarray([abs(one.ratio - middle[one.server]) for one in errors])
    several = np.asarray([len(by_server[one.server]) > 2 for one in errors])  # else the median is they
    if not several.any():
        return 0.5
    rest = float(weighted_quantiles(within[several], weights[several], (0.5,))[0])
    total = float(weighted_quantiles(np.abs([one.ratio - centre for one in errors]), weights, (0.5,))[0])
    return min(_MOST_REST, (rest / max(total, _TINY)) ** 2)


def _agreeing(errors: Sequence[ServerError], centre: float) -> int:
    by_source: dict[str, list[float]] = defaultdict(list)
    for one in errors:
        by_source[one.source].append(one.ratio)
    return sum(float(np.median(found)) * centre > 0 for found in by_source.values())


def spreads_of(errors: Iterable[ServerError], servers: str, families: frozenset[str]) -> list[Spread]:
    """By way to predict and metric."""
    return [spread_of(found, servers, families) for _, found in sorted(_grouped(errors).items())]


def _grouped(errors: Iterable[ServerError]) -> Mapping[tuple[str, str, str], list[ServerError]]:
    groups: dict[tuple[str, str, str], list[ServerError]] = defaultdict(list)
    for one in errors:
        groups[one.convention, one.serving_model, one.metric].append(one)
    return groups


def left_out_sources(errors: Sequence[ServerError], measured: frozenset[str]) -> Iterator[tuple[ServerError, Stated]]:
    """With the statement from other sources. `measured`: families that laboratories measured."""
    for found in _grouped(errors).values():
        for source in sorted({one.source for one in found}):
            rest = [one for one in found if one.source != source]
            if rest:
                families = measured | {family_of(one.model) for one in rest}
                spread = spread_of(rest, OTHERS, families)
                for one in found:
                    if one.source == source:
                        yield one, spread.stated(steps_of(one, families))


def write_server_errors(path: Path, errors: Iterable[ServerError]) -> None:
    """A line a server and metric, log ratios in thousandths."""
    names = [item.name for item in fields(ServerError) if item.name != "ratio"]
    groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for one in errors:
        groups[tuple(getattr(one, name) for name in names)].append(round(1000 * one.ratio))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*names, "permille"])
        for key, found in sorted(groups.items()):
            writer.writerow([*key, " ".join(map(str, sorted(found)))])


def read_server_errors(path: Path) -> list[ServerError]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        ServerError(
            convention=row["convention"], serving_model=row["serving_model"], metric=row["metric"],
            source=row["source"],
            device=row["device"], model=row["model"], engine=row["engine"], steps=int(row["steps"]),
            ratio=int(value) / 1000,
        )
        for row in rows
        for value in row["permille"].split()
    ]  # fmt: skip
