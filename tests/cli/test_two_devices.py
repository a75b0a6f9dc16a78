"""The how-to for prefill and decode on two devices, command by command as it stands."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from conftest_cli import sweepdb
from document_commands import commands_in, section

import sweepdb as python_face

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "plan-a-deployment.md"
COMMANDS = commands_in(section(PAGE, "Prefill on one device, decode on another"), ["bash"])
pytestmark = pytest.mark.survival
BATCHES = " --batch-range 1 96"  # what the page's limits allow, and less to evaluate


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder in which every command of the page has run, with what each printed."""
    folder = tmp_path_factory.mktemp("two")
    patch = pytest.MonkeyPatch()
    patch.chdir(folder)
    patch.delenv("SWEEPDB_STORE", raising=False)
    printed = {}
    for line in COMMANDS:
        if " launch " in line:
            (row, *_) = json.loads(sweepdb([*shlex.split(COMMANDS[2])[1:], "--format", "json"]).out)
            line = line.replace("PREFILL_PROBE", row["prefill_probe"]).replace("DECODE_PROBE", row["decode_probe"])
        line += BATCHES if " evaluate " in line else ""
        outcome = sweepdb(shlex.split(line)[1:])
        assert outcome.code == 0, f"{line}\n{outcome.err}"
        printed[line] = outcome.out
    yield folder, printed
    patch.undo()


def test_the_page_has_a_command_for_each_step(folder):
    assert [shlex.split(line)[1] for line in COMMANDS] == [
        "evaluate", "evaluate", "query", "plan", "query", "launch",
    ]  # fmt: skip
    pairs = next(text for line, text in folder[1].items() if "--prefill-device l40s" in line)
    assert re.search(r"^ +1 +l40s +h100_sxm ", pairs, re.MULTILINE)
    assert "l40s" in pairs
    turned = next(text for line, text in folder[1].items() if "--prefill-device h100_sxm" in line)
    assert re.search(r"^ +1 +h100_sxm +l40s ", turned, re.MULTILINE)
    planned = next(text for line, text in folder[1].items() if " plan " in line)
    assert "l40s" in planned
    assert "h100_sxm" in planned


def test_what_is_started_says_which_role_is_for_which_device(folder):
    started = folder[0] / "started"
    readme = (started / "README.md").read_text()
    assert "on l40s and h100_sxm" in readme
    assert re.search(r"\| prefill \| 2 \| l40s \| tensor \d", readme)
    assert re.search(r"\| decode \| 1 \| h100_sxm \| tensor \d", readme)
    roles = json.loads((started / "expected.json").read_text())["roles"]
    assert {role: one["device"] for role, one in roles.items()} == {"prefill": "l40s", "decode": "h100_sxm"}
    assert "--kv-transfer-config" in (started / "prefill.sh").read_text()


def test_both_roles_are_read_back_each_on_its_device(folder):
    back = python_face.evaluate(from_deployment=str(folder[0] / "started"))
    scripts = [(folder[0] / "started" / f"{role}.sh").read_text(encoding="utf-8") for role in ("prefill", "decode")]
    most = [int(re.search(r"--max-num-seqs (\d+)", script)[1]) for script in scripts]
    # Every number of requests in flight up to what each server lets in.
    assert (back.probes_stored, back.probes_known) == (0, sum(most))


def test_a_pair_is_slower_than_its_faster_and_faster_than_its_slower_device(folder):
    with python_face.open() as store:
        rate = {
            (prefill, decode): store.pd_ratio(
                prefill_device=prefill, decode_device=decode, ttft_limit=1500.0, tpot_limit=20.0, num_devices=8
            ).dicts()[0]["system_requests_per_s"]
            for prefill in ("l40s", "h100_sxm")
            for decode in ("l40s", "h100_sxm")
        }
    assert rate["l40s", "l40s"] < rate["l40s", "h100_sxm"] < rate["h100_sxm", "h100_sxm"]
    assert rate["l40s", "l40s"] < rate["h100_sxm", "l40s"] < rate["h100_sxm", "h100_sxm"]
