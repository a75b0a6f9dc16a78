"""The tutorial from a question to servers, whole: a server answers, its benchmark is read back, an engine is fitted."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest_cli import sweepdb
from page_port import listening

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "howto" / "launch-and-watch.md"
BLOCK = re.compile(r"^ *```bash\n(.*?)^ *```", re.DOTALL | re.MULTILINE)


def steps(page):
    """The page's blocks, one after the other: commands of ours by themselves, other lines together."""
    for block in BLOCK.findall(page):
        lines = [line.strip() for line in block.replace("\\\n", " ").splitlines() if line.strip()]
        if lines[0].startswith("sweepdb "):
            yield from lines
        else:
            yield "\n".join(lines)


@pytest.mark.survival
@pytest.mark.usefixtures("page_port")
def test_the_page_goes_round(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SWEEPDB_STORE", raising=False)
    for entry in ROOT.iterdir():
        if not entry.name.startswith("."):
            (tmp_path / entry.name).symlink_to(entry)
    surroundings = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    said, server, probe = [], None, ""
    try:
        for step in steps(PAGE.read_text(encoding="utf-8").partition("## Watch a server")[0]):
            step = step.replace("PROBE", probe).replace("4 * users + 4", "users")
            if step.endswith("&"):
                server = subprocess.Popen(["bash", "-c", f"exec env {step[:-1]}"], env=surroundings)
                while not listening():
                    assert server.poll() is None
                    time.sleep(0.1)
            elif step.startswith("sweepdb "):
                outcome = sweepdb(shlex.split(step)[1:])
                assert outcome.code == 0, f"{step}\n{outcome.err}"
                said.append(outcome.out + outcome.err)
                if not probe:
                    probe = re.search(r"sweepdb launch (\S+)", outcome.out)[1]
            else:
                subprocess.run(["bash", "-c", step], env=surroundings, check=True, capture_output=True)
    finally:
        if server is not None:
            server.terminate()
            server.wait()
    results = [json.loads(path.read_text()) for path in (tmp_path / "started" / "results").iterdir()]
    assert {one["max_concurrency"] for one in results} == {1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 26, 34}
    assert all(one["completed"] == one["num_prompts"] for one in results)
    assert "12 of 12 points of vllm used" in said[-2]
    assert "vllm-calibrated" in said[-1]
