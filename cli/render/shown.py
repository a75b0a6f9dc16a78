"""Which columns of an answer a person's table shows: about ten, of about a hundred characters. `--wide` shows all.

Not here: how a table looks (cli.render.rows). The machine formats always hold every column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from queries.confidence import HELD
from queries.question import Answer

_PROBES = ("prefill_probe", "decode_probe")
_COMMON = ("rank", "device", "plan", "batch_size", "concurrency")
NEAREST = ("rank", "phase", "device", "plan", "batch_size", "binding_limit", "miss", "relax_to", "admitted_then",
           "ttft_ms", "tpot_ms", "memory_free_gib", "probe")  # fmt: skip
SHOWN: Mapping[str, Sequence[str]] = {
    "best": (*_COMMON, "rate", "ttft_ms", "tpot_ms", "num_devices", "memory_free_gib", "launchable", "probe"),
    "prefill": (*_COMMON, "rate", "qps", "ttft_ms", "num_devices", "memory_free_gib", "launchable", "probe"),
    "decode": (*_COMMON, "rate", "qps", "tpot_ms", "num_devices", "memory_free_gib", "launchable", "probe"),
    "nearest": NEAREST,
    "pd-ratio": ("rank", "prefill_plan", "ttft_ms", "prefill_qps", "decode_plan", "tpot_ms", "decode_qps", "pd_ratio",
                 "balanced_qps", *_PROBES),
    "devices": (*_COMMON, "rate", "rate_per_device", "qps", "ttft_ms", "tpot_ms", "num_devices", "probe"),
    "cost": ("rank", "device", "plan", "rate", "tokens_per_usd", "usd_per_million_tokens", "tokens_per_kwh",
             "break_even_usd_per_device_hour", "usd_per_device_hour", "price_from", "probe"),
    "coverage": ("model", "device", "workload", "linear_quantization", "convention", "phase", "plans", "scenarios_ok",
                 "illegal", "unsupported", "error", "probes", "most_common_reason"),
    "capacity": ("devices", "system_qps", "qps_per_device", "carries_target", "mode", "instances", "plan", "probe",
                 "prefill_instances", "prefill_plan", "decode_instances", "decode_plan", *_PROBES),
    "pareto": ("mode", "tokens_per_s_per_user", "tokens_per_s_per_device", "num_devices", "ttft_ms",
               "tpot_exclusive_ms", "device", "plan", "concurrency", "probe", "prefill_plan", "pd_ratio",
               "prefill_probe"),
    "device-profiles": ("device", "family", "matrix_tflops", "vector_tflops", "memory_bandwidth_tib_per_s",
                        "memory_gib", "grid", "link_gb_per_s"),
    "diff": ("model", "device", "workload", "phase", "plan", "batch_size", "rate_change", "ttft_change", "tpot_change",
             "won_before", "wins_after", "first_probe", "second_probe"),
    "by-length": ("workload", "input_length_mean", "output_length", "device", "plan", "batch_size", "rate_per_device",
                  "plan_changes", "prefill_plan", "decode_plan", "pd_ratio", "qps_per_device_bound", "pair_changes"),
    "mix": ("choice", "workload", "weight", "device", "plan", "batch_size", "qps", "time_share", "instances",
            "devices_used", "system_qps", "against_other", "reason", "probe"),
}  # fmt: skip
_COUNTED = ("rank", "prefill_instances", "prefill_plan", "ttft_ms", "decode_instances", "decode_plan", "tpot_ms",
            "devices_idle", "system_qps", *_PROBES)  # fmt: skip
_SERVED = ("rank", "prefill_instances", "prefill_plan", "prefill_utilisation", "ttft_ms", "decode_instances",
           "decode_plan", "decode_utilisation", "tpot_ms", "system_qps", "qps_per_device", *_PROBES)  # fmt: skip
_TRANSFER = ("kv_transfer_ms", "transfer_hides")
_LIMITED = ("best", "decode", "devices", "nearest")  # their rows have both columns
_SIZED = ("best", "prefill", "decode")  # their rows say what ranks them
TURNED = frozenset({"compare"})  # two rows of many columns: a line a column


def with_limited(columns: Sequence[str], answer: Answer) -> Sequence[str]:
    """The columns with those of rarer limits that were asked, before the reference of the row."""
    limits = answer.question.limits
    asked = (("e2e_ms", limits.e2e_ms), ("tokens_per_s_per_user", limits.min_tokens_per_s_per_user))
    added = [name for name, value in asked if value is not None and name not in columns]
    return (*columns[:-1], *added, columns[-1])


def with_holds(columns: Sequence[str], answer: Answer) -> Sequence[str]:
    """The columns with those that say whether limits hold, each before the reference of its row."""
    if not answer.question.limits.on_times:
        return columns
    return [name for column in columns for name in (*([HELD[column]] if column in HELD else []), column)]


def _with_sizes(columns: Sequence[str], answer: Answer) -> Sequence[str]:
    """The columns with what ranks instances of several sizes, after the rate of one."""
    ranked = {row.get("ranked_by") for row in answer.dicts()}
    added = ("instances", "system_rate") if answer.question.pairs.num_devices else ()
    added = ("rate_per_device", *added) if "rate_per_device" in ranked else added
    place = columns.index("rate") + 1
    return (*columns[:place], *added, *columns[place:])


def shown_columns(answer: Answer) -> Sequence[str] | None:
    """The columns of a report's default table, None for all of them."""
    columns = _shown(answer)
    return None if columns is None else with_holds(columns, answer)


def _is_served(answer: Answer) -> bool:
    """Whether pairs are an engine's, with counts and waits of their own."""
    return any(row.get("users") is not None for row in answer.dicts())


def _shown(answer: Answer) -> Sequence[str] | None:
    pairs, columns = answer.question.pairs, SHOWN.get(answer.report)
    if columns is not None and answer.report in _LIMITED:
        columns = with_limited(columns, answer)
    if columns is not None and answer.report in _SIZED:
        columns = _with_sizes(columns, answer)
    by_device = answer.report == "devices" and answer.question.options.mode == "pd"
    if not by_device and answer.report != "pd-ratio":
        return columns
    of_pairs = _SERVED if _is_served(answer) else _COUNTED if pairs.num_devices else SHOWN["pd-ratio"]
    device = ("prefill_device",) if by_device or pairs.prefill_device or pairs.decode_device else ()
    other = ("decode_device",) if device and not by_device else ()
    return (of_pairs[0], *device, *other, *of_pairs[1:], *(_TRANSFER if pairs.kv_transfer_gb_per_s else ()))
