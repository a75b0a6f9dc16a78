"""Reads every client by its table of places and units.

A path is names with dots, `a.b[0].c`; `|` parts alternatives; `^` starts at the whole report."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from evaluator.inputs.devices.device_profiles import resolve
from evaluator.ledger.readers.building import (
    TPOT_EXCLUSIVE,
    TTFT,
    BadItem,
    Circumstances,
    Document,
    Item,
    moment,
    number,
    rest,
    text,
    whole,
)
from store.errors import InputError
from store.loads import MeasuredRequests
from store.records import RunRecord, SideRecord

_MAKERS = {"nvidia", "amd", "intel", "instinct", "tesla", "geforce", "accelerator", "gpu", "oam"}
_MEMORY = re.compile(r"hbm\d?[a-z]?$|\d+gb?$")


@functools.lru_cache(maxsize=4096)
def named_device(written: str) -> str:
    return next((name for tried in _tried(written) if (name := _known(tried)) is not None), written)


def device_or_nearest(written: str) -> str:
    """InputError lists the nearest names."""
    return resolve(named_device(written))


def _tried(written: str) -> Iterator[str]:
    yield written
    parts = [part for part in re.split(r"[\s_-]+", written.lower()) if part and part not in _MAKERS]
    yield "_".join(parts)
    form = [re.sub(r"^(sxm|oam)\d$", r"\1", part) for part in parts]
    yield "_".join(form)
    bare = [part for part in form if not _MEMORY.match(part)]
    yield "_".join(bare)


def _known(name: str) -> str | None:
    try:
        return resolve(name) if name else None
    except InputError:
        return None


ITL = "gap between two streamed pieces of an answer"
E2E = "sending of the request to its last token"
OUTPUT_RATE = ("output_tokens_per_s", "generated tokens a second of the whole run")
TOTAL_RATE = ("total_tokens_per_s", "prompt and generated tokens a second of the whole run")
INPUT_RATE = ("input_tokens_per_s", "prompt tokens a second of the whole run")
REQUEST_RATE = ("requests_per_s", "finished requests a second of the whole run")
TO_MS = {"ms": 1.0, "s": 1e3, "sec": 1e3, "seconds": 1e3, "us": 1e-3, "ns": 1e-6, "s/token": 1e3, "ms/token": 1.0}

_SIDE_SIZES = ("instances", "tp", "pp", "dp", "ep", "moe_tp")
_WHOLE = {"num_devices", "completed_requests", "failed_requests", *_SIDE_SIZES,
          *(f"{side}_{size}" for side in ("prefill", "decode") for size in _SIDE_SIZES)}  # fmt: skip
_NUMBERS = {"input_length", "output_length", "concurrency", "request_rate", "accept_length", "cached_share"}
_ENDLESS = {"concurrency", "request_rate"}  # clients write infinity where there is no limit, or no rate
_STATISTICS = {"mean": "mean", "avg": "mean", "average": "mean", "median": "p50", "std": "std", "stddev": "std",
               "std_dev": "std"}  # fmt: skip
_PERCENTILE = re.compile(r"p(\d+)(?:[.p](\d+))?$")
_LEAST_PERCENTILE = 25.0
_OF_RUN = tuple(RunRecord.__slots__)
_OF_ITEM = ("model", "device", "engine", "engine_version", "mode", "precision", "kv_precision", "num_devices",
            "input_length", "output_length", "concurrency", "request_rate", "measured_at")  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Reading:
    """A point being read; settling adds what no table can say."""

    document: Document
    report: Document
    facts: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, float | None] = field(default_factory=dict)
    definitions: dict[str, str] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    guessed: list[str] = field(default_factory=list)
    circumstances: Circumstances = field(default_factory=Circumstances)
    requests: MeasuredRequests | None = None

    def measured(self, name: str, value: float | None, meaning: str) -> None:
        if value:
            self.metrics[name], self.definitions[name] = value, meaning

    def guess(self, name: str, value: object, why: str) -> None:
        """Takes a fact that the file does not state, and says so."""
        if self.facts.get(name) is None and value is not None:
            self.facts[name] = value
            self.guessed.append(f"{name} {value} {why}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFormat:
    """How a client writes its results."""

    name: str
    told: Callable[[Document], bool]  # whether a document is this client's
    facts: Mapping[str, str]  # ours -> where it stands
    latencies: Mapping[str, tuple[str, str]]  # theirs -> (ours, what it means)
    units: Mapping[str, str] = field(default_factory=dict)  # of latencies with another unit than `unit`
    rates: Mapping[str, tuple[str, str]]  # where it stands -> (ours, what it means)
    blocks: str | None = None  # where blocks of statistics stand; None: names of fields hold statistics, mean_ttft_ms
    unit: str = "ms"  # of latencies, where their block says none
    points: str = ""  # the list that has a point each, where a file has several
    settle: Callable[[Reading], None] = lambda _: None  # what no table can say
    unread: tuple[str, ...] = ()  # fields that repeat what is read


def read_as(client: ResultFormat, document: Document) -> list[tuple[str, Item]]:
    if not client.points:
        return [("", _item(client, document, document))]
    points = found(document, client.points)
    if not isinstance(points, list) or not points:
        raise BadItem("the report holds no benchmark")
    made = []
    for place, point in enumerate(points):
        if not isinstance(point, dict):
            raise BadItem(f"{client.points}[{place}] is no object")
        made.append((f" {client.points}[{place}]", _item(client, point, document)))
    return made


def found(document: object, path: str, report: object = None) -> Any:  # noqa: ANN401  JSON values have no narrower type
    """At the first path that leads anywhere."""
    for above, steps in _steps(path):
        value = report if above else document
        for step in steps:
            if isinstance(step, int):
                value = value[step] if isinstance(value, list) and len(value) > step else None
            else:
                value = value.get(step) if isinstance(value, dict) else None
        if value is not None and value != "":
            return value
    return None


@functools.lru_cache(maxsize=4096)
def _steps(path: str) -> tuple[tuple[bool, tuple[str | int, ...]], ...]:
    one = (part.strip() for part in path.split("|"))
    return tuple(
        (part.startswith("^"), tuple(int(step) if step.isdigit() else step
                                     for step in re.findall(r"[^.\[\]]+", part.removeprefix("^"))))
        for part in one
    )  # fmt: skip


def _item(client: ResultFormat, document: Document, report: Document) -> Item:
    reading = Reading(document=document, report=report)
    for name, path in client.facts.items():
        reading.facts[name] = _fact(name, path, document, report)
    read_metrics(client, reading)
    for path, (name, meaning) in client.rates.items():
        value = found(document, path, report)
        reading.measured(name, number({path: value}, path), meaning)
    reading.extra = rest(document, {*_used(client, document), *client.unread})
    client.settle(reading)
    facts = reading.facts
    if (written := facts.get("device")) and (named := named_device(written)) != written:
        facts["device"] = named
        reading.guessed.append(f"device {named} from {written}")
    sides = [
        SideRecord(**{size: facts.get(f"{side}_{size}", facts.get(size)) for size in _SIDE_SIZES})
        for side in ("prefill", "decode")
    ]
    return Item(
        **{name: facts.get(name) for name in _OF_ITEM},
        prefill=sides[0],
        decode=sides[1],
        run=RunRecord(**{name: facts.get(name) for name in _OF_RUN}),
        metrics=reading.metrics,
        definitions=reading.definitions,
        extra=reading.extra,
        circumstances=reading.circumstances,
        requests=reading.requests,
        guessed=tuple(reading.guessed),
    )


def _fact(name: str, path: str, document: Document, report: Document) -> object:
    value = found(document, path, report)
    if value is None:
        return None
    label = path.partition("|")[0].strip().removeprefix("^")
    if name == "measured_at":
        return moment(label, value)
    if name in _WHOLE:
        return whole({label: value}, label)
    if name in _NUMBERS:
        if name in _ENDLESS and str(value).strip().lstrip("+").lower() in {"inf", "infinity"}:
            return None
        return number({label: value}, label)
    return text({label: value}, label)


def read_metrics(client: ResultFormat, reading: Reading) -> None:
    if client.blocks is None:
        factor, note = _converted(client.unit)
        for name, (kind, statistic) in flat_latencies(client, reading.document).items():
            ours, meaning = client.latencies[kind]
            value = number(reading.document, name)
            reading.measured(f"{ours}_{statistic}", value and factor * value, meaning + note)
        return
    blocks = found(reading.document, client.blocks) if client.blocks else reading.document
    for name, (ours, meaning) in client.latencies.items():
        block = blocks.get(name) if isinstance(blocks, dict) else None
        if not isinstance(block, dict):
            continue
        unit = block.get("unit", block.get("units", client.units.get(name, client.unit)))
        factor, note = _converted(str(unit), name)
        for statistic, value in statistics_of(block):
            reading.measured(f"{ours}_{statistic}", factor * value, meaning + note)


def flat_latencies(client: ResultFormat, document: Document) -> dict[str, tuple[str, str]]:
    """(latency, our statistic) by field, such as mean_ttft_ms or p99_ttft."""
    of = {}
    for name in document:
        statistic, _, kind = name.removesuffix("_ms").partition("_")
        ours = statistic_of(statistic)
        if ours is not None and kind in client.latencies:
            of[name] = (kind, ours)
    return of


def statistics_of(block: Document) -> Iterator[tuple[str, float]]:
    """By our names; without empty ones and percentiles of the fast end."""
    successful = block.get("successful")
    inside: Document = successful if isinstance(successful, dict) else block
    percentiles = inside.get("percentiles")
    both = {**(percentiles if isinstance(percentiles, dict) else {}), **inside}
    for name in both:
        ours = statistic_of(name)
        value = number(both, name) if ours is not None else None
        if ours is not None and value:
            yield ours, value


@functools.lru_cache(maxsize=1024)
def statistic_of(name: str) -> str | None:
    """mean, std, p50, p99.9; None for others, such as min and max."""
    if name in _STATISTICS:
        return _STATISTICS[name]
    told = _PERCENTILE.match(name)
    if told is None or (name.startswith("p0") and len(told[1]) > 1):  # p001 and p05 of GuideLLM are the fast end
        return None
    share = "99.9" if name == "p999" else told[1] + (f".{told[2]}" if told[2] else "")
    return f"p{share}" if _LEAST_PERCENTILE <= float(share) < 100.0 else None


def _converted(unit: str, name: str = "") -> tuple[float, str]:
    if unit not in TO_MS:
        raise BadItem(f"{name}: unit {unit!r:.40} is unknown")
    return TO_MS[unit], "" if TO_MS[unit] == 1.0 else f"; converted from {unit}"


def _used(client: ResultFormat, document: Document) -> set[str]:
    used = {part.strip() for path in (*client.facts.values(), *client.rates) for part in path.split("|")}
    if client.blocks is None:
        return used | set(flat_latencies(client, document))
    return used | set(client.latencies if not client.blocks else [client.blocks.partition(".")[0]])


__all__ = ["E2E", "ITL", "TPOT_EXCLUSIVE", "TTFT", "Reading", "ResultFormat", "found", "read_as", "read_metrics"]
