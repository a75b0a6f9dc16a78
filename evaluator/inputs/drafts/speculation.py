"""Tables of measured acceptance, shipped or the user's: tokens gained a step by number of drafts."""

from __future__ import annotations

import difflib
import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from evaluator.inputs.model import DenseMlp, GroupedQueryAttention, LatentAttention, LayerGroup, ModelSpec
from evaluator.inputs.models import is_catalogued, load_model
from evaluator.inputs.yaml_checking import checked_yaml
from evaluator.inputs.yaml_file import parse_yaml, read_text, shortened
from store.errors import InputError
from store.light_dataclass import dataclass

if TYPE_CHECKING:
    from evaluator.inputs.drafts.draft_file import DraftKeys

Method = Literal["mtp", "eagle3", "dspark", "draft_model"]
FUSED_STATES = 3  # hidden states of a model that an EAGLE-3 draft reads
MOST_DRAFTS = 9
_LARGEST_BYTES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftShape:
    """Layers of a draft beside a model, and its vocabulary (EAGLE-3)."""

    attention: GroupedQueryAttention | LatentAttention
    intermediate_size: int
    vocab_size: int
    state_norms: bool = False  # of each hidden state of the model, before they are fused
    layers: int = 1
    states: int = FUSED_STATES
    markov_rank: int = 0  # of what makes a draft follow the one before it in a block


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceTable:
    """Tokens gained a step with 1, 2, 3 ... drafts. `model` None: any."""

    name: str
    method: Method
    tokens_per_step: tuple[float, ...]
    model: str | None = None
    thinking: bool = True
    run: int | None = None
    draft: DraftShape | None = None
    checkpoint: str | None = None  # the id of the draft that was measured, where it is one beside the model
    drafting: str | None = None  # the name of the model that drafts, where it is a whole one


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    table: AcceptanceTable
    drafts: int

    @property
    def gained(self) -> float:
        return self.table.tokens_per_step[self.drafts - 1]

    @property
    def rates(self) -> tuple[float, ...]:
        """Tokens that each draft adds, made never to fall with more drafts."""
        # 1.84, 2.51, 3.73, 3.47 tokens at 1 to 4 drafts: the third is taken at 3.47, so 0.84, 0.67, 0.96, 0.
        gained = [1.0]
        for length in reversed(self.table.tokens_per_step[: self.drafts]):
            gained.insert(1, min(length, gained[1] if len(gained) > 1 else length))
        return tuple(round(after - before, 9) for before, after in itertools.pairwise(gained))

    @property
    def label(self) -> str:
        return f"{self.table.name}:{self.drafts}"


def list_acceptance() -> tuple[str, ...]:
    return tuple(_shipped())


def acceptance_table(name: str) -> AcceptanceTable:
    found = _shipped().get(name)
    if found is None:
        nearest = difflib.get_close_matches(name, list_acceptance(), n=3, cutoff=0.3) or list_acceptance()
        raise InputError(f"unknown drafts {shortened(name)}", hint=f"nearest known: {', '.join(nearest)}; or FILE.yaml")
    return found


def speculation(text: str, rates: Sequence[float] | None = None) -> Speculation:
    """`text` is `NAME:k` or `FILE.yaml:k`; `rates` are for a model that drafts."""
    name, colon, number = text.rpartition(":")
    if not colon or not number.isdigit():
        raise InputError(f"`speculative={text}`: not NAME:k, such as {list_acceptance()[0]}:3")
    path = Path(name).expanduser()
    if path.suffix in {".yaml", ".yml"}:
        table = _from_file(path)
    elif name in _shipped() or not ("/" in name or Path(name).exists() or is_catalogued(name)):
        table = acceptance_table(name)
    else:
        return _of_a_model(text, name, int(number), rates)
    if rates is not None:
        raise InputError(f"`speculative={text}` brings its own rates: drop `mtp_acceptance_rate`")
    most = len(table.tokens_per_step)
    if not 1 <= int(number) <= most:
        raise InputError(f"`speculative={text}`: {table.name} is known for 1 to {most} drafts")
    return Speculation(table=table, drafts=int(number))


