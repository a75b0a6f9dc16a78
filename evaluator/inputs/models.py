"""Models by name: catalogue, config.json, or hub id."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from evaluator.inputs import model
from evaluator.inputs.architectures import spec_from_config
from evaluator.inputs.architectures.towers import catalogued_tower
from evaluator.inputs.formats import LINEAR_NAMES, Precision
from evaluator.inputs.native_formats import BY_NAME, named_format
from evaluator.inputs.parameters import bytes_of_weights
from evaluator.inputs.yaml_file import parse_json, shortened
from store.errors import InputError
from store.texts import checked_name

LARGEST_CONFIG_BYTES = 10_000_000
FETCH_TIMEOUT_S = 5.0


def load_model(name: str) -> tuple[str, model.ModelSpec]:
    """Returns the canonical name, too."""
    path = Path(checked_name(name, "The name of a model")).expanduser()
    if path.is_dir():
        named = str(path) if path.name not in {"", ".."} else path.resolve().name  # "." would name nothing
        return named, _from_file(path / "config.json")
    if path.is_file():
        return str(path), _from_file(path)
    known = _names()
    if name in known:
        return name, _entry(name)
    folded = {candidate.lower(): candidate for candidate in known}
    short = {candidate.split("/")[-1].lower(): candidate for candidate in reversed(known)}
    canonical = folded.get(name.lower()) or short.get(name.lower())
    if canonical is not None:
        return canonical, _entry(canonical)
    if path.suffix == ".json" or name.startswith((".", "/", "~")):
        raise InputError(f"{name}: no such file or directory")
    if "/" not in name and (meant := model_by_parts(name)) is not None:
        return meant, _entry(meant)
    return name, _fetched(name)


def catalogued_model(name: str) -> model.ModelSpec | None:
    """By its exact name."""
    return _entry(name) if name in _names() else None


def is_catalogued(name: str) -> bool:
    return name.lower() in {form for known in _names() for form in (known.lower(), known.split("/")[-1].lower())}


def list_models() -> tuple[str, ...]:
    return tuple(_names())


def _from_file(path: Path) -> model.ModelSpec:
    config = _object(_text(path), str(path))
    beside = path.with_name("hf_quant_config.json")  # ModelOpt says there how it quantised, older ones only there
    if not config.get("quantization_config") and path.name == "config.json" and beside.is_file():
        quantisation = _object(_text(beside), str(beside)).get("quantization")
        if not isinstance(quantisation, dict):
            raise InputError(f"{beside}: quantization must be a mapping", hint="ModelOpt writes quant_algo in it")
        config = {**config, "quantization_config": {**quantisation, "quant_method": "modelopt"}}
    return _as_named(spec_from_config(config, str(path)), path.parent.name if path.name == "config.json" else path.stem)


def _as_named(spec: model.ModelSpec, name: str) -> model.ModelSpec:
    """Drops a format that only the name says: quantisation is stored elsewhere."""
    promised = named_format(name)
    stated = {spec.native_linear, spec.native_experts, spec.native_mixers or "BF16", spec.native_head or "BF16"}
    if promised is None or stated != {"BF16"}:
        return spec
    return replace(spec, native_linear=BY_NAME + promised, native_experts=BY_NAME + promised)


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > LARGEST_CONFIG_BYTES:
            raise InputError(f"{path}: too large for a {path.name}")
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        hint = "a model directory holds a config.json"
        raise InputError(f"{path}: cannot be read: {error.strerror}", hint=hint) from error


def _object(text: str, where: str) -> dict[str, Any]:
    config = parse_json(text, where)
    if not isinstance(config, dict):
        raise InputError(f"{where}: expected a JSON object")
    return config


_PART = re.compile(r"[0-9]+(?:\.[0-9]+)?[bmk](?![a-z])|[0-9]+(?:\.[0-9]+)?|[a-z]+")
_TUNED = frozenset({"instruct", "chat", "it", "base", "hf", "v", "thinking"})  # which weights, and not which sizes


def model_by_parts(name: str) -> str | None:
    """The model with all parts of a name and the fewest more; None where another has others: which is meant is open.

    `llama-3.3-70b` is the instructed one rather than its FP8 copy; `llama-70b` may be of any release."""
    asked = _parts(name) - _TUNED
    more = {known: _parts(known) - _TUNED - asked for known in list_models() if asked <= _parts(known)}
    if not asked or not more:
        return None
    least = min(more.values(), key=len)
    tuned = _parts(name) & _TUNED
    alike = [known for known, others in more.items() if others == least and tuned <= _parts(known)]
    return alike[0] if alike and all(least <= others for others in more.values()) else None


def nearest_models(name: str) -> list[str]:
    asked = _parts(name)
    scored = []
    for known in list_models():
        parts = _parts(known)
        alike = sum(map(_weight, asked & parts)) - 0.5 * sum(map(_weight, asked ^ parts))
        spelt = difflib.SequenceMatcher(None, name.lower(), known.lower()).ratio()
        scored.append((-alike, -spelt, known))
    found = [known for score, _, known in sorted(scored) if score < 0]
    return (found or difflib.get_close_matches(name, list_models(), cutoff=0.3))[:3]


def _parts(name: str) -> frozenset[str]:
    return frozenset(_PART.findall(name.rsplit("/", maxsplit=1)[-1].lower()))


def _weight(part: str) -> float:
    return 0.1 if part in _TUNED else 1.0


def _fetched(name: str) -> model.ModelSpec:
    nearest = nearest_models(name)
    hint = f"Nearest known: {', '.join(nearest)}." if nearest else "sweepdb models lists what is known."
    if name.count("/") != 1:
        raise InputError(f"unknown model {shortened(name)}", hint=hint)
    try:
        from huggingface_hub import get_token, hf_hub_url
    except ImportError:
        raise InputError(
            f"unknown model {shortened(name)}, and huggingface_hub is not installed to fetch it",
            hint=f"{hint}; or pip install 'sweepdb[hub]'",
        ) from None
    # One plain request: the hub's own downloader retries for half a minute when there is no network.
    try:
        address = hf_hub_url(name, "config.json")
    except ValueError:  # what can be the id of no model
        raise InputError(f"unknown model {shortened(name)}", hint=hint) from None
    import urllib.request

    token = get_token()
    headers = {"User-Agent": "sweepdb", **({} if token is None else {"Authorization": f"Bearer {token}"})}
    request = urllib.request.Request(address, headers=headers)  # noqa: S310  https
    try:
        with urllib.request.urlopen(request, timeout=FETCH_TIMEOUT_S) as response:  # noqa: S310  the hub's address
            text = response.read(LARGEST_CONFIG_BYTES)
    except OSError as error:
        raise InputError(
            f"unknown model {shortened(name)}, and its config.json could not be fetched: {_why(error)}", hint=hint
        ) from error
    return _as_named(spec_from_config(_object(text.decode("utf-8", "replace"), name), name), name)


def _why(error: OSError) -> str:
    """Without the library's wrapping."""
    reason = getattr(error, "reason", error)
    return str(getattr(reason, "strerror", None) or reason)


