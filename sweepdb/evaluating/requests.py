"""Options or a sweep file into checked sweep requests."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluator import inputs
from evaluator.request import NamedModel, SweepRequest, workloads_of
from evaluator.scenario import usual_precision, usual_search, usual_serving_model
from store.errors import InputError
from store.light_dataclass import dataclass
from store.schema import PHASES, Convention
from sweepdb.evaluating.arrivals import arrivals_of, notes_of
from sweepdb.evaluating.possible import check_possible, check_search, no_device, staged_by_itself
from sweepdb.evaluating.request_notes import said_of_defaults, said_of_drafts, warnings_of
from sweepdb.evaluating.service import Serving, client_of, find_serving, images_asked, launch_of, routing_of
from sweepdb.evaluating.sweep_file import read_sweep_file
from sweepdb.evaluating.sweep_options import SweepOptions

if TYPE_CHECKING:
    from evaluator.arrivals import ArrivalRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltRequest:
    """Products of one sweep, and notes for readers."""

    parts: tuple[SweepRequest, ...]
    notes: tuple[str, ...] = ()
    arrivals: ArrivalRequest | None = None


def build_request(
    options: SweepOptions, sweep_file: Path | None, store_url: str | None, *, deployment: str | None = None
) -> BuiltRequest:
    """Several where formats follow models, serving models devices, or a file has lists.

    `deployment` is FILE or FILE::NAME: each server is a product."""
    said: tuple[str, ...] = ()
    if deployment is not None:
        if sweep_file is not None:
            raise InputError("give `sweep` or `from_deployment`, not both")
        from sweepdb.evaluating.deployments import deployed_options

        sets, said = deployed_options(options, deployment)
    else:
        sets = _from_file(options, sweep_file) if sweep_file is not None else [options]
    built = [_built(item, store_url) for item in sets]
    parts = tuple(dict.fromkeys(part for one in built for part in one.parts))
    arrivals = _same_arrivals(sets)
    notes = dict.fromkeys((*said, *(note for one in built for note in one.notes), *notes_of(arrivals, parts)))
    return BuiltRequest(parts=parts, notes=tuple(notes), arrivals=arrivals)


def _same_arrivals(sets: Sequence[SweepOptions]) -> ArrivalRequest | None:
    asked = list(dict.fromkeys(map(arrivals_of, sets)))
    if len(asked) > 1:
        raise InputError("the parts of a sweep file name different `arrivals`", hint="one file for each")
    return asked[0]


def _built(options: SweepOptions, store_url: str | None) -> BuiltRequest:
    if not options.models:
        raise InputError(
            "no model given", hint="sweepdb models lists the catalogue; a directory with a config.json works"
        )
    if not options.devices:
        raise no_device(options.models, store_url)
    convention = options.convention
    drafts = None if options.speculative is None else inputs.speculation(options.speculative, options.mtp_acceptance)
    if drafts is not None:
        options = _drafting(options, drafts)
    loaded = [inputs.load_model(name) for name in options.models]
    if drafts is not None:
        loaded = [inputs.with_draft(name, spec, drafts) for name, spec in loaded]
    loaded = [(name, inputs.with_parts(spec, options.attention)) for name, spec in loaded]
    models = tuple(NamedModel(name=name, spec=spec) for name, spec in loaded)
    devices = [inputs.load_device(name, family=options.family) for name in options.devices]
    parts: list[SweepRequest] = []
    for name, served in _by_serving_model(options, devices, convention).items():
        whole = _product(options, convention, find_serving(name, store_url), served, store_url)
        for precision, group in _by_precision(options, models, convention).items():
            part = replace(whole, models=group, precisions=(precision,))
            for model in group:
                workloads_of(part, model.spec)  # refuses models that can see no images
            parts += map(staged_by_itself, _with_kernels(part))
    check_possible(options, parts)
    said = said_of_drafts(drafts)
    return BuiltRequest(parts=tuple(parts), notes=(*said_of_defaults(options, parts), *said, *warnings_of(parts)))


def _with_kernels(part: SweepRequest) -> list[SweepRequest]:
    """With devices whose kernels are those that the engine runs for each model."""
    found: dict[tuple[inputs.DeviceProfile, ...], list[NamedModel]] = {}
    (precision,) = part.precisions
    for model in part.models:
        served = (model.spec, precision)
        devices = tuple(inputs.with_kernels_of(one, part.serving_model, served) for one in part.devices)
        found.setdefault(devices, []).append(model)
    return [replace(part, devices=devices, models=tuple(models)) for devices, models in found.items()]


def _drafting(options: SweepOptions, drafts: inputs.Speculation) -> SweepOptions:
    for keyword, given in (
        ("num_mtp_tokens", options.mtp_tokens != 0),
        ("workload", bool(options.workload_names)),
    ):
        if given:
            raise InputError(f"`speculative={drafts.label}` brings its own drafts and rates: drop `{keyword}`")
    return replace(options, mtp_tokens=drafts.drafts, mtp_acceptance=drafts.rates)


def _product(
    options: SweepOptions,
    convention: Convention,
    serving: Serving,
    devices: Sequence[inputs.DeviceProfile],
    store_url: str | None,
) -> SweepRequest:
    return SweepRequest(
        models=(),
        devices=tuple(devices),
        workloads=_workloads(options, serving, store_url),
        precisions=(),
        num_devices=_devices(options),
        prefill_devices=options.prefill_devices or None,
        decode_devices=options.decode_devices or None,
        phases=_phases(options),
        convention=convention,
        search=_search(options, serving, convention),
        batch_range=options.batch_range,
        serving_model=serving.label,
        serving_cost_ms=options.serving_cost_ms,
        engine=serving.engine,
        client=client_of(options, serving),
        launch=launch_of(options, serving),
        routing=routing_of(options),
        images=images_asked(options),
    )


def _by_serving_model(
    options: SweepOptions, devices: Sequence[inputs.DeviceProfile], convention: Convention
) -> dict[str, list[inputs.DeviceProfile]]:
    if options.serving_models:
        return {name: list(devices) for name in options.serving_models}
    served: dict[str, list[inputs.DeviceProfile]] = {}
    for device in devices:
        served.setdefault(usual_serving_model(device, convention), []).append(device)
    return served


def _search(options: SweepOptions, serving: Serving, convention: Convention) -> inputs.PlanSearch:
    rules = {"rule", "engine"}
    sizes = {item.name: getattr(options, item.name) for item in fields(inputs.PlanSearch) if item.name not in rules}
    rule, engine = usual_search(serving.label, convention)
    if options.search == "launchable" and engine is None:
        raise InputError(
            f"`search=launchable` needs an engine, and {serving.label} is none with launch rules",
            hint=f"`serving_model={' or '.join(inputs.LAUNCHERS)}`",
        )
    asked: inputs.SearchRule = options.search or rule
    found = inputs.PlanSearch(rule=asked, engine=engine if asked == "launchable" else None, **sizes)
    check_search(options, found)
    return found


def _by_precision(
    options: SweepOptions, models: Sequence[NamedModel], convention: Convention
) -> dict[inputs.Precision, tuple[NamedModel, ...]]:
    found: dict[inputs.Precision, tuple[NamedModel, ...]] = {}
    for linear in options.linear or (None,):
        for model in models:
            precision = _precision(options, linear, model, convention)
            found[precision] = tuple(dict.fromkeys((*found.get(precision, ()), model)))
    return found


def _from_file(options: SweepOptions, path: Path) -> list[SweepOptions]:
    """The command line's models replace the file's."""
    given = {"models": options.models} if options.models else {}
    return [replace(options, **{**overrides, **given}) for overrides in read_sweep_file(path)]


_LENGTH_FILES = (".yaml", ".yml", ".json")  # what a workload is a file by, and else a stored name
NATIVE = "NATIVE"  # the format that the weights are published in


def _precision(
    options: SweepOptions, linear: str | None, model: NamedModel, convention: Convention
) -> inputs.Precision:
    """As named, else usual. Experts go as named linears, or as published."""
    usual, spec = usual_precision(model.spec, convention), model.spec
    cache = (options.attention or "").partition("+")[0]
    native = linear is not None and linear.upper() == NATIVE
    if options.experts is not None:
        experts: str | None = options.experts
    elif linear is None or native:
        experts = NATIVE if native else usual.experts
    else:
        experts = linear
    as_published = linear is None or native
    drafts_as_published = as_published or spec.draft_model is not None  # which no format of the other model's is about
    own = {  # each as published, unless linears were named: then like them
        "mixers": options.mixers or (usual.mixers if as_published else None),
        "head": options.head or (usual.head if as_published else None),
        "drafts": options.drafts or (spec.native_drafts if drafts_as_published and options.mtp_tokens else None),
    }
    in_files = {"mixers": spec.native_mixers or spec.native_linear, "head": spec.native_head or "BF16",
                "drafts": spec.native_drafts or spec.native_linear}  # fmt: skip
    published = functools.partial(_published, model.name)
    return inputs.check_precision(
        inputs.Precision(
            linear=published(linear or usual.linear, spec.native_linear),
            experts=None if experts is None else published(experts, spec.native_experts),
            attention=published(cache or usual.attention, spec.native_kv_cache) + inputs.kept_parts(spec),
            mxfp4_group_size=options.mxfp4_group_size,
            **{part: None if said is None else published(said, in_files[part]) for part, said in own.items()},
        )
    )


def _published(model: str, name: str, native: str) -> str:
    chosen = native if name.upper() == NATIVE else name
    if chosen.startswith(inputs.BY_NAME):
        said = chosen.removeprefix(inputs.BY_NAME)
        raise InputError(
            f"{model}: its name says {said}, and its files state no format of their weights",
            hint=f"say `quantization={said}` (or BF16), or lay hf_quant_config.json beside config.json",
        )
    return chosen


def _devices(options: SweepOptions) -> tuple[int, ...] | None:
    if options.total_devices is not None:
        if options.num_devices:
            raise InputError("give `num_devices` or `total_devices`, not both")
        return tuple(size for size in range(1, options.total_devices + 1) if options.total_devices % size == 0)
    if options.num_devices:
        return options.num_devices
    return None if options.prefill_devices or options.decode_devices else (1,)


def _phases(options: SweepOptions) -> tuple[Any, ...]:
    if options.modes:
        return options.modes
    if _devices(options) is None:
        wanted = (("prefill", options.prefill_devices), ("decode", options.decode_devices))
        return tuple(phase for phase, devices in wanted if devices)
    return PHASES


def _workloads(options: SweepOptions, serving: Serving, store_url: str | None) -> tuple[inputs.Workload, ...]:
    options = _with_file_as_lengths(options)
    if options.workload_names:
        _check_alone(options)
        from sweepdb.evaluating.workloads import stored_workload

        return tuple(stored_workload(name, store_url) for name in options.workload_names)
    if options.input_length is None:
        raise InputError("`input_length` is missing", hint="prompt tokens, or a YAML file of length bins")
    common = {
        "prefix_cache_hit_rate": options.prefix_cache_hit_rate,
        "max_batched_tokens": serving.token_budget
        if options.max_batched_tokens is None
        else options.max_batched_tokens,
        "mtp_tokens": options.mtp_tokens,
        "mtp_acceptance": options.mtp_acceptance,
        "tiers": inputs.cache_tiers(
            {name: getattr(options, f"{name}_hit_rate") for name in inputs.TIERS},
            {name: getattr(options, f"{name}_gb_per_s") for name in inputs.TIERS},
        ),
    }
    if _is_number(options.input_length):
        if options.output_length is None:
            raise InputError("`output_length` is missing")
        return (_fixed(options.input_length, options.output_length, common),)
    if not Path(options.input_length).exists():
        raise InputError(
            f"`input_length={options.input_length}` is neither a number of tokens nor a file.",
            hint=f"Write the number out: {_written_out(options.input_length)}."
            if re.fullmatch(r"[0-9.]+[kK]", options.input_length)
            else "A workload of the store is named with `workload`.",
        )
    bins = inputs.load_distribution(Path(options.input_length), output_length=options.output_length)
    return (inputs.workload_of(input_length=None, output_length=inputs.mean_output_length(bins), bins=bins, **common),)  # type: ignore[arg-type]


def _with_file_as_lengths(options: SweepOptions) -> SweepOptions:
    """A workload that is a file of lengths becomes `input_length`."""
    if options.workload_names and options.input_length is not None:
        raise InputError("give `workload` or `input_length`, not both")
    files = [name for name in options.workload_names if Path(name).suffix in _LENGTH_FILES]
    if not files:
        return options
    if len(options.workload_names) > 1:
        raise InputError("a file of lengths stands alone", hint="sweepdb workloads add stores several by name")
    if not Path(files[0]).exists():
        raise InputError(
            f"`workload={files[0]}`: there is no such file.", hint="sweepdb workloads list has stored names"
        )
    return replace(options, workload_names=(), input_length=files[0])


def _check_alone(options: SweepOptions) -> None:
    for keyword, given in (
        ("output_length", options.output_length is not None),
        ("prefix_cache_hit_rate", options.prefix_cache_hit_rate != 0),
        ("max_num_batched_tokens", options.max_batched_tokens is not None),
        ("num_mtp_tokens", options.mtp_tokens != 0),
        ("mtp_acceptance_rate", options.mtp_acceptance is not None),
        *((f"{name}_hit_rate", getattr(options, f"{name}_hit_rate") != 0) for name in inputs.TIERS),
        *((f"{name}_gb_per_s", getattr(options, f"{name}_gb_per_s") is not None) for name in inputs.TIERS),
    ):
        if given:
            raise InputError(
                f"a named workload brings its own settings: drop `{keyword}`",
                hint="sweepdb workloads add stores another under another name",
            )


def _fixed(input_length: str, output_length: float, common: Mapping[str, Any]) -> inputs.Workload:
    length = float(input_length)
    for keyword, value in (("input_length", length), ("output_length", output_length)):
        if not math.isfinite(value):
            raise InputError(f"`{keyword}` must be a number of tokens, not {value:g}")
    if length != int(length) or output_length != int(output_length):
        raise InputError(f"lengths are whole tokens, not {input_length} and {output_length:g}")
    return inputs.workload_of(input_length=int(length), output_length=int(output_length), **common)


def _written_out(thousands: str) -> str:
    return " or ".join(f"{float(thousands[:-1]) * size:.0f}" for size in (1000, 1024))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
