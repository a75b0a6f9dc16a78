"""Serving engines as a few fitted numbers: admission of prompts, and time beyond kernels.

Points measured at one's own server correct what is near them."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping
from dataclasses import asdict, field, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from evaluator.canonical import IF_SET, content_key
from evaluator.inputs.engines.engine_numbers import number_in_range
from evaluator.inputs.launch import Client
from evaluator.inputs.yaml_checking import checked_yaml
from evaluator.inputs.yaml_file import parse_mapping, read_text
from store.errors import InputError
from store.light_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearby:
    """A measured point, and its weight in the logarithms of both factors around it."""

    users: float
    input_length: float  # tokens to prefill
    output_length: float
    devices: float
    ttft: float = 0.0
    tpot: float = 0.0


Admission = Literal["prefill_first", "mixed"]
ENGINES_FOLDER = "inputs/engines"
KEY_LENGTH = 8  # digits of a content key in a label
# Router, handshake of two instances and setting up the transfer, of engines that say nothing else: fitted to measured
# pairs, 170 to 190 with any pair of device and model left out.
HANDOVER_MS = 190.0
LARGEST_FILE_BYTES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineProfile:
    """Factors multiply kernel seconds; milliseconds are the host's, on top."""

    name: str
    admission: Admission
    token_budget: int = 8192  # tokens of one step
    prefill_factor: float = 1.0
    decode_factor: float = 1.0
    step_ms: float = 1.0  # each step
    step_per_decode_ms: float = 0.01  # each sequence that decodes in it
    step_per_prompt_ms: float = 1.0  # each prompt in it
    prompt_step_ms: float = 2.0  # each step with prompts in it, besides: it is not replayed from a graph
    request_ms: float = 40.0  # HTTP and tokeniser, once a request
    replica_wait_steps: float = 0.0  # decode steps that a prompt waits for those of the other replicas
    layer_ms: float = 0.0  # to launch a layer's kernels one by one; hidden behind kernels that take longer
    latent_layer_ms: float = 0.0  # the same in steps with prompts alone, of a layer with latent attention
    prompt_layer_ms: float = 0.0  # the same of any layer without a running state
    state_layer_ms: float = 0.0  # the same of a layer with one, whose prompts take several kernels more
    ahead_steps: int = 0  # that the host has scheduled when a request comes, which is in none of them
    reply_steps: int = 0  # that run between an answer and the next request of its user, who is answered by then
    whole_prompts: int = 0  # 1: beside decodes prompts run whole, and are cut only where none fits into a step
    expert_rows: int = 0  # that each expert is padded to: of block-scaled 8-bit weights, on Hopper, below tp 8
    exchange_once: int = 0  # 1: a token goes once to each device that holds some of its experts, as they read it
    handover_ms: float = HANDOVER_MS  # beside `request_ms`, where one instance takes prompts and another generates
    client: Client = field(default_factory=Client)
    near: tuple[Nearby, ...] = field(default=(), metadata={IF_SET: True})  # what one's own points said besides

    def step_s(self) -> float:
        return 1e-3 * self.step_ms

    def launch_s(self, layers: int) -> float:
        """No step is shorter than the host takes to launch it."""
        return 1e-3 * self.layer_ms * layers

    def prompt_launch_s(self, layers: int, latent: int, stateful: int) -> float:
        """The same of steps with prompts, for a model's layers and those of them with latent attention or a state."""
        each = self.prompt_layer_ms * (layers - stateful) + self.state_layer_ms * stateful
        return 1e-3 * max(each, self.latent_layer_ms * latent)

    def prompt_step_s(self) -> float:
        return 1e-3 * self.prompt_step_ms


