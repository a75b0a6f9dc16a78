"""The seeds' options, defaults and checks (seed 001; --input-length of seed 002)."""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from store.errors import InputError
from sweepdb.catalogue import PlanSearch, Sizes, effective_input_length
from sweepdb.optimizing import OptimizerOptions, named_workload


@dataclass(frozen=True, slots=True)
class Refused:
    """Values that change nothing here, and what to use instead."""

    why: str
    instead: str
    harmless: tuple[str, ...]
    takes: str | None  # how many values, None for a flag


with Path(__file__).with_name("refused.csv").open(encoding="utf-8", newline="") as _file:
    REFUSED = {
        line["option"]: Refused(line["why"], line["instead"], tuple(line["harmless"].split()), line["takes"] or None)
        for line in csv.DictReader(_file)
    }


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


LINEAR_ACTIONS = (
    "DISABLED", "W8A16_STATIC", "W8A8_STATIC", "W4A8_STATIC",
    "W8A16_DYNAMIC", "W8A8_DYNAMIC", "W4A8_DYNAMIC", "FP8", "MXFP4",
)  # fmt: skip
ATTENTION_ACTIONS = ("DISABLED", "INT8", "FP8")
LOG_LEVELS = ("debug", "info", "warning", "error", "critical")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise InputError(message, hint="python -m cli.inference.throughput_optimizer --help lists the options")


def parse(arguments: Sequence[str]) -> OptimizerOptions:
    """Refuses what the seeds refuse, by option."""
    given = _parser().parse_args(list(arguments))
    refuse_todays_options(given)
    backbone = given.quantize_non_expert_linear_action
    options = OptimizerOptions(
        model=_model_of(given.model_id, given.model_option),
        devices=tuple(dict.fromkeys(given.device)),
        num_devices=given.num_devices,
        input_length=_resolved(str(given.input_length)),
        output_length=given.output_length,
        reserved_memory_gb=given.reserved_memory_gb,
        compile=given.compile,
        mtp_tokens=tuple(dict.fromkeys(given.num_mtp_tokens)),
        mtp_acceptance=None if given.mtp_acceptance_rate is None else tuple(given.mtp_acceptance_rate),
        linear=backbone or given.quantize_linear_action,
        experts=given.quantize_linear_action if backbone else None,
        attention=given.quantize_attention_action,
        mxfp4_group_size=given.mxfp4_group_size,
        search=PlanSearch(
            rule="tp",
            tp_sizes=_sizes(given.tp_sizes),
            ep_sizes=_sizes(given.ep_sizes),
            moe_dp_sizes=_sizes(given.moe_dp_sizes),
        ),
        ttft_limit_ms=given.ttft_limits,
        tpot_limit_ms=given.tpot_limits,
        max_batched_tokens=given.max_batched_tokens,
        prefix_cache_hit_rate=given.prefix_cache_hit_rate,
        batch_range=_batch_range(given.batch_range),
        serving_cost_ms=given.serving_cost,
        disagg=given.disagg,
        jobs=given.jobs,
        pd_ratio=given.enable_optimize_prefill_decode_ratio,
        prefill_devices=given.prefill_devices_per_instance,
        decode_devices=given.decode_devices_per_instance,
        dump_original_results=given.dump_original_results,
        log_level=log_level_of(given),
        wide=given.wide,
        prefill_rule=given.prefill_rule,
        most_combinations=given.max_search_combinations,
    )
    _check(options)
    return options


def _check(options: OptimizerOptions) -> None:
    for name, limit in (
        ("--ttft-limits", options.ttft_limit_ms),
        ("--tpot-limits", options.tpot_limit_ms),
        ("--reserved-memory-gb", options.reserved_memory_gb),
    ):
        if limit is not None and not 0 <= limit < math.inf:
            raise InputError(f"{name} must be a number of at least 0, not {limit:g}")
    if options.pd_ratio:
        if options.disagg:
            raise InputError("--enable-optimize-prefill-decode-ratio cannot be used together with --disagg")
        for value, name in (
            (options.prefill_devices, "--prefill-devices-per-instance"),
            (options.decode_devices, "--decode-devices-per-instance"),
        ):
            if value is None:
                raise InputError(f"{name} is required with --enable-optimize-prefill-decode-ratio")
    if options.is_distribution:
        _check_distribution(options)
    elif int(options.input_length) < 1:
        raise InputError("--input-length must be a positive whole number or a length distribution file")


