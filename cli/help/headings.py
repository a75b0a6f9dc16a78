"""The heading of each option in help."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sweepdb.asking import PARTS, declared
from sweepdb.evaluating import options_by_keyword
from sweepdb.planning import HEADINGS_OF_ASKED, PlanOptions

OUTPUT = "Output"
STORE = "Store"
OTHERS = "Options"
_PARTS = {
    "scope": "Which stored rows",
    "limits": "Limits",
    "definitions": "Definitions, where sources disagree",
    "pairs": "Devices, and prefill and decode instances",
    "options": "What the report shows",
}
_OF_COMMANDS = {  # options that commands of evaluations have themselves
    "What is served": ("model", "sweep", "from_deployment"),
    "The run": ("jobs", "workers", "dry_run", "label", "sweep_schema"),
}
_SHARED = {
    OUTPUT: (
        "format_", "output", "wide", "explain", "composition", "plot", "show_sql", "proof", "sign", "fail_empty",
        "schema", "force",
    ),
    STORE: ("store",),
}  # fmt: skip
# What `--help` shows of commands with many options; `--help-all` shows the rest, too.
_ASKED = (
    "ttft_limit",
    "tpot_limit",
    "e2e_limit",
    "confidence",
    "device",
    "concurrency",
    "format_",
    "output",
    "explain",
    "store",
)
FEW: Mapping[str, frozenset[str]] = {
    "evaluate": frozenset({
        "store", "model", "input_length", "output_length", "prefix_cache_hit_rate", "workload", "sweep",
        "from_deployment", "device",
        "num_devices", "total_devices", "quantization", "kv_cache_quantization", "search", "tp_sizes",
        "batch_range", "serving_model", "max_num_batched_tokens", "arrivals", "dry_run",
    }),
    "plan": frozenset({
        *_ASKED, "model", "input_length", "output_length", "from_deployment", "total_devices", "rate", "arrivals",
        "attainment", "rank_by", "quantization", "serving_model",
    }),
    "decide": frozenset({
        *_ASKED, "model", "input_length", "output_length", "total_devices", "rate", "budget", "gain", "run",
        "quantization", "serving_model",
    }),
    "query": frozenset({
        *_ASKED, "report", "names", "mode", "rank_by", "by", "top", "vary", "num_devices", "rate", "attainment",
        "model", "sweep",
        "workload", "serving_model", "quantization", "wide",
    }),
    "export": frozenset({
        "folder", "for_", "plan", "prefill_plan", "decode_plan", "ttft_limit", "tpot_limit", "model", "device", "sweep",
        "input_length", "deployment", "max_replicas", "format_", "output", "store",
    }),
    "report": frozenset({*_ASKED, "model", "num_devices", "rate", "attainment", "sweep", "workload",
    "serving_model", "force"}),
}  # fmt: skip


def _turned(headings: Mapping[str, tuple[str, ...]]) -> Mapping[str, str]:
    return {name: heading for heading, names in headings.items() for name in names}


def _of_questions() -> Mapping[str, str]:
    found = {item.keyword: _PARTS[part] for part, kind in PARTS.items() for item in declared(kind)}
    return {**found, "preset": _PARTS["definitions"], "report": OTHERS, "names": OTHERS}


def _of_evaluations() -> Mapping[str, str]:
    stated = {keyword: item.option.heading for keyword, item in options_by_keyword().items()}
    return {**stated, **_turned(_OF_COMMANDS), **_turned(_SHARED)}


def _of_plans() -> Mapping[str, str]:
    limits = {item.keyword: _PARTS["limits"] for item in declared(PARTS["limits"])}
    own = {item.keyword: item.option.heading for item in declared(PlanOptions)}
    return {**_of_evaluations(), **own, **HEADINGS_OF_ASKED, **limits}


HEADINGS: Mapping[str, Mapping[str, str]] = {
    "query": {**_of_questions(), **_turned(_SHARED)},
    "report": {**_of_questions(), **_turned(_SHARED)},
    "evaluate": _of_evaluations(),
    "plan": _of_plans(),
    "export": {
        **_of_questions(),
        **_turned(_SHARED),
        **dict.fromkeys(
            (
                "for_",
                "plan",
                "prefill_plan",
                "decode_plan",
                "attainment",
                "deployment",
                "namespace",
                "min_replicas",
                "max_replicas",
            ),
            "A planner's profile",
        ),
    },
    "decide": {**_of_plans(), **dict.fromkeys(("budget", "gain", "mode", "run", "client", "ready_within"), "Runs")},
}


# What comes first where a command has it; the rest follows in the order of its options.
_FIRST = ("What is served", *(_PARTS[part] for part in ("limits", "options", "pairs", "scope", "definitions")))


def in_order(found: Collection[str]) -> list[str]:
    first = [one for one in ("Arguments", *_FIRST) if one in found]
    last = [one for one in (OTHERS,) if one in found and len(found) > 1]
    return [*first, *(one for one in found if one not in first and one not in last), *last]


def heading_of(command: str, parameter: str) -> str:
    return HEADINGS.get(command, _turned(_SHARED)).get(parameter, OTHERS)
