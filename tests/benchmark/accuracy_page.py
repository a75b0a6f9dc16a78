"""Writes what accuracy.py printed into the tables of docs/reference/accuracy.md.

    python tests/benchmark/accuracy.py FOLDER > PRINTED
    python tests/benchmark/accuracy_page.py PRINTED docs/reference/accuracy.md

Rows are found by their labels; a row that was not printed stays, and is named. Sentences are not rewritten."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

Printed = Mapping[
    tuple[str, str, str, str], Sequence[str]
]  # file and knowledge, table, row, second cell -> further cells
Rewrite = Callable[[list[str], Printed], list[str]]
ENGINES = {
    "vLLM from 0.14": "vllm", "vLLM 0.8 to 0.13": "vllm_sync", "SGLang from 0.5.6": "sglang",
    "SGLang before 0.5.6": "sglang_locked", "TensorRT-LLM": "trtllm",
}  # fmt: skip
KINDS = {"dense": "dense", "mixtures of experts": "mixture of experts"}
DEVICES = {
    name.upper().removesuffix("_SXM"): name
    for name in ("b200_sxm", "b300_sxm", "gb200", "gb300", "h100_sxm", "h200_sxm")
}
ASKED, KNOWN = "serving.csv As asked", "serving.csv As known"
PUBLISHED = ("published.csv As asked", "published.csv As known")
TAU = re.compile(r"Kendall tau of tokens/s/device: (\S+), mean of (\d+) groups")
BOTH = "rows the peer predicts"


def printed(text: str) -> Printed:
    found: dict[tuple[str, str, str, str], Sequence[str]] = {}
    file = knowledge = table = ""
    before: list[str] = []
    for line in text.splitlines():
        cells = _cells(line)
        if line.startswith("## "):
            file, knowledge = line.removeprefix("## "), ""
        elif line.startswith("### "):
            knowledge = line.removeprefix("### ")
        elif cells and set("".join(cells)) <= {"-"}:
            table = before[0]
        elif tau := TAU.match(line):
            found[f"{file} {knowledge}", "ranking", "", ""] = tau.groups()
        elif len(cells) > 1:
            found.setdefault((f"{file} {knowledge}".strip(), table, cells[0], cells[1]), cells[2:])
        before = cells or before
    return found


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []


def _short(figures: str) -> str:
    return "/".join(figures.split("/")[:2])


def _first(cells: list[str], rows: Printed) -> list[str]:
    if cells[0].startswith("ranking"):
        asked, known = (rows[which, "ranking", "", ""] for which in (ASKED, KNOWN))
        return [*cells[:2], f"{asked[1]} groups", f"{asked[0]} mean", "", f"{known[0]} mean", ""]
    if cells[0].startswith("published.csv"):
        asked, known = (rows[which, "priority", cells[0].rpartition(" ")[2], "all"] for which in PUBLISHED)
        return [*cells[:2], asked[0], *asked[1:3], *known[1:3]]
    whole = cells[1] == "whole request"
    table, row = ("rows", "all") if cells[0] == "all" and not whole else ("mode", cells[0])
    metric = "end to end" if whole else cells[1].lower()
    asked, known = (rows[which, table, row, metric] for which in (ASKED, KNOWN))
    return [*cells[:2], asked[0], *asked[1:3], *known[1:3]]


def _engine(cells: list[str], rows: Printed) -> list[str]:
    name = f"aggregated {ENGINES[cells[0]]}"
    found = [rows[which, "mode and engine", name, metric] for which in (ASKED, KNOWN) for metric in ("tpot", "ttft")]
    return [cells[0], found[0][0], *(_short(one[1]) for one in found)]


def _model(cells: list[str], rows: Printed) -> list[str]:
    model, _, device = cells[0].partition(" on ")
    table, row = "kind", KINDS.get(cells[0], "")
    if device:
        table = "device and model"
        named = (one[2] for one in rows if one[:2] == (ASKED, table) and model in one[2])
        row = next((one for one in named if one.startswith(f"{DEVICES[device]} ")), "")
    tpot, ttft = (rows[ASKED, table, row, metric] for metric in ("tpot", "ttft"))
    return [cells[0], tpot[0], _short(tpot[1]), _short(ttft[1])]


def _beside(cells: list[str], rows: Printed) -> list[str]:
    table, row = (BOTH, "all") if cells[0] == "all" else (f"device, {BOTH}", DEVICES[cells[0]])
    tpot, ttft = (rows[ASKED, table, row, metric] for metric in ("tpot", "ttft"))
    return [*cells[:2], tpot[0], _short(tpot[1]), tpot[3], _short(ttft[1]), ttft[3]]


def _served(cells: list[str], rows: Printed) -> list[str]:
    table = "device and engine, 20 rows or more that the peer predicts"
    tpot, ttft = (rows[ASKED, table, cells[0], metric] for metric in ("tpot", "ttft"))
    return [cells[0], tpot[0], _short(tpot[1]), tpot[3], _short(ttft[1]), ttft[3]]


def _standing(cells: list[str], rows: Printed) -> list[str]:
    sides = [rows[ASKED, "rows both predict", cells[0], whose] for whose in ("ours", "peer")]
    bare = [[re.sub(r" \(\d+\)", "", cell) for cell in side] for side in sides]
    ours, theirs = bare
    groups = re.search(r"\((\d+)\)", sides[0][3])
    return [cells[0], ours[0], ours[1], theirs[1], ours[2], theirs[2], groups[1] if groups else "0", ours[3], theirs[3]]


def _metric(cells: list[str], rows: Printed) -> list[str]:
    return [*cells[:2], *rows[PUBLISHED[1], "priority", cells[1], cells[0]][:3], *cells[5:]]


# The first cells of a table's head, and how a row of it is written.
TABLES: Mapping[tuple[str, ...], Rewrite] = {
    ("points", "measure"): _first,
    ("engine", "rows", "TPOT as asked"): _engine,
    ("models, as asked", "rows"): _model,
    ("device", "models that count"): _beside,
    ("device and engine", "rows", "TPOT, ours"): _served,
    ("rows", "number", "end to end, ours"): _standing,
    ("metric", "priority", "rows"): _metric,
}


def rewritten(page: str, rows: Printed) -> tuple[str, list[str]]:
    """The page with the printed figures, and rows of its tables that nothing was printed of."""
    lines, missing = [], []
    rewrite: Rewrite | None = None
    label = ""
    for line in page.split("\n"):
        cells = _cells(line)
        head = next((names for names in TABLES if tuple(cells[: len(names)]) == names), None)
        if head is not None or not cells:
            rewrite = TABLES[head] if head is not None else None
        elif rewrite is not None and not set("".join(cells)) <= {"-"}:
            label = cells[0] or label
            try:
                new = rewrite([label, *cells[1:]], rows)
            except KeyError:
                missing.append(line)
            else:
                lines.append(f"| {' | '.join([cells[0], *new[1:]])} |".replace("|  |", "| |"))
                continue
        lines.append(line)
    return "\n".join(lines), missing


def main(source: Path, target: Path) -> None:
    page, missing = rewritten(target.read_text(encoding="utf-8"), printed(source.read_text(encoding="utf-8")))
    target.write_text(page, encoding="utf-8")
    for line in missing:
        sys.stdout.write(f"not printed: {line}\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
