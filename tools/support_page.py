"""The reference page of what is exact, fitted, carried over or refused."""

from __future__ import annotations

from collections.abc import Iterable

from evaluator.inputs.images import VisionTower
from sweepdb.catalogue import load_model, support_table

_INTRODUCTION = """# What is supported, and how well

`sweepdb support MODEL DEVICE ENGINE` says the same of each kind of operator, with the median error of its kernels. Any
of the three may be left out (`sweepdb support h200_sxm`).

| word | meaning |
|---|---|
| exact | parameters and matmuls of a prompt are those of the Hugging Face class |
| by hand | no class has all of its parts; they equal arithmetic on the shapes of its released tensors |
| fitted | to kernels or servers that were measured |
| carried | the same of another device, by this one's rates |
| data sheet | published rates and assumed efficiencies |
| stated | numbers that nobody measured |

A model with a part that is not covered is refused, by the name of the part.
"""


def support_page() -> str:
    rows = support_table()
    sections = [_INTRODUCTION]
    for what, title in (
        ("device", "Devices"),
        ("engine", "Engines"),
        ("serving", "Ways of serving"),
        ("drafts", "Drafts"),
    ):
        found = [
            [name, part.state, part.how if kind in {"drafts", "serving"} else part.how.split(";")[0]]
            for kind, name, part in rows
            if kind == what
        ]
        sections.append(f"## {title}\n\n" + _table(("name", "state", "how"), found))
    models = [[name, part.state, *_native(name)] for kind, name, part in rows if kind == "model"]
    sections.append(
        "## Models of the catalogue\n\n"
        + _table(("name", "state", "linears", "experts", "mixers, head, drafts", "image encoder", "left out"), models)
    )
    return "\n".join(sections)


def _native(name: str) -> list[str]:
    spec = load_model(name)[1]
    apart = {"mixers": spec.native_mixers, "head": spec.native_head, "drafts": spec.native_drafts}
    said = ", ".join(f"{part} {form}" for part, form in apart.items() if form is not None)
    formats = [spec.native_linear, spec.native_experts, said]
    if isinstance(spec.vision, VisionTower):
        return [*formats, f"{round(spec.vision.parameters / 1e6)} M weights", ""]
    return [*formats, "", spec.left_out]


def _table(columns: tuple[str, ...], rows: Iterable[list[str]]) -> str:
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows), ""])
