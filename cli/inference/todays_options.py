"""Options that the seeds' program gained since seed 001: they work, or are refused by name."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from store.errors import InputError


@dataclass(frozen=True, slots=True)
class Refused:
    """Values that change nothing here, and what to use instead."""

    why: str
    instead: str
    harmless: tuple[str, ...] = ()
    takes: str | None = "*"  # how many values, None for a flag


_PICTURES = Refused("pictures are not evaluated here", "sweepdb evaluate --images N --image-size WIDTHxHEIGHT does")
REFUSED = {
    "--dcp-sizes": Refused(
        "decode context parallelism is not evaluated", "search --tp-sizes and --ep-sizes instead", ("1",)
    ),
    "--performance-model": Refused(
        "only the analytic one is evaluated here",
        "for measured kernels, sweepdb evaluate takes a device with measurements",
        ("analytic",),
    ),
    "--compilation-config": Refused(
        "the fused graph has no passes to choose from",
        "--compile evaluates it, without it the graph is eager",
        takes="+",
    ),
    "--speculative-method": Refused(
        "drafts come from MTP modules", "give --num-mtp-tokens and --mtp-acceptance-rate instead"
    ),
    "--image-batch-size": _PICTURES,
    "--image-height": _PICTURES,
    "--image-width": _PICTURES,
    "--enable-shared-expert-tp": Refused(
        "shared experts run on each rank's own tokens",
        "leave it out, rows of split ones are not told apart",
        takes=None,
    ),
    "--word-embedding-tp": Refused("every rank holds the whole embedding", "leave it out"),
    "--chrome-trace-file": Refused(
        "no trace is written", "sweepdb explain lists the operators of a stored row with their times"
    ),
    "--concurrency-search-strategy": Refused(
        "the search doubles and bisects", "leave it out or give exponential", ("exponential",)
    ),
}  # fmt: skip


def add_todays_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--model-id", dest="model_option", help="the model, as the first argument names it")
    add("--quantize-non-expert-linear-action", help="format of linears that are no routed experts")
    add("--max-search-combinations", type=int, help="refuse more combinations of sizes than this")
    add("-v", "--verbose", action="count", default=0, help="log more (-vv: everything)")
    add("-q", "--quiet", action="store_true", help="log what stops a run only")
    for name, refused in REFUSED.items():
        if refused.takes is None:
            add(name, action="store_true", help=argparse.SUPPRESS)
        else:
            add(name, nargs=refused.takes, help=argparse.SUPPRESS)


def refuse_todays_options(given: argparse.Namespace) -> None:
    """The first option that is not evaluated."""
    for name, refused in REFUSED.items():
        value = getattr(given, name.removeprefix("--").replace("-", "_"))
        values = tuple(map(str, value)) if isinstance(value, list) else ()
        if value in {None, False} if not isinstance(value, list) else set(values) <= set(refused.harmless):
            continue
        raise InputError(f"{name} is not available: {refused.why}", hint=refused.instead)


def log_level_of(given: argparse.Namespace) -> str:
    """-v, -vv and -q, else the level given."""
    if given.quiet:
        return "critical"
    return {0: str(given.log_level), 1: "info"}.get(given.verbose, "debug")
