"""Configurations that InferenceX benchmarks, each evaluated from its file into a store and asked one question.

Five of them with `make survival`; all of them with `pytest -m long -s`, which prints how many and why others are not, or with
`python tests/sweepdb/test_public_configurations.py`."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from shared_data import shared_data

import sweepdb
from store.errors import SweepdbError
from sweepdb.launching.reading import read_deployment

LENGTHS = {"input_length": 60_000, "output_length": 500}  # of agentic ones, which state none
QUESTIONS = {"aggregated": "best", "prefill": "prefill", "decode": "decode"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one configuration; `reason` is empty where a question about it was answered."""

    name: str
    reason: str
    probes: int = 0


def configurations() -> list[tuple[Path, str]]:
    """(file, name) of every configuration, those that are refused among them."""
    found = []
    for path in sorted(shared_data("deployments", "inferencex").glob("*-master.yaml")):
        read = read_deployment(path)
        names = [server.where.partition(", ")[2].partition(" (")[0] for server in read.servers]
        names += [reason.partition(": ")[0] for reason in read.refused]
        found += [(path, name) for name in dict.fromkeys(names)]
    return found


def outcome(path: Path, name: str, folder: str) -> Outcome:
    """Evaluate one configuration from its file into a store of its own, and ask what its rows hold."""
    url = f"sqlite:///{folder}/{name}.sqlite"
    try:
        done = sweepdb.evaluate(from_deployment=f"{path}::{name}", **LENGTHS, store=url)
    except SweepdbError as error:
        return Outcome(name, error.message.partition(f"{name}: ")[2] or error.message)
    with sweepdb.open(url) as store:
        scenarios = store.sql("SELECT status, phase, reason FROM scenario").dicts()
        if wrong := [row["reason"] for row in scenarios if row["status"] != "ok"]:
            return Outcome(name, str(wrong[0]), done.probes_stored)
        for phase in {row["phase"] for row in scenarios}:
            if not getattr(store, QUESTIONS[phase])(top=1).dicts():
                return Outcome(name, f"no {phase} row fits its devices", done.probes_stored)
    return Outcome(name, "" if done.probes_stored else "no probe", done.probes_stored)


def outcomes(chosen: list[tuple[Path, str]]) -> list[Outcome]:
    with tempfile.TemporaryDirectory() as folder:
        return [outcome(path, name, folder) for path, name in chosen]


def failing(chosen: list[tuple[Path, str]]) -> list[Outcome]:
    return [one for one in outcomes(chosen) if one.reason and "engine that is not modelled" not in one.reason]


@pytest.mark.survival
def test_some_public_configurations_are_answered_from_their_files():
    chosen = configurations()[::50]
    assert len(chosen) == 5
    assert not failing(chosen)


@pytest.mark.long
def test_a_tenth_of_the_public_configurations_is_answered_from_their_files():
    chosen = configurations()[::10]
    assert len(chosen) == 21
    assert not failing(chosen)


@pytest.mark.long
def test_at_least_180_public_configurations_are_answered_from_their_files():
    answered = report()
    assert answered >= 180


def report() -> int:
    """Print how many configurations are answered, and why others are not."""
    started = time.process_time()
    found = outcomes(configurations())
    answered = [one for one in found if not one.reason]
    probes = sum(one.probes for one in found)
    print(f"\n{len(answered)} of {len(found)} configurations answered, {probes:,} probes")
    for reason, count in Counter(one.reason for one in found if one.reason).most_common():
        names = ", ".join(one.name for one in found if one.reason == reason)
        print(f"{count:4} {reason}: {names}")
    print(f"{time.process_time() - started:.0f} s of processor time")
    return len(answered)


if __name__ == "__main__":
    report()
