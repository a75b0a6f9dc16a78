"""The notebook of the documents runs from its first cell to its last, and its answers show themselves."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

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


@pytest.mark.survival  # a kernel takes seconds to start
@pytest.mark.filterwarnings("ignore")
def test_a_kernel_of_jupyter_runs_it_and_shows_tables_and_a_picture(tmp_path, monkeypatch):
    client = pytest.importorskip("nbclient", reason="nbclient is not installed: pip install nbclient ipykernel")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed: pip install nbclient ipykernel")
    monkeypatch.delenv("SWEEPDB_STORE", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(NOTEBOOK.parents[2]))  # of the process that the kernel is
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    ran = client.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    shown = [
        set(output["data"])
        for cell in ran.cells
        for output in cell.get("outputs", [])
        if output["output_type"] == "execute_result"
    ]
    assert len(shown) == 6  # every cell but the one that closes
    assert sum("text/html" in forms for forms in shown) >= 4
    assert sum("application/vnd.vegalite.v5+json" in forms for forms in shown) >= 1
    streams = [output for cell in ran.cells for output in cell.get("outputs", []) if output["output_type"] == "stream"]
    assert all(output["name"] == "stderr" for output in streams)  # progress, nothing else
