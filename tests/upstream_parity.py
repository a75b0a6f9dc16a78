"""Every case of the seeds' program through our evaluator: how far off each figure is, by kind of case.

    python tests/upstream_parity.py

lays down the table of docs/reference/seeds.md and prints a longer one; test_upstream_parity.py holds the bounds."""

from __future__ import annotations

import collections
import functools
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

# Where packages lie when this is run as a program.
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from evaluator_cases import upstream_device
from restated import length_file, rows

from evaluator.evaluate import capture_requests, cost_of, evaluate_scenario
from evaluator.graph.capture import capture_operators
from evaluator.graph.operators import Affine, Operator, OperatorSet
from evaluator.graph.sums import BatchSums, repeated, request_sums
from evaluator.inputs import Launch, Precision, Workload, check_precision, load_distribution, load_model, workload_of
from evaluator.inputs.launch import Plan
from evaluator.pricing.kv_state import kv_states
from evaluator.pricing.memory import activation_bytes, weight_bytes
from evaluator.pricing.step import draft_seconds, step_seconds
from evaluator.probe_block import ProbeBlock
from evaluator.scenario import Scenario
from evaluator.serving.occupancy import kv_cache_bits

GIB = 2**30
Case = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    case: str
    kind: str
    graph: str
    figure: str
    ours: float
    theirs: float

    @property
    def error(self) -> float:
        return self.ours / self.theirs - 1.0


def plan_of(case: Case) -> Plan:
    sizes = {name: int(case[name]) for name in ("tp", "dp", "ep", "moe_tp", "moe_dp")}
    return Plan(**sizes, pp=int(case.get("pp") or 1))


def scenario_of(case: Case, workload: Workload) -> Scenario:
    return Scenario(
        model=load_model(case["model"])[1],
        device=upstream_device(case["device"]),
        precision=check_precision(Precision(linear=case["linear"], attention=case["attention"])),
        plan=plan_of(case),
        workload=workload,
        phase=case["phase"],
        convention="upstream",
        launch=Launch(compile=case["graph"] == "compiled"),
    )


@functools.cache
def _captured(request):
    return capture_operators(request)


def _asked(sums: list[BatchSums]) -> BatchSums:
    return functools.reduce(lambda one, other: one + other, sums)


def with_foreign(operators: OperatorSet, scenario: Scenario) -> OperatorSet:
    """A compiled set with what the runs of the cases hold and published runs do not (their README names it).

    A copy of the KV cache a layer, one or two over all, and gates apart from their products."""
    if not scenario.launch.compile:
        return operators
    changed = [
        part for one in operators.operators for part in (_gates_apart(one) if one.kind == "activation" else [one])
    ]
    for group in scenario.model.layers:
        (state,) = kv_states(group, kv_cache_bits(scenario.precision), scenario.plan.tp)
        cached = Fraction(round(state.entry_bytes))
        tokens = Affine(64 * cached, keys=cached, sequences=cached)  # a slot a request, and half a block of 128
        each = Operator(
            kind="elementwise", label="clone", counts=(group.count,), bytes_read=tokens, bytes_written=tokens
        )
        once = replace(each, label="copy", counts=(1,), bytes_read=tokens.scaled(2))
        changed += [each, once]
    return replace(operators, operators=tuple(changed))


def _gates_apart(fused: Operator) -> list[Operator]:
    share = fused.bytes_written
    silu = replace(fused, label="silu", bytes_read=share, vector_flops=share.scaled(2))
    return [silu, replace(silu, label="product", bytes_read=share.scaled(2), vector_flops=share.scaled(Fraction(1, 2)))]


def operators_of(scenario: Scenario, *, shared_split: bool = False) -> dict[str, OperatorSet]:
    requests = capture_requests(scenario)
    found = {trace: _captured(replace(request, shared_split=shared_split)) for trace, request in requests.items()}
    return {trace: with_foreign(operators, scenario) for trace, operators in found.items()}


def _scenario_of_step(case: Case) -> Scenario:
    return scenario_of(case, Workload(input_length=1, output_length=1.0, mtp_tokens=int(case["drafts"])))


def operators_of_step(case: Case) -> OperatorSet:
    (operators,) = operators_of(_scenario_of_step(case), shared_split=case["shared_split"] == "1").values()
    return operators


def step_memory(case: Case) -> tuple[float, float]:
    operators = operators_of_step(case)
    drafting = int(case["drafts"]) > 0
    return weight_bytes(operators, drafting=drafting), float(activation_bytes(operators, _step_sums(case)))


def _step_sums(case: Case) -> BatchSums:
    query, context = float(case["query"]), float(case["context"])
    logits = query if case["phase"] == "decode" else 1.0
    one = request_sums(query, context, square=True, logits=logits)
    return repeated(one, float(case["batch"]))


def one_step(case: Case) -> float:
    scenario, operators = _scenario_of_step(case), operators_of_step(case)
    cost, sums = cost_of(scenario), _step_sums(case)
    total = float(step_seconds(operators, cost, sums).total)
    return 1e3 * (total + (float(draft_seconds(operators, cost, sums).total) if scenario.drafting else 0.0))


def steps() -> Iterator[Difference]:
    for case in rows("upstream_steps"):
        yield Difference(
            case=case["case"], kind=case["kind"], graph=case["graph"], figure="step", ours=one_step(case),
            theirs=float(case["step_ms"]),
        )  # fmt: skip


