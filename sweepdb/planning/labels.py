"""Deployments and parallel splits in words: `2 x TP8`, `prefill 4 x TP2 EP2, decode 1 x TP1 DP8 EP8`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from store.schema import LABELS, SHARES

_GIBIBYTE = 2**30
_PAIR = " + "
_PART = re.compile(rf"({'|'.join(sorted(LABELS, key=len, reverse=True))})(\d+)")


def read_label(label: str) -> dict[str, int]:
    return {**LABELS, **{name: int(size) for name, size in _PART.findall(label)}}


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


def deployment_label(row: Mapping[str, object]) -> str:
    """The instances of a whole deployment and their splits: `prefill 4 x TP2 EP2, decode 1 x TP1 DP8 EP8`."""
    if row["mode"] == "pd":
        prefill, decode = short_plan(str(row["prefill_plan"])), short_plan(str(row["decode_plan"]))
        return f"prefill {row['prefill_instances']} x {prefill}, decode {row['decode_instances']} x {decode}"
    return f"aggregated {row['instances']} x {short_plan(str(row['plan']))}"


def readable_row(row: Mapping[str, object]) -> Mapping[str, object]:
    free, users = row["memory_free_bytes"], row["users"]
    return {
        **row,
        "deployment": deployment_label(row),
        "memory_free_gib": free / _GIBIBYTE if isinstance(free, int | float) else None,
        "users": round(users) if isinstance(users, float) else users,
    }


def described(row: Mapping[str, object]) -> str:
    device, form = row["device"], f" in {in_words(row['quantization'])}" if "quantization" in row else ""
    if row["mode"] == "pd":
        prefill, decode = short_plan(str(row["prefill_plan"])), short_plan(str(row["decode_plan"]))
        sides = f"prefill {row['prefill_instances']} x {prefill} and decode {row['decode_instances']} x {decode}{form}"
        return f"disaggregated serving on {device}, {sides}"
    return f"aggregated serving on {device}, {row['instances']} x {short_plan(str(row['plan']))}{form}"


def in_words(formats: object) -> str:
    """The formats of a title as a sentence says them: `BF16 (experts MXFP4)`."""
    linear, _, others = str(formats).partition(", ")
    return f"{linear} ({others})" if others else linear
