"""Restates the cases of the seeds' program of today: single steps, the forwards behind its rows, and the rows.

Called by restate.py. Not here: how our figures are compared with them (upstream_parity.py)."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

Row = Sequence[object]

GRAPHS = {"eager": "eager", "compiled": "compiled"}
STEP_COLUMNS = (
    "case", "kind", "model", "device", "graph", "linear", "attention", "tp", "pp", "dp", "ep", "moe_tp", "moe_dp",
    "drafts", "shared_split", "phase", "batch", "query", "context", "step_ms", "foreign_ms", "unfused_ms",
    "weights_gib", "kv_gib", "activations_gib", "all_reduces",
)  # fmt: skip
FORWARD_COLUMNS = (
    "case", "model", "device", "graph", "linear", "attention", "tp", "dp", "ep", "moe_tp", "moe_dp", "phase",
    "requests", "step_ms", "free_gib",
)  # fmt: skip
ROW_COLUMNS = (
    "case", "kind", "model", "device", "graph", "phase", "linear", "attention", "input", "output", "hit_rate",
    "budget", "drafts", "tp", "dp", "ep", "moe_tp", "moe_dp", "batch", "concurrency", "chunks", "ttft_ms", "tpot_ms",
    "tokens_per_s", "tokens_per_s_per_device", "prefill_split", "decode_split", "weights_gib", "kv_gib",
    "activations_gib", "free_gib", "first_batch", "last_batch", "ttft_limit_ms", "tpot_limit_ms",
)  # fmt: skip


def index(root: Path) -> list[dict[str, str]]:
    """The cases: one row each."""
    with (root / "upstream" / "head" / "index.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def option(case: Mapping[str, str], name: str, default: str = "") -> str:
    """The first value of an option of a case's command."""
    found = re.search(rf"--{name} (\S+)", case["arguments"])
    return found[1] if found else default


def steps(root: Path) -> Iterator[Row]:
    """One step a case: its plan and batch, its time, and what of it is foreign to published runs."""
    for case in index(root):
        path = root / "upstream" / "head" / f"{case['case_id']}.json"
        if not path.exists():
            continue
        found = json.loads(path.read_text(encoding="utf-8"))
        shapes = path.with_name(f"{case['case_id']}.shapes.txt").read_text(encoding="utf-8")
        tp, dp, ep, moe_dp = (int(option(case, name, "1")) for name in ("tp-size", "dp-size", "ep-size", "moe-dp-size"))
        routed = "--ep-size" in case["arguments"]
        yield [
            case["case_id"], case["kind"], case["model"], case["device"], GRAPHS[case["mode"]],
            option(case, "quantize-linear-action"), option(case, "quantize-attention-action"),
            tp, option(case, "pp-size", "1"), dp, ep, tp * dp // (ep * moe_dp) if routed else 1, moe_dp if routed else 1,
            option(case, "num-mtp-tokens", "0"), int("--enable-shared-expert-tp" in case["arguments"]),
            "decode" if "--decode" in case["arguments"] else "prefill",
            int(option(case, "num-queries")) // dp, option(case, "query-length"), option(case, "context-length", "0"),
            f"{found['step_ms']['analytic']:.9g}", _foreign(case), f"{_unfused(shapes):.6g}",
            *(f"{found[name]:.6g}" for name in ("weight_gb", "kv_cache_gb", "activation_gb")),
            sum(one["calls"] for one in found["ops"] if one["op"].startswith("tensor_cast.all_reduce")),
        ]  # fmt: skip


def _foreign(case: Mapping[str, str]) -> str:
    """Copies of the KV cache that published runs have not, as the index states them."""
    copies = re.findall(r"aten\.(?:clone|copy_) ([\d.]+) ms", case["remarks"])
    return f"{sum(map(float, copies)):.6g}"


UNITS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}


def _unfused(shapes: str) -> float:
    """Milliseconds of gates and their products, which compiled graphs of published runs do in one launch."""
    total = 0.0
    if "tensor_cast.silu" not in shapes:
        return total
    for line in shapes.splitlines():
        cells = re.split(r"\s{2,}", line.strip())
        if len(cells) < 5 or cells[-1] == "# of Calls" or cells[-1].startswith("-"):
            continue
        halves = re.findall(r"\[[\d, ]+\]", cells[1])
        if cells[0] == "tensor_cast.silu.default" or (cells[0] == "aten.mul.Tensor" and _alike(halves)):
            value = re.fullmatch(r"([\d.]+)(ns|us|ms|s)", cells[-3])
            total += float(value[1]) * UNITS[value[2]]
    return total


