"""Clients' logs of requests: when sent, lengths, first token, end, failures.

vLLM's `--save-detailed`, GuideLLM's `requests`, aiperf's profile_export.jsonl, inference-perf's per-request file. TPOT
spreads first token to end over the other tokens, since streams have more or fewer pieces."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evaluator.ledger.readers.building import (
    TPOT_EXCLUSIVE,
    TTFT,
    BadItem,
    Document,
    Item,
    inner,
    number,
    text,
)
from store.loads import NEVER, MeasuredRequests

AIPERF_REQUESTS, REQUESTS_OF_INFERENCE_PERF = "aiperf_requests", "inference_perf"
LARGEST_S = 1e7
LARGEST_TOKENS = 1 << 31
_E2E = "sending of the request to its last token"
_DEFINITIONS = {"ttft_ms": TTFT, "tpot_exclusive_ms": TPOT_EXCLUSIVE, "e2e_ms": _E2E}
_SHARES = (50, 90, 99)
_TO_S = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRequest:
    """Seconds; without `e2e_s` it failed."""

    sent_s: float | None = None
    prompt: float | None = None
    answer: float | None = None
    ttft_s: float | None = None
    e2e_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestDocument:
    """A file of requests alone."""

    source_format: str
    requests: tuple[Document, ...]


def gathered(name: str, documents: Iterable[tuple[str, object]]) -> Iterator[tuple[str, object]]:
    """Documents of one request each become one, in the first's place."""
    requests: dict[str, list[Document]] = {AIPERF_REQUESTS: [], REQUESTS_OF_INFERENCE_PERF: []}
    for where, content in documents:
        kind = _kind_of(content)
        if kind is None or not isinstance(content, dict):
            yield where, content
        else:
            requests[kind].append(content)
    for kind, found in requests.items():
        if found:
            yield name, RequestDocument(source_format=kind, requests=tuple(found))


def _kind_of(content: object) -> str | None:
    if isinstance(content, dict):
        if "request_start_ns" in inner(content, "metadata"):
            return AIPERF_REQUESTS
        if {"start_time", "end_time", "info"} <= content.keys():
            return REQUESTS_OF_INFERENCE_PERF
    return None


def read_requests(document: RequestDocument) -> tuple[Item, MeasuredRequests]:
    reader = _of_aiperf if document.source_format == AIPERF_REQUESTS else _of_inference_perf
    found = [one for one in map(reader, document.requests) if one is not None]
    log = as_log(found)
    if not log.completed.any():
        raise BadItem("no request of the log got an answer")
    metrics = latencies_of(log)
    span = log.span_s
    completed = log.completed
    item = Item(
        model=_model_of(document.requests),
        mode="aggregated",
        input_length=_mean(log.prompt[completed]),
        output_length=_mean(log.answer[completed]),
        concurrency=None if span is None else float(log.e2e_ms.sum()) / (1e3 * span) or None,
        request_rate=log.sent_per_s,
        metrics=metrics,
        definitions={name: _DEFINITIONS[name.rpartition("_")[0]] for name in metrics},
        extra={"requests": len(found), "failed": int((~completed).sum())},
    )
    return item, log


def latencies_of(log: MeasuredRequests) -> dict[str, float | None]:
    """Of completed requests; answers of one token have no TPOT."""
    tpot = log.tpot_ms
    times = {"ttft_ms": log.ttft_ms, "tpot_exclusive_ms": tpot[tpot > 0.0], "e2e_ms": log.e2e_ms}
    found: dict[str, float | None] = {}
    for name, values in times.items():
        if values.size and values.max() > 0.0:
            found[f"{name}_mean"] = float(values.mean())
            found |= {f"{name}_p{share}": float(np.percentile(values, share)) or None for share in _SHARES}
    return found


def as_log(found: Sequence[LoggedRequest], *, duration_s: float | None = None) -> MeasuredRequests:
    timed = all(one.sent_s is not None for one in found)
    first = min((one.sent_s for one in found if one.sent_s is not None), default=0.0)
    if timed:
        found = sorted(found, key=lambda one: one.sent_s or 0.0)
    rows = [(_us((one.sent_s or 0.0) - first) if timed else NEVER, *_whole(one)) for one in found]
    columns = np.asarray(rows, dtype=np.int64).reshape(-1, 5).T
    return MeasuredRequests(
        sent_us=columns[0],
        prompt=columns[1],
        answer=columns[2],
        ttft_us=columns[3],
        e2e_us=columns[4],
        duration_s=duration_s,
    )


def _whole(one: LoggedRequest) -> tuple[int, int, int, int]:
    prompt, answer = (_tokens(value) for value in (one.prompt, one.answer))
    if one.e2e_s is None or one.ttft_s is None or answer == 0:
        return prompt, answer, NEVER, NEVER
    if one.e2e_s < one.ttft_s:
        raise BadItem(f"a request ends after {one.e2e_s:g} s, before its first token at {one.ttft_s:g} s")
    return prompt, answer, _us(one.ttft_s), _us(one.e2e_s)


def _us(seconds: float) -> int:
    if not 0.0 <= seconds < LARGEST_S:
        raise BadItem(f"a request has a time of {seconds:g} s")
    return round(1e6 * seconds)


def _tokens(count: float | None) -> int:
    if count is not None and not 0 <= count < LARGEST_TOKENS:
        raise BadItem(f"a request has {count:g} tokens")
    return 0 if count is None else round(count)


