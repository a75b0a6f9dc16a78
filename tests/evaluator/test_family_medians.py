"""The page of calibration says of kernels of newer families what the shipped files hold."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import yaml

DEVICES = ("h100_sxm", "h200_sxm", "b200_sxm", "l40s", "rtx_pro_6000_server")
MIXERS = resources.files("evaluator") / "calibration" / "mixer_kernels.yaml"
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "calibration.md"


def test_medians_of_mixers_are_those_that_ship_and_every_fitted_kind_has_a_row():
    text, fitted = PAGE.read_text(encoding="utf-8"), yaml.safe_load(MIXERS.read_text(encoding="utf-8"))
    table = text[text.index("| operator | kernels of |") : text.index("| family | operators |")]
    rows = {
        match[1]: match[2].split(" | ")
        for match in re.finditer(r"^\| (\w+_\w+) \| [^|]+ \| (.*) \|$", table, re.MULTILINE)
    }
    assert set(rows) == {kind for kinds in fitted.values() for kind in kinds}
    for kind, cells in rows.items():
        held = [fitted[device].get(kind) for device in DEVICES]
        assert cells == ["" if one is None else f"{one['accuracy']['median_ape']:.1f}" for one in held], kind
