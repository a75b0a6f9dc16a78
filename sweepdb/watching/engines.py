"""Engines' metrics by name, an entry an engine.

vLLM (0.8 on), SGLang (0.4 on), TensorRT-LLM (1.0 on), the newest name first. Checked against
vllm/v1/metrics/loggers.py, sglang/srt/observability/metrics_collector.py, tensorrt_llm/metrics/collector.py, AIPerf's
list, and a vLLM page in swiss-ai/apertus-speculative-decoding (metrics_after.prom)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

import yaml

from store.errors import InputError
from store.schema import Phase
from sweepdb.watching.prometheus import Histogram, MetricSample, Page, histogram_of, sums_of

_RANKS = ("tp_rank", "pp_rank", "moe_ep_rank")  # devices that serve the same requests: the first of them counts
_SIDE = "engine_type"  # where SGLang says prefill and decode
_PROCESS = "pid"  # of several front ends, of which those that do not hear of a replica say 0
_MODEL = ("model_name", "model")  # the served name before the checkpoint's
_MOST_SHOWN, _LONGEST_SHOWN = 5, 60  # names in an error
_Found = TypeVar("_Found")
_Named = TypeVar("_Named")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineMetrics:
    """Without the engine's prefix."""

    engine: str  # as engines are named here
    shown: str
    prefix: str
    running: tuple[str, ...] = ("num_requests_running",)
    waiting: tuple[str, ...] = ("num_requests_waiting",)
    cache_use: tuple[str, ...]
    ttft: tuple[str, ...] = ("time_to_first_token_seconds",)
    request_tpot: tuple[str, ...] = ()  # a value a request
    token_gaps: tuple[str, ...] = ()  # a value a token, or a step where drafts are accepted
    e2e: tuple[str, ...] = ("e2e_request_latency_seconds",)
    queued: tuple[str, ...]
    prompts: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    prompt_tokens: tuple[str, ...] = ("prompt_tokens_total",)
    output_tokens: tuple[str, ...] = ("generation_tokens_total",)
    finished: tuple[str, ...]
    cached_tokens: tuple[str, ...]
    looked_up_tokens: tuple[str, ...]  # prompt tokens that the prefix cache was asked for
    room: tuple[str, ...]  # gauges whose product is the tokens that the cache holds
    room_labels: tuple[tuple[str, ...], ...] = ()  # in place of gauges: labels of the one metric of `room`
    joint: str = ":"  # between prefix and name
    part_label: str = ""  # of parts that are counted beside their sum, where it is empty

    def whole_names(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(f"{self.prefix}{self.joint}{name}" for name in names)


def _plain(value: Any) -> Any:  # noqa: ANN401  texts, and lists of them
    return tuple(map(_plain, value)) if isinstance(value, list) else value


METRICS = tuple(
    EngineMetrics(**{name: _plain(value) for name, value in engine.items()})
    for engine in yaml.safe_load(Path(__file__).with_name("metrics.yaml").read_text(encoding="utf-8"))
)
_HISTOGRAMS = ("ttft", "request_tpot", "token_gaps", "e2e", "queued", "prompts", "outputs")
_COUNTERS = ("prompt_tokens", "output_tokens", "finished", "cached_tokens", "looked_up_tokens")
_GAUGES = ("running", "waiting", "cache_use")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One page; None: not stated. Histograms and counters run since the start."""

    engine: str
    models: tuple[str, ...]
    at: float  # seconds, of any clock
    phase: Phase | None = None  # prefill or decode, where the page says it
    running: float | None = None
    waiting: float | None = None
    cache_use: float | None = None
    room_tokens: float | None = None
    ttft: Histogram | None = None
    request_tpot: Histogram | None = None
    token_gaps: Histogram | None = None
    e2e: Histogram | None = None
    queued: Histogram | None = None
    prompts: Histogram | None = None
    outputs: Histogram | None = None
    prompt_tokens: float | None = None
    output_tokens: float | None = None
    finished: float | None = None
    cached_tokens: float | None = None
    looked_up_tokens: float | None = None

    def since(self, before: Reading) -> Reading:
        """Gauges are as now. Counts fall where the server restarted."""
        changed: dict[str, object] = {}
        for name in (*_HISTOGRAMS, *_COUNTERS):
            now, then = getattr(self, name), getattr(before, name)
            if now is not None and then is not None:
                changed[name] = now.since(then) if isinstance(now, Histogram) else now - then
        counts = [one.count if isinstance(one, Histogram) else one for one in changed.values()]
        if any(isinstance(one, float) and one < 0 for one in counts):
            raise InputError(
                "the counts of the last page are below those of the first: the server started anew between them",
                hint="read it again, or name the pages in the order in which they were read",
            )
        return replace(self, **changed)  # type: ignore[arg-type]


def reading_of(page: Page, where: str, at: float, model: str | None = None) -> Reading:
    """Of one model where a page has several."""
    metrics = _engine_of(page, where)
    own = {
        name[len(metrics.prefix) + 1 :]: samples
        for name, samples in page.items()
        if name.startswith((f"{metrics.prefix}:", f"{metrics.prefix}_"))
    }
    models = sorted({name for samples in own.values() for one in samples if (name := _model_of(one))})
    if model is not None and model not in models:
        raise InputError(f"{where} has no metrics of `served_as={model}`", hint=f"it has {_listed(models) or 'none'}")
    if model is None and len(models) > 1:
        raise InputError(
            f"{where} has metrics of {len(models)} models: {_listed(models)}", hint="choose one with `served_as`"
        )
    chosen = {name: _counted_once(_of_model(samples, model), metrics.part_label) for name, samples in own.items()}
    values: dict[str, object] = {
        **{name: _first(getattr(metrics, name), lambda one: histogram_of(chosen, one)) for name in _HISTOGRAMS},
        **{name: _first(getattr(metrics, name), lambda one: sums_of(chosen.get(one, ()))) for name in _COUNTERS},
        **{name: _first(getattr(metrics, name), lambda one: sums_of(chosen.get(one, ()))) for name in _GAUGES[:2]},
        "cache_use": _first(metrics.cache_use, lambda one: _mean(chosen.get(one, ()))),
        "room_tokens": _room(metrics, chosen),
    }
    if values["ttft"] is None and values["e2e"] is None:
        raise InputError(
            f"{where} has neither times to the first token nor whole times of requests",
            hint="SGLang states them where it was started with metrics enabled; a page that is cut lacks them, too",
        )
    said = {one.labels.get(_SIDE) for samples in own.values() for one in samples}
    phase: Phase | None = "prefill" if "prefill" in said else "decode" if "decode" in said else None
    return Reading(engine=metrics.engine, models=tuple(models), at=at, phase=phase, **values)  # type: ignore[arg-type]


def _engine_of(page: Page, where: str) -> EngineMetrics:
    for metrics in METRICS:
        if any(name.startswith((f"{metrics.prefix}:", f"{metrics.prefix}_")) for name in page):
            return metrics
    starts = sorted({name.partition(":")[0] if ":" in name else name.partition("_")[0] for name in page})
    raise InputError(
        f"{where} is of no engine that is known: its metrics start with {_listed(starts)}",
        hint=f"known are {', '.join(one.shown for one in METRICS)}",
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(name[:_LONGEST_SHOWN] for name in names[:_MOST_SHOWN])


def metrics_of(engine: str) -> EngineMetrics | None:
    return next((one for one in METRICS if one.engine == engine), None)


def shown_engine(engine: str) -> str:
    found = metrics_of(engine)
    return engine if found is None else found.shown


def _model_of(sample: MetricSample) -> str | None:
    return next((sample.labels[label] for label in _MODEL if sample.labels.get(label)), None)


def _of_model(samples: Iterable[MetricSample], model: str | None) -> list[MetricSample]:
    return [one for one in samples if model is None or _model_of(one) in {None, model}]


def _counted_once(samples: Sequence[MetricSample], part: str) -> list[MetricSample]:
    """Only one of equal series of a replica's devices, no part of a sum."""
    first: Mapping[str, str] = {
        rank: min((one.labels[rank] for one in samples if rank in one.labels), default="") for rank in _RANKS
    }
    samples = [one for one in samples if not one.labels.get(part)]
    return [one for one in samples if all(one.labels.get(rank, lowest) == lowest for rank, lowest in first.items())]


def _first(names: Iterable[_Named], look_up: Callable[[_Named], _Found | None]) -> _Found | None:
    """An empty histogram is skipped where a later one has values."""
    found = [one for one in map(look_up, names) if one is not None]
    filled = [one for one in found if not isinstance(one, Histogram) or one.count > 0]
    return next(iter([*filled, *found]), None)


def _room(metrics: EngineMetrics, chosen: Mapping[str, Sequence[MetricSample]]) -> float | None:
    """Over all replicas; None where not said."""
    if not metrics.room_labels:
        factors = [sums_of(chosen.get(name, ())) for name in metrics.room]
        return None if None in factors else math.prod(one for one in factors if one is not None) or None
    samples = chosen.get(metrics.room[0], ())
    return _first(metrics.room_labels, lambda labels: _room_by_labels(samples, labels))


def _room_by_labels(samples: Sequence[MetricSample], labels: Sequence[str]) -> float | None:
    try:
        return math.fsum(math.prod(float(one.labels[label]) for label in labels) for one in samples) or None
    except (KeyError, ValueError):  # not said, or said to be None
        return None


def _mean(samples: Sequence[MetricSample]) -> float | None:
    """Over replicas; the largest of processes that state the same one."""
    found: dict[tuple[tuple[str, str], ...], float] = {}
    for one in samples:
        if math.isfinite(one.value):
            replica = tuple(sorted((name, value) for name, value in one.labels.items() if name != _PROCESS))
            found[replica] = max(one.value, found.get(replica, -math.inf))
    return fmean(found.values()) if found else None


def average_of(readings: Sequence[Reading], gauge: str) -> float | None:
    values = [value for one in readings if (value := getattr(one, gauge)) is not None]
    return fmean(values) if values else None
