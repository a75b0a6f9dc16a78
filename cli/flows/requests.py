"""Options or a sweep file into sweep requests: names resolved, every value checked. No Typer, no printing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from cli.flows.sweep_file import read_sweep_file
from evaluator.formats import check_precision
from evaluator.launch import Launch
from evaluator.lengths import load_distribution, mean_output_length
from evaluator.models import load_model
from evaluator.plans import PlanSearch, Sizes
from evaluator.precision import Precision
from evaluator.profiles.load import load_device
from evaluator.request import PHASES, NamedModel, SweepRequest
from evaluator.serving.engines import EngineProfile, engine_profile, label_of_engine, list_engines
from evaluator.serving.models import list_serving_models
from evaluator.workload import Workload
from evaluator.workloads import DEFAULT_TOKEN_BUDGET, workload_of
from store.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    """What `evaluate` was told, as plain values."""

    models: tuple[str, ...] = ()
    devices: tuple[str, ...] = ("TEST_DEVICE",)
    num_devices: int | None = None
    prefill_devices: int | None = None
    decode_devices: int | None = None
    input_length: str | None = None
    output_length: float | None = None
    workload_names: tuple[str, ...] = ()
    prefix_cache_hit_rate: float = 0.0
    max_batched_tokens: int | None = None
    linear: str = "W8A8_DYNAMIC"
    experts: str | None = None
    attention: str = "DISABLED"
    mxfp4_group_size: int = 32
    mtp_tokens: int = 0
    mtp_acceptance: tuple[float, ...] | None = None
    compile: bool = True
    convention: str = "physical"
    modes: tuple[str, ...] = ()
    search: str = "every"
    tp_sizes: Sizes = None
    pp_sizes: Sizes = None
    dp_sizes: Sizes = None
    ep_sizes: Sizes = None
    moe_tp_sizes: Sizes = None
    moe_dp_sizes: Sizes = None
    batch_range: tuple[int, int | None] = (1, None)
    serving_cost_ms: float = 0.0
    serving_model: str = "waves"
    family: str = "auto"


def build_request(options: SweepOptions, sweep_file: Path | None, store_url: str | None) -> tuple[SweepRequest, ...]:
    """The requests of a command: one, or one for each model that asks for its native precision."""
    sets = _from_file(options, sweep_file) if sweep_file is not None else [options]
    return tuple(request for item in sets for request in _requests(item, store_url))


def _requests(options: SweepOptions, store_url: str | None) -> list[SweepRequest]:
    if not options.models:
        raise InputError(
            "no model given", hint="sweepdb models lists the catalogue; a directory with a config.json works"
        )
    models = tuple(NamedModel(name=name, spec=spec) for name, spec in map(load_model, options.models))
    serving = _serving_model(options.serving_model, store_url)
    whole = SweepRequest(
        models=models,
        devices=tuple(
            load_device(name, family=_one_of(options.family, _FAMILIES, "--family")) for name in options.devices
        ),
        workloads=_workloads(options, serving, store_url),
        precisions=(Precision(),),
        num_devices=_devices(options),
        prefill_devices=options.prefill_devices,
        decode_devices=options.decode_devices,
        phases=_phases(options),
        convention=_one_of(options.convention, ("physical", "upstream"), "--convention"),
        launch=Launch(compile=options.compile),
        search=PlanSearch(
            rule=_one_of(options.search, ("every", "tp"), "--search"),
            **{item.name: getattr(options, item.name) for item in fields(PlanSearch) if item.name != "rule"},
        ),
        batch_range=options.batch_range,
        serving_model=serving.label,
        serving_cost_ms=options.serving_cost_ms,
        engine=serving.engine,
    )
    by_precision: dict[Precision, list[NamedModel]] = {}
    for model in models:
        by_precision.setdefault(_precision(options, model), []).append(model)
    return [replace(whole, models=tuple(group), precisions=(precision,)) for precision, group in by_precision.items()]


def _from_file(options: SweepOptions, path: Path) -> list[SweepOptions]:
    """The options a sweep file stands for; models named on the command line take the place of its own."""
    given = {"models": options.models} if options.models else {}
    return [replace(options, **{**overrides, **given}) for overrides in read_sweep_file(path)]


_FAMILIES = ("auto", "theoretical", "calibrated")


def _one_of(value: str, known: Sequence[str], option: str) -> Any:  # noqa: ANN401  one of a closed set
    if value not in known:
        raise InputError(f"{option} {value} is not one of {', '.join(known)}")
    return value


def _precision(options: SweepOptions, model: NamedModel) -> Precision:
    linear = model.spec.native_linear if options.linear.upper() == "NATIVE" else options.linear
    experts = options.experts
    if (experts or "").upper() == "NATIVE" or (experts is None and options.linear.upper() == "NATIVE"):
        experts = model.spec.native_experts
    return check_precision(
        Precision(
            linear=linear, experts=experts, attention=options.attention, mxfp4_group_size=options.mxfp4_group_size
        )
    )


def _devices(options: SweepOptions) -> int | None:
    if options.num_devices is not None:
        return options.num_devices
    apart = options.prefill_devices is not None or options.decode_devices is not None
    return None if apart else 1


def _phases(options: SweepOptions) -> tuple[Any, ...]:
    if options.modes:
        return tuple(_one_of(mode, PHASES, "--mode") for mode in options.modes)
    if options.num_devices is None and (options.prefill_devices or options.decode_devices):
        wanted = (("prefill", options.prefill_devices), ("decode", options.decode_devices))
        return tuple(phase for phase, devices in wanted if devices is not None)
    return PHASES


@dataclass(frozen=True, slots=True)
class _Serving:
    """A serving model as scenarios call it, with the engine where it is one."""

    label: str
    engine: EngineProfile | None

    @property
    def token_budget(self) -> int:
        return DEFAULT_TOKEN_BUDGET if self.engine is None else self.engine.token_budget


def _serving_model(name: str, store_url: str | None) -> _Serving:
    """By name, as a profile's file, or as a label that this store knows (`vllm@0a239add`)."""
    if name in list_engines():
        return _Serving(name, engine_profile(name))
    if name in list_serving_models():
        return _Serving(name, None)
    if Path(name).suffix in {".yaml", ".yml"}:
        engine = engine_profile(name)
        return _Serving(label_of_engine(engine), engine)
    if "@" in name:
        from evaluator.serving.stored_engines import stored_engine
        from store.opening import open_store

        with open_store(store_url, read_only=True) as store:
            return _Serving(name, stored_engine(store, name))
    raise InputError(
        f"--serving-model {name} is not one of {', '.join(list_serving_models())}",
        hint="an engine's profile FILE.yaml works",
    )


