"""Stores that tests of questions share, and plain-Python answers to compare with: no SQL, no import of `queries`."""

from __future__ import annotations

import math
from dataclasses import replace

from generator import (
    DEVICES,
    MODELS,
    PHASES,
    PLANS,
    PRECISIONS,
    WORKLOADS,
    block,
    content_key,
    put,
    scenario,
    sweep_record,
)

from store.opening import open_store
from store.parts import ShardBlock, part_shelf, register_part, write_part
from store.sealing import seal
from store.writing import begin_sweep, finish_sweep, put_scenarios

GIB = 2**30
MISSION_MODELS = (MODELS[0], MODELS[4], MODELS[7])


def write_sweep(url, records, *, key, sizes=24, started_at=None, kind="request"):
    """Store a finished sweep over scenarios, batch sizes 1 to `sizes`."""
    moment = {} if started_at is None else {"started_at": started_at}
    with open_store(url, create=True) as store:
        asked = replace(sweep_record(key=(key * 32)[:32], label=f"sweep {key}", **moment), kind=kind)
        sweep_id = begin_sweep(store, asked)
        for record, ref in zip(records, put_scenarios(store, sweep_id, records), strict=True):
            if record.status == "ok":
                put(store, sweep_id, record, ref, first=1, last=sizes)
        finish_sweep(store, sweep_id, "finished")
        seal(store)


def write_in_parts(url, records, sizes):
    """As workers do: the database has no row of them."""
    with open_store(url, create=True) as store:
        sweep_id = begin_sweep(store, sweep_record(key="a" * 32))
        blocks = [
            ShardBlock(scenario_id=ref.id, scenario_key=ref.key, replicas=record.subject.plan.dp * record.subject.plan.pp,
                       record=block(record, 1, sizes))
            for record, ref in zip(records, put_scenarios(store, sweep_id, records), strict=True)
        ]  # fmt: skip
        register_part(store, sweep_id, "b" * 64, write_part(part_shelf(store), "b" * 64, blocks))
        finish_sweep(store, sweep_id, "finished")


def changed(record, *, version=None, **fields):
    """The same scenario about another subject: `fields` are of the subject, such as compile or seats."""
    version = version or record.formula_version
    subject = replace(record.subject, key=content_key([record.subject.key, sorted(fields.items())]), **fields)
    key = content_key([subject.key, record.device.key, version])
    return replace(record, key=key, subject=subject if fields else record.subject, formula_version=version)


def mission_records(*, models=MISSION_MODELS, devices=DEVICES[:2], plans=PLANS, phases=PHASES, precision=PRECISIONS[0]):
    """Scenarios of three models on two devices, every plan and phase."""
    return [
        scenario(model, WORKLOADS[0], device, precision=precision, plan=plan, phase=phase)
        for model in models
        for device in devices
        for plan in plans
        for phase in phases
    ]


def read_rows(url):
    from queries.connect import connect
    from store.schema.probe_columns import PROBE_COLUMNS

    names = [column.name for column in PROBE_COLUMNS]
    with connect(url) as connection:
        rows = connection.execute(f"SELECT {', '.join(names)} FROM raw.stored_probe").fetchall()
    return [dict(zip(names, row, strict=True)) for row in rows]


def group_of(row):
    return (row["model"], row["workload_key"], row["linear_quantization"], row["convention"])


def memory_free(row, reserved_gib=10.0, charge="full"):
    cache = row["kv_cache_bytes"] if charge == "full" else row["kv_cache_mean_bytes"]
    return row["device_memory_bytes"] - row["weight_bytes"] - row["activation_bytes"] - cache - int(reserved_gib * GIB)


def judged(row, tpot="inclusive"):
    """(requests/s, tokens/s, latency, tpot) of a row by the default rules."""
    phase, concurrency = row["phase"], row["concurrency"]
    if phase == "prefill":
        qps = 1000.0 * concurrency / row["makespan_ms"]
        return qps, qps * row["input_length_mean"], row["ttft_ms"], None
    per_token = row["tpot_exclusive_ms"] if tpot == "exclusive" else row["tpot_inclusive_ms"]
    if phase == "decode":
        rate = concurrency * 1000.0 / row["tpot_exclusive_ms"]
        return rate / max(row["output_length"] - 1, 1), rate, row["tpot_exclusive_ms"], per_token
    # Prefills of a batch that missed long bins are charged at the distribution's mean prompt.
    missed = row["input_length_mean"] / (row["realised_input_length_mean"] or row["input_length_mean"]) - 1
    qps = 1000.0 * concurrency / (row["e2e_ms"] + row["ttft_ms"] * missed)
    return qps, qps * row["output_length"], row["e2e_ms"], per_token


