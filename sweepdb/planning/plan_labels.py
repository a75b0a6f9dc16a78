"""Labels of parallel splits as people write them: `TP8 EP8` for `tp8pp1dp1ep8moetp1moedp1`."""

from __future__ import annotations

import re

from store.schema.plan_columns import LABELS, SHARES

_PART = re.compile(rf"({'|'.join(sorted(LABELS, key=len, reverse=True))})(\d+)")


def read_label(label: str) -> dict[str, int]:
    """The sizes of a label by their names there. Those that it leaves out are as usual."""
    return {**LABELS, **{name: int(size) for name, size in _PART.findall(label)}}


def short_plan(label: str) -> str:
    """The sizes above 1, the tensor parallel one always; the tensor split of experts only beside an expert split."""
    sizes = read_label(label)
    said = [f"{name.upper()}{sizes[name]}" for name in ("tp", "pp", "dp", "ep") if sizes[name] > 1 or name == "tp"]
    if sizes["moetp"] > 1 and sizes["ep"] > 1:
        said.append(f"expert TP{sizes['moetp']}")
    if sizes["moedp"] > 1:
        said.append(f"expert DP{sizes['moedp']}")
    said += [share.short.format(sizes[share.label]) for share in SHARES if sizes[share.label] > share.usual]
    return " ".join(said)