DECLARED = ("called", "before", "until", "kernels")  # keys that are no numbers of a fit
NUMBERS = tuple(item.name for item in fields(EngineProfile) if item.name not in {"name", "admission", "client", "near"})
_CAME_LATER: Mapping[str, object] = {
    "latent_layer_ms": 0.0,
    "prompt_layer_ms": 0.0,
    "state_layer_ms": 0.0,
    "ahead_steps": 0,
    "reply_steps": 0,
    "whole_prompts": 0,
    "expert_rows": 0,
    "exchange_once": 0,
    "handover_ms": HANDOVER_MS,
    "near": (),
}
# Lengths that are all alike keep every user in step, so that all prompts come together for ever; servers drift apart.
# How far is a number of an engine and its version, in the client of its profile: 0.5-1 % of a request's length.
DRIFTING = Client(shortest=0.99)


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedEngine:
    """Also holds profiles fitted without one (device, model) pair, to score that pair with."""

    profile: EngineProfile
    held_out: Mapping[tuple[str, str], EngineProfile]
    source: str
    expected: Mapping[str, Any] = field(default_factory=dict)  # its own held-out errors, where a user fitted it
    note: str = ""
    start: Mapping[str, float] = field(default_factory=dict)  # guesses that fits start from, where not the usual ones
    fitted: tuple[str, ...] = ()  # numbers that measured points of many servers identify
    points_of: str | None = None  # the engine whose points it shares: the same host
    unconverged: tuple[str, ...] = ()  # stages of a user's fit whose numbers still moved when it ended
    declared: Mapping[str, Any] = field(default_factory=dict)  # what its file says of DECLARED

    @property
    def called(self) -> tuple[str, ...]:
        """Its names at sources of measurements, letters only; versions of an engine share them."""
        name = self.profile.name
        return tuple(self.declared.get("called", [name] if name.isalpha() else []))

    @property
    def before(self) -> tuple[int, ...] | None:
        """The release that ended it; None: current."""
        release = self.declared.get("before")
        return None if release is None else tuple(map(int, release.split(".")))

    @property
    def until(self) -> int | None:
        return self.declared.get("until")

    @property
    def kernels(self) -> str | None:
        """The engine whose kernels it runs; None: the device's own tables."""
        return self.declared.get("kernels")

    @property
    def unfitted(self) -> EngineProfile:
        """Engineering guesses that fits start from and fall back to."""
        usual = EngineProfile(name=self.profile.name, admission=self.profile.admission, client=self.profile.client)
        return with_numbers(usual, self.start)


def with_numbers(profile: EngineProfile, values: Mapping[str, float]) -> EngineProfile:
    return replace(profile, **_checked(values))


def with_client(profile: EngineProfile, values: Mapping[str, float]) -> Client:
    return replace(profile.client, **_checked(values))


def key_of_engine(profile: EngineProfile) -> str:
    """All that changes a number, so not the name.

    Later fields count only where set, so that old keys stay valid."""
    said = {item.name: getattr(profile, item.name) for item in fields(profile)}
    for name, before in _CAME_LATER.items():
        if said[name] == before:
            del said[name]
    return content_key({**said, "": type(profile).__name__, "name": ""})


def label_of_engine(profile: EngineProfile) -> str:
    return f"{profile.name}@{key_of_engine(profile)[:KEY_LENGTH]}"


def described(profile: EngineProfile) -> str:
    numbers = ", ".join(f"{name} {getattr(profile, name):.10g}" for name in NUMBERS)
    client = ", ".join(f"{name} {value:.10g}" for name, value in asdict(profile.client).items())
    near = f"; corrected near {len(profile.near)} measured points" if profile.near else ""
    return f"{profile.admission}, {numbers}; client: {client}{near}"


