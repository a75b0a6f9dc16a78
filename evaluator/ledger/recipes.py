"""Public launch flags and clients behind measured points: recipes.yaml."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from evaluator.inputs.launch import Client
from evaluator.inputs.yaml_file import parse_yaml

FILE = "recipes.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Features that choose a recipe's flags."""

    point_id: str
    engine: str | None
    model: str
    device: str
    precision: str
    users: float
    input_length: float
    output_length: float
    tp: int
    instances: int = 1  # that decode


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """None: the engine's own choice."""

    client: Client | None = None
    token_budget: int | None = None
    narrow_keys: bool = False  # keys and values in eight bits
    other_kernels: bool = False  # than those of the shipped tables
    wait_steps: int = 0  # decode steps that a prompt waits for others to join it
    decode_seats: int | None = None  # requests that a replica of a decode instance takes, where sides are apart
    attention: str | None = None  # whose kernels attend
    host_ms: float = 0.0  # of a step that waits for the scheduler, where the engine's usual steps do not
    expert_efficiency: float | None = None  # share of the device's rates that experts reach


_SETTINGS = ("shortest", "poll_steps", "wait_steps", "narrow_keys", "other_kernels")


def has_recipe(point_id: str) -> bool:
    return re.match(_recipes()["point_ids"], point_id) is not None


def replicates_attention(point_id: str) -> bool:
    return re.search(_recipes()["attention_replicas"], point_id) is not None


def flags_of(served: Served) -> Flags:
    if not has_recipe(served.point_id):
        return _generated(served)
    found = {name: _setting(name, served) for name in _SETTINGS}
    budget, seats = _setting("token_budget", served), _setting("decode_seats", served)
    return Flags(
        client=Client(shortest=found["shortest"] or 1.0, poll_steps=int(found["poll_steps"] or 1)),
        token_budget=None if budget is None else int(budget),
        narrow_keys=bool(found["narrow_keys"]),
        other_kernels=bool(found["other_kernels"]),
        wait_steps=int(found["wait_steps"] or 0),
        decode_seats=None if seats is None else int(seats),
    )


def client_of(shortest: float, served: Served) -> Client | None:
    """Lengths all alike say nothing of the server: None, its users drift as its engine's do, unless known in step."""
    found = shortest if shortest < 1.0 else _first(_recipes()["in_step"], served)
    return None if found is None else Client(shortest=found)


def _generated(served: Served) -> Flags:
    """A page's, or a generator's where the point is one of its benchmarks, whose clients ask for equal lengths."""
    generated, pages = _recipes()["generated"], _recipes()["pages"]
    if re.match(pages["point_ids"], served.point_id):
        said = {name: _said(rules, served) for name, rules in pages.items() if name != "point_ids"}
        return Flags(**{name: value for name, value in said.items() if value is not None})
    if re.match(generated["point_ids"], served.point_id) is None:
        return Flags()
    budget = _first(generated["token_budget"], served)
    return Flags(client=client_of(1.0, served), token_budget=None if budget is None else int(budget))


@functools.cache
def _recipes() -> Mapping[str, Any]:
    text = resources.files("evaluator.ledger").joinpath(FILE).read_text(encoding="utf-8")
    content = parse_yaml(text, FILE)
    if not isinstance(content, dict):
        raise TypeError(FILE)
    return content


def _setting(name: str, served: Served) -> float | None:
    return _first(_recipes()[name], served)


def _first(rules: Sequence[Mapping[str, Any]], served: Served) -> float | None:
    return next((_value(rule, served) for rule in rules if _applies(rule, served)), None)


def _said(rules: Sequence[Mapping[str, Any]], served: Served) -> Any:  # noqa: ANN401  a word or a number
    return next((rule["value"] for rule in rules if _applies(rule, served)), None)


def _applies(rule: Mapping[str, Any], served: Served) -> bool:
    conditions: Mapping[str, Callable[[Any], bool]] = {
        "engine": lambda engine: served.engine == engine,
        "model": lambda part: part in served.model,
        "precision": lambda part: part in served.precision,
        "devices": lambda starts: served.device.startswith(tuple(starts)),
        "tp": lambda size: served.tp == size,
        "instances": lambda number: served.instances == number,
        "tp_below": lambda size: served.tp < size,
        "users_from": lambda users: served.users >= users,
        "users_among": lambda numbers: served.users in numbers,
        "lengths": lambda both: [round(served.input_length), round(served.output_length)] == both,
        "longer_than": lambda tokens: served.input_length + served.output_length > tokens,
    }
    return all(holds(rule[name]) for name, holds in conditions.items() if name in rule)


def _value(rule: Mapping[str, Any], served: Served) -> float:
    if "value" in rule:
        return float(rule["value"])
    shares = {"users": served.users, "inputs": served.input_length, "outputs": served.output_length}
    total = round(sum(rule.get(name, 0) * amount for name, amount in shares.items()) + rule.get("plus", 0))
    step = int(rule.get("multiple", 1))
    return float(max(total // step * step, rule.get("least", 0)))
