"""Formats and pipeline stages that a plan looks at by itself: narrower weights, and stages where nodes are crossed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace

from evaluator import inputs
from evaluator.identity import precision_record
from evaluator.request import NamedModel, SweepRequest
from evaluator.scenario import usual_serving_model
from queries.scoping import formats_title
from store.errors import InputError
from store.light_dataclass import dataclass
from sweepdb.evaluating.possible import node_bytes, with_stages
from sweepdb.evaluating.requests import BuiltRequest, build_request
from sweepdb.evaluating.sweep_options import SweepOptions

AT_LOAD = "FP8"  # the format that engines make of 16-bit weights while they load them
_NAMED = ("linear", "experts", "mixers", "head")  # options that ask about one format alone
_NARROWER = 0.8  # of the published bytes: what saves less is no answer of its own
_AS_NARROW = 1.05  # of what quantising at load leaves: a checkpoint of so many bytes takes its place


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The weights as published, beside one node of a device."""

    title: str  # as groups of rows name their formats
    weight_bytes: float
    node_devices: int
    node_bytes: float  # that a node has for weights

    @property
    def nodes(self) -> int:
        return -(-int(self.weight_bytes) // int(self.node_bytes))


@dataclass(frozen=True, slots=True, kw_only=True)
class LookedAt:
    """The request that a plan evaluates, and facts that its answer explains itself by."""

    built: BuiltRequest
    published: str = ""  # title of the published format
    origins: Mapping[str, str] = field(default_factory=dict)  # where narrower weights come from, by title
    weights: Mapping[str, Weights] = field(default_factory=dict)  # by device
    without_stages: str | None = None  # why no pipeline stages were looked at, where they might pay


def request_in_formats(options: SweepOptions, store: str | None, *, crossing: bool = False) -> LookedAt:
    """The request of a plan. `crossing`: its best plan crosses nodes, so that stages are worth a look anyhow."""
    built = build_request(options, None, store)
    published = _title(built.parts[0])
    weights = {device.name: _weights(part, device) for part in built.parts for device in part.devices}
    parts, notes, origins = list(built.parts), list(built.notes), dict[str, str]()
    for narrower, origin in _narrower(options):
        try:
            found = build_request(narrower, None, store)
        except InputError as error:  # such as drafts that a checkpoint lacks
            notes.append(f"{origin} was not looked at: {error.message}")
            continue
        # Rows are of a shape whatever its weights are published in: its name stays that which was asked for.
        parts += (replace(part, models=_named_as(part, built.parts[0])) for part in found.parts)
        origins[_title(found.parts[0])] = origin
    if origins:
        said = " and ".join(f"{title} ({origin})" for title, origin in origins.items())
        notes.append(f"looked at too: {said}; name a format to ask about it alone (`quantization=BF16`)")
    refused: str | None = None
    if options.pp_sizes is None:
        staged = [with_stages(part, crossing=crossing) for part in parts]
        parts = [part for part, _ in staged]
        refused = next((why for _, why in staged if why is not None), None)
    return LookedAt(
        built=replace(built, parts=tuple(dict.fromkeys(parts)), notes=tuple(dict.fromkeys(notes))),
        published=published,
        origins=origins,
        weights=weights,
        without_stages=refused,
    )


def _named_as(part: SweepRequest, asked: SweepRequest) -> tuple[NamedModel, ...]:
    return tuple(replace(model, name=asked.models[0].name) for model in part.models)


def _title(part: SweepRequest) -> str:
    return formats_title(precision_record(part.precisions[0]))


def _weights(part: SweepRequest, device: inputs.DeviceProfile) -> Weights:
    return Weights(
        title=_title(part),
        weight_bytes=inputs.bytes_of_weights(part.models[0].spec, part.precisions[0]),
        node_devices=device.grid[-1],
        node_bytes=node_bytes(device),
    )


def _narrower(options: SweepOptions) -> Iterator[tuple[SweepOptions, str]]:
    """The same question in narrower formats, on the devices that compute in them, with where such weights come from."""
    if any(getattr(options, part) for part in _NAMED):
        return
    name, spec = inputs.load_model(options.models[0])
    published, at_load = inputs.published_bytes(spec), inputs.bytes_of_weights(spec, inputs.Precision(linear=AT_LOAD))
    if published is None:
        return
    devices = {given: inputs.load_device(given, family=options.family) for given in options.devices}
    without = set(devices)  # those that no checkpoint serves that is as narrow
    for checkpoint, other in _checkpoints(name, published).items():
        able = tuple(given for given, device in devices.items() if _computes(device, other))
        if (inputs.published_bytes(other) or 0.0) <= at_load * _AS_NARROW:
            without -= {*able}
        if able:
            yield replace(options, models=(checkpoint,), devices=able), checkpoint
    if at_load > published * _NARROWER:
        return
    compute = inputs.linear_format(AT_LOAD).compute
    able = tuple(
        given
        for given, device in devices.items()
        if given in without and compute in dict(device.matrix_flops_per_s) and _quantises(options, device)
    )
    if able:
        yield replace(options, linear=(AT_LOAD,), devices=able), "quantised as it loads"


def _checkpoints(name: str, published: float) -> Mapping[str, inputs.ModelSpec]:
    found: dict[tuple[str, str], tuple[str, inputs.ModelSpec]] = {}
    for other, spec in inputs.checkpoints_of(name):  # the smallest of a kind comes last
        size = inputs.published_bytes(spec)
        if size is not None and size <= published * _NARROWER:
            found[spec.native_linear, spec.native_experts] = (other, spec)
    return dict(found.values())


def _computes(device: inputs.DeviceProfile, spec: inputs.ModelSpec) -> bool:
    """Whether a device multiplies in the formats of published weights."""
    named = {name for name in (spec.native_linear, spec.native_experts, spec.native_mixers) if name is not None}
    rates = {*dict(device.matrix_flops_per_s), "bf16"}
    return all(name in inputs.LINEAR_NAMES and inputs.linear_format(name).compute in rates for name in named)


def _quantises(options: SweepOptions, device: inputs.DeviceProfile) -> bool:
    models = options.serving_models or (usual_serving_model(device, options.convention),)
    return all((launcher := inputs.launcher_of(model)) is not None and launcher.quantises for model in models)