def _alike(shapes: Sequence[str]) -> bool:
    return len(shapes) == 2 and shapes[0] == shapes[1]


PLAN = re.compile(r"TP=(\d+) \| PP=(\d+) \| DP=(\d+)(?: \| EP=(\d+) \| MOE-TP=(\d+) \| MOE-DP=(\d+))?")


def forwards(root: Path) -> Iterator[Row]:
    """The forwards that the rows of eager cases were made of; requests as count x new tokens of length."""
    for case in index(root):
        head = [
            case["case_id"], case["model"], case["device"], GRAPHS[case["mode"]],
            option(case, "quantize-linear-action", "W8A8_DYNAMIC"),
            option(case, "quantize-attention-action", "DISABLED"),
        ]  # fmt: skip
        path = root / "upstream" / "head" / f"{case['case_id']}.steps.csv"
        mixed = path.with_name(f"{case['case_id']}.forwards.jsonl")
        if mixed.exists():
            for line in mixed.read_text(encoding="utf-8").splitlines():
                one = json.loads(line)
                asked = " ".join(
                    f"{ask['concurrency']}x{ask['query_len']}of{ask['seq_len']}" for ask in one["requests"]
                )
                phase = "decode" if one["requests"][0]["is_decode"] else "prefill"
                yield [
                    *head, one["tp"], one["dp"], 1, 1, 1, phase, asked, f"{one['latency_ms']:.9g}",
                    f"{one['memory_left_gb']:.6g}",
                ]  # fmt: skip
        elif path.exists():
            routed = "A3B" in case["model"] or "DeepSeek" in case["model"]
            with path.open(encoding="utf-8", newline="") as file:
                for one in csv.DictReader(file):
                    experts = [one["ep"], one["moe_tp"], one["moe_dp"]] if routed else [1, 1, 1]
                    yield [
                        *head, one["tp"], one["dp"], *experts, one["phase"],
                        f"{one['model_concurrency']}x{one['query_len']}of{one['seq_len']}",
                        f"{float(one['latency_ms']):.9g}", f"{float(one['memory_left_gb']):.6g}",
                    ]  # fmt: skip


def rows(root: Path) -> Iterator[Row]:
    """Every row that an optimisation found, with what was asked."""
    for case in index(root):
        path = root / "upstream" / "head" / f"{case['case_id']}.rows.csv"
        if not path.exists():
            continue
        with path.open(encoding="utf-8", newline="") as file:
            found = [one for one in csv.DictReader(file) if one.get("num_input_tokens", "all") == "all"]
        for one in found:
            tp, _, dp, ep, moe_tp, moe_dp = (part or 1 for part in PLAN.match(one["parallel"]).groups())
            phase = "aggregated"
            if "--disagg" in case["arguments"]:
                phase = "prefill" if one["ttft"] else "decode"
            split = [one.get("percentage_breakdowns(p)"), one.get("percentage_breakdowns(d)")]
            if phase != "aggregated":
                split = (
                    [one["percentage_breakdowns"], None] if phase == "prefill" else [None, one["percentage_breakdowns"]]
                )
            batches = re.search(r"--batch-range (\d+) (\d+)", case["arguments"])
            yield [
                case["case_id"], case["kind"], case["model"], case["device"], GRAPHS[case["mode"]], phase,
                one["quantize_linear_action"], one["quantize_attention_action"],
                one["input_length"] or "lengths", one["output_length"], option(case, "prefix-cache-hit-rate", "0"),
                one["max_batched_tokens"], option(case, "num-mtp-tokens", "0"), tp, dp, ep, moe_tp, moe_dp,
                one["batch_size"], one["concurrency"], one["prefill_num_chunks"], one["ttft"], one["tpot"],
                one["token/s"], one["token/s/device"], *split,
                one["weight_GB"], one["kv_cache_GB"], one["activation_GB"], one["avail_GB"],
                *(batches.groups() if batches else ("", "")),
                option(case, "ttft-limit"), option(case, "tpot-limit"),
            ]  # fmt: skip
