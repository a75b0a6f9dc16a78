"""Every case of the seeds' program through our evaluator: how far off each figure is, by kind of case.

    python tests/upstream_parity.py

prints the table that docs/explanation/seeds.md holds; test_upstream_parity.py holds the bounds."""

from __future__ import annotations

import collections
import functools
import statistics
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

# Where packages lie when this is run as a program.
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from evaluator_cases import upstream_device
from restated import rows

from evaluator.evaluate import capture_requests, cost_of, evaluate_scenario
from evaluator.graph.capture import capture_operators
from evaluator.graph.sums import BatchSums, repeated, request_sums
from evaluator.inputs import Launch, Precision, Workload, check_precision, load_model, workload_of
from evaluator.inputs.plan import Plan
from evaluator.pricing.step import draft_seconds, operator_seconds, step_seconds
from evaluator.scenario import Scenario

GIB = 2**30
Case = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Ours and theirs of one figure of one case."""

    case: str
    kind: str
    graph: str
    figure: str
    ours: float
    theirs: float

    @property
    def error(self) -> float:
        """Relative error."""
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


def operators_of(scenario: Scenario):
    return {trace: _captured(request) for trace, request in capture_requests(scenario).items()}


def _asked(sums: list[BatchSums]) -> BatchSums:
    return functools.reduce(lambda one, other: one + other, sums)


def one_step(case: Case) -> tuple[float, float]:
    """Milliseconds of a step: all of it, and of gates of linears alone."""
    scenario = scenario_of(case, Workload(input_length=1, output_length=1.0, mtp_tokens=int(case["drafts"])))
    (operators,) = operators_of(scenario).values()
    cost = cost_of(scenario)
    query, context = float(case["query"]), float(case["context"])
    logits = query if case["phase"] == "decode" else 1.0
    windows = operators.windows
    sums = repeated(request_sums(query, context, square=True, logits=logits, windows=windows), float(case["batch"]))
    total = float(step_seconds(operators, cost, sums).total)
    if scenario.drafting:
        total += float(draft_seconds(operators, cost, sums).total)
    gates = sum(
        one.count * float(operator_seconds(one, cost, sums).total())
        for one in operators.operators
        if one.kind == "activation" or one.label.endswith("activation.multiply")
    )
    return 1e3 * total, 1e3 * gates


def steps() -> Iterator[Difference]:
    """Single steps. Of compiled ones the copies of the KV cache and the gates, which that run did not fuse, are out."""
    for case in rows("upstream_steps"):
        ours, gates = one_step(case)
        theirs = float(case["step_ms"])
        if case["graph"] == "compiled":
            ours, theirs = ours - gates, theirs - float(case["foreign_ms"]) - float(case["unfused_ms"])
        yield Difference(
            case=case["case"], kind=case["kind"], graph=case["graph"], figure="step", ours=ours, theirs=theirs
        )


def forwards() -> Iterator[Difference]:
    """The forwards behind rows of eager cases, each replica with the most of the requests."""
    kinds = {row["case"]: row["kind"] for row in rows("upstream_rows")}
    for case in rows("upstream_forwards"):
        if case["graph"] == "compiled":
            continue
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
            case=case["case"], kind=kinds[case["case"]], graph="eager", figure=f"{case['phase']} forward",
            ours=1e3 * seconds, theirs=float(case["step_ms"]),
        )  # fmt: skip


def workload_of_row(case: Case) -> Workload:
    common = {"max_batched_tokens": int(case["budget"]), "prefix_cache_hit_rate": float(case["hit_rate"]),
              "mtp_tokens": int(case["drafts"])}  # fmt: skip
    return workload_of(input_length=int(case["input"]), output_length=float(case["output"]), **common)


def figures_of(case: Case) -> dict[str, float]:
    """TTFT, TPOT and tokens/s of a row as the seeds' program prints them, from our evaluation."""
    scenario = scenario_of(case, workload_of_row(case))
    block = evaluate_scenario(scenario, np.asarray([int(case["batch"])]), operators_of(scenario))
    concurrency, output = float(block.concurrency[0]), float(case["output"])
    if case["phase"] == "prefill":
        rate = 1e3 * concurrency * float(case["input"]) / block.makespan_ms[0]
        return {"ttft": block.ttft_ms[0], "tokens_per_s": rate}
    if case["phase"] == "decode":
        return {"tpot": block.tpot_inclusive_ms[0], "tokens_per_s": 1e3 * concurrency / block.tpot_inclusive_ms[0]}
    rate = 1e3 * concurrency * output / block.e2e_ms[0]
    return {"ttft": block.ttft_ms[0], "tpot": block.tpot_inclusive_ms[0], "tokens_per_s": rate}


THEIRS = {"ttft": "ttft_ms", "tpot": "tpot_ms", "tokens_per_s": "tokens_per_s"}


def answers() -> Iterator[Difference]:
    """Rows of optimisations."""
    for case in rows("upstream_rows"):
        if case["input"] == "lengths":
            continue
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
        (*key, len(found), statistics.median(abs(one.error) for one in found), max(found, key=lambda one: abs(one.error)))
        for key, found in sorted(grouped.items())
    ]


if __name__ == "__main__":
    found = [*steps(), *forwards(), *answers()]
    for kind, graph, figure, count, median, worst in summary(found):
        print(f"{kind:18} {graph:9} {figure:16} {count:4} {median:9.4%} {worst.error:+9.4%} {worst.case}")
    if "-v" in sys.argv:
        for one in found:
            print(f"{one.case:22} {one.kind:18} {one.figure:16} {one.ours:12.4f} {one.theirs:12.4f} {one.error:+9.4%}")
