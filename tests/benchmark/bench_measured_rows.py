"""How long questions take over measured settings, and over as many predictions. Prints a JSON line a figure.

Run: python tests/benchmark/bench_measured_rows.py [rows]. Processor seconds: of the first question, which reads the
points, of further ones of the same session, and of the first of a later session, which finds them read. `ratio` is
measured over predicted, of further ones."""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1]))

from generator import DEVICES, MODELS, PLANS, PRECISIONS, WORKLOADS, scenario
from queries_stores import changed, write_sweep

from queries.asking.question import question_of
from queries.session import Session
from store.location import parse_url
from store.opening import open_store
from store.records import MeasurementRecord, SideRecord
from store.writing import put_measurements

SIZES = 250
SETTLED_S = 1.5  # until rows of a store that was written are kept
ASKED = (("best", {}), ("best", {"tpot_limit": 40.0}), ("pareto", {}), ("curve", {}), ("sensitivity", {"vary": "tpot"}))


def predict(url: str, rows: int) -> None:
    made = [
        changed(scenario(MODELS[4], workload, device, precision=PRECISIONS[0], plan=plan, phase="aggregated"),
                serving_model="vllm")
        for workload in (one for one in WORKLOADS if one[0] and not one[2] and not one[3])
        for device in DEVICES for plan in PLANS
    ]  # fmt: skip
    write_sweep(url, made[: max(rows // SIZES, 1)], key="a", sizes=SIZES)


def measure(url: str, rows: int) -> None:
    made = []
    for number in range(rows):
        users, rest = number % SIZES + 1, number // SIZES
        (plan, device, workload) = (PLANS[rest % 10], DEVICES[rest // 10 % 8], WORKLOADS[(0, 1, 4, 7)[rest // 80 % 4]])
        side = SideRecord(instances=1, tp=plan[0], pp=plan[1], dp=plan[2], ep=1)
        tpot = 8 + users / 9 + rest % 7
        values = {
            "ttft_ms_mean": 90.0 + users,
            "tpot_exclusive_ms_mean": tpot,
            "output_tokens_per_s": 900 * users / tpot,
        }
        made.append(MeasurementRecord(
            key=hashlib.sha256(str(number).encode()).hexdigest(), source=f"file:{number}", source_format="test",
            model=MODELS[4][0], device=device[0], engine="vllm", engine_version=f"0.{rest // 320}", mode="aggregated",
            precision="BF16", kv_precision=None, num_devices=plan[0] * plan[1] * plan[2], input_length=float(workload[0]),
            output_length=float(workload[1]), concurrency=float(users), request_rate=None, prefill=side, decode=side,
            metrics=values,
        ))  # fmt: skip
    with open_store(url, create=True) as store:
        put_measurements(store, made)


def seconds(url: str, rows: str) -> tuple[float, float]:
    with Session(parse_url(url)) as session:
        took = []
        for report, options in ASKED:
            start = time.process_time()
            session.ask(question_of(report, {"rows": rows, "all": True, **options}))
            took.append(time.process_time() - start)
    return took[0], sum(took[1:])


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as folder:
        urls = {kind: f"sqlite:///{folder}/{kind}.sqlite" for kind in ("predicted", "measured")}
        predict(urls["predicted"], rows)
        measure(urls["measured"], rows)
        told = {kind: seconds(url, kind) for kind, url in urls.items()}
        time.sleep(SETTLED_S)
        later = {kind: [seconds(url, kind)[0] for _ in range(2)][-1] for kind, url in urls.items()}
    for kind, (first, further) in told.items():
        for name, value in (("first", first), ("further", further), ("later first", later[kind])):
            print(
                json.dumps(
                    {"name": f"{name} questions over {rows:,} {kind} rows", "value": round(value, 2), "unit": "s"}
                )
            )
    ratio = round(told["measured"][1] / told["predicted"][1], 2)
    print(json.dumps({"name": "measured over predicted, further questions", "value": ratio, "unit": "ratio"}))


if __name__ == "__main__":
    main()
