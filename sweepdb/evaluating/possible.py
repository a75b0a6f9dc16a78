"""Refuses requests beyond what a model, its devices or an engine can do, before anything is evaluated or stored.

Where the weights of a model do not fit one node, a request looks at pipeline stages by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from evaluator import inputs
from evaluator.request import SweepRequest, planned_scenarios
from queries.asking import Limits
from store.errors import InputError, StoreError
from store.location import parse_url
from store.reading import stored_names
from store.schema import FORMULAS
from sweepdb.evaluating.sweep_options import SweepOptions

_GIB = 2**30


def check_possible(options: SweepOptions, parts: Sequence[SweepRequest]) -> None:
    """Lengths beyond the model's positions, and engines or formats without a kernel."""
    if options.convention == "upstream":
        return
    for part in parts:
        for model in part.models:
            most = model.spec.max_positions
            for workload in part.workloads:
                if most is not None and (asked := _longest(workload)) > most:
                    raise InputError(
                        f"{model.name} has {most:,} positions, and {asked:,.0f} tokens of prompt and answer are asked.",
                        hint="Ask for shorter lengths. If you serve it extended (YaRN), name a folder with its"
                        " config.json, in which max_position_embeddings says so.",
                    )
        _check_kernels(part)


def _longest(workload: inputs.Workload) -> float:
    prompt = max((each.max_input_length for each in workload.bins), default=workload.input_length or 0)
    return prompt + workload.output_length


def _check_kernels(part: SweepRequest) -> None:
    engine = inputs.rule_of(part.serving_model)
    for device in part.devices:
        if engine is not None and inputs.LAUNCHERS[engine].cuda_alone and not device.cuda:
            raise InputError(
                f"{inputs.LAUNCHERS[engine].title} has no kernels for {device.name}, a device of {device.vendor}.",
                hint=" or ".join(
                    f"`serving_model={name}`" for name, one in inputs.LAUNCHERS.items() if not one.cuda_alone
                ),
            )
        rates = dict(device.matrix_flops_per_s)
        for name in (name for precision in part.precisions for name in precision.weights):
            form = inputs.linear_format(name)
            lacks = form.activation_bits < 16 and form.compute not in rates and form.name != "MXFP4"
            if engine is not None and lacks and (form.compute == "int8" or engine == "trtllm"):
                raise InputError(
                    f"{device.name} has no {form.compute.upper()} arithmetic, and {engine} has no other kernel for"
                    f" {form.name}.",
                    hint="Weights alone can be narrow there: `quantization=W8A16_DYNAMIC` or `W4A16`.",
                )


def check_search(options: SweepOptions, search: inputs.PlanSearch) -> None:
    if options.search != "tp":
        return
    beside = [
        name for name in ("pp", "dp", "ep", "moe_tp", "moe_dp") if set(getattr(search, f"{name}_sizes") or ()) - {1}
    ]
    if beside and options.convention != "upstream":
        raise InputError(
            f"`search=tp` takes tensor parallel plans alone, and `{beside[0]}_sizes` asks for others.",
            hint=f"Leave out one of them: `search=every` takes every legal plan with these `{beside[0]}_sizes`.",
        )


def check_reserve(reserved_gib: object, parts: Sequence[SweepRequest]) -> None:
    for device in (device for part in parts for device in part.devices):
        if isinstance(reserved_gib, int | float) and reserved_gib * _GIB >= device.memory_bytes:
            raise InputError(
                f"`reserved_memory_gb={reserved_gib:g}` leaves nothing: {device.name} has"
                f" {device.memory_bytes / _GIB:g} GiB.",
                hint=f"It is the memory of each device that stays free; {Limits().reserved_gib:g} GiB by default.",
            )


_FILLED = 0.75  # of memory by weights at most: the rest is for keys, values and activations


def no_device(models: Sequence[str], store_url: str | None) -> InputError:
    name, _ = inputs.load_model(models[0])
    stored, fitting = _stored(store_url), [f"{count} x {device}" for device, count in _fitting(name)]
    said = [f"this store has {', '.join(stored)}"] if stored else []
    said.append(f"{name} fits on {', '.join(fitting)}" if fitting else f"{name} fits on one host of no measured device")
    return InputError("`device` is missing", hint=f"{'; '.join(said)}; sweepdb devices lists all")


def _stored(store_url: str | None) -> list[str]:
    location = parse_url(store_url)
    if location.is_to_be_made:
        return []
    try:
        return [one.name for one in stored_names(location, "device", "")]
    except StoreError:  # what is wrong with it is said when it is written to
        return []


def _fitting(model: str) -> Iterator[tuple[str, int]]:
    weights = inputs.published_bytes(inputs.load_model(model)[1])
    for name in inputs.FITTED:
        device = inputs.load_device(name)
        counts = (2**power for power in range(int(device.grid[-1]).bit_length()))
        room = _FILLED * device.memory_bytes
        count = None if weights is None else next((one for one in counts if weights <= one * room), None)
        if count is not None:
            yield name, count


_RESERVED_BYTES = Limits().reserved_gib * 2**30  # of a device, as questions reserve
_SPLITS = ("tp_sizes", "dp_sizes", "ep_sizes", "moe_tp_sizes", "moe_dp_sizes")


def node_bytes(device: inputs.DeviceProfile) -> float:
    return device.grid[-1] * float(device.memory_bytes - _RESERVED_BYTES)


def staged_by_itself(part: SweepRequest) -> SweepRequest:
    """Where an engine serves and no split was given."""
    named = any(getattr(part.search, sizes) is not None for sizes in ("pp_sizes", *_SPLITS))
    return part if named or part.serving_model == FORMULAS or part.convention == "upstream" else with_stages(part)[0]


def with_stages(part: SweepRequest, *, crossing: bool = False) -> tuple[SweepRequest, str | None]:
    """Stages across nodes, or why the engine refuses them.

    `crossing`: plans that cross nodes are compared with stages anyhow."""
    largest = max((size for phase in part.phases for size in part.instance_sizes(phase)), default=1)
    nodes = max(largest // device.grid[-1] for device in part.devices)
    if nodes < 2 or not (crossing or _exceeds_nodes(part)):
        return part, None
    stages = tuple(sorted({1, *(1 << power for power in range(1, nodes.bit_length())), nodes}))
    staged = replace(part, search=replace(part.search, pp_sizes=stages))
    refused = _refused(staged)
    return (staged, None) if refused is None else (part, refused)


def _exceeds_nodes(part: SweepRequest) -> bool:
    return any(
        inputs.bytes_of_weights(model.spec, precision) > node_bytes(device)
        for model in part.models
        for precision in part.precisions
        for device in part.devices
    )


def _refused(staged: SweepRequest) -> str | None:
    """None where all is served. Each workload and number counts once."""
    kinds = {
        (one.workload, one.plan.pp): one
        for planned in planned_scenarios(staged)
        if planned.illegal is None
        for one in (planned.scenario,)
    }
    if staged.serving_model == FORMULAS:
        return None
    from evaluator.evaluate import unsupported  # its arrays would be imported by questions about stored rows

    found = (unsupported(one) for one in kinds.values())
    return next((refused.message for refused in found if refused is not None), None)
