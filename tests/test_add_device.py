"""A device is added to a copy of the program: one file, which is evaluated with and answers."""

from __future__ import annotations

from added import ASKED, changed_files, copied
from test_house import ROOT

DEVICES = "evaluator/inputs/devices"


def test_a_device_is_one_file(tmp_path):
    lines = (ROOT / DEVICES / "l4.yaml").read_text().splitlines()
    mine = [line for line in lines if not line.startswith(("name:", "aliases:"))]
    edits = {f"{DEVICES}/mine.yaml": "\n".join(["name: mine", *mine]) + "\n"}
    copy = copied(tmp_path, edits)
    assert changed_files(tmp_path) == [*edits]
    known, _, best = copy.sweepdb(
        "devices --format csv", f"evaluate {ASKED} --device mine", "query best --format csv --top 1"
    )
    assert "\nmine," in known
    assert ",mine," in best