_ID = re.compile(r"^([\w./-]+):", re.MULTILINE)


@functools.cache
def _catalogue() -> Mapping[str, str]:
    """The text that each id stands in: one file of twenty is parsed for a question."""
    folder = resources.files("evaluator") / "inputs" / "catalogue"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".yaml")), key=lambda file: file.name)
    texts = [file.read_text(encoding="utf-8") for file in files]
    return {name: text for text in texts for name in _ID.findall(text)}


@functools.cache
def _entries(text: str) -> Mapping[str, Mapping[str, Any]]:
    import yaml

    found: dict[str, Mapping[str, Any]] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506  both are safe
    return found


@functools.cache
def _names() -> tuple[str, ...]:
    return tuple(sorted(_catalogue(), key=str.lower))


def _written(name: str) -> Mapping[str, Any]:
    return _entries(_catalogue()[name])[name]


@functools.cache
def _entry(name: str) -> model.ModelSpec:
    entry = dict(_written(name))
    if "same_as" in entry:
        base = dict(_written(entry.pop("same_as")))
        entry = {**base, **entry}
    attention = entry.pop("attention")
    layers = tuple(_group(group, attention) for group in entry.pop("layers"))
    drafts = entry.pop("draft_layer", None)
    spec = model.ModelSpec(layers=layers, draft_layer=None if drafts is None else _group(drafts, attention), **entry)
    spec = _as_named(spec, name)  # of some names only their publishers' files, which are not at hand, say the formats
    return replace(spec, vision=catalogued_tower(name, spec.hidden_size)) if spec.left_out else spec


