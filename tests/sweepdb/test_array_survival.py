"""The commands of the how-to for Slurm, run as they stand: an array of shares, one task of which is killed, adds up.

What Slurm does with them (a task each number of the array, its number in SLURM_ARRAY_TASK_ID, --wait) a script does here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from working_cases import rows, whole_after

from store.opening import open_store
from store.sweep_list import list_sweeps

pytestmark = pytest.mark.survival
PAGE = Path(__file__).parents[2] / "docs" / "howto" / "install-and-operate.md"
TASKS = 3
SBATCH = """#!/bin/bash
# sbatch --array=FIRST-LAST --wait --wrap COMMAND: every task at once; the second is killed as it begins, once
for word in "$@"; do case $word in --array=*) range=${word#--array=};; esac; done
wrapped="${@: -1}"
for number in $(seq "${range%-*}" "${range#*-}"); do
  if [ "$number" = 2 ] && mkdir "$ACCIDENT" 2>/dev/null; then (kill -9 $BASHPID) & continue; fi
  SLURM_ARRAY_TASK_ID=$number bash -c "$wrapped" &
done
wait
"""
SWEEP = """
models: [Qwen/Qwen3-8B]
devices: [TEST_DEVICE]
num_devices: 2
batch_range: [1, 40]
workloads:
  - {input_length: 100, output_length: 20}
  - {input_length: 300, output_length: 20}
"""


def commands_of_the_page() -> str:
    """The commands under Slurm, for as many tasks as are run here."""
    (text,) = re.findall(r"## Slurm\n.*?```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert text.count("64") == 2
    return text.replace("64", str(TASKS))


def script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def test_the_commands_for_slurm_store_the_whole_though_a_task_was_killed(postgresql_store_url, tmp_path):
    with open_store(postgresql_store_url, create=True):
        pass
    tools = tmp_path / "bin"
    tools.mkdir()
    script(tools / "sbatch", SBATCH)
    script(tools / "sweepdb", f'#!/bin/sh\nexec "{sys.executable}" -m cli.main "$@"\n')
    (tmp_path / "all.yaml").write_text(SWEEP)
    environment = os.environ | {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "SWEEPDB_STORE": postgresql_store_url,
        "SWEEPDB_PARTS": str(tmp_path / "parts"),
        "SWEEPDB_SHARD_PROBES": "100",
        "ACCIDENT": str(tmp_path / "accident"),
    }

    def run(text: str, **more: str) -> None:
        done = subprocess.run(
            ["bash", "-e", "-c", text],
            cwd=tmp_path,
            env=environment | more,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    whole = f"sqlite:///{tmp_path}/whole.sqlite"
    run("sweepdb evaluate --sweep all.yaml", SWEEPDB_STORE=whole)
    run(commands_of_the_page())
    assert (tmp_path / "accident").is_dir()
    with open_store(postgresql_store_url) as store, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SWEEPDB_PARTS", str(tmp_path / "parts"))
        patch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        in_parts = list((tmp_path / "parts").rglob("*.parquet"))
        assert len(in_parts) > 1  # of two tasks; what the third had, the last command has stored as rows
        whole_after(store, rows(whole))
        statuses = sorted(sweep.status for sweep in list_sweeps(store.location))
    assert statuses == ["finished"] * TASKS  # two tasks, and the whole as one sweep
