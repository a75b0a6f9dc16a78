"""Other programs' words for options, suggested for unknown ones."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any

# Options by the words of other programs for them, without dashes; the first that a command has is meant.
_MEANT: Mapping[str, str] = {
    "total-devices, num-devices": "gpus num-devices num-gpus n-gpus gpu-count devices world-size accelerators",
    "num-devices, total-devices": "gpus-per-instance gpus-per-node devices-per-instance",
    "device": "gpu gpu-type hardware system accelerator hw",
    "input-length": "isl input-len random-input-len prompt-length prompt-len prompt-tokens input-tokens context-length",
    "output-length": "osl output-len random-output-len max-tokens output-tokens answer-length generation-length",
    "ttft-limit": "ttft time-to-first-token max-ttft ttft-slo",
    "tpot-limit": "tpot itl tpt inter-token-latency max-tpot max-itl tpot-slo time-per-output-token",
    "e2e-limit": "e2e latency e2e-latency request-latency max-latency",
    "tbt-limit": "tbt",
    "min-tokens-per-s-per-user": "tokens-per-s-per-user min-tps-per-user speed interactivity",
    "tp-sizes": "tp tp-size tensor-parallel-size tensor-parallel",
    "pp-sizes": "pp pp-size pipeline-parallel-size pipeline-parallel",
    "dp-sizes": "dp dp-size data-parallel-size data-parallel attention-dp",
    "ep-sizes": "ep ep-size expert-parallel-size enable-expert-parallel expert-parallel moe-ep-size",
    "moe-tp-sizes": "moe-tp moe-tp-size moe-tensor-parallel-size",
    "concurrency, batch-range": "users num-users max-concurrency clients in-flight",
    "batch-range": "concurrency batch-size batch batch-sizes max-batch-size",
    "rate, target-rate, rates": "rps request-rate rate qps target-qps requests-per-s requests-per-second",
    "max-num-seqs, batch-range": "max-running-requests seats",
    "max-num-batched-tokens": "chunked-prefill-size max-num-tokens token-budget",
    "reserved-memory-gb": "gpu-memory-utilization mem-fraction-static reserve memory-reserve",
    "quantization": "quant dtype precision weight-dtype weights format",
    "kv-cache-quantization": "kv-cache-dtype kv-dtype kv-quantization kv-precision",
    "experts-quantization": "moe-dtype expert-dtype",
    "serving-model": "engine backend framework server",
    "num-mtp-tokens": "num-speculative-tokens mtp nextn speculative-num-steps",
    "prefix-cache-hit-rate": "cache-hit-rate prefix-cache prefix-hit-rate enable-prefix-caching",
    "attainment": "slo-attainment percentile",
    "arrivals": "burstiness traffic arrival",
    "mode": "phase disaggregation disagg",
    "output": "out file o",
    "top": "limit n",
    "store": "db database",
}
WORDS: Mapping[str, tuple[str, ...]] = {
    word: tuple(options.split(", ")) for options, words in _MEANT.items() for word in words.split()
}
_ALIKE = 0.75  # of two spellings, from which on one may be the other mistyped
_ASKING = ("plan", "evaluate", "query")


def unknown_option(typed: str, context: Any, commands: Mapping[str, Any]) -> tuple[str, str]:  # noqa: ANN401  Typer's own
    """With what to type instead."""
    command = context.command_path
    wrong = f"{command} has no option {typed}."
    word = typed.lstrip("-").replace("_", "-")
    if word == "model" and any(
        each.param_type_name == "argument" and each.name == "model" for each in context.command.params
    ):
        return wrong, f"The model is the first word behind the command: {command} MODEL."
    known = _options(context.command)
    for meant in (word, *WORDS.get(word, ())):
        if meant in known and meant != word:
            return wrong, f"Type --{meant} in its place ({re.split('[:;]', known[meant])[0]})."
    elsewhere = [
        f"sweepdb {name} has {_newest(commands[name], meant)}"
        for name in _ASKING
        if name != context.command.name and name in commands
        for meant in _first((word, *WORDS.get(word, ())), _options(commands[name]))
    ]
    if elsewhere and command == "sweepdb":
        return wrong, f"Type it behind a command: {elsewhere[-1].replace(' has ', ' ... ')}"
    if elsewhere:
        return wrong, f"{'; '.join(elsewhere)}. {command} --help lists what this command takes."
    alike = difflib.get_close_matches(word, known, n=3, cutoff=_ALIKE)
    offered = f"Do you mean {' or '.join(f'--{one}' for one in alike)}? " if alike else ""
    return wrong, f"{offered}{command} --help lists the options."


def _first(wanted: tuple[str, ...], known: Mapping[str, str]) -> Iterator[str]:
    yield from [one for one in wanted if one in known][:1]


def _newest(command: Any, name: str) -> str:  # noqa: ANN401  Typer's own
    """By this or an old name."""
    return str(next(each.opts[0] for each in command.params if f"--{name}" in each.opts))


def _options(command: Any) -> Mapping[str, str]:  # noqa: ANN401  Typer's own
    return {
        name.lstrip("-"): (getattr(each, "help", None) or "").partition(" [")[0]
        for each in command.params
        for name in (*each.opts, *each.secondary_opts)
        if each.param_type_name == "option" and name.startswith("--") and not getattr(each, "hidden", False)
    }
