"""Reports over a generated store against plain Python, and the seeds' cases that concern stored results, by their ids."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import duckdb
import numpy as np
import pytest
from generator import DEVICES, MODELS, PLANS, PRECISIONS, WORKLOADS, scenario
from queries_stores import (
    admits,
    allocate,
    best_of_plans,
    by_size,
    group_of,
    judged,
    memory_free,
    mission_records,
    of_arrivals,
    read_rows,
    reference,
    write_sweep,
)
from quick import quick

import queries
from queries.asking.library import report, reports, variables_read
from queries.asking.macros import macros_of, without_comments
from queries.asking.options import PRESETS, Limits, PairOptions, ReportOptions, Scope
from queries.asking.question import Question
from queries.asking.variables import known_variables, settings
from queries.proofs import verify_proof, write_proof
from queries.session import Session
from store.errors import InputError
from store.location import parse_url
from store.opening import open_store
from store.records import PriceRecord
from store.writing.beside import put_prices


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The address and rows of a store of two models, two devices and every phase."""
    url = f"sqlite:///{tmp_path_factory.mktemp('reports')}/store.sqlite"
    write_sweep(url, mission_records(models=(MODELS[4], MODELS[7]), plans=PLANS[:6]), key="a", sizes=20)
    return url, read_rows(url)