def _group(group: Mapping[str, Any], attention: Mapping[str, Any]) -> model.LayerGroup:
    """Attention keys of a group add to the model's. Other keys are fields of the record, or a TypeError."""
    said = dict(group)
    mlp, own, beside = said.pop("mlp", None), said.pop("attention", {}), said.pop("beside", None)
    return model.LayerGroup(
        attention=None
        if own is None
        else _mixer(own if {"key_heads", "state_size"} & own.keys() else {**attention, **own}),
        mlp=None if mlp is None else model.MoeMlp(**mlp) if "experts" in mlp else model.DenseMlp(**mlp),
        beside=None if beside is None else model.StateSpace(**beside),
        **said,
    )


_MIXERS: Mapping[str, type[model.Mixer]] = {  # by a field that only one has
    "kv_lora_rank": model.LatentAttention,
    "output_groups": model.CompressedAttention,
    "key_heads": model.GatedDeltaNet,
    "state_size": model.StateSpace,
}


def _mixer(said: Mapping[str, Any]) -> model.Mixer:
    kind = next((kind for name, kind in _MIXERS.items() if name in said), model.GroupedQueryAttention)
    indexer = said.get("indexer")
    return kind(**{**said, **({} if indexer is None else {"indexer": model.TokenIndexer(**indexer)})})


_FORMAT = re.compile(r"(?i)[-_](?:fp8|nvfp4|fp4)(?:-dynamic)?$")


def published_precision(spec: model.ModelSpec) -> Precision:
    return Precision(
        linear=spec.native_linear,
        experts=spec.native_experts,
        attention=spec.native_kv_cache,
        mixers=spec.native_mixers,
        head=spec.native_head,
    )


def published_bytes(spec: model.ModelSpec) -> float | None:
    precision = published_precision(spec)
    return bytes_of_weights(spec, precision) if set(precision.weights) <= set(LINEAR_NAMES) else None


def checkpoints_of(name: str) -> Iterator[tuple[str, model.ModelSpec]]:
    """Checkpoints of the same weights, the smallest last."""
    if name in list_models():
        found = [(other, load_model(other)[1]) for other in _of_one_model()[_stem(name)]]
        yield from sorted(found, key=lambda one: -(published_bytes(one[1]) or 0.0))


def published_as(name: str, precision: Precision) -> str:
    """The model itself where no checkpoint has these formats."""
    wanted = (precision.linear, precision.experts or precision.linear, precision.mixers, precision.head)
    for other, spec in sorted(checkpoints_of(name), key=lambda one: one[0] != name):
        if (spec.native_linear, spec.native_experts, spec.native_mixers, spec.native_head) == wanted:
            return other
    return name


@cache
def _of_one_model() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in list_models():
        found.setdefault(_stem(name), []).append(name)
    return found


def _stem(name: str) -> str:
    return _FORMAT.sub("", name.rpartition("/")[2]).removeprefix("Meta-").lower()
