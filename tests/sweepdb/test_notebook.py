"""The notebook of the documents runs from its first cell to its last, and its answers show themselves."""

from __future__ import annotations

import ast
import json
from pathlib import Path

NOTEBOOK = Path(__file__).parents[2] / "docs/notebooks/ask-a-store.ipynb"


def test_every_cell_runs_and_the_last_value_of_each_shows_itself(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SWEEPDB_STORE", raising=False)
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert all(cell.get("outputs", []) == [] for cell in cells)  # what was shown once is not kept
    names, shown = {}, {}
    for cell in cells:
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, cell["id"], "exec"), names)
        if last is not None:
            shown[cell["id"]] = eval(compile(ast.Expression(last.value), cell["id"], "eval"), names)
    assert names["plan"].best is not None
    assert "application/vnd.vegalite.v5+json" in names["frontier"]._repr_mimebundle_()
    assert names["rates"]["rate"].is_monotonic_decreasing
    assert len(names["rates"]) > 1
    columns, rows = next(value for value in shown.values() if isinstance(value, tuple))
    assert len(rows) == 5
    assert rows[0][columns.index("time_ms")] > 0
