"""Deployments and parallel splits in words: `2 x TP8`, `prefill 4 x TP2 EP2, decode 1 x TP1 DP8 EP8`."""

from __future__ import annotations

from collections.abc import Mapping

from store.schema import short_plan

_GIBIBYTE = 2**30


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