def vllm_log(document: Document) -> MeasuredRequests | None:
    names = ("input_lens", "output_lens", "ttfts", "itls")
    lists = {name: document.get(name) for name in (*names, "errors", "start_times")}
    if not all(isinstance(lists[name], list) and lists[name] for name in names):
        return None
    count = len(document["ttfts"])
    for name, values in lists.items():
        if values and len(_listed(name, values)) != count:
            raise BadItem(f"{name} has {len(values)} values for {count} requests")
    return as_log([_of_vllm(lists, place) for place in range(count)], duration_s=number(document, "duration"))


def _listed(name: str, values: object) -> list[object]:
    if not isinstance(values, list):
        raise BadItem(f"{name}: {values!r:.40} is no list")
    return values


def _of_vllm(lists: Mapping[str, list[object] | None], place: int) -> LoggedRequest:
    row = {name: values[place] for name, values in lists.items() if values}
    gaps = row["itls"]
    if not isinstance(gaps, list):
        raise BadItem(f"itls: {gaps!r:.40} is no list of seconds")
    times = [number({"itls": gap}, "itls") or 0.0 for gap in gaps]
    ttft = number(row, "ttfts")
    answered = not row.get("errors") and bool(ttft)
    return LoggedRequest(
        sent_s=number(row, "start_times"),
        prompt=number(row, "input_lens"),
        answer=number(row, "output_lens"),
        ttft_s=ttft if answered else None,
        e2e_s=(ttft or 0.0) + math.fsum(times) if answered else None,
    )


def guidellm_log(benchmark: Document) -> MeasuredRequests | None:
    """By fate; None where a report keeps none, or a sample."""
    by_fate = inner(benchmark, "requests")
    good = by_fate.get("successful")
    if not isinstance(good, list) or not good:
        return None
    counted = number(inner(inner(benchmark, "metrics"), "request_totals"), "successful")
    if counted is not None and counted != len(good):
        return None
    missed = [one for fate in ("errored", "incomplete") for one in _listed(fate, by_fate.get(fate) or [])]
    return as_log([*(_of_guidellm(one, answered=True) for one in good),
                   *(_of_guidellm(one, answered=False) for one in missed)])  # fmt: skip


def _of_guidellm(row: object, *, answered: bool) -> LoggedRequest:
    if not isinstance(row, dict):
        raise BadItem(f"requests: {row!r:.40} is no request")
    first, whole = number(row, "time_to_first_token_ms"), number(row, "request_latency")
    return LoggedRequest(
        sent_s=number(row, "request_start_time", "start_time"),
        prompt=number(row, "prompt_tokens"),
        answer=number(row, "output_tokens"),
        ttft_s=None if first is None or not answered else 1e-3 * first,
        e2e_s=whole if answered else None,
    )


def _of_aiperf(row: Document) -> LoggedRequest | None:
    """None for a warm-up."""
    metadata, metrics = inner(row, "metadata"), inner(row, "metrics")
    if metadata.get("benchmark_phase") not in {None, "profiling"}:
        return None
    failed = bool(row.get("error")) or bool(metadata.get("was_cancelled"))
    sent = number(metadata, "request_start_ns")
    return LoggedRequest(
        sent_s=None if sent is None else 1e-9 * sent,
        prompt=number(inner(metrics, "input_sequence_length"), "value"),
        answer=number(inner(metrics, "output_sequence_length"), "value"),
        ttft_s=None if failed else _timed(metrics, "time_to_first_token"),
        e2e_s=None if failed else _timed(metrics, "request_latency"),
    )


def _timed(metrics: Document, name: str) -> float | None:
    block = inner(metrics, name)
    value, unit = number(block, "value"), str(block.get("unit", "ms"))
    if unit not in _TO_S:
        raise BadItem(f"{name}: unit {unit!r:.40} is unknown")
    return None if value is None else _TO_S[unit] * value


def _of_inference_perf(row: Document) -> LoggedRequest:
    """Lengths in `info`, below `response_metrics` in newer releases.

    Token times are pieces of the stream, up to two a token: only the first is read."""
    info = inner(row, "info")
    answered, asked = inner(info, "response_metrics"), inner(inner(info, "request_metrics"), "text")
    times = answered.get("output_token_times") or info.get("output_token_times")
    sent, ended = number(row, "start_time"), number(row, "end_time")
    first = (
        number({"output_token_times": times[0]}, "output_token_times") if isinstance(times, list) and times else None
    )
    counted = number(inner(answered, "server_usage"), "completion_tokens")
    failed = bool(row.get("error")) or None in {sent, ended, first}
    return LoggedRequest(
        sent_s=sent,
        prompt=number(info, "input_tokens") if "input_tokens" in info else number(asked, "input_tokens"),
        answer=number(answered, "output_tokens") or number(info, "output_tokens") if counted is None else counted,
        ttft_s=None if failed else (first or 0.0) - (sent or 0.0),
        e2e_s=None if failed else (ended or 0.0) - (sent or 0.0),
    )


def _model_of(requests: Sequence[Document]) -> str | None:
    body = requests[0].get("request")
    try:
        asked = json.loads(body) if isinstance(body, str) else body
    except (ValueError, RecursionError):
        return None
    return text(asked, "model") if isinstance(asked, dict) else None


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) or None