def _of_a_model(text: str, name: str, drafts: int, rates: Sequence[float] | None) -> Speculation:
    """Gains of a pair of models are not published, so they must be stated."""
    if not 1 <= drafts <= MOST_DRAFTS:
        raise InputError(f"`speculative={text}`: 1 to {MOST_DRAFTS} drafts")
    if rates is None or len(rates) != drafts or not all(0 <= rate <= 1 for rate in rates):
        given = "none" if rates is None else ", ".join(f"{rate:g}" for rate in rates)
        raise InputError(
            f"`speculative={text}`: what {drafts} drafts of {name} gain is in no table: `mtp_acceptance_rate` states"
            f" it, {drafts} numbers from 0 to 1, not {given}",
            hint="the share of steps in which the 1st, 2nd ... draft holds; servers report acceptance by position",
        )
    gained = tuple(1.0 + sum(rates[: at + 1]) for at in range(drafts))
    table = AcceptanceTable(name=name, method="draft_model", tokens_per_step=gained, drafting=load_model(name)[0])
    return Speculation(table=table, drafts=drafts)


def measured_for(model: str, drafts: int) -> Speculation | None:
    """Tables of models with the same layers count, too; those that can be priced come first."""
    spec = load_model(model)[1]
    found = [
        table
        for table in _shipped().values()
        if table.thinking and table.model is not None and load_model(table.model)[1].layers == spec.layers
    ]
    found.sort(key=lambda table: missing_draft(table, spec) is not None)
    return Speculation(table=found[0], drafts=min(drafts, len(found[0].tokens_per_step))) if found else None


def draft_checkpoint(name: str, spec: ModelSpec) -> str | None:
    """MODEL+TABLE or MODEL+MODEL; None where the table is the user's."""
    drafting = name.rpartition("+")[2]
    if spec.draft_model is not None:
        return drafting
    found = _shipped().get(drafting)
    return None if found is None else found.checkpoint


def with_draft(name: str, spec: ModelSpec, asked: Speculation) -> tuple[str, ModelSpec]:
    table = asked.table
    if table.model is not None and load_model(table.model)[1].layers != spec.layers:
        raise InputError(
            f"the drafts {table.name} were measured with {table.model}, not with {name}",
            hint="a FILE.yaml with acceptance: states them for another model",
        )
    if (missing := missing_draft(table, spec)) is not None:
        raise InputError(f"{name} with {table.name}: {missing}", hint="docs/howto/describe-what-you-serve.md")
    if table.drafting is not None:
        return _with_model(name, spec, table.drafting)
    if table.draft is None:
        return name, spec
    draft = table.draft
    layer = LayerGroup(count=1, attention=draft.attention, mlp=DenseMlp(intermediate_size=draft.intermediate_size))
    drafted = replace(
        spec,
        mtp_layers=draft.layers,
        draft_layer=layer,
        draft_states=draft.states,
        draft_state_norms=draft.state_norms,
        draft_block=table.method == "dspark",
        draft_markov=draft.markov_rank,
        draft_vocab=draft.vocab_size,
    )
    return f"{name}+{table.name}", drafted


def _with_model(name: str, spec: ModelSpec, drafting: str) -> tuple[str, ModelSpec]:
    """On the same ranks, in the drafter's own format."""
    named, draft = load_model(drafting)
    if (why := no_drafter(draft)) is not None:
        raise InputError(f"{named} cannot draft for {name}: {why}", hint="docs/howto/describe-what-you-serve.md")
    bare = replace(draft, mtp_layers=0, draft_layer=None, left_out="", vision=None)
    drafted = replace(
        spec,
        mtp_layers=sum(group.count for group in draft.layers),
        draft_layer=None,
        draft_model=bare,
        native_drafts=draft.native_linear,
    )
    return f"{name}+{named}", drafted