def _check_distribution(options: OptimizerOptions) -> None:
    """For aggregated instances, or --disagg with a TTFT limit and no TPOT limit (seed 002, 2.2)."""
    if options.pd_ratio:
        raise InputError(
            "a length distribution does not support --enable-optimize-prefill-decode-ratio here", hint=_OWN
        )
    if options.disagg and options.ttft_limit_ms is None:
        raise InputError("a length distribution with --disagg needs --ttft-limits here", hint=_OWN)
    if options.disagg and options.tpot_limit_ms is not None:
        raise InputError("a length distribution with --disagg does not support --tpot-limits here", hint=_OWN)
    if options.prefill_rule == "seed002":
        budget = options.budgets()[0]
        mean = effective_input_length(options.workloads(budget)[0])
        if mean > budget:
            raise InputError(
                f"this distribution needs chunked prefill: its mean of {mean:.0f} new tokens is above"
                f" --max-batched-tokens {budget}",
                hint="raise --max-batched-tokens",
            )


_OWN = "sweepdb evaluate --input-length FILE evaluates distributions in every mode"


def _resolved(text: str) -> str:
    """A named workload's length; others stay."""
    if text.isdecimal() or Path(text).exists():
        return text
    named = named_workload(text)
    if named is None:
        raise InputError(
            f"--input-length {text}: not a positive whole number, no such file, and no workload of that name"
        )
    return text if named.input_length is None else str(named.input_length)


def _model_of(first: str | None, named: str | None) -> str:
    if first is not None and named is not None and first != named:
        raise InputError(f"two models are given, {first} and --model-id {named}", hint="name one of them")
    if first is None and named is None:
        raise InputError("no model is given", hint="name it first, or with --model-id")
    return str(first or named)


def _sizes(values: list[int] | None) -> Sizes:
    return None if values is None else tuple(values)


def _batch_range(values: list[int] | None) -> tuple[int, int | None]:
    if values is None:
        return 1, None
    if len(values) > 2:
        raise InputError(f"--batch-range takes one or two numbers, not {len(values)}")
    return (1, values[0]) if len(values) == 1 else (values[0], values[1])


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be a positive integer, not {text!r}")
    return value


def _length(text: str) -> str:
    return str(_positive(text)) if text.isdecimal() else text


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="throughput_optimizer", description="Highest throughput of a model under SLO limits.")
    add = parser.add_argument
    add("model_id", nargs="?", help="Hugging Face id or local directory")
    add(
        "--input-length",
        type=_length,
        required=True,
        help="prompt length, a length distribution YAML file, or a stored workload's name",
    )
    add("--output-length", type=_positive, required=True, help="expected output length")
    add("--mtp-acceptance-rate", "--mtp-acceptance-rates", type=float, nargs="+", help="default: 0.9 0.6 0.4 0.2")
    add("--dump-original-results", action="store_true", help="print the rows behind the tables")
    add("--device", "--devices", nargs="+", default=["TEST_DEVICE"], help="device profiles; several are compared")
    add("--num-devices", type=_positive, help="devices of the instance; the budget with PD ratio (default: 1)")
    add("--reserved-memory-gb", type=float, default=10.0, help="device memory kept free (default: 10)")
    add("--log-level", choices=LOG_LEVELS, default="error")
    add("--compile", action="store_true", help="compiled graph")
    add("--compile-allow-graph-break", action="store_true", help="accepted; the captured graph has no breaks")
    add("--num-mtp-tokens", type=int, nargs="+", choices=range(10), default=[0], help="several are searched")
    add("--quantize-linear-action", choices=LINEAR_ACTIONS, default="W8A8_DYNAMIC")
    add("--mxfp4-group-size", type=_positive, default=32)
    add("--quantize-attention-action", choices=ATTENTION_ACTIONS, default="DISABLED")
    add("--tp-sizes", type=_positive, nargs="*", help="search TP; without values powers of two")
    add("--ep-sizes", type=_positive, nargs="*", help="search EP")
    add("--moe-dp-sizes", type=_positive, nargs="*", help="search MOE-DP")
    add("--ttft-limits", type=float, help="ms")
    add("--tpot-limits", type=float, help="ms")
    add("--max-batched-tokens", type=_positive, help="default: 4 times the prompt, less where memory is short")
    add("--prefix-cache-hit-rate", type=float, default=0.0, help="[0, 1)")
    add("--batch-range", type=_positive, nargs="+", help="[min max] or [max]")
    add("--serving-cost", type=float, default=0.0, help="ms")
    add("--disagg", action="store_true")
    add("--jobs", type=_positive, default=8)
    add("--enable-optimize-prefill-decode-ratio", action="store_true")
    add("--prefill-devices-per-instance", type=_positive)
    add("--decode-devices-per-instance", type=_positive)
    add("--wide", action="store_true", help="memory columns as the program of today prints them")
    add(
        "--prefill-rule",
        choices=("upstream", "seed002"),
        default="upstream",
        help="how a mixed-length prefill is timed",
    )
    add_todays_options(parser)
    return parser
