"""SQL conditions of a scope: names found, numbers equal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from queries.asking.declaring import sides_of
from queries.asking.options import Scope
from queries.scoping.names import device_name, find_model, find_value, workload_ids
from queries.scoping.voided import read_hidden
from store.light_dataclass import dataclass
from store.reading import ReadTransaction
from store.schema import FORMULA_MODELS, SERVICE

_HAS_PROBES = "EXISTS (SELECT 1 FROM block b WHERE b.scenario_id = sc.id)"
_PLAIN = {
    "input_length": "w.input_length",
    "output_length": "w.output_length",
    "prefix_cache_hit_rate": "w.prefix_cache_hit_rate",
    "max_batched_tokens": "w.max_batched_tokens",
    "mtp_tokens": "w.mtp_tokens",
    "images": "w.images",
    "serving_cost_ms": "sj.serving_cost_ms",
    "instance_devices": "p.num_devices",
}
_SERVED = {name: f"sj.{name}" for name in SERVICE if name != "routing"}
# A prefill instance of an engine reads no client: it stands beside any. Formulas read none in any phase.
_OF_FORMULAS = ", ".join(f"'{name}'" for name in FORMULA_MODELS)
_UNREAD = f"({{}} IS NULL AND sj.phase <> 'aggregated' AND sj.serving_model NOT IN ({_OF_FORMULAS}))"
_NAMED = {
    "linear_quantization": ("pr.linear_quantization", ("precision", "linear_quantization")),
    "attention_quantization": ("pr.attention_quantization", ("precision", "attention_quantization")),
    "convention": ("sj.convention", ("subject", "convention")),
    "serving_model": ("sj.serving_model", ("subject", "serving_model")),
    "family": ("d.family", ("device", "family")),
    "encoder_split": ("w.encoder_split", ("workload", "encoder_split")),
}


@dataclass(slots=True)
class Filter:
    """Conditions, and values of their marks."""

    conditions: list[str] = field(default_factory=lambda: ["sc.status = 'ok'", _HAS_PROBES])
    parameters: list[object] = field(default_factory=list)

    def add(self, condition: str, *parameters: object) -> None:
        self.conditions.append(condition)
        self.parameters.extend(parameters)


def leave_out_voided(transaction: ReadTransaction, wanted: Filter) -> None:
    hidden = read_hidden(transaction).whole_scenarios
    if hidden:
        wanted.add(f"sc.id NOT IN ({', '.join(map(str, hidden))})")


def bound_devices(wanted: Filter, most_devices: int | None) -> None:
    """Leaves out larger plans."""
    if most_devices is not None:
        wanted.add("p.num_devices <= ?", most_devices)


def add_filters(transaction: ReadTransaction, scope: Scope, wanted: Filter) -> None:
    _filter_names(transaction, scope, wanted)
    for name, column in _PLAIN.items():
        if getattr(scope, name) is not None:
            wanted.add(f"{column} = ?", getattr(scope, name))
    for name, column in _SERVED.items():
        if getattr(scope, name) is not None:
            wanted.add(f"({column} = ? OR {_UNREAD.format(column)})", getattr(scope, name))
    if scope.compile is not None:
        wanted.add("sj.compile = ?", scope.compile)


def _filter_names(transaction: ReadTransaction, scope: Scope, wanted: Filter) -> None:
    if scope.models:
        ids = [find_model(transaction, name) for name in scope.models]
        wanted.add(f"sj.model_id IN ({marks(ids)})", *ids)
    if scope.devices:
        names = [device_name(transaction, name) for name in scope.devices]
        wanted.add(f"sj.device_name IN ({marks(names)})", *names)
    if scope.workload is not None:
        ids = workload_ids(transaction, scope.workload)
        wanted.add(f"sj.workload_id IN ({marks(ids)})", *ids)
    if scope.workload_keys:
        wanted.add(f"w.key IN ({marks(scope.workload_keys)})", *scope.workload_keys)
    for name, (column, source) in _NAMED.items():
        value = getattr(scope, name)
        if value is not None:
            wanted.add(f"{column} = ?", find_value(transaction, name.replace("_", " "), value, source))
    if scope.image_size is not None:
        wanted.add("w.image_width = ? AND w.image_height = ?", *sides_of(scope.image_size))
    if scope.routing is not None:
        found = find_value(transaction, "routing", scope.routing, ("subject", "routing"))
        wanted.add("(sj.routing = ? OR sj.routing IS NULL)", found)


def marks(values: Sequence[object]) -> str:
    return ", ".join("?" for _ in values)
