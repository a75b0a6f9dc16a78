"""Limits looked up in margins and bounds give the answers of reading every cell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from generator import DEVICES, MODELS, PRECISIONS, WORKLOADS, block, scenario, sweep_record

import sweepdb
from evaluator.arrivals.histograms import counted_cells
from queries.judging import ladders
from store.loads import ArrivalRecord, LoadRecord
from store.opening import open_store
from store.sealing import seal
from store.writing import begin_sweep, finish_sweep, put_block, put_loads, put_scenarios

ARRIVAL = ArrivalRecord(key="e" * 64, process="poisson", requests=1_000, seed=1, cv=1.0)
REQUESTS, RATES = 950, 7


def drawn_ladder(number: int, phase: str) -> list[LoadRecord]:
    """Times that grow with the rate, not always evenly; a few requests rejected."""
    draw, found = np.random.Generator(np.random.PCG64(number)), []
    saturation, batch = 2.0 + 3.0 * draw.random(), np.arange(REQUESTS) * 5 // REQUESTS
    for place in range(RATES):
        share = (place + 1) / (RATES + 0.5)
        ttft = np.exp(draw.normal(np.log(60 + 60 * share / (1.02 - share)), 0.5, REQUESTS))
        tpot = np.exp(draw.normal(np.log(8 + 30 * share * draw.uniform(0.7, 1.3)), 0.2, REQUESTS))
        kept = draw.random(REQUESTS) > 0.05 * share
        cells = counted_cells((ttft * (phase != "decode"))[kept], (tpot * (phase != "prefill"))[kept], batch[kept])
        found.append(
            LoadRecord(
                key=f"{number:032d}{place:032d}", settings_key=f"{number:064d}", arrivals_per_s=share * saturation,
                saturation_per_s=saturation, play_seats=256, kv_tokens=1_000_000, kv_admission="current",
                dispatch="random", reject_ms=None, counted_requests=REQUESTS, rejected=int((~kept).sum()), preempted=0,
                load_status="stable", in_flight=5.0, busy_share=share, generated_per_s=100.0, ttft_mean_ms=100.0,
                load_tpot_mean_ms=10.0, outside_ms=30.0, gaps=np.asarray([[80, 90_000], [100 + place, 10_000]]),
                cells=np.column_stack((cells.ttft_bin, cells.tpot_bin, cells.requests)),
            )
        )  # fmt: skip
    return found


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Sixteen plans of every phase; decode sides are not laid down."""
    url, number = f"sqlite:///{tmp_path_factory.mktemp('looked')}/store.sqlite", 0
    with open_store(url, create=True) as store:
        sweep = begin_sweep(store, sweep_record(key="a" * 32))
        for phase in ("aggregated", "prefill", "decode"):
            for plan in range(16):
                at = (2 ** (plan % 3), 1, 1 + plan // 3)
                record = scenario(MODELS[4], WORKLOADS[0], DEVICES[0], precision=PRECISIONS[0], plan=at, phase=phase)
                record = replace(
                    record, status="ok", reason=None, subject=replace(record.subject, serving_model="vllm")
                )
                (ref,) = put_scenarios(store, sweep, [record])
                put_block(store, sweep, ref.id, block(record, 1, 1))
                put_loads(store, sweep, ref.id, ARRIVAL, drawn_ladder(number, phase))
                number += 1
            if phase != "decode":
                seal(store)
        finish_sweep(store, sweep, "finished")
    return url


def asked(draw: np.random.Generator) -> dict[str, object]:
    """A question at random."""
    given: dict[str, object] = {"attainment": float(draw.uniform(0.3, 0.98)), "top": int(draw.integers(1, 6))}
    if draw.random() < 0.8:
        given["ttft_limit"] = float(np.exp(draw.uniform(np.log(60), np.log(900))))
    if draw.random() < 0.8:
        given["tpot_limit"] = float(np.exp(draw.uniform(np.log(6), np.log(60))))
    if draw.random() < 0.5:
        given["num_devices"] = int(draw.integers(2, 40))
    if draw.random() < 0.3:
        given["tbt_limit"] = float(draw.uniform(1, 40))
    if draw.random() < 0.3:
        given["marginal"] = True
    return given


@pytest.mark.parametrize("mode", ["aggregated", "prefill", "decode", "pd"])
def test_bounds_choose_what_reading_every_cell_finds(stored, monkeypatch, mode) -> None:
    draw, answered, read = np.random.Generator(np.random.PCG64(5)), 0, []
    with sweepdb.open(stored) as by_bounds, sweepdb.open(stored) as by_cells:
        for _ in range(4 if mode == "pd" else 8):
            given = {**asked(draw), "mode": mode}
            if mode in {"prefill", "decode"}:
                given.pop("tpot_limit" if mode == "prefill" else "ttft_limit", None)
                if mode == "prefill":
                    given.pop("tbt_limit", None)
            monkeypatch.setattr(ladders, "_ALL_ARE_READ", 0)
            found = by_bounds.best(by="goodput", **given).dicts()
            read.append(by_bounds._session._connection.duckdb.execute("SELECT count(*) FROM chosen").fetchone()[0])
            monkeypatch.setattr(ladders, "_ALL_ARE_READ", 1_000)
            expected = by_cells.best(by="goodput", **given).dicts()
            assert len(found) == len(expected)
            for one, other in zip(found, expected, strict=True):
                for name, value in other.items():
                    near = pytest.approx(value, rel=1e-9) if isinstance(value, float) else value
                    assert one[name] == near, (given, name)
            answered += sum(row["goodput"] is not None for row in found)
    assert answered > 5
    assert min(read) < (16 if mode == "pd" else 8)  # of sixteen: bounds leave most of the cells of one side alone
