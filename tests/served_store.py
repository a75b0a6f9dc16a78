"""A store of two devices, three plans and every phase, as an engine serves them, for tests of pairs."""

from __future__ import annotations

from dataclasses import replace

from generator import DEVICES, MODELS, PLANS, PRECISIONS, WORKLOADS, block, content_key, scenario, sweep_record

from store.opening import open_store
from store.records import PriceRecord
from store.sealing import seal
from store.writing import begin_sweep, finish_sweep, put_block, put_scenarios
from store.writing.beside import put_prices

SERVED_DEVICES = DEVICES[:2]


def served(phase, device, plan, workload=WORKLOADS[1]):
    """A scenario of the generator as an engine serves it."""
    record = scenario(MODELS[4], workload, device, precision=PRECISIONS[0], plan=plan, phase=phase)
    subject = replace(record.subject, serving_model="vllm", key=content_key([record.subject.key, "vllm"]))
    return replace(record, subject=subject, key=content_key([record.key, "vllm"]))


def rows_of(record, sizes):
    """The generator's rows: of a prefill instance with what one more prompt adds, and 15 ms to receive a request."""
    made = block(record, 1, sizes)
    if record.subject.phase != "prefill":
        return made
    columns = dict(made.columns)
    columns["prompt_service_ms"] = 0.9 * columns["prefill_step_ms"] / columns["concurrency"] * columns["concurrency"][0]
    columns["ttft_ms"] = columns["ttft_ms"] + 15.0
    return replace(made, columns=columns)


def write_served(url):
    """Store them at a new address, with prices of both devices."""
    records = [
        served(phase, device, plan)
        for phase in ("prefill", "decode", "aggregated")
        for device in SERVED_DEVICES
        for plan in (PLANS[0], PLANS[1], PLANS[8])
    ]
    with open_store(url, create=True) as store:
        sweep_id = begin_sweep(store, sweep_record(key="e" * 32))
        for record, ref in zip(records, put_scenarios(store, sweep_id, records), strict=True):
            if record.status == "ok":
                put_block(store, sweep_id, ref.id, rows_of(record, 60))
        finish_sweep(store, sweep_id, "finished")
        put_prices(
            store,
            [
                PriceRecord(
                    device_name=device[0],
                    effective_from="2025-01-01",
                    usd_per_device_hour=price,
                    watts_per_device=700.0,
                )
                for device, price in zip(SERVED_DEVICES, (2.0, 3.0), strict=True)
            ],
        )
        seal(store)
