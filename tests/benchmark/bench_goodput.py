"""Measures what goodput costs over stored loads: 1,000 scenarios at 24 rates in a new process, 12 in a session, and pairs of
100 x 100 sides within 32 devices; and how attainment goes with the scale of limits, and the best goodput with one limit.

Run: python tests/benchmark/bench_goodput.py. Prints JSON lines; asserts nothing."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
from figures import say
from generator import DEVICES, MODELS, PRECISIONS, WORKLOADS, block, scenario, sweep_record

import sweepdb
from evaluator.arrivals.histograms import counted_cells, counted_parts
from store.loads import ArrivalRecord, LoadRecord
from store.opening import open_store
from store.sealing import seal
from store.writing import begin_sweep, finish_sweep, put_block, put_loads, put_scenarios

RATES = 24
ARRIVAL = ArrivalRecord(key="e" * 64, process="poisson", requests=20_000, seed=1, cv=1.0)


def loads(number: int, phase: str) -> list[LoadRecord]:
    """A ladder whose times grow with the rate: about as many cells as plays of 20,000 requests have."""
    draw, found = np.random.Generator(np.random.PCG64(number)), []
    saturation = 2.0 + number % 17
    batch = np.arange(19_000) * 5 // 19_000
    for place in range(RATES):
        share = (place + 1) / (RATES + 1)
        ttft = np.exp(draw.normal(np.log(80 + 40 * share / (1.02 - share)), 0.5, 19_000))
        tpot = np.exp(draw.normal(np.log(8 + 30 * share), 0.12, 19_000))
        cells = counted_cells(ttft * (phase != "decode"), tpot * (phase != "prefill"), batch)
        rows = np.column_stack((cells.ttft_bin, cells.tpot_bin, cells.requests))
        found.append(
            LoadRecord(
                key=f"{number:032d}{place:032d}", settings_key=f"{number:064d}", arrivals_per_s=share * saturation,
                saturation_per_s=saturation, play_seats=256, kv_tokens=1_000_000, kv_admission="current",
                dispatch="random", reject_ms=None, counted_requests=19_000, rejected=0, preempted=0,
                load_status="stable", in_flight=5.0, busy_share=share, generated_per_s=100.0, ttft_mean_ms=100.0,
                load_tpot_mean_ms=10.0, outside_ms=30.0, cells=rows, gaps=np.asarray([[90, 100_000]]),
                parts=counted_parts(ttft * (phase != "decode"), tpot * (phase != "prefill")),
            )
        )  # fmt: skip
    return found


def filled(url: str, sides: dict[str, int]) -> int:
    """A store of as many scenarios of each phase, every one with a ladder; how many cells there are."""
    cells = 0
    kept: dict[tuple[int, str], list[LoadRecord]] = {}
    with open_store(url, create=True) as store:
        sweep = begin_sweep(store, sweep_record(key="a" * 32))
        number = 0
        for phase, count in sides.items():
            plans = ((tp, 1, dp) for dp in range(1, 1_000) for tp in (1, 2, 4))
            for plan in islice(plans, count):
                record = scenario(MODELS[4], WORKLOADS[0], DEVICES[0], precision=PRECISIONS[0], plan=plan, phase=phase)
                record = replace(
                    record, status="ok", reason=None, subject=replace(record.subject, serving_model="vllm")
                )
                (ref,) = put_scenarios(store, sweep, [record])
                put_block(store, sweep, ref.id, block(record, 1, 1))
                alike = (number % 10, phase)  # drawing every ladder anew takes minutes
                if alike not in kept:
                    kept[alike] = loads(*alike)
                ladder = [
                    replace(one, key=f"{number:032d}{place:032d}", settings_key=f"{number:064d}")
                    for place, one in enumerate(kept[alike])
                ]
                cells += sum(len(one.cells) for one in ladder)
                put_loads(store, sweep, ref.id, ARRIVAL, ladder)
                number += 1
        finish_sweep(store, sweep, "finished")
        seal(store)
    return cells


def whole_process(url: str, call: str) -> float:
    """CPU seconds of a new process that asks one question; the least of three."""
    program = (
        f"import sweepdb; sweepdb.open({url!r}).{call}; import os, sys; t = os.times();"
        " print(t.user + t.system, file=sys.stderr)"
    )
    found = [
        float(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stderr)
        for _ in range(3)
    ]
    return min(found)


def in_session(url: str, limits: list[dict[str, float]], name: str = "best", **more: object) -> float:
    """CPU seconds of a new limit in a session that has answered two others; the least of four."""
    with sweepdb.open(url) as store:
        times = []
        for one in limits:
            started = time.process_time()
            store.report(name, **one, **more)
            times.append(time.process_time() - started)
    return min(times[2:])


def main() -> None:
    limits = [{"by": "goodput", "ttft_limit": 150.0 + 10 * n, "tpot_limit": 15.0 + n} for n in range(6)]
    with tempfile.TemporaryDirectory() as folder:
        many, few, pairs = (f"sqlite:///{folder}/{name}.sqlite" for name in ("many", "few", "pairs"))
        cells = filled(many, {"aggregated": 1_000})
        seconds = whole_process(many, "best(by='goodput', ttft_limit=200, tpot_limit=20)")
        say("goodput_whole_process_cpu", seconds, "s", loads=24_000, cells=cells, aim="<= 0.25")
        say("goodput_many_in_session", in_session(many, limits), "s", loads=24_000, cells=cells)
        asked = [{**one, "rate": 1.0 + 0.1 * n} for n, one in enumerate(limits)]
        seconds = in_session(many, asked, name="attainment", scale=True)
        say("attainment_scale_in_session", seconds, "s", loads=24_000, cells=cells, aim="<= 1")
        asked = [{"by": "goodput", "ttft_limit": one["ttft_limit"]} for one in limits]
        seconds = in_session(many, asked, name="sensitivity", vary="tpot")
        say("goodput_sensitivity_in_session", seconds, "s", loads=24_000, cells=cells, aim="<= 1")
        cells = filled(few, {"aggregated": 12})
        say("goodput_in_session", in_session(few, limits), "s", loads=288, cells=cells, aim="<= 0.05")
        cells = filled(pairs, {"prefill": 100, "decode": 100, "aggregated": 12})
        seconds = in_session(pairs, limits, mode="pd", num_devices=32)
        say("goodput_pairs_in_session", seconds, "s", sides="100 x 100", cells=cells, aim="<= 0.5")


if __name__ == "__main__":
    main()
