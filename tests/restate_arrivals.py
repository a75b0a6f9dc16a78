"""Restates measured servers that requests arrived at (stages of constant rates, one replay), and a public trace.

Not here: every other table (restate.py)."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path

STAGE_COLUMNS = (
    "model", "rate", "requests", "failed", "prompt", "answer",
    "ttft_mean_ms", "ttft_p50_ms", "ttft_p90_ms", "ttft_p99_ms", "e2e_mean_ms", "e2e_p50_ms", "e2e_p90_ms", "e2e_p99_ms",
)  # fmt: skip
TRACE_COLUMNS = ("timestamp", "input_tokens", "output_tokens")
TRACED = 2_000  # requests
REPLAY_COLUMNS = ("queued_s", "prompt", "answer", "ttft_ms", "e2e_ms")
_THEIRS = ("mean", "median", "p90", "p99")


def stages(root: Path) -> Iterator[Sequence[object]]:
    """Each stage of a rate. Their times per output token count every token twice, and are left out."""
    with (root / "arrivals" / "rates.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            times = [f"{float(row[f'{name}_{one}_ms']):.6g}" for name in ("ttft", "e2e") for one in _THEIRS]
            lengths = [f"{float(row[name]):.6g}" for name in ("input_mean", "output_mean")]
            yield [row["model"], row["rate"], row["requests"], row["failures"], *lengths, *times]


def replay(root: Path) -> Iterator[Sequence[object]]:
    """Each request by the clock of the engine, in the order in which it got them."""
    path = root / "arrivals" / "replays" / "RTXPRO6000--Llama-3.1-8B.jsonl"
    found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    found.sort(key=lambda one: one["queued_ts"])
    for one in found:
        queued = one["queued_ts"]
        times = (1e3 * (one[name] - queued) for name in ("first_token_ts", "last_token_ts"))
        since = queued - found[0]["queued_ts"]
        yield [f"{since:.6f}", one["input_toks"], one["output_toks"], *(f"{time:.3f}" for time in times)]


def trace(root: Path) -> Iterator[Sequence[object]]:
    """The first requests of a public trace, by seconds since its first."""
    with (root / "traces" / "AzureLLMInferenceTrace_2023_conv.csv").open(encoding="utf-8", newline="") as file:
        first = None
        for row in islice(csv.DictReader(file), TRACED):
            moment = datetime.fromisoformat(row["TIMESTAMP"][:26])  # a seventh digit is none of Python's
            first = first or moment
            yield [f"{(moment - first).total_seconds():.3f}", row["ContextTokens"], row["GeneratedTokens"]]