def admits(row, ttft=None, tpot=None, reserved_gib=10.0):
    """Whether a row satisfies the limits its phase has a metric for."""
    if memory_free(row, reserved_gib) < 0:
        return False
    if ttft is not None and row["phase"] != "decode" and not row["ttft_ms"] <= ttft:
        return False
    return not (tpot is not None and row["phase"] != "prefill" and not judged(row)[3] <= tpot)


def best_of_plans(rows, phase, *, ttft=None, tpot=None, by="rate"):
    """The best row of each scenario, as (group, measure, row), best first within a group."""
    best = {}
    for row in rows:
        if row["phase"] != phase or not admits(row, ttft, tpot):
            continue
        qps, rate, latency, _ = judged(row)
        measure = rate if by == "rate" else qps
        order = (-measure, latency, row["batch_size"])
        if row["scenario"] not in best or order < best[row["scenario"]][0]:
            best[row["scenario"]] = (order, measure, row)
    found = sorted(best.values(), key=lambda item: (*item[0], item[2]["scenario"]))
    groups = {}
    for _, measure, row in found:
        groups.setdefault(group_of(row), []).append((measure, row))
    return groups


def by_size(groups):
    """The same groups ranked by the rate of a device, where instances of several sizes are in one."""
    ranked = {}
    for group, members in groups.items():
        differ = len({row["num_devices"] for _, row in members}) > 1

        def order(member, differ=differ):
            rate, row = member
            per = rate / row["num_devices"] if differ else rate
            return -per, judged(row)[2], row["batch_size"], row["scenario"]

        ranked[group] = sorted(members, key=order)
    return ranked


def every_row(rows, phase, *, ttft=None, tpot=None):
    """Every admitted row of a phase as (requests/s, row), best first within a group."""
    groups = {}
    for row in rows:
        if row["phase"] == phase and admits(row, ttft, tpot):
            groups.setdefault(group_of(row), []).append((judged(row)[0], row))
    for members in groups.values():
        members.sort(key=lambda item: (-item[0], judged(item[1])[2], item[1]["batch_size"], item[1]["scenario"]))
    return groups


def allocate(prefill_qps, decode_qps, prefill_size, decode_size, budget, *, rule="budget"):
    """(prefill instances, decode instances, devices, system qps) by trying every pair of counts; None: none fits."""
    ratio = decode_qps / prefill_qps
    best = None
    for prefills in range(1, budget // prefill_size + 1):
        for decodes in range(1, (budget - prefills * prefill_size) // decode_size + 1):
            devices = prefills * prefill_size + decodes * decode_size
            if rule == "exact" and devices != budget:
                continue
            carried = min(prefills * prefill_qps, decodes * decode_qps)
            distance = abs(prefills / decodes - ratio)
            order = (distance, prefills) if rule == "exact" else (-carried, devices, distance, prefills)
            if best is None or order < best[0]:
                best = (order, prefills, decodes, devices, carried)
    return None if best is None else best[1:]


def pair_up(prefills, decodes, *, top, budget=None):
    """The naive join: every prefill row with every decode row of a group, ranked, the first `top`."""
    answer = []
    for group in prefills.keys() & decodes.keys():
        joined = []
        for prefill_rank, (prefill_qps, prefill) in enumerate(prefills[group]):
            for decode_rank, (decode_qps, decode) in enumerate(decodes[group]):
                counts = None
                if budget is not None:
                    counts = allocate(prefill_qps, decode_qps, prefill["num_devices"], decode["num_devices"], budget)
                objective = min(prefill_qps, decode_qps) if budget is None else (counts[3] if counts else -math.inf)
                joined.append(((-objective, prefill_rank, decode_rank), prefill, decode, counts))
        joined.sort(key=lambda item: item[0])
        answer.extend((prefill, decode, counts) for _, prefill, decode, counts in joined[:top])
    return answer


def reference(row):
    return f"{row['scenario'][:8]}:{row['batch_size']}"


def of_arrivals() -> set[str]:
    """Forms of reports about requests that arrive, of which generated stores have none: tests/queries/test_goodput.py."""
    from queries.asking.library import reports

    return {name for name, item in reports().items() if item.of_loads}
