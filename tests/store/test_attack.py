"""Commands killed at a random write, flush or rename leave a whole store: `make attack` runs 300 rounds."""

import shutil

import pytest
from attack import attack
from examples import PROFILE

KINDS = 18  # a round of each with `make long`, of each third one with `make survival`
EVERY = 1 if PROFILE == "new" else 3
ROUNDS = KINDS // EVERY


@pytest.mark.survival
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler for the shim that kills")
def test_killed_commands_lose_nothing(tmp_path):
    found = attack(ROUNDS, tmp_path, every=EVERY)
    assert [fault for counts in found for fault in counts.faults] == []
    assert sum(counts.killed for counts in found) > ROUNDS / 2
