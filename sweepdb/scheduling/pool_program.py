"""Models on a pool by hour: an integer program for HiGHS.

Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from store.errors import InputError

if TYPE_CHECKING:
    from evaluator.arithmetic import FloatArray, Integers

_LONGEST_S = 60.0  # of each of the two solutions
_ROUNDED = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Choice:
    """A deployment for all day, and its replicas by hour."""

    device: str
    num_devices: int
    needed: Integers
    cost: float = 1.0  # of a device's minute, such as its price


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pool:
    """Devices by kind, minutes of an hour and of a start, fewest replicas."""

    devices: Mapping[str, int]
    minutes: Integers
    start_up: int
    minimum: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Allotted:
    """By model: choice, replicas by hour, lost requests."""

    chosen: tuple[int, ...]
    replicas: tuple[Integers, ...]
    lost: tuple[FloatArray, ...]
    cost: float  # device-minutes, where no cost is given
    proven: bool  # whether no other answer is better


def allotted(models: Sequence[tuple[Sequence[Choice], FloatArray]], pool: Pool) -> Allotted | None:
    """Fewest lost requests, then the cheapest; None: impossible.

    An hour with part of its replicas loses the rest of its requests. A replica holds devices from its start, in the
    hour before."""
    program = _Program(models, pool)
    lost = program.solved(program.lost_requests)
    if lost is None:
        return None
    program.highs.addConstr(program.lost_requests <= lost + _ROUNDED * (1.0 + lost))
    cost = program.solved(program.cost)
    return None if cost is None else program.answer(cost)


class _Program:
    def __init__(self, models: Sequence[tuple[Sequence[Choice], FloatArray]], pool: Pool) -> None:
        self.highs: Any = _solver()
        self.models, self.pool, self.proven = models, pool, True
        self.taken = [[self._choice(choice) for choice in choices] for choices, _ in models]
        self.lost = [self._lost(number, requests) for number, (_, requests) in enumerate(models)]
        self._share_devices()
        self.lost_requests = sum((one for hours in self.lost for one in hours), start=self.highs.expr())
        self.cost = sum(
            (
                choice.cost * choice.num_devices * (int(pool.minutes[hour]) * running + pool.start_up * starting)
                for (choices, _), taken in zip(models, self.taken, strict=True)
                for choice, (_, hours) in zip(choices, taken, strict=True)
                for hour, (running, starting) in enumerate(hours)
            ),
            start=self.highs.expr(),
        )

    def _choice(self, choice: Choice) -> tuple[Any, list[tuple[Any, Any]]]:
        most, before = self.pool.devices.get(choice.device, 0) // choice.num_devices, None
        chosen = self.highs.addBinary()
        hours = []
        for _ in range(self.pool.minutes.size):
            running, starting = self.highs.addIntegral(lb=0, ub=most), self.highs.addVariable(lb=0)
            self.highs.addConstr(running <= most * chosen)
            self.highs.addConstr(starting >= (running if before is None else running - before))
            hours.append((running, starting))
            before = running
        return chosen, hours

    def _lost(self, number: int, requests: FloatArray) -> list[Any]:
        choices, taken = self.models[number][0], self.taken[number]
        self.highs.addConstr(sum((chosen for chosen, _ in taken), start=self.highs.expr()) == 1)
        found = []
        for hour, came in enumerate(requests.tolist()):
            running = [hours[hour][0] for _, hours in taken]
            self.highs.addConstr(sum(running, start=self.highs.expr()) >= self.pool.minimum)
            lost = self.highs.addVariable(lb=0)
            # 600 requests that 3 replicas carry: 2 lose 200.
            carried = (
                came / max(1, int(choice.needed[hour])) * one for choice, one in zip(choices, running, strict=True)
            )
            self.highs.addConstr(lost + sum(carried, start=self.highs.expr()) >= came)
            found.append(lost)
        return found

    def _share_devices(self) -> None:
        for kind, devices in self.pool.devices.items():
            of_kind = [
                (choice.num_devices, hours)
                for (choices, _), taken in zip(self.models, self.taken, strict=True)
                for choice, (_, hours) in zip(choices, taken, strict=True)
                if choice.device == kind
            ]
            for hour in range(self.pool.minutes.size):
                serving, also_starting = self.highs.expr(), self.highs.expr()
                for each, hours in of_kind:
                    serving += each * hours[hour][0]
                    if hour:
                        also_starting += each * (hours[hour - 1][0] + hours[hour][1])
                if of_kind:
                    self.highs.addConstr(serving <= devices)
                if of_kind and hour and self.pool.start_up:
                    self.highs.addConstr(also_starting <= devices)

    def solved(self, least: Any) -> float | None:  # noqa: ANN401  an expression of HiGHS
        self.highs.minimize(least)
        status = self.highs.getModelStatus().name
        if status == "kInfeasible":
            return None
        self.proven &= status == "kOptimal"
        value = float(self.highs.getObjectiveValue())
        if not abs(value) < 1e29:
            raise InputError("HiGHS found no answer in a minute", hint="fewer models, a shorter day, or one `device`")
        return value

    def answer(self, cost: float) -> Allotted:
        chosen = [int(np.argmax([self.highs.val(variable) for variable, _ in taken])) for taken in self.taken]
        replicas = [
            np.asarray([round(self.highs.val(running)) for running, _ in taken[place][1]], dtype=np.int64)
            for place, taken in zip(chosen, self.taken, strict=True)
        ]
        lost = [np.asarray([max(0.0, self.highs.val(one)) for one in hours]) for hours in self.lost]
        return Allotted(chosen=tuple(chosen), replicas=tuple(replicas), lost=tuple(lost), cost=cost, proven=self.proven)


def _solver() -> Any:  # noqa: ANN401  no types are published
    try:
        highspy = import_module("highspy")
    except ImportError:
        raise InputError(
            "several models on one pool need HiGHS, which is not installed", hint="pip install 'sweepdb[pool]'"
        ) from None
    solver = highspy.Highs()
    for option, value in {"output_flag": False, "mip_rel_gap": 1e-9, "time_limit": _LONGEST_S, "threads": 1}.items():
        solver.setOptionValue(option, value)
    return solver