def forwards() -> Iterator[Difference]:
    """The forwards behind rows, each replica with the most of the requests."""
    kinds = {row["case"]: row["kind"] for row in rows("upstream_rows")}
    for case in rows("upstream_forwards"):
        scenario = scenario_of(case, Workload(input_length=1, output_length=1.0))
        (operators,) = operators_of(scenario).values()
        parts = []
        for text in case["requests"].split():
            count, _, lengths = text.partition("x")
            query, _, length = lengths.partition("of")
            one = request_sums(float(query), float(length) - float(query), square=True)
            mixed = " " in case["requests"]
            parts.append(repeated(one, float(count) if mixed else -(-int(count) // int(case["dp"]))))
        seconds = float(step_seconds(operators, cost_of(scenario), _asked(parts)).total)
        yield Difference(
            case=case["case"], kind=kinds[case["case"]], graph=case["graph"], figure=f"{case['phase']} forward",
            ours=1e3 * seconds, theirs=float(case["step_ms"]),
        )  # fmt: skip


def workload_of_row(case: Case) -> Workload:
    common = {"max_batched_tokens": int(case["budget"]), "prefix_cache_hit_rate": float(case["hit_rate"]),
              "mtp_tokens": int(case["drafts"])}  # fmt: skip
    if case["input"] != "lengths":
        return workload_of(input_length=int(case["input"]), output_length=float(case["output"]), **common)
    with tempfile.TemporaryDirectory() as folder:
        bins = load_distribution(length_file(Path(folder)), output_length=float(case["output"]))
    return workload_of(input_length=None, output_length=float(case["output"]), bins=bins, **common)


def evaluated(case: Case) -> ProbeBlock:
    scenario = scenario_of(case, workload_of_row(case))
    return evaluate_scenario(scenario, np.asarray([int(case["batch"])]), operators_of(scenario))


def figures_of(case: Case) -> dict[str, float]:
    """TTFT, TPOT and tokens/s of a row as the seeds' program prints them, from our evaluation."""
    block = evaluated(case)
    concurrency, output = float(block.concurrency[0]), float(case["output"])
    if case["phase"] == "prefill":
        mean = block.realised_input_length_mean[0] if case["input"] == "lengths" else float(case["input"])
        rate = 1e3 * concurrency * mean / block.makespan_ms[0]
        return {"ttft": block.ttft_ms[0], "tokens_per_s": rate}
    if case["phase"] == "decode":
        return {"tpot": block.tpot_inclusive_ms[0], "tokens_per_s": 1e3 * concurrency / block.tpot_inclusive_ms[0]}
    rate = 1e3 * concurrency * output / block.e2e_ms[0]
    return {"ttft": block.ttft_ms[0], "tpot": block.tpot_inclusive_ms[0], "tokens_per_s": rate}


THEIRS = {"ttft": "ttft_ms", "tpot": "tpot_ms", "tokens_per_s": "tokens_per_s"}


def answers() -> Iterator[Difference]:
    for case in rows("upstream_rows"):
        for figure, ours in figures_of(case).items():
            yield Difference(
                case=case["case"], kind=case["kind"], graph=case["graph"], figure=figure, ours=float(ours),
                theirs=float(case[THEIRS[figure]]),
            )  # fmt: skip


def summary(differences: list[Difference]) -> list[tuple[object, ...]]:
    grouped = collections.defaultdict(list)
    for one in differences:
        grouped[one.kind, one.graph, one.figure].append(one)
    return [
        (
            *key,
            len(found),
            statistics.median(abs(one.error) for one in found),
            max(found, key=lambda one: abs(one.error)),
        )
        for key, found in sorted(grouped.items())
    ]


PAGE = Path(__file__).parents[1] / "docs/reference/seeds.md"
BEGIN, END = "<!-- begin: python tests/upstream_parity.py -->\n", "<!-- end -->"
KINDS = {
    "dense": "dense, single steps", "published_check": "dense, rows of published runs", "whole_agg": "prompts in one step",
    "chunk_step": "a step of one chunk", "chunked_prefill": "prompts in chunks, prefill apart",
    "chunked_agg": "prompts in chunks, aggregated", "distribution": "length distributions",
    "prefix_cache": "prefix cache", "kv_int8": "KV cache of INT8", "linears": "BF16, W4A8 and FP8 linears",
    "dump_original": "dumped rows", "moe_ep": "Qwen3-30B-A3B, single steps", "moe_ep_optimizer": "Qwen3-30B-A3B, rows",
    "models": "MiniMax-M2", "deepseek": "DeepSeek-V3.1", "mtp": "DeepSeek-V3.1 with one draft", "pp": "pipeline of two",
}  # fmt: skip


def page_lines(differences: list[Difference]) -> list[str]:
    """The table of the page: each kind of case and graph, all its figures together."""
    lines = ["| cases | graph | figures | median error | largest error |", "|---|---|---|---|---|"]
    for kind, title in KINDS.items():
        for graph in ("eager", "compiled"):
            errors = [abs(one.error) for one in differences if (one.kind, one.graph) == (kind, graph)]
            if errors:
                told = f"{_percent(statistics.median(errors))} | {_percent(max(errors))}"
                lines.append(f"| {title} | {graph} | {len(errors)} | {told} |")
    return lines


def _percent(share: float) -> str:
    return f"{share:.3%}".replace("%", " %") if share >= 5e-6 else "below 0.001 %"


def with_table(page: str, differences: list[Difference]) -> str:
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return "".join([before, BEGIN, *(f"{line}\n" for line in page_lines(differences)), END, after])


if __name__ == "__main__":
    found = [*steps(), *forwards(), *answers()]
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")
    for kind, graph, figure, count, median, worst in summary(found):
        print(f"{kind:18} {graph:9} {figure:16} {count:4} {median:9.4%} {worst.error:+9.4%} {worst.case}")
    if "-v" in sys.argv:
        for one in found:
            print(f"{one.case:22} {one.kind:18} {one.figure:16} {one.ours:12.4f} {one.theirs:12.4f} {one.error:+9.4%}")
