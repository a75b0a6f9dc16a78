"""Checked access to a config.json, and the parts that many architectures share."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from evaluator.inputs.model import DenseMlp, GroupedQueryAttention, LatentAttention, LayerGroup, ModelSpec, MoeMlp
from evaluator.inputs.native_formats import WeightParts, native_formats, native_kv_cache
from evaluator.inputs.yaml_file import parse_yaml, shortened
from store.errors import InputError

Config = Mapping[str, Any]
LARGEST_SIZE = 2**31  # of widths and tokens: no published model comes near, and sums of products stay numbers
# Of what a model is laid out in, by how its keys end: each layer, head and expert takes memory and time here.
_MOST = (
    (re.compile(r"(layers?|^depth|_dense_replace|layer_num_skipped)$"), 10_000),
    (re.compile(r"(heads?|groups)$"), 100_000),
    (re.compile(r"experts?($|_per_tok|_num)"), 100_000),
)
_T = TypeVar("_T")

_GATED_ACTIVATIONS = {"silu", "swish", "swiglu"}
KEYS: Any = parse_yaml(Path(__file__).with_name("keys.yaml").read_text(encoding="utf-8"), "keys.yaml")
HARMLESS: Mapping[str, str] = {key: reason for reason, keys in KEYS["harmless"].items() for key in keys.split()}


class ConfigReader:
    """Names file and key in errors, and remembers which keys were read."""

    def __init__(self, config: Config, where: str, *, left_out: str = "") -> None:
        self.config = config
        self.where = where
        self.left_out = left_out  # parts of the published model that `config` is not
        self.read: set[str] = set()  # or said to make no difference

    def ignore(self, *names: str) -> None:
        self.read.update(names)

    def unread(self) -> list[str]:
        """Keys that nobody read and that may change a shape."""
        return sorted(
            key
            for key, value in self.config.items()
            if key not in self.read and key not in HARMLESS and value not in (None, False, 0, "", [], {})
        )

    def usual(self, **defaults: int) -> None:
        self.config = {**defaults, **self.config}

    def value(self, name: str, default: Any = None) -> Any:  # noqa: ANN401  whatever the file holds
        self.read.add(name)
        return self.config.get(name, default)

    def size(self, *names: str, default: int | None = None) -> int:
        for name in names:
            value = self.value(name)
            if value is None:
                continue
            return self._whole(name, value, 1)
        if default is None:
            raise InputError(
                f"{self.where}: {names[0]} is missing", hint="is this the config.json of a language model?"
            )
        return default

    def count(self, name: str, default: int = 0) -> int:
        value = self.value(name, default)
        if value is None:
            return default
        return self._whole(name, value, 0)

    def _whole(self, name: str, value: object, least: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InputError(f"{self.where}: {name} must be a whole number of at least {least}, not {shortened(value)}")
        most = next((most for ends, most in _MOST if ends.search(name)), LARGEST_SIZE)
        if value > most:
            raise InputError(f"{self.where}: {name} is {shortened(value)}: more than {most:,}")
        return value

    def flag(self, name: str, *, default: bool = False) -> bool:
        value = self.value(name, default)
        if value is None:
            return default
        if isinstance(value, bool) or (isinstance(value, int) and value in {0, 1}):
            return bool(value)
        raise InputError(f"{self.where}: {name} must be true or false, not {shortened(value)}")

    def word(self, name: str, default: str) -> str:
        value = self.value(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise InputError(f"{self.where}: {name} must be a text, not {shortened(value)}")
        return value

    def one_of(self, name: str, usual: str, *others: str) -> str:
        said = self.word(name, usual)
        if said not in {usual, *others}:
            raise self.refuse(f"{name} {shortened(said)}")
        return said

    def words(self, name: str) -> list[str]:
        return self._listed(name, str, "texts")

    def kinds(self, name: str, total: int, known: Collection[str]) -> list[str]:
        kinds = self.words(name)
        if kinds and (len(kinds) != total or set(kinds) - set(known)):
            raise self.refuse(f"{name} {shortened(sorted(set(kinds)))} of {len(kinds)} layers")
        return kinds

    def numbers(self, name: str) -> list[int]:
        return self._listed(name, int, "whole numbers")

    def _listed(self, name: str, kind: type[_T], told: str) -> list[_T]:
        value = self.value(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(one, kind) for one in value):
            raise InputError(f"{self.where}: {name} must be a list of {told}, not {shortened(value)}")
        return value

    def share(self, name: str, default: float) -> float:
        value = self.value(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
            raise InputError(f"{self.where}: {name} must be a number above 0, at most 1, not {shortened(value)}")
        return float(value)

    def refuse(self, part: str) -> InputError:
        return InputError(
            f"{self.where}: {part} is not covered by the evaluator, and it is never approximated silently",
            hint="sweepdb models lists what is; CONTRIBUTING.md says how to add an architecture",
        )

    def forbid(self, said: str, *flags: str) -> None:
        if any(self.flag(name) for name in flags):
            raise self.refuse(f"{said} ({', '.join(flags)})")

    def require(self, said: str, flag: str) -> None:
        """A flag is true unless the file says otherwise."""
        if not self.flag(flag, default=True):
            raise self.refuse(f"{said} ({flag})")

    def dense(self, *names: str, **options: bool) -> DenseMlp:
        return DenseMlp(intermediate_size=self.size(*(names or ("intermediate_size",))), **options)

    def experts(
        self,
        *names: str,
        chosen: str = "num_experts_per_tok",
        width: str = "moe_intermediate_size",
        shared: int = 0,
        **options: Any,  # noqa: ANN401  fields of the record
    ) -> MoeMlp:
        """By the names that the architecture has for their number; `shared` are as wide as the others."""
        inner = self.size(width)
        if shared:
            options["shared_intermediate_size"] = inner * shared
        return MoeMlp(
            experts=self.size(*names), experts_per_token=self.size(*chosen.split()), intermediate_size=inner, **options
        )

    def alike(self, attention: GroupedQueryAttention, mlp: DenseMlp | MoeMlp) -> list[LayerGroup]:
        return [LayerGroup(count=self.size("num_hidden_layers"), attention=attention, mlp=mlp)]

    def grouped_queries(
        self,
        groups: str = "num_key_value_heads",
        **options: Any,  # noqa: ANN401  fields of the record
    ) -> GroupedQueryAttention:
        """`options` are what the architecture adds; `groups` is its name for the number of KV heads."""
        heads = self.size("num_attention_heads")
        kv_heads = self.size("num_key_value_heads", groups, default=heads)
        hidden = self.size("hidden_size")
        if heads % kv_heads:
            raise InputError(
                f"{self.where}: num_key_value_heads ({kv_heads}) does not divide num_attention_heads ({heads})"
            )
        if self.value("head_dim") is None and hidden % heads:
            raise InputError(f"{self.where}: num_attention_heads ({heads}) does not divide hidden_size ({hidden})")
        head_dim = self.size("head_dim", default=max(1, hidden // heads))
        return GroupedQueryAttention(query_heads=heads, kv_heads=kv_heads, head_dim=head_dim, **options)

    def require_gated(self) -> None:
        """Gated activations have three matrices."""
        self.one_of("hidden_act", "silu", *_GATED_ACTIVATIONS)

    def windowed_layers(self, attention: GroupedQueryAttention, mlp: DenseMlp | MoeMlp) -> list[LayerGroup]:
        total = self.size("num_hidden_layers")
        window = self.count("sliding_window")
        types = self.words("layer_types")
        if not window:
            return [LayerGroup(count=total, attention=attention, mlp=mlp)]
        if types:
            unknown = set(types) - {"full_attention", "sliding_attention"}
            if unknown or len(types) != total:
                raise self.refuse(f"layer_types with {shortened(sorted(unknown) or len(types))}")
            sliding = types.count("sliding_attention")
        else:
            sliding = total
        return [
            LayerGroup(count=sliding, attention=attention, mlp=mlp, window=window),
            LayerGroup(count=total - sliding, attention=attention, mlp=mlp),
        ]

    def sliding_layers(self, total: int, often: int) -> list[bool]:
        """All but every so many, unless the file lists kinds."""
        kinds = self.kinds("layer_types", total, ("sliding_attention", "full_attention"))
        if not kinds:
            return [bool((layer + 1) % often) for layer in range(total)]
        return [kind == "sliding_attention" for kind in kinds]

    def first_dense_layers(
        self, attention: GroupedQueryAttention | LatentAttention, moe: MoeMlp, dense: int | None = None
    ) -> list[LayerGroup]:
        """So many of them are `dense`, else as many as the file says."""
        total = self.size("num_hidden_layers")
        first = min(total, self.count("first_k_dense_replace")) if dense is None else dense
        return [
            LayerGroup(count=first, attention=attention, mlp=self.dense()),
            LayerGroup(count=total - first, attention=attention, mlp=moe),
        ]

    def model_spec(self, layers: list[LayerGroup], **options: Any) -> ModelSpec:  # noqa: ANN401  fields of the record
        quantisation = self.value("quantization_config")
        if quantisation is not None and not isinstance(quantisation, Mapping):
            raise InputError(f"{self.where}: quantization_config must be a mapping, not {shortened(quantisation)}")
        layers = like_layers(layers)
        native = native_formats(quantisation, _weight_parts(layers))
        maximum = self.count("max_position_embeddings") or None
        return ModelSpec(
            architecture=str(self.value("model_type")),
            left_out=self.left_out,
            hidden_size=self.size("hidden_size", "n_embed"),
            vocab_size=self.size("vocab_size"),
            layers=tuple(group for group in layers if group.count),
            native_linear=native.linear,
            native_experts=native.experts,
            native_mixers=native.mixers,
            native_head=native.head,
            native_drafts=native.drafts,
            native_kv_cache=native_kv_cache(quantisation),
            drafts_chained=options.get("mtp_layers", 0) > 1,
            **{"tie_word_embeddings": self.flag("tie_word_embeddings"), "max_positions": maximum, **options},
        )


def refuse_unread(reader: ConfigReader) -> None:
    if unread := reader.unread():
        named = ", ".join(name[:80] for name in unread[:10])
        more = f" and {len(unread) - 10} more" if len(unread) > 10 else ""
        raise InputError(
            f"{reader.where}: {named}{more}: not read by the evaluator for model_type"
            f" {shortened(reader.config.get('model_type'))}, and they may change what is computed",
            hint="take out of the file what changes no operator and no weight; docs/howto/describe-what-you-serve.md",
        )


def _weight_parts(layers: list[LayerGroup]) -> WeightParts:
    """Layers without experts are the first ones."""
    mlps = [(group.count, group.mlp) for group in layers if group.mlp is not None]
    mixtures = [mlp for _, mlp in mlps if isinstance(mlp, MoeMlp)]
    return WeightParts(
        layers=sum(group.count for group in layers),
        dense=sum(count for count, mlp in mlps if isinstance(mlp, DenseMlp)),
        shared=any(mlp.shared_intermediate_size for mlp in mixtures),
        routed=bool(mixtures),
        beside=any(mlp.apart_norms for mlp in mixtures),
    )


def like_layers(layers: list[LayerGroup]) -> list[LayerGroup]:
    """In the order of each group's last layer: drafts are like a model's last layer."""
    found: dict[LayerGroup, int] = {}
    for layer in layers:
        bare = replace(layer, count=1)
        found[bare] = found.pop(bare, 0) + layer.count
    return [replace(layer, count=count) for layer, count in found.items()]


_ENCODERS = {"vision_config": "image encoder", "audio_config": "audio encoder"}
# Keys of the outer file about encoders, and about where what they make stands in the prompt.
_OF_ENCODERS = re.compile(r"image|img|video|vision|audio|media|projector|ignore_index|[be]o[ai]_token")


def language_part(config: Config, where: str) -> ConfigReader:
    outer = ConfigReader(config, where)
    inner = outer.value("text_config")
    if not isinstance(inner, Mapping):
        raise InputError(f"{where}: text_config must be a mapping, not {shortened(inner)}")
    left_out = " and no ".join(said for key, said in _ENCODERS.items() if outer.value(key))
    outer.ignore(*(key for key in config if _OF_ENCODERS.search(key)))
    # Either of both may say these, and the outer one is what programs look at first.
    shared = {name: outer.value(name) for name in ("quantization_config", "tie_word_embeddings")}
    refuse_unread(outer)
    named = {"model_type": outer.value("model_type")}  # of the whole, where the part says none
    held = {name: value for name, value in shared.items() if value is not None}
    return ConfigReader({**named, **inner, **held}, where, left_out=left_out)
