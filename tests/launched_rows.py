"""A small store of rows to launch, and the cases that tests of launch files share."""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path

import sweepdb

MODEL = "Qwen/Qwen3-30B-A3B"
REQUEST = {"device": "h200_sxm", "input_length": 2000, "output_length": 500, "batch_range": (6, 6)}
CASES = {  # folder: role of rows, then options
    "vllm-shell": (("aggregated", "tp2pp1dp4ep8moetp1moedp1"), {}),
    "vllm-hosts": (("aggregated", "tp4pp1dp4ep16moetp1moedp1"), {"engine_version": "0.32.0"}),
    "vllm-pair-llm-d": (("pair",), {"target": "llm-d"}),
    "vllm-pair-kserve": (("pair",), {"target": "kserve"}),
    "sglang-pair-shell": (("pair",), {"engine": "sglang"}),
    "sglang-k8s": (("aggregated", "tp2pp1dp4ep8moetp1moedp1"), {"engine": "sglang", "target": "k8s"}),
    "vllm-pair-shell": (("pair",), {}),
    "vllm-pair-dynamo": (("pair",), {"target": "dynamo"}),
    "vllm-hosts-dynamo": (("aggregated", "tp4pp1dp4ep16moetp1moedp1"), {"target": "dynamo"}),
    "sglang-pair-dynamo": (("pair",), {"engine": "sglang", "target": "dynamo"}),
    "trtllm-dynamo": (("aggregated", "tp4pp1dp1ep4moetp1moedp1"), {"engine": "trtllm", "target": "dynamo"}),
    "trtllm-hosts": (("aggregated", "tp16pp1dp1ep16moetp1moedp1"), {"engine": "trtllm"}),
    "trtllm-pair-shell": (("pair",), {"engine": "trtllm"}),
    "trtllm-compose": (("aggregated", "tp4pp1dp1ep4moetp1moedp1"), {"engine": "trtllm", "target": "compose"}),
}  # fmt: skip


def fill(folder):
    """The address of a store of one batch size of a mixture's plans, in every phase: a copy of what is evaluated once."""
    shutil.copytree(_filled().name, folder, dirs_exist_ok=True)
    return f"sqlite:///{folder}/store.sqlite"


@cache
def _filled():
    """A folder with such a store; it goes with the process."""
    folder = tempfile.TemporaryDirectory()
    for size in (4, 8, 16):
        sweepdb.evaluate(MODEL, **REQUEST, num_devices=size, store=f"sqlite:///{Path(folder.name)}/store.sqlite")
    sweepdb.evaluate(
        MODEL, **{**REQUEST, "batch_range": (1, 1)}, num_devices=4, mode="prefill",  # what one prompt takes
        store=f"sqlite:///{Path(folder.name)}/store.sqlite",
    )  # fmt: skip
    return folder


def probes(url):
    """References by phase and plan."""
    with sweepdb.open(url) as store:
        rows = store.sql("SELECT phase, plan, probe FROM probe WHERE batch_size = 6").dicts()
    return {(row["phase"], row["plan"]): row["probe"] for row in rows}


def rows_of(url, which):
    """What a case is about, as it is typed."""
    found = probes(url)
    if which == ("pair",):
        sides = found["prefill", "tp4pp1dp1ep4moetp1moedp1"], found["decode", "tp1pp1dp8ep8moetp1moedp1"]
        return [*sides, "3P2D"]
    return [found[which]]
