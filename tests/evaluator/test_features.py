"""A feature is one module: what it refuses, what a reader should know, how well it is known; nothing else knows of it."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

from evaluator import evaluate, features, support
from evaluator.evaluate import assumptions_of, capture_requests, unsupported
from evaluator.features.feature import Feature, PlanWay, SupportPart
from evaluator.graph import capture_operators
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Plan
from evaluator.inputs.models import load_model
from evaluator.inputs.workloads.workload import Workload
from evaluator.scenario import Scenario
from store.errors import InputError

FOLDER = Path(features.__file__).parent


class Mine(Feature):
    """Replicas by threes."""

    plans = (PlanWay(name="threes", row="threes (dp)", plan=Plan(dp=3, ep=3), how="replicas by threes"),)
    ways = (SupportPart(part="threes of requests", state="stated", how="as stated"),)

    def lacking(self, scenario):
        return "no threes" if scenario.plan.dp == 3 else ""

    def refuses(self, scenario):
        return InputError("threes have one stage") if scenario.plan.dp == 3 and scenario.plan.pp > 1 else None

    def said(self, scenario):
        return [f"{scenario.plan.dp} replicas"]

    def said_of_cost(self, scenario, cost, sets):
        return [f"{len([*sets])} sets of operators priced"]

    def of_model(self, name, spec):
        yield SupportPart(part="threes", state="by hand", how=name)

    def of_device(self, profile):
        yield SupportPart(part="threes", state="data sheet", how=profile.name)


def test_a_feature_that_is_listed_is_asked_everywhere(monkeypatch):
    for module in (features, support):
        monkeypatch.setattr(module, "FEATURES", (*features.FEATURES, Mine()))
    usual = Scenario(
        model=load_model("Qwen/Qwen3-0.6B")[1],
        device=load_device("h100_sxm"),
        precision=Precision(),
        plan=Plan(),
        workload=Workload(input_length=100, output_length=10.0),
        phase="aggregated",
    )
    threes = replace(usual, plan=Plan(dp=3, pp=2))
    assert unsupported(usual) is None
    assert unsupported(threes).message == "threes have one stage"
    assert unsupported(replace(threes, convention="upstream")).message == "`convention=upstream` has no threes"
    said = assumptions_of(usual, {name: capture_operators(one) for name, one in capture_requests(usual).items()})
    assert {"1 replicas", "2 sets of operators priced"} <= {*said}
    found = [(part.part, part.state, part.how) for part in support.supported("Qwen/Qwen3-0.6B", "h100_sxm", "vllm")]
    assert ("threes", "by hand", "Qwen/Qwen3-0.6B") in found
    assert ("threes", "data sheet", "h100_sxm") in found
    assert ("threes, launched", "exact", "launch files have its flags") in found
    rows = {name: (part.state, part.how) for kind, name, part in support.support_table() if kind == "serving"}
    assert rows["threes (dp)"] == ("by hand", "replicas by threes; launched on vllm, sglang, trtllm")
    assert rows["threes of requests"] == ("stated", "as stated")


def test_every_module_of_features_is_listed():
    listed = {type(one).__module__.rpartition(".")[2] for one in features.FEATURES}
    assert listed == {path.stem for path in FOLDER.glob("*.py")} - {"__init__", "feature"}


def test_who_asks_names_no_feature():
    """`evaluate` words no refusal of its own; `support` reads no field by which a feature is told."""
    evaluated, asked = (ast.walk(ast.parse(Path(module.__file__).read_text())) for module in (evaluate, support))
    worded = [node for node in evaluated if isinstance(node, ast.Call) and ast.unparse(node.func) == "InputError"]
    assert worded == []
    told = {"images", "tiers", "bins", "dcp", "pcp", "redundant_experts", "micro_batches", "draft_states", "left_out"}
    assert not told & {node.attr for node in asked if isinstance(node, ast.Attribute)}
