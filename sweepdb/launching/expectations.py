"""A launched deployment as its client sees it, at mean lengths.

Aggregated rows are stored for nominal lengths and a server that stays full. Pairs join a row of each pool in closed
form (evaluator.serving.pairs, queries/waits.sql). expected.json keeps them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluator import serving
from evaluator.ledger import whole_run_rate
from queries.probes import find_probe
from store.errors import InputError, StoreError
from store.location import StoreLocation
from sweepdb.launching.server_command import Role, ServerCommand
from sweepdb.launching.stored_instance import StoredInstance
from sweepdb.restoring import scenario_with_operators

EXPECTED = "expected.json"
MEASURED_AS = "measured_as"
DEPLOYMENT = "deployment"  # as the client sees it; what validate compares, too
RESULTS = "results"
_Values = Mapping[str, str | int | float]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchedRole:
    """One pool."""

    role: Role
    probe: str
    instances: int
    model: str
    device: str
    input_length: int
    output_length: float
    prefix_cache_hit_rate: float
    hit_rates: Mapping[str, float]  # of what lies outside the devices, by keyword; none in files of before


def launched_roles(folder: Path) -> tuple[LaunchedRole, ...]:
    said = _read(folder)
    try:
        names = LaunchedRole.__slots__[1:-1]
        return tuple(
            LaunchedRole(role=role, hit_rates=one.get("hit_rates", {}), **{name: one[name] for name in names})
            for role, one in said["roles"].items()
        )
    except (KeyError, TypeError, AttributeError):
        raise InputError(f"{folder / EXPECTED} is none of `sweepdb launch`") from None


def deployed(folder: Path) -> Mapping[str, float]:
    """Concurrency and mean lengths; nothing without an expectation."""
    return {
        name: float(value)
        for name, value in (_read(folder).get(DEPLOYMENT) or {}).items()
        if name in {"users", "input_length", "output_length"}
    }


def launched_as(path: Path) -> _Values | None:
    """Facts of a launched folder, or of one around a result; None elsewhere."""
    if (path / EXPECTED).is_file():
        return _stated(path)
    above = [one for one in path.parents[:3] if (one / EXPECTED).is_file()]
    with suppress(InputError):  # a file of that name further up may be anybody's
        return _stated(above[0]) if above else None
    return None


def _stated(folder: Path) -> _Values:
    stated = _read(folder).get(MEASURED_AS)
    if not isinstance(stated, dict) or not all(isinstance(one, str | int | float) for one in stated.values()):
        raise InputError(f"{folder / EXPECTED} is none of `sweepdb launch`")
    return {str(name): value for name, value in stated.items()}


def results_of(path: Path) -> Path:
    return path / RESULTS if (path / EXPECTED).is_file() else path


def _read(folder: Path) -> Mapping[str, Any]:
    path = folder / EXPECTED
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        hint = "name a file, or a folder that `sweepdb launch` wrote"
        raise InputError(f"{folder} holds no {EXPECTED}", hint=hint) from None
    except (ValueError, OSError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    if not isinstance(said, dict):
        raise InputError(f"{path} is none of `sweepdb launch`")
    return said


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeDeployment:
    """Means that its benchmark should measure."""

    users: int
    input_length: float
    output_length: float
    requests_per_s: float
    output_tokens_per_s: float
    ttft_ms: float
    tpot_exclusive_ms: float
    e2e_ms: float


def mean_share(instance: StoredInstance) -> float:
    shortest = instance.values["shortest_length"]
    return (1.0 + (float(shortest) if isinstance(shortest, int | float) else 1.0)) / 2.0


def whole_deployment(commands: Sequence[ServerCommand], location: StoreLocation) -> WholeDeployment | None:
    """One row's instances, or a pair's.

    None under formulas, or without a stored single prompt."""
    if len(commands) == 1:
        return _of_instances(commands[0], location)
    return _of_pair(commands[0], commands[1], location)


def _of_instances(command: ServerCommand, location: StoreLocation) -> WholeDeployment:
    instance, share = command.instance, mean_share(command.instance)
    answer, users = share * instance.workload.output_length, instance.concurrency * command.instances
    run = _rate_of_run(instance, location, users)
    rate = command.instances * _number(instance, "requests_per_s") if run is None else run / answer
    return WholeDeployment(
        users=users,
        input_length=share * _number(instance, "input_length_mean"),
        output_length=answer,
        requests_per_s=rate,
        output_tokens_per_s=rate * answer,
        ttft_ms=_number(instance, "ttft_ms"),
        tpot_exclusive_ms=_number(instance, "tpot_exclusive_ms"),
        e2e_ms=_number(instance, "e2e_ms"),
    )


def _rate_of_run(instance: StoredInstance, location: StoreLocation, users: int) -> float | None:
    """The benchmark's output tokens/s: it ends with its last answers, when fewer and fewer ask.

    None of what it does not ask (lengths in bins), and of rows of an older version."""
    if instance.workload.bins:
        return None
    try:
        scenario, operators = scenario_with_operators(location, instance.probe.partition(":")[0])
    except StoreError:
        return None
    return whole_run_rate(scenario, instance.batch_size, operators, users)


def _of_pair(prefill: ServerCommand, decode: ServerCommand, location: StoreLocation) -> WholeDeployment | None:
    alone = _lone_prompt(prefill.instance, location)
    if alone is None or prefill.instance.engine is None:
        return None
    share, sent = mean_share(decode.instance), prefill.instance
    answer, link = share * decode.instance.workload.output_length, sent.scenario.device.links[0]
    receiving = alone["ttft_ms"] - alone["makespan_ms"]
    side = serving.PrefillSide(
        alone_ms=share * alone["makespan_ms"] + receiving,
        service_ms=share * alone["prompt_service_ms"],
        servers=prefill.instances * sent.plan.dp,
        request_ms=receiving,
    )
    decoding = serving.DecodeSide(
        decoding=float(decode.instance.concurrency * decode.instances),
        tpot_ms=_number(decode.instance, "tpot_exclusive_ms"),
        tokens_per_step=_number(decode.instance, "tokens_per_step"),
    )
    moved = serving.transfer_ms(
        share * alone["kv_bytes_per_request"],
        sent.plan.tp * sent.plan.pp,
        serving.moving_bytes_per_s(link.bandwidth_bytes_per_s * link.efficiency),
    )
    prompts = sent.values["prompts_per_user"]
    load = serving.PairLoad(
        output_length=answer,
        transfer_ms=moved,
        prompts_per_user=prompts if isinstance(prompts, int) else serving.PROMPTS_PER_USER,
    )
    found = serving.pair_times(side, decoding, load)
    if found is None:  # prefill cannot keep up
        return None
    return WholeDeployment(
        users=max(round(found.users), 1),
        input_length=share * _number(decode.instance, "input_length_mean"),
        output_length=answer,
        requests_per_s=found.requests_per_s,
        output_tokens_per_s=found.requests_per_s * answer,
        ttft_ms=found.ttft_ms,
        tpot_exclusive_ms=found.tpot_ms,
        e2e_ms=found.e2e_ms,
    )


_LONE = ("ttft_ms", "makespan_ms", "prompt_service_ms", "kv_bytes_per_request")


def _lone_prompt(instance: StoredInstance, location: StoreLocation) -> dict[str, float] | None:
    """From the plan's prefill row at batch size 1."""
    reference = f"{instance.probe.partition(':')[0]}:1"
    try:
        columns, row = find_probe(location, reference)
    except InputError:  # it was not among the batch sizes
        return None
    values = dict(zip(columns, row, strict=True))
    found = {name: float(value) for name in _LONE if isinstance(value := values[name], int | float)}
    return found if len(found) == len(_LONE) else None


def _number(instance: StoredInstance, column: str) -> float:
    value = instance.values[column]
    if not isinstance(value, int | float):
        raise TypeError(f"{column} of {instance.probe} is no number")
    return float(value)