def counts(prefill_qps, decode_qps, prefill_size, decode_size, budget):
    """Rows of the report pd-counts for given sides."""
    parameters = {
        "prefill_requests_per_s": prefill_qps, "decode_requests_per_s": decode_qps, "prefill_size": prefill_size,
        "decode_size": decode_size, "num_devices": budget, "prefill_probe": None, "decode_probe": None,
    }  # fmt: skip
    connection = duckdb.connect()
    connection.execute("\n".join(settings(parameters).values()))
    asked = report("pd-counts").sql
    connection.execute("\n".join(macro.sql for macro in macros_of(asked)))
    cursor = connection.execute(asked)
    names = [item[0] for item in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def probe_view(**values):
    """One row of the view `probe` over one stored row given by hand."""
    from queries.vocabulary import vocabulary
    from store.schema.probe_columns import PROBE_COLUMNS

    defaults = {"scenario": "a" * 64, "batch_size": 1, "tp": 1, "pp": 1, "dp": 1, "num_devices": 1, **values}
    connection = duckdb.connect()
    columns = ", ".join(
        f"{json.dumps(defaults.get(c.name))}::{c.type} AS {c.name}".replace('"', "'") for c in PROBE_COLUMNS
    )
    connection.execute("CREATE SCHEMA raw")
    connection.execute(f"CREATE TABLE raw.stored_probe AS SELECT {columns}")
    connection.execute(vocabulary()["probe"].sql)
    cursor = connection.execute("SELECT * FROM probe")
    return dict(zip([item[0] for item in cursor.description], cursor.fetchone(), strict=True))


def test_s01_prefill_qps_is_concurrency_over_ttft():
    # 4 requests / 100 ms x 1000 = 40 req/s
    row = probe_view(phase="prefill", concurrency=4, ttft_ms=100.0, makespan_ms=100.0)
    assert row["prefill_ttft_requests_per_s"] == pytest.approx(40)
    assert row["prefill_capacity_requests_per_s"] == pytest.approx(40)


@pytest.mark.parametrize("ttft", [0.0, None])
def test_s01_a_ttft_of_zero_or_null_is_no_qps(ttft):
    row = probe_view(phase="prefill", concurrency=4, ttft_ms=ttft, makespan_ms=ttft)
    assert row["prefill_ttft_requests_per_s"] is None
    assert row["prefill_capacity_requests_per_s"] is None


def test_s03_decode_qps_divides_by_output_length_minus_one():
    # 8 / (13.33 x 511) x 1000 = 1.17446; with 512: 1.17217
    row = probe_view(
        phase="decode", concurrency=8, tpot_exclusive_ms=13.33, tpot_inclusive_ms=13.33, output_length=512.0
    )
    assert row["decode_minus_one_requests_per_s"] == pytest.approx(1.1745, abs=1e-4)
    assert row["decode_full_requests_per_s"] == pytest.approx(1.1722, abs=1e-4)


def test_s03_an_output_of_one_token_divides_by_one():
    row = probe_view(phase="decode", concurrency=8, tpot_exclusive_ms=10.0, tpot_inclusive_ms=10.0, output_length=1.0)
    assert row["decode_minus_one_requests_per_s"] == pytest.approx(800)


def test_s04_pd_ratio_is_decode_over_prefill_qps(notebook):
    for row in notebook.pd_ratio(top=50).dicts():
        assert row["pd_ratio"] == pytest.approx(row["decode_requests_per_s"] / row["prefill_requests_per_s"])
        assert row["balanced_requests_per_s"] == min(row["decode_requests_per_s"], row["prefill_requests_per_s"])


def test_s06_sixteen_devices_are_three_prefill_and_two_decode_instances():
    # 3 x 10 = 30 and 2 x 15 = 30 on 3 x 4 + 2 x 2 = 16 devices: 30 / 16 = 1.875 a device
    best = counts(10, 15, 4, 2, 16)[0]
    assert (best["prefill_instances"], best["decode_instances"], best["devices_used"]) == (3, 2, 16)
    assert (best["system_requests_per_s"], best["requests_per_s_per_device"]) == (30, 1.875)


def test_s07_all_exact_allocations_of_s06():
    exact = [(row["prefill_instances"], row["decode_instances"]) for row in counts(10, 15, 4, 2, 16) if row["exact"]]
    assert sorted(exact) == [(1, 6), (2, 4), (3, 2)]


def test_s08_rows_are_in_the_order_of_balanced_qps(notebook):
    rows = notebook.pd_ratio(top=50, model=MODELS[4][0]).dicts()
    assert [row["balanced_requests_per_s"] for row in rows] == sorted(
        (row["balanced_requests_per_s"] for row in rows), reverse=True
    )


def test_s12_the_printed_throughput_is_the_formula_with_ttft_once():
    # 1000 x 1500 x c / (ttft + tpot x 1500), tpot inclusive as printed
    for printed, ttft, tpot, concurrency in (
        (2888.36, 16032.05, 49.90, 175), (2013.36, 22512.86, 49.56, 130),
        (1140.25, 25817.73, 49.44, 76), (549.86, 14214.54, 48.72, 32),
    ):  # fmt: skip
        row = probe_view(
            phase="aggregated", concurrency=concurrency, ttft_ms=ttft, tpot_inclusive_ms=tpot, output_length=1500.0,
            e2e_ms=tpot * 1500,
        )  # fmt: skip
        assert row["output_tokens_per_s_twice"] == pytest.approx(printed, abs=0.02)
        assert row["output_tokens_per_s"] == pytest.approx(1000 * concurrency / tpot)


def test_s14_the_inclusive_tpot_is_the_default_limit_and_the_exclusive_one_a_choice(stored, notebook):
    rows = [row for row in stored[1] if row["phase"] == "aggregated"]
    limit = sorted(row["tpot_inclusive_ms"] for row in rows)[len(rows) // 2]
    inclusive = notebook.best(tpot_limit=limit, top=100).dicts()
    exclusive = notebook.best(tpot_limit=limit, tpot_definition="exclusive", top=100).dicts()
    assert inclusive
    assert all(row["tpot_inclusive_ms"] <= limit and row["tpot_ms"] == row["tpot_inclusive_ms"] for row in inclusive)
    assert all(row["tpot_exclusive_ms"] <= limit and row["tpot_ms"] == row["tpot_exclusive_ms"] for row in exclusive)
    assert any(row["tpot_inclusive_ms"] > limit for row in exclusive)


def test_s19_fifteen_devices_fit_nothing_exactly_and_two_and_two_within():
    rows = counts(10, 15, 4, 2, 15)
    assert not any(row["exact"] for row in rows)
    assert (rows[0]["prefill_instances"], rows[0]["decode_instances"], rows[0]["devices_used"]) == (2, 2, 12)
    assert rows[0]["system_requests_per_s"] == 20
    fourteen = counts(10, 15, 4, 2, 14)
    # (2, 3) uses all 14 at a ratio of 0.67; (3, 1) at 3 is further from 1.5
    exact = min((row for row in fourteen if row["exact"]), key=lambda row: abs(row["ratio"] - 1.5))
    assert (exact["prefill_instances"], exact["decode_instances"]) == (2, 3)
    assert (
        fourteen[0]["prefill_instances"],
        fourteen[0]["decode_instances"],
        fourteen[0]["system_requests_per_s"],
    ) == (2, 2, 20)


def test_s22_concurrency_is_batch_size_times_replicas_and_stages(stored):
    assert all(row["concurrency"] == row["batch_size"] * row["dp"] * row["pp"] for row in stored[1])


def test_s25_curves_have_no_point_out_of_memory_and_no_latency_limit(stored, notebook):
    answer = notebook.report("curve", mode="aggregated")
    expected = {reference(row) for row in stored[1] if row["phase"] == "aggregated" and memory_free(row) >= 0}
    assert {row["probe"] for row in answer.dicts()} == expected
    assert {row["probe"] for row in notebook.report("curve", mode="aggregated", tpot_limit=0.1).dicts()} == expected


def test_s37_three_devices_are_two_prefill_and_one_decode():
    # min(2 x 5.6, 10) / 3 = 3.33; co-located min 1.6: 2.08 times
    best = counts(5.6, 10, 1, 1, 3)[0]
    assert (best["prefill_instances"], best["decode_instances"]) == (2, 1)
    assert best["requests_per_s_per_device"] == pytest.approx(10 / 3)
    assert best["requests_per_s_per_device"] / 1.6 == pytest.approx(2.08, abs=0.01)


def test_s38_fourteen_devices_are_nine_prefill_and_five_decode():
    # min(9 x 5.6, 5 x 10) / 14 = 50 / 14 = 3.571; bound 1 / (1 / 5.6 + 1 / 10) = 3.590
    best = counts(5.6, 10, 1, 1, 14)[0]
    assert (best["prefill_instances"], best["decode_instances"]) == (9, 5)
    assert best["requests_per_s_per_device"] == pytest.approx(3.571, abs=5e-4)
    bound = 1 / (1 / 5.6 + 1 / 10)
    assert bound == pytest.approx(3.590, abs=5e-4)


def test_s39_s41_kv_transfer_is_the_prompts_bytes_over_the_bandwidth(notebook):
    # OPT-175B: 2048 tokens x 4,718,592 bytes / 512e9 bytes/s = 18.87 ms; over 600e9: 16.1 ms
    prompt_bytes = 2048 * 4_718_592
    assert prompt_bytes / 512e9 * 1000 == pytest.approx(18.87, abs=0.005)
    assert prompt_bytes / 600e9 * 1000 == pytest.approx(16.1, abs=0.01)
    for row in notebook.pd_ratio(kv_transfer_gb_per_s=64, top=50).dicts():
        assert row["kv_transfer_ms"] == pytest.approx(row["prefill_kv_bytes_per_request"] / 64e9 * 1000)
        assert row["ttft_with_transfer_ms"] == pytest.approx(row["ttft_ms"] + row["kv_transfer_ms"])
        assert row["transfer_hides"] is (row["kv_transfer_ms"] <= row["decode_step_ms"])


def test_s54_the_number_of_instances_changes_what_the_system_carries(notebook):
    rows = notebook.report("pd-counts", num_devices=16, model=MODELS[4][0], prefill_devices_per_instance=2,
                           decode_devices_per_instance=2).dicts()  # fmt: skip
    assert len({row["system_requests_per_s"] for row in rows if row["exact"]}) >= 2


def test_exact_allocation_uses_every_device_or_says_why_not(stored, notebook):
    for budget in (8, 13):
        for row in notebook.pd_ratio(num_devices=budget, allocation="exact", top=100).dicts():
            expected = allocate(row["prefill_requests_per_s"], row["decode_requests_per_s"], row["prefill_num_devices"],
                                row["decode_num_devices"], budget, rule="exact")  # fmt: skip
            got = (row["prefill_instances"], row["decode_instances"])
            assert got == (expected[:2] if expected else (None, None))
            assert (row["allocation_reason"] is None) == (expected is not None)


def test_capacity_is_the_frontier_of_every_deployment(stored, notebook):
    budget = 16
    rows = stored[1]
    aggregated, prefills, decodes = (
        best_of_plans(rows, phase, by="qps") for phase in ("aggregated", "prefill", "decode")
    )
    answer = notebook.report("capacity", num_devices=budget)
    got = {}
    for row in answer.dicts():
        got.setdefault(answer.scope[row["question_group"]].split(" · ")[0], []).append(
            (row["devices"], row["system_requests_per_s"])
        )
    for group in aggregated:
        most = {}
        for qps, row in aggregated[group]:
            for count in range(1, budget // row["num_devices"] + 1):
                devices = count * row["num_devices"]
                most[devices] = max(most.get(devices, 0), count * qps)
        for prefill_qps, prefill in prefills[group]:
            for decode_qps, decode in decodes[group]:
                for x in range(1, budget // prefill["num_devices"] + 1):
                    for y in range(1, (budget - x * prefill["num_devices"]) // decode["num_devices"] + 1):
                        devices = x * prefill["num_devices"] + y * decode["num_devices"]
                        most[devices] = max(most.get(devices, 0), min(x * prefill_qps, y * decode_qps))
        frontier, best = [], 0
        for devices in sorted(most):
            if most[devices] > best:
                best = most[devices]
                frontier.append((devices, best))
        assert got[group[0]] == [(devices, pytest.approx(qps, rel=1e-12)) for devices, qps in frontier]


def test_capacity_ends_at_the_fewest_devices_that_carry_the_target(notebook):
    answer = notebook.report("capacity", target_rate=40)
    for group in {row["question_group"] for row in answer.dicts()}:
        rows = [row for row in answer.dicts() if row["question_group"] == group]
        assert [row["carries_target"] for row in rows] == [False] * (len(rows) - 1) + [True]
        assert rows[-1]["system_requests_per_s"] >= 40 > rows[-2]["system_requests_per_s"]


def test_compare_sets_the_best_of_both_against_each_other(notebook):
    rows = notebook.report("compare", num_devices=16).dicts()
    pairs = notebook.pd_ratio(num_devices=16, top=1).dicts()
    by_mode = {(row["question_group"], row["mode"]): row for row in rows}
    for pair in pairs:
        group = pair["question_group"]
        assert by_mode[group, "pd"]["system_requests_per_s"] == pytest.approx(pair["system_requests_per_s"], rel=1e-12)
        gain = by_mode[group, "pd"]["system_requests_per_s"] / by_mode[group, "aggregated"]["system_requests_per_s"]
        assert by_mode[group, "pd"]["gain"] == pytest.approx(gain)


def test_pareto_keeps_what_nothing_beats(stored, notebook):
    rows = [row for row in stored[1] if row["phase"] == "aggregated" and admits(row)]
    for group in {group_of(row) for row in rows}:
        points = {
            reference(row): (1000 / row["tpot_exclusive_ms"], judged(row)[1] / row["num_devices"])
            for row in rows
            if group_of(row) == group
        }
        unbeaten = {
            name
            for name, (user, device) in points.items()
            if not any(u >= user and d >= device and (u, d) != (user, device) for u, d in points.values())
        }
        answer = notebook.report("pareto", model=group[0])
        assert {row["probe"] for row in answer.dicts() if row["mode"] == "aggregated"} == unbeaten


@pytest.mark.parametrize("asked", quick([{"instance_devices": 4}, {}, {"num_devices": 5}]))
def test_sensitivity_steps_are_the_best_answers_at_those_limits(notebook, asked):
    steps = notebook.report("sensitivity", vary=("tpot",), mode="aggregated", model=MODELS[4][0], **asked).dicts()
    assert len(steps) > 2
    for step in steps:
        best = notebook.best(tpot_limit=step["limit_from"], top=1, model=MODELS[4][0], **asked).dicts()[0]
        assert best[step["ranked_by"]] == pytest.approx(step["ranked_tokens_per_s"])
        assert best["probe"] == step["probe"]
        before = notebook.best(
            tpot_limit=math.nextafter(step["limit_from"], 0), top=1, model=MODELS[4][0], **asked
        ).dicts()
        assert not before or before[0][step["ranked_by"]] < step["ranked_tokens_per_s"]


@pytest.mark.parametrize("asked", quick([{}, {"num_devices": 5}]))
def test_sensitivity_over_two_limits_is_the_best_answer_in_every_cell(notebook, asked):
    cells = notebook.report("sensitivity", vary=("ttft", "tpot"), steps=4, model=MODELS[4][0], **asked).dicts()
    assert len(cells) == 16
    for cell in cells:
        best = notebook.best(
            ttft_limit=cell["first_limit"], tpot_limit=cell["second_limit"], top=1, model=MODELS[4][0], **asked
        ).dicts()
        assert cell["probe"] == (best[0]["probe"] if best else None)
        assert cell["ranked_tokens_per_s"] == (pytest.approx(best[0][cell["ranked_by"]]) if best else None)


def test_devices_ranks_the_best_of_each_device(stored, notebook):
    rows = notebook.report("devices", mode="decode").dicts()
    for group, best in by_size(best_of_plans(stored[1], "decode")).items():
        expected = {}
        for rate, row in best:
            expected.setdefault(row["device"], rate)
        names = {DEVICES[0][0], DEVICES[1][0]}
        got = {
            row["device"]: row["output_tokens_per_s"] for row in rows if row["probe"] in {reference(r) for _, r in best}
        }
        assert got == pytest.approx(expected), group
        assert set(got) == names


def test_devices_pairs_each_device_with_itself(notebook):
    rows = notebook.report("devices", mode="pd").dicts()
    assert rows
    assert all(row["prefill_device"] == row["decode_device"] for row in rows)
    assert [row["rank"] for row in rows] == [1, 2, 1, 2]


@pytest.mark.parametrize(
    "options", quick([{}, {"tpot_limit": 30, "rank_by": "requests-per-s-per-device-bound"}, {"num_devices": 16},
                      {"num_devices": 24, "rank_by": "requests-per-s-per-device"}, {"preset": "seed000", "num_devices": 16}], 2),
)  # fmt: skip
def test_the_pairs_of_devices_are_those_of_asking_each_device(notebook, options):
    alone = []
    for name in (DEVICES[0][0], DEVICES[1][0]):
        alone += notebook.pd_ratio(prefill_device=name, decode_device=name, top=1, **options).dicts()
    answer = notebook.report("devices", mode="pd", **options)
    measure = answer.parameters["objective"]
    alone.sort(key=lambda row: (row["question_group"], -(row[measure] or -math.inf), row["prefill_device"]))
    assert [{**row, "rank": None} for row in answer.dicts()] == [{**row, "rank": None} for row in alone]
    best = notebook.report("devices", mode="pd", top=1, **options).dicts()
    assert best == [row for row in answer.dicts() if row["rank"] == 1]


def test_why_lists_margin_and_knobs(notebook):
    first, second = (row["probe"] for row in notebook.best(top=2, model=MODELS[4][0], rank_by="throughput").dicts())
    lines = notebook.report("why", probes=(first, second), tpot_limit=50).dicts()
    margin = next(line for line in lines if line["name"] == "output_tokens_per_s")
    assert margin["difference"] > 0
    assert {line["section"] for line in lines} >= {"result", "limit", "split", "memory"}
    assert all(line["first"] != line["second"] for line in lines if line["section"] == "knob")


def test_cost_counts_tokens_for_a_dollar_and_a_kilowatt_hour(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    write_sweep(url, mission_records(models=MODELS[4:5], plans=PLANS[:2], phases=("decode",)), key="c", sizes=4)
    with open_store(url) as store:
        put_prices(
            store,
            [
                PriceRecord(device_name=name, effective_from=day, usd_per_device_hour=usd, watts_per_device=700)
                for name, day, usd in (("H100_SXM", "2026-01-01", 9.0), ("H100_SXM", "2026-02-01", 2.0), ("H200_SXM", "2026-01-01", 4.0))
            ],
        )  # fmt: skip
    with Session(parse_url(url)) as session:
        rows = session.ask(Question(report="cost")).dicts()
        older = session.ask(Question(report="cost", options=ReportOptions(price_date="2026-01-15"))).dicts()
    by_device = {row["device"]: row for row in rows}
    h100, h200 = by_device["H100_SXM"], by_device["H200_SXM"]
    assert h100["tokens_per_usd"] == pytest.approx(h100["output_tokens_per_s_per_device"] * 3600 / 2.0)
    assert h100["tokens_per_kwh"] == pytest.approx(h100["output_tokens_per_s_per_device"] * 3600 / 0.7)
    assert h200["break_even_usd_per_device_hour"] == pytest.approx(
        h200["output_tokens_per_s_per_device"] / h100["output_tokens_per_s_per_device"] * 2.0
    )
    assert next(row for row in older if row["device"] == "H100_SXM")["usd_per_device_hour"] == 9.0


def test_diff_reports_what_another_formula_changed(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    common = {"precision": PRECISIONS[0], "phase": "decode"}
    for key, version in (("1", 1), ("2", 2)):
        records = [
            scenario(MODELS[4], WORKLOADS[0], DEVICES[0], plan=plan, version=version, **common) for plan in PLANS[:3]
        ]
        write_sweep(url, records, key=key, sizes=4)
    notebook = queries.open(url)
    rows = notebook.report("diff", sweeps=("1" * 32, "2" * 32), top=100).dicts()
    assert len(rows) == 12
    # version 1 takes 1.03 times as long
    assert all(row["throughput_change_percent"] == pytest.approx(3.0) for row in rows)
    assert {(row["first_formula_version"], row["second_formula_version"]) for row in rows} == {(1, 2)}
    assert [row["won_before"] for row in rows].count(True) == 1
    write_sweep(url, [scenario(MODELS[0], WORKLOADS[0], DEVICES[1], plan=PLANS[3], **common)], key="3", sizes=2)
    with pytest.raises(InputError, match="no subject in common: model"):
        notebook.report("diff", sweeps=("1" * 32, "3" * 32))
    notebook.close()


def test_coverage_counts_failures(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    records = mission_records(models=(MODELS[2],), devices=DEVICES[:1], phases=("decode",))
    write_sweep(url, records, key="d", sizes=2)
    cells = queries.open(url).report("coverage").dicts() if any(record.status == "ok" for record in records) else []
    assert cells
    assert sum(cell["scenarios"] for cell in cells) == len(records)
    assert sum(cell["illegal"] for cell in cells) == sum(record.status == "illegal" for record in records)
    assert sum(cell["probes"] for cell in cells) == 2 * sum(record.status == "ok" for record in records)


def test_misses_are_of_the_side_that_keeps_no_row(stored, notebook):
    """Decode instances have no TTFT, so of a limit on it alone rows beyond their memory are no news."""
    free = sorted(memory_free(row, 0) / 2**30 for row in stored[1] if row["phase"] == "decode")
    asked = {"reserved_memory_gb": free[len(free) // 2]}  # half of the decode rows are beyond it
    for limits, phases in (
        ({"ttft_limit": 1e-6}, {"prefill"}),
        ({"ttft_limit": 1e-6, "tpot_limit": 1e-6}, {"prefill", "decode"}),
        ({"reserved_memory_gb": 500}, {"prefill", "decode"}),
    ):
        answer = notebook.pd_ratio(**{**asked, **limits})
        assert not answer.rows
        assert {row["phase"] for row in answer.nearest_dicts()} == phases
    (row, *_) = notebook.nearest(mode="decode", **asked).dicts()  # asked for by itself, it tells of every phase
    assert (row["binding_limit"], row["admitted"] > 0) == ("memory", True)


def test_nothing_fits_is_an_empty_answer_with_the_nearest_miss(stored, notebook):
    answer = notebook.best(tpot_limit=0.01)
    assert answer.rows == ()
    nearest = answer.nearest_dicts()[0]
    assert nearest["binding_limit"] == "tpot"
    admitted = notebook.best(tpot_limit=nearest["relax_to"], top=100)
    assert nearest["probe"] in {row["probe"] for row in admitted.dicts()}
    memory = notebook.best(reserved_memory_gb=500).nearest_dicts()[0]
    assert memory["binding_limit"] == "memory"
    assert notebook.best(reserved_memory_gb=memory["relax_to"], top=100).rows


def test_definitions_change_what_they_name(notebook):
    once = notebook.best(top=1).dicts()[0]
    assert once["output_tokens_per_s"] != once["output_tokens_per_s_twice"]
    twice = notebook.best(top=1, throughput="twice").dicts()[0]
    assert twice["output_tokens_per_s"] == twice["output_tokens_per_s_twice"]
    assert twice["output_tokens_per_s_per_device"] == twice["output_tokens_per_s"] / twice["num_devices"]
    full = notebook.decode(top=1, decode_rate="full").dicts()[0]
    assert full["requests_per_s"] == full["decode_full_requests_per_s"]
    assert set(PRESETS) == {"sweepdb", "upstream", "seed000", "seed001"}


def test_the_scope_without_filters_is_the_newest_sweeps_subject(stored, tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    write_sweep(url, mission_records(models=MODELS[4:5], plans=PLANS[:2]), key="1", sizes=2)
    write_sweep(url, mission_records(models=MODELS[7:8], plans=PLANS[:2]), key="2", sizes=2)
    write_sweep(url, mission_records(models=MODELS[7:8], devices=DEVICES[3:4], plans=PLANS[:1]), key="3", sizes=2)
    notebook = queries.open(url)
    assert {row["model"] for row in notebook.best().dicts()} == {MODELS[7][0]}
    assert {row["device"] for row in notebook.best().dicts()} == {DEVICES[n][0] for n in (0, 1, 3)}
    assert {row["device"] for row in notebook.best(last=True).dicts()} == {DEVICES[3][0]}
    assert {row["model"] for row in notebook.best(sweep="1" * 32).dicts()} == {MODELS[4][0]}
    assert {row["model"] for row in notebook.best(model=MODELS[4][0]).dicts()} == {MODELS[4][0]}
    notebook.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "Qwen/Qwen3-30B"}, "Qwen/Qwen3-30B-A3B"),
        ({"device": "H100"}, None),
        ({"device": "H300_SXM"}, "H100_SXM"),
        ({"tpot_limit": -1}, "above 0, not -1"),
        ({"tpot_limit": math.nan}, "above 0, not nan"),
        ({"ttft_limit": 0}, "above 0"),
        ({"rank_by": "beauty"}, "throughput"),
        ({"top": 0}, "positive whole number"),
        ({"top": "7"}, "`top` is a whole number, not '7'"),
        ({"tpot_limit": "fast"}, "`tpot_limit` is a number, not 'fast'"),
        ({"num_devices": [4, 8]}, "`num_devices` is a whole number, not"),
        ({"tpot_limit": 0}, "`tpot_limit` must be a number above 0"),
        ({"mix": ["chat"]}, "`mix` is pairs of a workload and its weight"),
        ({"num_devices": True}, "`num_devices` is a whole number, not True"),
        ({"colour": "red"}, "colour"),
        ({"preset": "seed007"}, "`preset` seed007 is not one of"),
        ({"tpot_definition": "median"}, "`tpot_definition` median is not one of inclusive, exclusive"),
    ],
)
def test_bad_input_is_one_sentence_that_helps(notebook, options, message):
    if message is None:
        assert notebook.best(**options).rows
        return
    with pytest.raises(InputError, match=message):
        notebook.best(**options)


def test_an_unknown_report_names_the_nearest(notebook):
    with pytest.raises(InputError, match="pd-ratio"):
        notebook.report("pdratio")


def test_a_limit_for_a_phase_without_the_metric_is_refused(notebook):
    with pytest.raises(InputError, match="prefill rows have no such metric: drop `tpot_limit`"):
        notebook.prefill(tpot_limit=50)
    with pytest.raises(InputError, match="decode rows have no such metric: drop `ttft_limit`"):
        notebook.decode(ttft_limit=50)


def test_a_report_that_needs_other_rows_says_what_to_run(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    write_sweep(url, mission_records(models=MODELS[4:5], plans=PLANS[:1], phases=("decode",)), key="1", sizes=2)
    with pytest.raises(InputError, match="needs prefill and decode rows; stored in this scope: decode") as caught:
        queries.open(url).pd_ratio()
    assert "sweepdb evaluate" in caught.value.hint


def test_an_empty_store_says_how_to_fill_it(sqlite_url):
    open_store(sqlite_url, create=True).close()
    with pytest.raises(InputError, match="no probes yet") as caught:
        queries.open(sqlite_url).best()
    assert "sweepdb evaluate" in caught.value.hint
    with pytest.raises(InputError, match="no probes yet"):
        queries.open(sqlite_url).coverage()


def test_pairs_that_cannot_be_pruned_are_refused(notebook):
    with pytest.raises(InputError, match="may fall when a side improves"):
        notebook.pd_ratio(all_pairs=True, num_devices=8, rank_by="requests-per-s-per-device")


def test_a_proof_holds_on_another_copy_and_notices_a_change(stored, tmp_path):
    url, _ = stored
    path = tmp_path / "proof.json"
    question = Question(report="pd-ratio", limits=Limits(tpot_ms=30), pairs=PairOptions(num_devices=8),
                        options=ReportOptions(top=3))  # fmt: skip
    with Session(parse_url(url)) as session:
        write_proof(session.ask(question), path, parse_url(url), session.pinned())
    document = json.loads(path.read_text())
    assert "SELECT" in document["sql"]
    assert document["parameters"]["tpot_limit_ms"] == 30
    # another sweep of another model does not change what the proof is about
    copy = f"sqlite:///{tmp_path}/copy.sqlite"
    write_sweep(copy, mission_records(models=MODELS[6:7], plans=PLANS[:1]), key="9", sizes=2)
    write_sweep(copy, mission_records(models=(MODELS[4], MODELS[7]), plans=PLANS[:6]), key="a", sizes=20)
    write_sweep(copy, mission_records(models=MODELS[6:7], plans=PLANS[:2]), key="8", sizes=2)
    assert verify_proof(path, parse_url(copy)).startswith("verified: 6 rows")
    path.write_text(json.dumps({**document, "sha256": "0" * 64}))
    with pytest.raises(InputError, match="changed after it was written"):
        verify_proof(path, parse_url(copy))


def test_an_answer_becomes_a_data_frame(notebook):
    frame = notebook.best(tpot_limit=50).df()
    assert list(frame["rank"][:2]) == [1, 2]


def test_a_question_is_the_same_whether_its_scope_is_kept_in_memory_or_not(stored):
    question = Question(scope=Scope(models=(MODELS[4][0],)), limits=Limits(tpot_ms=20))
    with Session(parse_url(stored[0])) as session:
        first, again = session.ask(question), session.ask(question)
    assert first.rows == again.rows
    assert replace(first, question=again.question).probes_considered == again.probes_considered


@pytest.mark.parametrize("name", sorted(reports().keys() - of_arrivals()))
def test_a_header_lists_the_columns_duckdb_sees_and_variables_are_declared(name, notebook, stored):
    asked = report(name)
    assert variables_read(name) <= known_variables().keys()
    assert "$" not in without_comments(asked.sql)
    if asked.part_of is not None or name == "mix":  # a blend needs a store of two workloads: test_mix.py
        return
    options = {
        "why": {"probes": tuple(reference(row) for row in stored[1][:2])},
        "diff": {"sweeps": ("a" * 32, "a" * 32)},
        "sensitivity": {"vary": ("tpot",)},
        "compare": {"num_devices": 8},
        "concurrency": {"concurrency": 5},
        "pd-counts": {"num_devices": 8, "model": MODELS[4][0]},
    }.get(name, {})
    columns = notebook.report(name, **options).columns
    explained = {column.name for column in asked.columns}
    assert len(columns) == len(set(columns))
    assert explained <= set(columns)


def test_numbers_of_a_table_are_numbers(notebook):
    budget, limit = np.array([8])[0], np.array([30.0], dtype=np.float32)[0]
    assert notebook.best(num_devices=budget, tpot_limit=limit).rows == notebook.best(num_devices=8, tpot_limit=30).rows


def test_a_misspelt_keyword_names_the_nearest(notebook):
    with pytest.raises(InputError, match="unknown option 'tpot_limi' of best") as caught:
        notebook.best(tpot_limi=30)
    assert "tpot_limit" in caught.value.hint
