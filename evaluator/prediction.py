"""Latencies of a deployment from the device profile, operators and an engine profile.

Not here: where deployments come from (evaluator.deployments), and how wrong the latencies are (evaluator.scoring)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from evaluator.capture import CaptureRequest, capture
from evaluator.cost import CostModel
from evaluator.cost.calibrated import calibrated_cost
from evaluator.deployments import Deployment
from evaluator.device import DeviceProfile
from evaluator.evaluate import capture_requests, cost_model
from evaluator.operators import OperatorSet
from evaluator.serving.closed_loop import ClosedLoop, LoopTimes, simulate
from evaluator.serving.engines import EngineProfile
from evaluator.serving.phases import Scenario
from evaluator.serving.step_tables import StepTable, TableExtents, step_table
from evaluator.workload import Workload

SERVED_ROUTING = "power_law_1.2"  # the skew that tools of the field assume for real prompts
LONGEST_STEP = 16_384  # tokens of a step that tables reach; proportional beyond


def operators_of(
    deployment: Deployment, captured: Callable[[CaptureRequest], OperatorSet] | None = None
) -> Mapping[str, OperatorSet]:
    """Both operator sets of a deployment, by trace. `captured` looks them up; by default torch traces them."""
    scenario = Scenario(
        model=deployment.model,
        device=deployment.device,
        precision=deployment.precision,
        plan=deployment.plan,
        workload=Workload(input_length=deployment.input_length, output_length=deployment.output_length),
        phase="aggregated",
    )
    look_up = captured or _captured
    return {trace: look_up(request) for trace, request in capture_requests(scenario, compile_graphs=True).items()}


@lru_cache(maxsize=256)
def _captured(request: CaptureRequest) -> OperatorSet:
    return capture(request)


def serving_cost(device: DeviceProfile) -> CostModel:
    """The device's cost model with experts routed as real prompts do, where it was measured so."""
    if device.family == "theoretical":
        return cost_model(device, "physical")
    return calibrated_cost(device, routing=SERVED_ROUTING)


def table_of(
    deployment: Deployment, operators: Mapping[str, OperatorSet], *, sequences: int, cost: CostModel | None = None
) -> StepTable:
    """Step times of one replica, for up to `sequences` users of it."""
    mean = (1.0 + deployment.shortest) / 2
    windows = tuple(sorted({group.window for group in deployment.model.layers if group.window is not None}))
    extents = TableExtents(
        input_length=deployment.input_length,
        decode_keys=mean * (deployment.input_length + deployment.output_length / 2),
        sequences=sequences,
        tokens=LONGEST_STEP + sequences,
    )
    return step_table(
        operators,
        cost or serving_cost(deployment.device),
        extents,
        windows=windows,
        replicas=deployment.plan.dp,
    )


def predicted(deployment: Deployment, table: StepTable, engine: EngineProfile) -> LoopTimes:
    """The closed loop of one replica with its share of the users."""
    return simulate(table, engine, loop_of(deployment))


def loop_of(deployment: Deployment) -> ClosedLoop:
    """The closed loop of one replica of a deployment, with its share of the users."""
    return ClosedLoop(
        users=deployment.users_of_replica,
        output_length=deployment.output_length,
        shortest=deployment.shortest,
        poll_steps=deployment.poll_steps,
        replicas=deployment.plan.dp,
    )
