"""Makes the small stores kept under migrations/stores/, of the first revision and each released one, and loads them again.

Run at the release that brings a revision: python tests/stored.py. What is kept must never be made anew by a
later program: it shows what that release wrote."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

STORES = Path(__file__).parent / "migrations" / "stores"


def write(url: str) -> None:
    """Fill a store with a little of everything, always the same."""
    import numpy as np
    from generator import DEVICES, MODELS, PLANS, PRECISIONS, WORKLOADS, block, scenario, scenarios, sweep_record
    from measured_points import bare_point
    from sqlalchemy import insert

    from store.loads import ArrivalRecord, KeptRequests, LoadRecord
    from store.opening import open_store
    from store.parts import fail_shard, put_shards
    from store.records import CalibrationRecord, OperatorSetRecord, PriceRecord, ValidationRecord
    from store.schema.sql_tables import PART, PART_THINNED
    from store.writing import begin_sweep, finish_sweep, put_block, put_loads, put_scenarios
    from store.writing.beside import put_calibration, put_operators, put_prices
    from store.writing.measurements import put_measurements, put_validations
    from store.writing.voiding import unvoid, void

    def of(phase, workload=WORKLOADS[0], model=MODELS[0]):
        return scenario(model, workload, DEVICES[0], precision=PRECISIONS[0], plan=PLANS[3], phase=phase)

    def with_client(record):
        client = {"shortest_length": 0.8, "prompts_per_user": 10, "poll_steps": 2}
        launch = {
            "seats": 256, "wait_steps": 40, "routing": "power_law_1.2", "unusual_service": "shortest_length,seats"
        }  # fmt: skip
        return replace(record, subject=replace(record.subject, **client, **launch), launchable_by="vllm,sglang")

    def with_images_and_formats(record):
        images = {
            "images": 2, "image_width": 1024, "image_height": 768, "image_patches": 3072, "image_tokens": 768,
            "encoder_split": "data",
        }  # fmt: skip
        label = "3500/1500 with 2 x 1024x768"
        workload = replace(record.subject.workload, key="9" * 64, label=label, **images)
        formats = {"mixers_quantization": "BF16", "head_quantization": "FP8", "drafts_quantization": "BF16"}
        precision = replace(record.subject.precision, key="8" * 64, **formats)
        return replace(record, subject=replace(record.subject, workload=workload, precision=precision))

    def with_service(stored):
        return replace(stored, columns={**stored.columns, "prompt_service_ms": stored.columns["prefill_step_ms"] / 2})

    def with_first_tokens(stored):
        return replace(stored, columns={**stored.columns, "ttft_in_step_ms": 2.0 * stored.columns["ttft_ms"]})

    more = {"prefill": with_service, "aggregated": with_first_tokens}
    with open_store(url, create=True) as store:
        first = begin_sweep(store, sweep_record(key="0" * 31 + "1", label="first"))
        records = [with_client(of("prefill")), of("decode"), of("aggregated", WORKLOADS[5])]
        failed = [record for record in islice(scenarios(seed=2), 60) if record.status != "ok"][:2]
        refs = put_scenarios(store, first, records + failed)
        for record, ref in zip(records, refs, strict=False):
            made = block(record, 1, 4)
            put_block(store, first, ref.id, more.get(record.subject.phase, lambda stored: stored)(made))
        kept = KeptRequests(
            arrival_us=np.arange(20) * 650_000, prompt=np.full(20, 500), answer=np.full(20, 60),
            ttft_us=100_000 + 7 * np.arange(20), tpot_us=np.full(20, 10_000), worst_gap_us=np.full(20, 12_500),
            preempted=(np.arange(20) == 4).astype(np.int64),
        )  # fmt: skip
        loads = [
            LoadRecord(
                key=f"{number}" * 64, settings_key="d" * 64, arrivals_per_s=0.5 * number, saturation_per_s=2.5,
                play_seats=256, kv_tokens=100_000, kv_admission="current", dispatch="random", reject_ms=None,
                counted_requests=20, rejected=0, preempted=1, load_status="stable", in_flight=1.5 * number,
                busy_share=0.25 * number, generated_per_s=100.0 * number, ttft_mean_ms=100.0, load_tpot_mean_ms=10.0,
                outside_ms=30.0, cells=np.asarray([[128, 96, 4, 3, 4, 4, 2], [140, 97, 0, 1, 0, 0, 2]]),
                gaps=np.asarray([[96, 70_000], [98, 3]]), requests=kept if number == 3 else None,
                **({"trace_caches": "device,host:400", "host_prefix_share": 0.25} if number == 2 else {}),
            )
            for number in (1, 2, 3)
        ]  # fmt: skip
        put_loads(
            store, first, refs[2].id, ArrivalRecord(key="e" * 64, process="poisson", requests=22, seed=1, cv=1.0), loads
        )
        put_shards(store, first, [("f" * 64, 1, 4)])
        fail_shard(store, first, "f" * 64, "no space left")
        with store.writing() as connection:  # one that a compaction replaced: no file of it is needed
            connection.execute(
                insert(PART).values(
                    name="shard-1.parquet", folder="/parts", bytes=1, sha256="a" * 64, row_count=4,
                    created_at=datetime(2026, 1, 2, tzinfo=UTC), retired_at=datetime(2026, 1, 3, tzinfo=UTC),
                )
            )  # fmt: skip
            connection.execute(
                insert(PART_THINNED).values(
                    part_id=1, name="shard-thin-1.parquet", folder="/parts", bytes=1, sha256="b" * 64, row_count=2,
                    rules=1, created_at=datetime(2026, 1, 2, tzinfo=UTC),
                )
            )  # fmt: skip
        finish_sweep(store, first, "finished")
        second = begin_sweep(store, replace(sweep_record(key="0" * 31 + "2", label="wider"), kind="import"))
        put_block(store, second, refs[0].id, with_service(block(records[0], 3, 6)))
        finish_sweep(store, second, "interrupted")
        third = begin_sweep(store, replace(sweep_record(key="0" * 31 + "3"), kind="validation"))
        put_block(
            store,
            third,
            put_scenarios(store, third, [with_images_and_formats(of("decode", WORKLOADS[1]))])[0].id,
            block(records[1], 1, 2),
        )
        void(store, "0" * 31 + "3", "the wrong driver")
        void(store, refs[1].key, "a mistake")
        unvoid(store, refs[1].key)
        put_operators(store, [OperatorSetRecord(key="a" * 64, payload='["matmul"]', torch_version="2.13.0")])
        measured = bare_point(
            key="b" * 64, source="a.csv:2", source_format="serving", device="H100_SXM",
            metrics={"tpot_ms_mean": 20.5}, measured_at=datetime(2026, 1, 2, tzinfo=UTC),
        )  # fmt: skip
        put_measurements(store, [measured])
        put_validations(
            store,
            [
                ValidationRecord(
                    measurement_key="b" * 64, metric="tpot_ms_mean", scenario_key=refs[1].key, batch_size=2,
                    measured=20.5, predicted=16.4, device="h100", kind="dense",
                )
            ],
        )  # fmt: skip
        put_calibration(
            store,
            CalibrationRecord(
                key="c" * 64, device_name="H100_SXM", version=1, spec="{}", errors="{}", kernels=b"\x00\xff"
            ),
        )
        price = PriceRecord(
            device_name="H100_SXM", effective_from="2026-01-01", usd_per_device_hour=2.5, watts_per_device=700
        )
        put_prices(store, [price])


def dump_sqlite(url: str) -> str:
    import sqlite3

    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        return "\n".join(connection.iterdump()) + "\n"


def load_sqlite(sql: str, path: Path) -> None:
    import sqlite3

    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(sql)
        connection.execute("PRAGMA journal_mode = WAL")


def dump_postgresql(url: str) -> str:
    """Write a PostgreSQL store as SQL that needs no psql."""
    from postgresql_server import binaries

    command = [str(binaries() / "pg_dump"), "--inserts", "--no-owner", "--no-privileges", url]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    kept = [
        line
        for line in text.splitlines()
        if line and not line.startswith(("--", "\\", "SET ", "SELECT pg_catalog.set"))
    ]
    return "\n".join(kept) + "\n"


def load_postgresql(sql: str, url: str) -> None:
    import psycopg

    with psycopg.connect(url) as connection:
        connection.execute(sql.encode())


def main() -> None:
    from postgresql_server import running_server

    from store.revision import HEAD_REVISION

    with tempfile.TemporaryDirectory() as directory, running_server() as server:
        sqlite_url, postgresql_url = f"sqlite:///{directory}/store.sqlite", server.new_database()
        for url, dump in ((sqlite_url, dump_sqlite), (postgresql_url, dump_postgresql)):
            write(url)
            target = STORES / f"{HEAD_REVISION}.{url.partition(':')[0]}.sql"
            if target.exists():
                sys.exit(f"{target} is there already; what a release wrote is not made anew.")
            target.write_text(dump(url))


if __name__ == "__main__":
    main()
