"""The sizes that make a plan, once: what a record has, a database keeps, a label says and a reader is told."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field, fields, replace
from typing import cast

from store.light_dataclass import dataclass
from store.schema.declaring import INTEGER, Column

IF_SET = "if_set"  # metadata of a field that content keys leave out where it is its default


@dataclass(frozen=True, slots=True)
class Size:
    """A size of plans, and all that is said of it.

    One that most plans have at its default is a share: a label has it where it is another, `short` where people read
    it. `words` name it among what no measured point of the summary has; measured deployments of a user's own state
    those that are `measured`."""

    unit: str
    meaning: str
    label: str
    short: str = ""
    words: str = ""
    measured: bool = False
    name: str = ""  # of a share
    usual: int = 1


def _size(unit: str, meaning: str, label: str) -> dict[str, Size]:
    return {"size": Size(unit, meaning, label)}


def _share(
    unit: str, meaning: str, label: str, *, short: str, words: str, measured: bool = False
) -> dict[str, Size | bool]:
    return {"size": Size(unit, meaning, label, short, words, measured), IF_SET: True}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRecord:
    """Parallel sizes of one instance."""

    tp: int = field(metadata=_size("devices", "tensor parallel size", "tp"))
    pp: int = field(metadata=_size("devices", "pipeline stages", "pp"))
    dp: int = field(metadata=_size("replicas", "data parallel replicas", "dp"))
    ep: int = field(metadata=_size("devices", "expert parallel size", "ep"))
    moe_tp: int = field(metadata=_size("devices", "tensor parallel size inside experts", "moetp"))
    moe_dp: int = field(metadata=_size("replicas", "replicas of the expert group", "moedp"))
    dcp: int = field(
        default=1,
        metadata=_share(
            "devices",
            "devices that share the tokens of a context",
            "dcp",
            short="DCP{}",
            words="shares of a context (dcp)",
            measured=True,
        ),
    )
    redundant_experts: int = field(
        default=0,
        metadata=_share(
            "experts",
            "copies of experts in a layer beside them",
            "red",
            short="+{} experts",
            words="copies of experts (redundant_experts)",
        ),
    )
    pcp: int = field(
        default=1,
        metadata=_share(
            "devices",
            "groups that the new tokens of prompts are divided among",
            "pcp",
            short="PCP{}",
            words="divided prompts (pcp)",
            measured=True,
        ),
    )
    micro_batches: int = field(
        default=1,
        metadata=_share(
            "batches",
            "parts of a batch, of which one exchanges tokens while another computes",
            "mb",
            short="{} micro-batches",
            words="two micro-batches",
            measured=True,
        ),
    )
    encoder_devices: int = field(
        default=0,
        metadata=_share(
            "devices",
            "devices of their own that encode images for an instance",
            "enc",
            short="{} for images",
            words="encoders on devices of their own",
        ),
    )

    @property
    def num_devices(self) -> int:
        return self.tp * self.pp * self.dp * self.pcp + self.encoder_devices

    @property
    def shares(self) -> Mapping[str, int]:
        return {one.name: size for one in SHARES if (size := getattr(self, one.name)) != one.usual}


_SIZES: dict[str, Size] = {one.name: one.metadata["size"] for one in fields(PlanRecord)}
SHARES = tuple(
    replace(_SIZES[one.name], name=one.name, usual=cast("int", one.default))
    for one in fields(PlanRecord)
    if IF_SET in one.metadata
)
_USUAL = {share.name: share.usual for share in SHARES}
OF_PLANS = tuple(
    Column(name, INTEGER, size.unit, size.meaning, default=str(_USUAL[name]) if name in _USUAL else None)
    for name, size in _SIZES.items()
)
OF_DEVICES = OF_PLANS[: -len(SHARES)]  # how devices share a model
OF_SHARES = OF_PLANS[-len(SHARES) :]
MEASURED_SHARES = tuple(column for column, share in zip(OF_SHARES, SHARES, strict=True) if share.measured)
# Every size as a label letters it, and what it is where a label has none.
_LABELS = {size.label: _USUAL.get(name, 1) for name, size in _SIZES.items()}
_PAIR = " + "
_PART = re.compile(rf"({'|'.join(sorted(_LABELS, key=len, reverse=True))})(\d+)")


def label_sql() -> str:
    """SQL of every dialect: the label of a plan, `tp8pp1dp1`, with the expert split where there is one."""
    sizes = [column.name for column in OF_DEVICES]
    copies_first = sorted(SHARES, key=lambda share: share.label != "red")
    told = [
        _lettered(sizes[:3]),
        _where(" OR ".join(f"{name} > 1" for name in sizes[3:]), _lettered(sizes[3:])),
        *(_where(f"{share.name} > {share.usual}", _lettered([share.name])) for share in copies_first),
    ]
    return f"({' || '.join(told)})"


def words_sql(alias: str) -> str:
    """SQL of every dialect: what no measured point has, of the shares of a plan, a line each."""
    said = (_where(f"{alias}.{share.name} > {share.usual}", f"'{share.words}\n'") for share in SHARES)
    return f"({' || '.join(said)})"


def _lettered(names: Sequence[str]) -> str:
    return " || ".join(f"'{_SIZES[name].label}' || {name}" for name in names)


def _where(condition: str, text: str) -> str:
    return f"CASE WHEN {condition} THEN {text} ELSE '' END"


def read_label(label: str) -> dict[str, int]:
    return {**_LABELS, **{name: int(size) for name, size in _PART.findall(label)}}


def short_plan(label: str) -> str:
    """The sizes above 1, the tensor parallel one always; the tensor split of experts only beside an expert split.

    Of a pair (`2 x tp1... + 1 x tp2...`) both sides."""
    if _PAIR in label:
        counts, plans = zip(*(side.split(" x ") for side in label.split(_PAIR)), strict=True)
        prefill, decode = (f"{count} x {short_plan(plan)}" for count, plan in zip(counts, plans, strict=True))
        return f"(prefill {prefill}, decode {decode})"
    sizes = read_label(label)
    said = [f"{name.upper()}{sizes[name]}" for name in ("tp", "pp", "dp", "ep") if sizes[name] > 1 or name == "tp"]
    if sizes["moetp"] > 1 and sizes["ep"] > 1:
        said.append(f"expert TP{sizes['moetp']}")
    if sizes["moedp"] > 1:
        said.append(f"expert DP{sizes['moedp']}")
    said += [share.short.format(sizes[share.label]) for share in SHARES if sizes[share.label] > share.usual]
    return " ".join(said)
