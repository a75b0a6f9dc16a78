"""Commands killed at a random write, flush or rename leave a whole store: `make attack` runs 300 rounds."""

import shutil

import pytest
from attack import attack

ROUNDS = 18


@pytest.mark.survival
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler for the shim that kills")
def test_killed_commands_lose_nothing(tmp_path):
    found = attack(ROUNDS, tmp_path)
    assert [fault for counts in found for fault in counts.faults] == []
    assert sum(counts.killed for counts in found) > ROUNDS / 2
