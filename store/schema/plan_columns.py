"""The sizes that make a plan, once: what a record has, a database keeps, a label says and a reader is told.

Not here: what they mean for a step (evaluator.inputs.plan), and which are legal (evaluator.inputs.plan_search)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import cast

from store.schema.declaring import INTEGER, Column

_OF_SHARES = ("label", "short", "words", "measured")
IF_SET = "if_set"  # metadata of a field that content keys leave out where it is its default


def _size(unit: str, meaning: str, label: str) -> dict[str, object]:
    """Metadata of a size that every plan has."""
    return {"unit": unit, "meaning": meaning, "label": label}


def _share(unit: str, meaning: str, label: str, *, short: str, words: str, measured: bool = False) -> dict[str, object]:
    """Metadata of a size that most plans have at its default.

    A label has it where it is another, `short` where people read it. `words` say that no measured point has it, and
    measured deployments state it where it is `measured`."""
    told = {"short": short, "words": words, "measured": measured}
    return {**_size(unit, meaning, label), **told, IF_SET: True}


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
        """Devices of one instance, those of its encoders included."""
        return self.tp * self.pp * self.dp * self.pcp + self.encoder_devices

    @property
    def shares(self) -> Mapping[str, int]:
        """The sizes that are not at their default, by name."""
        return {one.name: size for one in SHARES if (size := getattr(self, one.name)) != one.usual}


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A size that most plans have at its default."""

    name: str
    usual: int
    label: str
    short: str
    words: str
    measured: bool


SHARES = tuple(
    Share(name=one.name, usual=cast("int", one.default), **{key: one.metadata[key] for key in _OF_SHARES})
    for one in fields(PlanRecord)
    if IF_SET in one.metadata
)
OF_PLANS = tuple(
    Column(
        one.name,
        INTEGER,
        one.metadata["unit"],
        one.metadata["meaning"],
        default=str(one.default) if IF_SET in one.metadata else None,
    )
    for one in fields(PlanRecord)
)
_MEASURED = {share.name for share in SHARES if share.measured}
OF_DEVICES = OF_PLANS[: -len(SHARES)]  # how devices share a model
OF_SHARES = OF_PLANS[-len(SHARES) :]
MEASURED_SHARES = tuple(size for size in OF_SHARES if size.name in _MEASURED)
LABELS = {  # every size as a label letters it, and what it is where a label has none
    one.metadata["label"]: 1 if one.default is MISSING else cast("int", one.default) for one in fields(PlanRecord)
}
LABELLED = sorted(SHARES, key=lambda share: share.label != "red")  # copies of experts first


def label_sql() -> str:
    """SQL of every dialect: the label of a plan, `tp8pp1dp1`, with the expert split where there is one."""
    sizes = [(one.metadata["label"], one.name) for one in fields(PlanRecord)][: len(OF_DEVICES)]
    experts = [name for _, name in sizes[3:]]
    told = [
        _lettered(sizes[:3]),
        _where(" OR ".join(f"{name} > 1" for name in experts), _lettered(sizes[3:])),
        *(_where(f"{share.name} > {share.usual}", _lettered([(share.label, share.name)])) for share in LABELLED),
    ]
    return f"({' || '.join(told)})"


def words_sql(alias: str) -> str:
    """SQL of every dialect: what no measured point has, of the shares of a plan, a line each."""
    said = (_where(f"{alias}.{share.name} > {share.usual}", f"'{share.words}\n'") for share in SHARES)
    return f"({' || '.join(said)})"


def _lettered(sizes: Sequence[tuple[str, str]]) -> str:
    return " || ".join(f"'{label}' || {name}" for label, name in sizes)


def _where(condition: str, text: str) -> str:
    return f"CASE WHEN {condition} THEN {text} ELSE '' END"