@functools.cache
def list_engines() -> tuple[str, ...]:
    names = (item.name for item in (resources.files("evaluator") / ENGINES_FOLDER).iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml")))


def unfitted_engine(name: str) -> EngineProfile:
    return fitted_engine(name).unfitted


@functools.cache
def fitted_engine(name: str) -> FittedEngine:
    known = list_engines()
    if name not in known:
        nearest = difflib.get_close_matches(name, known, n=3, cutoff=0.3)
        raise InputError(f"unknown engine {name!r}", hint=f"known: {', '.join(nearest or known)}")
    file = resources.files("evaluator") / ENGINES_FOLDER / f"{name}.yaml"
    return engine_from_mapping(parse_mapping(file.read_text(encoding="utf-8"), file.name))


@functools.cache
def begun_by(serving_model: str) -> FittedEngine | None:
    """`vllm` of `vllm-mine@0a239add`; None of formulas."""
    known = [name for name in list_engines() if serving_model.startswith(name)]
    return fitted_engine(max(known, key=len)) if known else None


def engine_profile(name: str, *, unseen: tuple[str, str] | None = None) -> EngineProfile:
    """`name` is shipped or a YAML file. `unseen` asks for the profile fitted without that (device, model) pair."""
    path = Path(name)
    if path.suffix in {".yaml", ".yml"}:
        return engine_from_file(path).profile
    engine = fitted_engine(name)
    return engine.profile if unseen is None else engine.held_out.get(unseen, engine.profile)


def engine_from_file(path: Path) -> FittedEngine:
    from evaluator.inputs.engines.engine_file import EngineKeys  # pydantic, which no question needs

    text = read_text(path, largest_bytes=LARGEST_FILE_BYTES, what="an engine profile")
    found = checked_yaml(EngineKeys, text, str(path), hint=_HINT)
    return engine_from_mapping(found.model_dump(exclude_unset=True))


def engine_from_mapping(content: Mapping[str, Any]) -> FittedEngine:
    start = content.get("start") or {}
    base = EngineProfile(
        name=content["name"],
        admission=content["admission"],
        client=replace(DRIFTING, **_checked(content.get("client") or {})),
        **_checked({**start, **(content.get("profile") or {})}),
    )
    return FittedEngine(
        profile=replace(base, near=tuple(Nearby(**one) for one in content.get("near", ()))),
        held_out={
            (one["device"], one["model"]): with_numbers(base, one["profile"]) for one in content.get("held_out", ())
        },
        source=content.get("source", ""),
        expected=content.get("expected") or {},
        note=content.get("note", ""),
        start=_checked(start),
        fitted=tuple(content.get("fitted", ())),
        points_of=content.get("points_of"),
        unconverged=tuple(content.get("unconverged", ())),
        declared={key: content[key] for key in DECLARED if key in content},
    )


def as_yaml(engine: FittedEngine) -> str:
    import yaml

    plain = {
        "name": engine.profile.name,
        "admission": engine.profile.admission,
        **({"note": engine.note} if engine.note else {}),
        **engine.declared,
        **({"start": dict(engine.start)} if engine.start or engine.fitted else {}),
        **({"fitted": list(engine.fitted)} if engine.fitted else {}),
        **({"points_of": engine.points_of} if engine.points_of else {}),
        "source": engine.source,
        **({"unconverged": list(engine.unconverged)} if engine.unconverged else {}),
        "profile": _plain(engine.profile),
        "client": asdict(engine.profile.client),
        **({"near": [asdict(one) for one in engine.profile.near]} if engine.profile.near else {}),
        "held_out": [
            {"device": device, "model": model, "profile": _plain(profile)}
            for (device, model), profile in sorted(engine.held_out.items())
        ],
        **({"expected": dict(engine.expected)} if engine.expected else {}),
    }
    return yaml.safe_dump(plain, sort_keys=False, default_flow_style=None, width=150)


def _plain(profile: EngineProfile) -> dict[str, float]:
    return {name: round(getattr(profile, name), 6) for name in NUMBERS}


_HINT = (
    "keys: name, admission (prefill_first or mixed), profile (its numbers), client; "
    "docs/explanation/how-a-number-comes-about.md"
)


def _checked(content: Mapping[str, Any]) -> dict[str, Any]:
    checked = {}
    for key, value in content.items():
        try:
            checked[key] = number_in_range(key, value)
        except InputError as error:
            raise InputError(f"{key} {error.message}") from None
    return checked
