"""The page of calibration says of kernels of newer families what the shipped files hold."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import yaml

DEVICES = ("h100_sxm", "h200_sxm", "b200_sxm", "l40s", "rtx_pro_6000_server")
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "calibration.md"


def shipped(engine: str, device: str) -> dict:
    folder = resources.files("evaluator") / "inputs" / "devices" / "calibration"
    file = folder / f"{device}.yaml" if engine == "TensorRT-LLM" else folder / engine / f"{device}.yaml"
    return yaml.load(file.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))["accuracy"]


def test_medians_of_the_page_are_those_that_ship():
    text = PAGE.read_text(encoding="utf-8")
    rows = [
        (match[1], match[2], [cell.strip() for cell in match[3].split("|")])
        for match in re.finditer(r"^\| `([a-z]\S+)` \| (TensorRT-LLM|vllm|sglang) \| (.*) \|$", text, re.MULTILINE)
    ]
    assert {name for name, _, _ in rows} >= {"moe.w4a16_mxfp4.gated.power_law_1.2", "mla_decode.kv_fp8"}
    for name, engine, cells in rows:
        held = [shipped(engine, device).get(name) for device in DEVICES]
        assert cells == ["" if one is None else f"{one['median_ape']:.1f}" for one in held], (name, engine)
