"""Files that are damaged, of another kind or hostile: an answer or one sentence, never a traceback, and nothing stored."""

from __future__ import annotations

import urllib.request

import pytest
from conftest_cli import sweepdb
from hypothesis import HealthCheck, Phase, given, settings
from quick import quick
from reader_cases import CASES

from store.errors import SweepdbError

pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")  # a cell may be very long
LONGEST_SENTENCE = 1500
WITH_A_COMMAND = [case for case in CASES if case.command]


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """A damaged name of a model looks like one of the hub."""

    def unreachable(*_, **__):
        raise OSError("no network in this test")

    monkeypatch.setattr(urllib.request, "urlopen", unreachable)


def laid_down(case, folder, content=None):
    for name, beside in case.beside:
        (folder / name).write_bytes(beside)
    path = folder / case.name
    path.write_bytes(case.base if content is None else content)
    return path


def is_one_sentence(error):
    """Whether an error says in one line what is wrong, and has the exit code of an input or a store."""
    assert error.exit_code in {2, 3}
    assert error.message.strip()
    assert "\n" not in error.message
    assert len(error.message) < LONGEST_SENTENCE
    return True


def check(case, folder, examples):
    assert case.read(laid_down(case, folder)) is not None
    before = {path.name for path in folder.iterdir()}
    refused = 0

    @settings(max_examples=examples, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(case.damaged())
    def damaged(content):
        nonlocal refused
        path = laid_down(case, folder, content)
        try:
            case.read(path)
        except SweepdbError as error:
            refused += is_one_sentence(error)
        assert {path.name for path in folder.iterdir()} == before

    damaged()
    assert (refused > 0) != case.never_refuses


@pytest.mark.parametrize("examples", quick([10, 30]))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_damaged_file_is_read_or_refused(case, examples, tmp_path):
    check(case, tmp_path, examples=examples)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_hundreds_of_damaged_files_are_read_or_refused(case, tmp_path):
    check(case, tmp_path, examples=300)


@pytest.mark.parametrize("case", WITH_A_COMMAND, ids=lambda case: case.name)
@pytest.mark.parametrize(
    "damage", [b"\xff\xfe\x00\x01", b"\x1b[2J{[", b'{"a": ' * 2000], ids=["bytes", "control", "deep"]
)
def test_the_command_says_one_sentence_and_stores_nothing(case, damage, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = laid_down(case, tmp_path, damage)
    before = {item.name for item in tmp_path.iterdir()}
    arguments = [part.replace("FILE", str(path)).replace("FOLDER", str(tmp_path)) for part in case.command]
    outcome = sweepdb(arguments, f"sqlite:///{tmp_path}/store.sqlite")
    told = outcome.err
    assert outcome.code in ({2, 3} if "measurements" not in arguments else {2, 3, 4}), told
    assert (outcome.out, "Traceback" in told, "\x1b" in told) == ("", False, False)
    assert told.count("error: ") == 1
    if outcome.code != 4:  # points of a file that holds bad lines only: none are stored, in a store that is there
        assert {item.name for item in tmp_path.iterdir()} == before