def _workloads(options: SweepOptions, serving: _Serving, store_url: str | None) -> tuple[Workload, ...]:
    if options.workload_names:
        _check_alone(options)
        from cli.flows.workloads import stored_workload

        return tuple(stored_workload(name, store_url) for name in options.workload_names)
    if options.input_length is None:
        raise InputError("--input-length is missing", hint="prompt tokens, or a YAML file of length bins")
    common = {
        "prefix_cache_hit_rate": options.prefix_cache_hit_rate,
        "max_batched_tokens": serving.token_budget
        if options.max_batched_tokens is None
        else options.max_batched_tokens,
        "mtp_tokens": options.mtp_tokens,
        "mtp_acceptance": options.mtp_acceptance,
    }
    if _is_number(options.input_length):
        if options.output_length is None:
            raise InputError("--output-length is missing")
        return (_fixed(options.input_length, options.output_length, common),)
    if not Path(options.input_length).exists():
        raise InputError(
            f"--input-length {options.input_length}: neither a number of tokens nor a file",
            hint="a workload of the store is named with --workload",
        )
    bins = load_distribution(Path(options.input_length), output_length=options.output_length)
    return (workload_of(input_length=None, output_length=mean_output_length(bins), bins=bins, **common),)  # type: ignore[arg-type]


def _check_alone(options: SweepOptions) -> None:
    """Refuse options that a named workload would silently overrule."""
    if options.input_length is not None:
        raise InputError("give --workload or --input-length, not both")
    for option, given in (
        ("--output-length", options.output_length is not None),
        ("--prefix-cache-hit-rate", options.prefix_cache_hit_rate != 0),
        ("--max-batched-tokens", options.max_batched_tokens is not None),
        ("--num-mtp-tokens", options.mtp_tokens != 0),
        ("--mtp-acceptance-rate", options.mtp_acceptance is not None),
    ):
        if given:
            raise InputError(
                f"a named workload brings its own settings: drop {option}",
                hint="sweepdb workloads add stores another under another name",
            )


def _fixed(input_length: str, output_length: float, common: Mapping[str, Any]) -> Workload:
    length = float(input_length)
    for option, value in (("--input-length", length), ("--output-length", output_length)):
        if not math.isfinite(value):
            raise InputError(f"{option} must be a number of tokens, not {value:g}")
    if length != int(length) or output_length != int(output_length):
        raise InputError(f"lengths are whole tokens, not {input_length} and {output_length:g}")
    return workload_of(input_length=int(length), output_length=int(output_length), **common)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
