"""Which modules a checkpoint leaves as they were: lists of names, beginnings, stars and regular expressions.

Engines match each way of writing in its own manner; so does this. Not here: what the rest is quantised to
(evaluator.inputs.native_formats)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

_OF_LAYERS = re.compile(r"^(?!mtp).*?(?=(?<![a-z_])layers\.)")  # what programs write before it differs
_REGEX = "re:"
# Products that hold nearly all weights of a part; of one that mixes tokens, the first and the last. A file uses one of
# the ways to name them, so that a layer is spared where all of one way are.
MIXERS = (
    ("self_attn.q_proj", "self_attn.o_proj"),
    ("self_attn.q_a_proj", "self_attn.q_b_proj", "self_attn.o_proj"),
    ("self_attn.qkv_proj", "self_attn.o_proj"),
    ("linear_attn.in_proj_qkv", "linear_attn.out_proj"),
    ("attn.wq_a", "attn.wq_b", "attn.wo_b"),
    ("mixer.in_proj", "mixer.out_proj"),
)
DENSE = (("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"), ("ffn.w1", "ffn.w2", "ffn.w3"))
SHARED = tuple(
    tuple(f"{outer}.{inner}.{name}" for name in names)
    for outer in ("mlp", "block_sparse_moe", "ffn")
    for inner in ("shared_expert", "shared_experts")
    for names in (("gate_proj", "up_proj", "down_proj"), ("w1", "w2", "w3"))
)
EXPERTS = tuple(
    tuple(f"{outer}.experts{inner}" for inner in inners)
    for outer in ("mlp", "block_sparse_moe", "ffn")
    for inners in ((".0.gate_proj", ".0.down_proj"), (".0.w1", ".0.w2"))
)
# Where a dense MLP stands beside experts (Gemma 4), it is what files call the MLP.
EXPERTS_BESIDE = (("experts.0.gate_proj", "experts.0.down_proj"), ("experts.gate_up_proj", "experts.down_proj"))
Ways = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class SparedModules:
    """The modules that a list names. `"layers.3.mlp.up_proj" in spared` asks for one by its name from `layers` on."""

    beginnings: tuple[str, ...]  # of modules in layers, each ends where a name may end, or at a star
    words: tuple[str, ...]  # of modules anywhere: whole names between dots
    patterns: tuple[Callable[[str], object], ...]

    def __contains__(self, name: str) -> bool:
        return (
            f"{name}.".startswith(self.beginnings)
            or any(word in f".{name}." for word in self.words)
            or any(pattern(f"model.{name}.weight") for pattern in self.patterns)
        )

    def share(self, ways: Ways, layers: Iterable[int]) -> float:
        """The share of these layers in which a part is spared; 0 of no layer."""
        found = [any(all(f"layers.{layer}.{name}" in self for name in way) for way in ways) for layer in layers]
        return sum(found) / len(found) if found else 0.0

    def drafts(self, layers: int) -> bool:
        """Whether layers that draft are spared: modules `mtp`, or layers behind the model's own."""
        behind = f"layers.{layers}"
        ways = (
            (f"{behind}.self_attn.q_a_proj", f"{behind}.mlp.experts.0.up_proj"),
            ("mtp.layers.0.self_attn.q_proj", "mtp.layers.0.mlp.experts.0.up_proj"),
            ("mtp.0.attn.wq_a", "mtp.0.ffn.experts.0.w1"),
        )
        return any(all(name in self for name in way) for way in ways)


def spared_modules(items: object) -> SparedModules:
    """The modules of a list such as `modules_to_not_convert`; of what is no list none."""
    beginnings, words, patterns = [], [], []
    for item in items if isinstance(items, list) else ():
        said = str(item)
        if said.startswith(_REGEX):
            patterns.append(_matching(said.removeprefix(_REGEX)))
            continue
        short = _OF_LAYERS.sub("", said)
        bare = short.rstrip("*")
        if "*" in bare:  # each stands for some text; behind what is no star at the end a module may go on
            text = ".*".join(re.escape(part) for part in short.split("*"))
            patterns.append(_matching(rf"(?:.*\.)?{text}(?:\..*)?$"))
        elif bare.startswith("layers.") or bare != short:
            beginnings.append(bare if bare != short else f"{bare}.")
        elif bare:
            words.append(f".{bare}.")
    return SparedModules(tuple(beginnings), tuple(words), tuple(patterns))


def _matching(text: str) -> Callable[[str], object]:
    """A test of whether a pattern fits; one that is no regular expression fits nothing."""
    try:
        return re.compile(text).match
    except re.error:
        return lambda _: None
