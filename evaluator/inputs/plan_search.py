"""Legal plans, and those that a search looks at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from itertools import product
from typing import Literal

from evaluator.inputs.formats import WIDE, Precision
from evaluator.inputs.launch import Plan
from evaluator.inputs.launchable import launchable_by, smaller_servers
from evaluator.inputs.model import (
    DenseMlp,
    GroupedQueryAttention,
    LatentAttention,
    LayerGroup,
    ModelSpec,
    MoeMlp,
)
from store.errors import InputError
from store.light_dataclass import dataclass
from store.schema import SHARES, PlanRecord

Sizes = tuple[int, ...] | None  # None: not given; empty: powers of two up to the devices
MOST_ENCODERS = 64  # devices of an instance's encoders
MICRO_BATCHES = (1, 2)
SearchRule = Literal["launchable", "every", "tp"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSearch:
    """`every`: each legal plan; `launchable`: as one server of `engine`; `tp`: seed 001's rule (S23).

    Under `tp`, dimensions not given are tp = ep = devices and moe_dp = 1; with none given only tp is searched."""

    rule: SearchRule = "every"
    engine: str | None = None  # whose rule `launchable` follows; None: no engine, and every legal plan
    tp_sizes: Sizes = None
    pp_sizes: Sizes = None
    dp_sizes: Sizes = None
    ep_sizes: Sizes = None
    moe_tp_sizes: Sizes = None
    moe_dp_sizes: Sizes = None
    dcp_sizes: Sizes = None
    redundant_experts: Sizes = None
    pcp_sizes: Sizes = None
    micro_batches: Sizes = None
    encoder_devices: Sizes = None  # beside the devices of an instance


def searched_by(size: str) -> str:
    listed = f"{size}_sizes"
    return listed if listed in PlanSearch.__slots__ else size


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChoice:
    """`illegal` says why it cannot be, where its sizes were asked for."""

    plan: Plan
    illegal: str | None = None


def choices_of_sizes(
    model: ModelSpec, instance_sizes: Sequence[int], search: PlanSearch, precision: Precision = WIDE
) -> tuple[tuple[int, PlanChoice], ...]:
    """(devices, plan) by instance size, without plans that repeat smaller ones."""
    sizes, found = sorted(set(instance_sizes)), set[Plan]()
    kept: list[tuple[int, PlanChoice]] = []
    for size in sizes:
        for choice in plan_choices(model, size, search, precision):
            if choice.illegal is not None:
                if choice.plan.language_devices == size or choice.plan.language_devices not in sizes:
                    kept.append((size, choice))
            elif found.isdisjoint(smaller_servers(choice.plan)):
                kept.append((size, choice))
                found.add(choice.plan)
    return tuple(kept)


def plan_choices(
    model: ModelSpec, num_devices: int, search: PlanSearch, precision: Precision = WIDE
) -> tuple[PlanChoice, ...]:
    """Illegal plans are left out unless a size was named.

    Where the engine launches none of these, all are taken."""
    if num_devices < 1:
        raise InputError(f"`num_devices` must be at least 1, not {num_devices}")
    _check_sizes(search)
    choices: dict[Plan, PlanChoice] = {}
    for plan, named in _candidates(model, num_devices, search):
        reason = illegality(model, plan, num_devices)
        if reason is None or named:
            choices.setdefault(plan, PlanChoice(plan=plan, illegal=reason))
    if search.rule == "launchable":
        legal = (plan for plan, choice in choices.items() if choice.illegal is None)
        if can := {plan for plan in legal if search.engine in launchable_by(model, plan, precision)}:
            choices = {plan: choice for plan, choice in choices.items() if choice.illegal is not None or plan in can}
    return tuple(choices[plan] for plan in sorted(choices))


def _check_sizes(search: PlanSearch) -> None:
    least = {share.name: share.usual for share in SHARES}
    for one in fields(PlanRecord):
        name = searched_by(one.name)
        for size in getattr(search, name) or ():
            if size < least.get(one.name, 1) and name not in {"encoder_devices", "micro_batches"}:
                raise InputError(f"`{name}` must be at least {least.get(one.name, 1)}, not {size}")
    for devices in search.encoder_devices or ():
        if not 0 <= devices <= MOST_ENCODERS:
            raise InputError(f"`encoder_devices` must be between 0 and {MOST_ENCODERS}, not {devices}")
    for parts in search.micro_batches or ():
        if parts not in MICRO_BATCHES:
            raise InputError(f"`micro_batches` must be 1 or 2, not {parts}")


def illegality(model: ModelSpec, plan: Plan, num_devices: int) -> str | None:
    """KV heads replicate where tp exceeds them."""
    if plan.language_devices != num_devices:
        prompts = f" x pcp {plan.pcp}" if plan.pcp > 1 else ""
        return (
            f"tp {plan.tp} x pp {plan.pp} x dp {plan.dp}{prompts} is {plan.language_devices}, not {num_devices} devices"
        )
    layers = sum(group.count for group in model.layers)
    if plan.pp > layers:
        return f"pp {plan.pp} is more than the {layers} layers"
    return (
        _indivisible(model, plan)
        or _unshared_context(model, plan)
        or _undivided_prompt(model, plan)
        or _unhalved_batch(model, plan)
        or _expert_mismatch(model, plan)
    )


def holds_shares(group: LayerGroup) -> bool:
    attention = group.attention
    plain = isinstance(attention, GroupedQueryAttention | LatentAttention) and attention.chosen_keys is None
    return plain and group.window is None


def divides_prompts(group: LayerGroup) -> bool:
    """True where each token is computed by itself, against every key."""
    return all(
        isinstance(mixer, GroupedQueryAttention | LatentAttention) and getattr(mixer, "chosen_block", 1) == 1
        for mixer in group.mixers
    )


def _unshared_context(model: ModelSpec, plan: Plan) -> str | None:
    """Linear states cannot be shared. A draft has the same ranks."""
    if plan.dcp == 1:
        return None
    sizes = []
    for group in (*model.layers, *model.draft_groups):
        if holds_shares(group):
            heads = group.attention.kv_heads if isinstance(group.attention, GroupedQueryAttention) else 1
            sizes.append(max(plan.tp // heads, 1) if plan.tp % heads == 0 else 1)
        elif group.attention is not None and group.attention.keeps_tokens:
            return f"dcp {plan.dcp} divides what attends to all tokens, and a kind of layer here does not"
    copies = min(sizes, default=1)
    if copies % plan.dcp:
        return f"dcp {plan.dcp} does not divide the {copies} devices of tp {plan.tp} that hold the same keys"
    return None


def _undivided_prompt(model: ModelSpec, plan: Plan) -> str | None:
    """States pass from token to token; compressed entries are made of several."""
    if plan.pcp == 1:
        return None
    if all(map(divides_prompts, (*model.layers, *model.draft_groups))):
        return None
    return f"pcp {plan.pcp} divides prompts among whole layers of attention, and a kind of layer here is none"


def _unhalved_batch(model: ModelSpec, plan: Plan) -> str | None:
    if plan.micro_batches == 1:
        return None
    if not model.routed or plan.ep == 1 or plan.groups == 1:
        return f"micro_batches {plan.micro_batches} takes experts over replicas: ep and dp above 1"
    return f"micro_batches {plan.micro_batches} takes one pipeline stage, not {plan.pp}" if plan.pp > 1 else None


def _indivisible(model: ModelSpec, plan: Plan) -> str | None:
    """Parts that tensor parallelism cannot divide, drafts included."""
    drafting = () if model.draft_model is None else model.draft_model.layers
    whose = [(group, "") for group in model.layers] + [(group, " of the model that drafts") for group in drafting]
    for group, owner in whose:
        split = [pair for mixer in group.mixers for pair in mixer.split_heads.items()]
        for kind, heads in split:
            if heads % plan.tp:
                return f"tp {plan.tp} does not divide the {heads} {kind} heads{owner}"
        width = _split_width(group)
        if width % plan.tp:
            return f"tp {plan.tp} does not divide the intermediate size {width}{owner}"
    return None


def _split_width(group: LayerGroup) -> int:
    if group.mlp is None:
        return 0
    return group.mlp.intermediate_size if isinstance(group.mlp, DenseMlp) else group.mlp.shared_intermediate_size


def _expert_mismatch(model: ModelSpec, plan: Plan) -> str | None:
    experts = _experts(model.layers)
    if experts is None:
        if (plan.ep, plan.moe_tp, plan.moe_dp, plan.redundant_experts) != (1, 1, 1, 0):
            return "a dense model has ep, moe_tp and moe_dp at 1, and no copies of experts"
        return None
    if plan.ep * plan.moe_tp * plan.moe_dp != plan.stage_devices:
        prompts = f" x pcp {plan.pcp}" if plan.pcp > 1 else ""
        return (
            f"ep {plan.ep} x moe_tp {plan.moe_tp} x moe_dp {plan.moe_dp} is not"
            f" tp {plan.tp} x dp {plan.dp}{prompts} = {plan.stage_devices}"
        )
    slots = experts.experts + plan.redundant_experts
    if slots % plan.ep:
        copies = f" and {plan.redundant_experts} copies" if plan.redundant_experts else ""
        return f"ep {plan.ep} does not divide the {experts.experts} experts{copies}"
    if experts.intermediate_size % plan.moe_tp:
        return f"moe_tp {plan.moe_tp} does not divide the experts' intermediate size {experts.intermediate_size}"
    return None


def _experts(layers: Sequence[LayerGroup]) -> MoeMlp | None:
    return next((group.mlp for group in layers if isinstance(group.mlp, MoeMlp)), None)


def powers_of_two(largest: int) -> tuple[int, ...]:
    return tuple(1 << exponent for exponent in range(largest.bit_length()))


def _splits(group: int) -> tuple[int, ...]:
    """Powers of two, and the group: engines split experts over all of it."""
    return tuple(sorted({*powers_of_two(group), group}))


def _listed(sizes: Sizes, devices: int, fallback: Sequence[int]) -> Sequence[int]:
    if sizes is None:
        return fallback
    return sizes or powers_of_two(devices)


def _candidates(model: ModelSpec, devices: int, search: PlanSearch) -> Iterator[tuple[Plan, bool]]:
    every = search.rule != "tp"
    nothing = all(sizes is None for sizes in (search.tp_sizes, search.ep_sizes, search.moe_dp_sizes, search.dp_sizes))
    powers = powers_of_two(devices)
    tps = _listed(search.tp_sizes, devices, powers if every or nothing else (devices,))
    for pp in _listed(search.pp_sizes, devices, (1,)):
        for tp in tps:
            for pcp in _listed(search.pcp_sizes, devices, (1,)):
                for dp in _dp_sizes(devices, tp * pcp, pp, search):
                    attention = Plan(tp=tp, pp=pp, dp=dp, pcp=pcp)
                    named = _all_named(search, tp=tp, pp=pp, dp=dp)
                    if not named and attention.num_devices != devices:
                        continue  # a size that was searched, not asked for, does not go with one that was
                    yield from _with_experts(model, attention, named, devices, search)


def _with_experts(
    model: ModelSpec, attention: Plan, named: bool, devices: int, search: PlanSearch
) -> Iterator[tuple[Plan, bool]]:
    for ep, moe_tp, moe_dp in _expert_splits(model, attention, devices, search):
        plan = replace(attention, ep=ep, moe_tp=moe_tp, moe_dp=moe_dp)
        asked = named or _named(search, ep=ep, moe_tp=moe_tp, moe_dp=moe_dp)
        asked = asked or (attention.pcp > 1 and bool(search.pcp_sizes))
        yield from _with_shares_and_copies(plan, asked, search)


def _with_shares_and_copies(plan: Plan, asked: bool, search: PlanSearch) -> Iterator[tuple[Plan, bool]]:
    others = [share for share in SHARES if share.name not in {"dcp", "pcp"}]
    looked_at = [getattr(search, searched_by(share.name)) or (share.usual,) for share in others]
    for dcp in _listed(search.dcp_sizes, plan.tp, (1,)):
        for sizes in product(*looked_at):
            made = replace(plan, dcp=dcp, **{share.name: size for share, size in zip(others, sizes, strict=True)})
            named = (dcp > 1 and bool(search.dcp_sizes)) or made.redundant_experts > 0
            yield made, asked or named


def _named(search: PlanSearch, **sizes: int) -> bool:
    return any(size in (getattr(search, f"{name}_sizes") or ()) for name, size in sizes.items())


def _all_named(search: PlanSearch, **sizes: int) -> bool:
    given = {name: size for name, size in sizes.items() if getattr(search, f"{name}_sizes") is not None or name != "dp"}
    return _named(search, **given) and all(size == 1 or _named(search, **{name: size}) for name, size in given.items())


def _dp_sizes(devices: int, tp: int, pp: int, search: PlanSearch) -> Sequence[int]:
    if search.dp_sizes:
        return search.dp_sizes
    # A split that does not divide the devices is kept, with dp 1, so that its refusal can be told.
    return (max(1, devices // (tp * pp)),)


def _expert_splits(
    model: ModelSpec, attention: Plan, devices: int, search: PlanSearch
) -> Iterator[tuple[int, int, int]]:
    if _experts(model.layers) is None:
        yield 1, 1, 1
        return
    group = attention.stage_devices
    every = search.rule != "tp"
    eps = _listed(search.ep_sizes, devices, _splits(group) if every else (group,))
    for ep in eps:
        for moe_tp in _moe_tp_sizes(group, ep, search):
            for moe_dp in _moe_dp_sizes(group, ep, moe_tp, search):
                tensor = moe_tp or max(1, group // (ep * moe_dp))
                yield ep, tensor, moe_dp


def _moe_tp_sizes(group: int, ep: int, search: PlanSearch) -> Sequence[int]:
    if search.moe_tp_sizes is not None:
        return search.moe_tp_sizes or powers_of_two(group)
    if search.rule != "tp" and search.moe_dp_sizes is None:
        return [size for size in _splits(group) if group % (ep * size) == 0]
    return (0,)  # whatever ep and moe_dp leave


def _moe_dp_sizes(group: int, ep: int, moe_tp: int, search: PlanSearch) -> Sequence[int]:
    if search.moe_dp_sizes is not None:
        return search.moe_dp_sizes or powers_of_two(group)
    if moe_tp == 0:
        return (1,)
    return (max(1, group // (ep * moe_tp)),)
