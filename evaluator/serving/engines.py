"""Serving engines as a few fitted numbers: how each admits prompts, and what it adds to the time of kernels.

Not here: the simulation that uses them (evaluator.serving.closed_loop), and the fit (evaluator.serving.fit)."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from store.errors import InputError

Admission = Literal["prefill_first", "mixed"]
FOLDER = "serving/profiles"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineProfile:
    """One engine. Factors multiply kernel seconds; the milliseconds are the host's, on top of kernels."""

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

    def step_s(self) -> float:
        """Host seconds of a step, whatever is in it."""
        return 1e-3 * self.step_ms

    def prompt_step_s(self) -> float:
        """Host seconds that prompts add to a step, however many."""
        return 1e-3 * self.prompt_step_ms


NUMBERS = tuple(item.name for item in fields(EngineProfile) if item.name not in {"name", "admission"})
# What fits start from, and fall back to where points say little: engineering guesses, not fitted to any point.
STARTS: Mapping[str, EngineProfile] = {
    "sglang": EngineProfile(name="sglang", admission="prefill_first"),
    "vllm": EngineProfile(name="vllm", admission="mixed", token_budget=4096),
    "trtllm": EngineProfile(name="trtllm", admission="mixed", replica_wait_steps=20.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedEngine:
    """A shipped profile, and those fitted without one (device, model) pair each, to score that pair with."""

    profile: EngineProfile
    held_out: Mapping[tuple[str, str], EngineProfile]
    source: str


def with_numbers(profile: EngineProfile, values: Mapping[str, float]) -> EngineProfile:
    """The same engine with some of its numbers changed."""
    return replace(profile, **_numbers(values))


def list_engines() -> tuple[str, ...]:
    """Names of the profiles that come with the program."""
    return tuple(sorted(STARTS))


@functools.cache
def fitted_engine(name: str) -> FittedEngine:
    """The shipped fit of an engine."""
    if name not in STARTS:
        nearest = difflib.get_close_matches(name, STARTS, n=3, cutoff=0.3)
        raise InputError(f"unknown engine {name!r}", hint=f"known: {', '.join(nearest or STARTS)}")
    file = resources.files("evaluator").joinpath(f"{FOLDER}/{name}.yaml")
    if not file.is_file():
        return FittedEngine(profile=STARTS[name], held_out={}, source="not fitted")
    return from_mapping(_parsed(file.read_text(encoding="utf-8")), f"{name}.yaml")


def engine_profile(name: str, *, unseen: tuple[str, str] | None = None) -> EngineProfile:
    """The profile called `name`, or the one in a YAML file; with `unseen`, the one that was fitted without that
    (device, model) pair."""
    path = Path(name)
    if path.suffix in {".yaml", ".yml"}:
        return engine_from_file(path).profile
    engine = fitted_engine(name)
    return engine.profile if unseen is None else engine.held_out.get(unseen, engine.profile)


def engine_from_file(path: Path) -> FittedEngine:
    """A profile that somebody fitted to their own measurements."""
    try:
        return from_mapping(_parsed(path.read_text(encoding="utf-8")), str(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


def from_mapping(content: Mapping[str, Any], where: str) -> FittedEngine:
    """The fit that `as_yaml` wrote."""
    try:
        base = EngineProfile(
            name=str(content["name"]), admission=_admission(content["admission"], where), **_numbers(content["profile"])
        )
        held_out = {
            (str(one["device"]), str(one["model"])): replace(base, **_numbers(one["profile"]))
            for one in content.get("held_out", [])
        }
        return FittedEngine(profile=base, held_out=held_out, source=str(content.get("source", "")))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{where}: not an engine profile: {error}") from error


def as_yaml(engine: FittedEngine) -> str:
    """A fit as the shipped files hold it."""
    import yaml

    plain = {
        "name": engine.profile.name,
        "admission": engine.profile.admission,
        "source": engine.source,
        "profile": _plain(engine.profile),
        "held_out": [
            {"device": device, "model": model, "profile": _plain(profile)}
            for (device, model), profile in sorted(engine.held_out.items())
        ],
    }
    return yaml.safe_dump(plain, sort_keys=False, default_flow_style=None, width=150)


def _plain(profile: EngineProfile) -> dict[str, float]:
    return {name: round(getattr(profile, name), 6) for name in NUMBERS}


def _numbers(content: Mapping[str, Any]) -> dict[str, Any]:
    unknown = set(content) - set(NUMBERS)
    if unknown:
        raise KeyError(f"unknown key {min(unknown)}")
    return {name: int(value) if name == "token_budget" else float(value) for name, value in content.items()}


def _admission(value: object, where: str) -> Admission:
    if value == "prefill_first":
        return "prefill_first"
    if value == "mixed":
        return "mixed"
    raise InputError(f"{where}: admission {value!r} is neither prefill_first nor mixed")


def _parsed(text: str) -> dict[str, Any]:
    import yaml

    content: object = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506  both are safe
    if not isinstance(content, dict):
        raise InputError("an engine profile is a mapping")
    return content