def no_drafter(draft: ModelSpec) -> str | None:
    """Why a model cannot draft: drafters are small and dense."""
    for group in draft.layers:
        attention = group.attention
        plain = isinstance(attention, GroupedQueryAttention | LatentAttention) and attention.indexer is None
        if not plain or group.beside is not None or not isinstance(group.mlp, DenseMlp):
            return "layers of attention to all tokens or a window, and dense MLPs, are what is evaluated"
    if draft.residual_streams > 1 or draft.residual_block:
        return "it has several sums of residuals"
    if draft.native_mixers not in {None, draft.native_linear} or draft.native_head is not None:
        return "its parts are published in several formats"
    return None


def missing_draft(table: AcceptanceTable, spec: ModelSpec) -> str | None:
    if table.method == "dspark" and table.draft is None:
        return "the shape of what drafts its blocks in one pass (DSpark) is not known"
    if table.method == "eagle3" and table.draft is None:
        return "the shape of its draft is not known; a FILE.yaml with draft: states one"
    if table.drafting is None and table.method == "draft_model":
        return "the model that drafts is not named; a FILE.yaml with draft_model: names one"
    if table.method == "mtp" and not spec.mtp_layers:
        return "the model has no MTP module"
    return None


@functools.cache
def _shipped() -> Mapping[str, AcceptanceTable]:
    file = resources.files("evaluator").joinpath("inputs/drafts/acceptance.yaml")
    content: Any = parse_yaml(file.read_text(encoding="utf-8"), "acceptance.yaml")
    shapes = {name: _shape(said) for name, said in content.pop("drafts").items()}
    return {
        name: AcceptanceTable(
            **{
                **said,
                "name": name,
                "tokens_per_step": tuple(said["tokens_per_step"]),
                "draft": shapes.get(said.get("checkpoint")),
            }
        )
        for name, said in content.items()
    }


def _shape(said: Mapping[str, Any]) -> DraftShape:
    """Positions turn whole heads, whatever the model does."""
    attention = said["attention"]
    kind = (
        LatentAttention(**attention)
        if "kv_lora_rank" in attention
        else GroupedQueryAttention(**attention, rope_fraction=1.0)
    )
    return DraftShape(**{**said, "attention": kind})


def _stated_shape(said: DraftKeys) -> DraftShape:
    attention = GroupedQueryAttention(query_heads=said.query_heads, kv_heads=said.kv_heads, head_dim=said.head_dim)
    return DraftShape(attention=attention, intermediate_size=said.intermediate_size, vocab_size=said.vocab_size)


def _from_file(path: Path) -> AcceptanceTable:
    """Lengths are its own or a shipped table's; an EAGLE-3 draft has a shape."""
    from evaluator.inputs.drafts.draft_file import DraftsKeys  # pydantic, which no question needs

    text = read_text(path, largest_bytes=_LARGEST_BYTES, what="a file of drafts")
    found = checked_yaml(DraftsKeys, text, str(path), hint="docs/howto/describe-what-you-serve.md")
    shipped = None if found.acceptance is None else acceptance_table(found.acceptance)
    method = found.method or ("mtp" if shipped is None else shipped.method)
    if found.draft_model is not None:
        method = "draft_model"
    if (found.draft is not None) != (method == "eagle3"):
        raise InputError(f"{path}: a draft of method eagle3 has a shape (draft), and no other has one")
    lengths = found.tokens_per_step if shipped is None else shipped.tokens_per_step
    shape = None if found.draft is None else _stated_shape(found.draft)
    drafting = None if found.draft_model is None else load_model(found.draft_model)[0]
    return AcceptanceTable(
        name=path.stem, method=method, tokens_per_step=tuple(lengths or ()), draft=shape, drafting=drafting
    )
