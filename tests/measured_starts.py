"""Starts of servers that are as fast as measured ones, for tests of `decide --run`: a store, programs, and who is left.

As a program it makes the starts of a store: `python tests/measured_starts.py STORE`."""

from __future__ import annotations

import csv
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from shared_data import ROOT

import sweepdb
from store.location import parse_url
from sweepdb.running import HowToRun, run_starts
from sweepdb.running.journal import JOURNAL, Load
from sweepdb.running.starts import runs_folder

TESTS = Path(__file__).parent
SERVING = ROOT / "e2e" / "serving.csv"
MODEL, DEVICE = "openai/gpt-oss-120b", "h100_sxm"
SPEED = 50.0
LADDER = (16, 8, 4)
WRAPPER = """#!/bin/sh
[ "$1" = serve ] && exec "{python}" "{tests}/measured_server.py" "$@"
exec "{python}" "{tests}/{client}" "$@"
"""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A start as whoever decides names it."""

    probe: str
    scenario: str
    plan: str
    device: str
    ladder: tuple[Load, ...]


def measured_rows():
    """TTFT and TPOT by users of vLLM's servers of the model, 1,024 tokens to 1,024, by tensor parallel size."""
    rows = {}
    with SERVING.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            which = (row["backend"], row["model_path"], row["system"], row["isl"], row["osl"], row["mode"])
            if which == ("vllm", MODEL, DEVICE, "1024", "1024", "agg") and float(row["concurrency"]) <= 64:
                times = [float(row["measured_ttft_ms"]), float(row["measured_tpot_ms"])]
                rows.setdefault(str(int(float(row["tp_size"]))), {})[str(int(float(row["concurrency"])))] = times
    return rows


def surroundings(folder, *, faults=None, client="bench_client.py"):
    """Variables with which `vllm` is a server of measured rows and a client that asks it, and how fast both run."""
    programs, rows = folder / "programs", folder / "rows.json"
    programs.mkdir(exist_ok=True)
    rows.write_text(json.dumps(measured_rows()), encoding="utf-8")
    program = programs / "vllm"
    program.write_text(WRAPPER.format(python=sys.executable, tests=TESTS, client=client), encoding="utf-8")
    program.chmod(0o755)
    return {
        "PATH": f"{programs}:{os.environ['PATH']}", "MEASURED_ROWS": str(rows), "SPEED": str(SPEED),
        "FAULTS": json.dumps(faults or {}), "PER_USER": "2",
    }  # fmt: skip


def fill_plans(folder):
    """The address of a store of one plan each of 2, 4 and 8 devices, split by tensors alone."""
    url = f"sqlite:///{folder}/store.sqlite"
    for size in (2, 4, 8):
        sweepdb.evaluate(
            MODEL, device=DEVICE, num_devices=size, tp_sizes=(size,), ep_sizes=(1,), input_length=1024, output_length=1024,
            batch_range=(1, 16), mode="aggregated", serving_model="vllm", store=url,
        )  # fmt: skip
    return url


def starts_of(url):
    with sweepdb.open(url) as store:
        rows = store.sql(
            "SELECT probe, plan, scenario, device FROM probe WHERE batch_size = 16 ORDER BY num_devices"
        ).dicts()
    return [
        Wanted(
            probe=row["probe"], scenario=row["scenario"][:8], plan=row["plan"], device=row["device"],
            ladder=tuple(Load(concurrency=users) for users in LADDER),
        )
        for row in rows
    ]  # fmt: skip


def stored_points(url):
    with sweepdb.open(url) as store:
        rows = store.sql(
            "SELECT num_devices, concurrency, ttft_ms, tpot_exclusive_ms, server_failed FROM measurement"
            " ORDER BY num_devices, concurrency DESC"
        ).dicts()
    return [tuple(row.values()) for row in rows]


def next_of(url):
    """What to start next: a plan of which a load was neither measured nor found to fail."""

    def next_start():
        known = stored_points(url)
        failed = {devices for devices, *_, why in known if why is not None}
        done = {(devices, users) for devices, users, *_ in known}
        for start in starts_of(url):
            size = int(start.plan.partition("pp")[0].removeprefix("tp"))
            if size not in failed and any((size, load.concurrency) not in done for load in start.ladder):
                return start
        return None

    return next_start


def journal_lines(url):
    file = runs_folder(parse_url(url)) / JOURNAL
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


def left_over(url):
    """Processes that work in the folder of a store's runs, or bear the mark of one of them: whoever they belong to."""
    folder, found = str(runs_folder(parse_url(url))), {}
    for one in Path("/proc").iterdir():
        if not one.name.isdecimal() or int(one.name) == os.getpid():
            continue
        try:
            state = (one / "stat").read_text().rpartition(")")[2].split()[0]
            here = str((one / "cwd").readlink()).startswith(folder)
            command = (one / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if here and state not in "ZX":
            found[int(one.name)] = command
    return found


if __name__ == "__main__":
    STORE = sys.argv[1]
    RAN = run_starts(next_of(STORE), question="tests", store=STORE, how=HowToRun(budget=3), say=print)
    print(RAN)
