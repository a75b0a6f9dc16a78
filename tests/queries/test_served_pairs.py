"""Reports about pairs over a stored sweep of an engine: they agree with each other and with the closed form."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from generator import DEVICES, MODELS, PLANS, PRECISIONS, WORKLOADS, scenario, sweep_record
from queries_stores import read_rows, reference
from quick import quick
from served_store import SERVED_DEVICES, rows_of, served

import queries
from evaluator.serving.pairs import DecodeSide, PairLoad, PrefillSide, moving_bytes_per_s, pair_times, transfer_ms
from queries.connect import connect
from queries.judging import confidence
from queries.pairs import SURELY, verdicts
from store.errors import InputError
from store.opening import open_store
from store.schema import OLD_COLUMNS
from store.sealing import seal
from store.writing import begin_sweep, finish_sweep, put_block, put_scenarios

LINK = 35e9  # outermost, of the generator's devices


def told(row, rows):
    """The closed form of an answered pair, from the stored rows that it names."""
    by_probe = {f"{one['scenario'][:8]}:{one['batch_size']}": one for one in rows}
    p, d = by_probe[row["prefill_probe"]], by_probe[row["decode_probe"]]
    return pair_times(
        PrefillSide(
            alone_ms=p["ttft_ms"],
            service_ms=p["prompt_service_ms"],
            servers=row["prefill_instances"] * p["dp"],
            request_ms=p["ttft_ms"] - p["makespan_ms"],
        ),
        DecodeSide(decoding=row["decode_instances"] * d["concurrency"], tpot_ms=d["tpot_exclusive_ms"]),
        PairLoad(
            output_length=d["output_length"],
            transfer_ms=transfer_ms(p["kv_bytes_per_request"], p["tp"], moving_bytes_per_s(LINK)),
        ),
    )


@pytest.mark.parametrize("budget", [None, 12])
def test_answered_pairs_say_what_the_closed_form_says(stored, notebook, budget):
    answered = notebook.pd_ratio(num_devices=budget, ttft_limit=400.0, tpot_limit=40.0).dicts()
    assert answered
    for row in answered:
        times = told(row, read_rows(stored))
        assert row["system_requests_per_s"] == pytest.approx(times.requests_per_s, rel=1e-9)
        assert row["ttft_ms"] == pytest.approx(times.ttft_ms, rel=1e-9)
        assert row["ttft_ms"] <= 400.0
        assert row["ttft_with_transfer_ms"] == row["ttft_ms"]
        assert row["e2e_ms"] == pytest.approx(times.e2e_ms, rel=1e-9)
        assert row["handover_ms"] == pytest.approx(15.0)
        assert row["prefill_utilisation"] == pytest.approx(times.prefill_utilisation, rel=1e-9)
        assert row["prefill_utilisation"] < 1.0
        assert 0.0 < row["decode_utilisation"] <= 1.0


def test_compare_capacity_and_pd_ratio_find_one_deployment(notebook):
    limits = {"num_devices": 12, "ttft_limit": 400.0, "tpot_limit": 40.0}
    (best, *_) = notebook.pd_ratio(**limits, top=1).dicts()
    compared = {row["mode"]: row for row in notebook.compare(**limits).dicts()}
    assert compared["pd"]["system_requests_per_s"] == pytest.approx(best["system_requests_per_s"])
    assert compared["pd"]["prefill_utilisation"] < 1.0
    most = max(row["system_requests_per_s"] for row in notebook.capacity(**limits).dicts())
    assert most == pytest.approx(max(row["system_requests_per_s"] for row in compared.values()))


def test_a_tighter_ttft_never_carries_more(notebook):
    carried = [
        notebook.pd_ratio(num_devices=12, ttft_limit=limit, top=1).dicts()[0]["system_requests_per_s"]
        for limit in (2000.0, 400.0, 150.0)
    ]
    assert carried == sorted(carried, reverse=True)


def test_an_end_to_end_limit_holds_for_pairs(notebook):
    free = notebook.pd_ratio(num_devices=12, top=1).dicts()[0]["e2e_ms"]
    for row in notebook.pd_ratio(num_devices=12, e2e_limit=0.8 * free).dicts():
        assert row["e2e_ms"] <= 0.8 * free


def test_counts_of_the_best_pair_hold_its_own(notebook):
    best = notebook.pd_ratio(num_devices=12, ttft_limit=400.0, top=1).dicts()[0]
    counts = notebook.report("pd-counts", num_devices=12, ttft_limit=400.0).dicts()
    first = counts[0]
    assert (first["prefill_instances"], first["decode_instances"]) == (
        best["prefill_instances"],
        best["decode_instances"],
    )
    assert first["system_requests_per_s"] == pytest.approx(best["system_requests_per_s"])
    assert first["ttft_ms"] == pytest.approx(best["ttft_ms"])
    assert all(row["ttft_ms"] is None or row["ttft_ms"] <= 400.0 for row in counts)


@pytest.mark.parametrize("options", [{"ttft_limit": 400.0}, {"num_devices": 12, "tpot_limit": 40.0}])
def test_the_pairs_of_devices_are_those_of_asking_each_device(notebook, options):
    alone = [
        row
        for name, *_ in SERVED_DEVICES
        for row in notebook.pd_ratio(prefill_device=name, decode_device=name, top=1, **options).dicts()
    ]
    together = notebook.devices(mode="pd", **options).dicts()
    assert [row["rank"] for row in together] == [1, 2]
    assert sorted(({**row, "rank": 1} for row in together), key=lambda row: row["prefill_device"]) == alone


def test_a_pair_shows_of_each_side_whatever_its_row_has(stored, notebook):
    (pair,) = notebook.pd_ratio(num_devices=12, top=1).dicts()
    lacked = {"host_hit_rate", "ssd_hit_rate", "remote_hit_rate", "images", "encoder_split"}
    assert {
        *lacked,
        *(f"{side}_{name}" for side in ("prefill", "decode") for name in ("max_num_seqs", "routing")),
    } <= set(pair)
    with connect(stored) as connection:
        for side in ("prefill", "decode"):
            cursor = connection.execute("SELECT * FROM probe WHERE probe = $probe", {"probe": pair[f"{side}_probe"]})
            row = dict(zip([name for name, *_ in cursor.description], cursor.fetchone(), strict=True))
            # The rate of a side is the one by the rules that paired it, at whatever lengths.
            for name in row.keys() - {"scenario_id", "block_id", "phase", "requests_per_s", *OLD_COLUMNS}:
                shown = pair.get(f"{side}_{name}", pair.get(name))
                assert shown == row[name] or row[name] is None, (side, name)


def test_pairs_of_each_device_and_what_their_tokens_cost(notebook):
    devices = notebook.devices(mode="pd").dicts()
    assert sorted(row["prefill_device"] for row in devices) == sorted(name for name, *_ in SERVED_DEVICES)
    priced = {row["device"]: row for row in notebook.cost(mode="pd").dicts()}
    for row in devices:
        cost = priced[row["decode_device"]]
        per_device = row["requests_per_s_per_device"] * row["output_length"]
        assert cost["output_tokens_per_s_per_device"] == pytest.approx(per_device)
        assert cost["tokens_per_usd"] == pytest.approx(per_device * 3600 / cost["usd_per_device_hour"])


def tried(rows, limit):
    """(requests/s per device, decode row, times, counts, prefill row) of the best partner and counts of every decode row,
    by trying all: up to 8 instances a side."""
    prefills = [row for row in rows if row["phase"] == "prefill" and row["batch_size"] == 1]
    for d in (row for row in rows if row["phase"] == "decode"):
        found = []
        for p in prefills:
            if p["workload_key"] != d["workload_key"]:
                continue
            for x, y in product(range(1, 9), repeat=2):
                pair = {"prefill_probe": reference(p), "decode_probe": reference(d)}
                times = told({**pair, "prefill_instances": x, "decode_instances": y}, (p, d))
                if times is not None and times.ttft_ms <= limit:
                    devices = x * p["num_devices"] + y * d["num_devices"]
                    found.append((times.requests_per_s / devices, d, times, (x, y), p))
        if found:
            yield max(found, key=lambda one: one[0])


@pytest.mark.parametrize("limit", quick([120.0, 400.0]))
def test_pareto_is_the_frontier_of_trying_every_partner_and_count(stored, notebook, limit):
    answered = [row for row in notebook.pareto(ttft_limit=limit).dicts() if row["mode"] == "pd"]
    points = {
        reference(d): (1000.0 / d["tpot_exclusive_ms"], each * d["output_length"], times)
        for each, d, times, _, _ in tried(read_rows(stored), limit)
    }

    def beaten(one):
        fast, much, _ = one
        return any(
            f >= fast * (1 - 1e-12) and m >= much * (1 - 1e-12) and (f > fast * (1 + 1e-9) or m > much * (1 + 1e-9))
            for f, m, _ in points.values()
        )

    assert {row["probe"] for row in answered} == {name for name, one in points.items() if not beaten(one)}
    for row in answered:
        fast, much, times = points[row["probe"]]
        assert row["tokens_per_s_per_user"] == pytest.approx(fast)
        assert row["output_tokens_per_s_per_device"] == pytest.approx(much, rel=1e-9)
        assert row["ttft_ms"] <= limit
        assert row["prefill_instances"] >= 1 <= row["decode_instances"]
        assert times.requests_per_s > 0
    best = notebook.pd_ratio(ttft_limit=limit, top=1).dicts()[0]
    most = max(row["output_tokens_per_s_per_device"] for row in answered)
    assert most == pytest.approx(best["requests_per_s_per_device"] * best["output_length"])


@pytest.mark.parametrize("limits", quick([{"ttft_limit": 120.0}, {"e2e_limit": 5000.0}, {}]))
def test_the_frontier_of_each_device_is_that_of_asking_for_it_alone(notebook, limits):
    def points(rows):
        return sorted(str(sorted({**row, "frontier_of": None}.items(), key=str)) for row in rows)

    each = notebook.pareto(by_device=True, **limits).dicts()
    for device, *_ in SERVED_DEVICES:
        mine = [row for row in each if row["frontier_of"] == device]
        assert points(mine) == points(notebook.pareto(device=device, **limits).dicts())
    assert {row["frontier_of"] for row in each} == {row["device"] for row in each}


def test_pareto_takes_an_end_to_end_limit_of_pairs(notebook):
    answered = notebook.pareto(e2e_limit=5000.0).dicts()
    assert any(row["mode"] == "pd" for row in answered)
    for row in answered:
        if row["mode"] == "pd":
            assert row["ttft_ms"] + 1023 * row["tpot_exclusive_ms"] <= 5000.0 * (1 + 1e-12)


@pytest.fixture(scope="module")
def lengths(tmp_path_factory):
    """Two workloads of one model, which questions never pair with each other."""
    url = f"sqlite:///{tmp_path_factory.mktemp('lengths')}/store.sqlite"
    records = [
        served(phase, DEVICES[0], plan, workload)
        for phase in ("prefill", "decode", "aggregated")
        for plan in (PLANS[0], PLANS[1])
        for workload in (WORKLOADS[1], WORKLOADS[7])
    ]
    with open_store(url, create=True) as store:
        sweep_id = begin_sweep(store, sweep_record(key="f" * 32))
        for record, ref in zip(records, put_scenarios(store, sweep_id, records), strict=True):
            if record.status == "ok":
                put_block(store, sweep_id, ref.id, rows_of(record, 20))
        finish_sweep(store, sweep_id, "finished")
        seal(store)
    return url


def test_by_length_pairs_each_workload_with_its_waits(lengths):
    notebook = queries.open(lengths)
    answered = {row["workload_key"]: row for row in notebook.report("by-length", all=True, ttft_limit=300.0).dicts()}
    found = list(tried(read_rows(lengths), 300.0))
    assert len(answered) == 2
    for key, row in answered.items():
        each, d, times, counts, p = max((one for one in found if one[1]["workload_key"] == key), key=lambda one: one[0])
        assert (row["prefill_probe"], row["decode_probe"]) == (reference(p), reference(d))
        assert (row["prefill_instances"], row["decode_instances"]) == counts
        assert row["requests_per_s_per_device"] == pytest.approx(each, rel=1e-9)
        assert row["ttft_ms"] == pytest.approx(times.ttft_ms, rel=1e-9)


def test_cost_of_pairs_needs_an_engine(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    from queries_stores import write_sweep

    records = [
        scenario(MODELS[4], WORKLOADS[0], DEVICES[0], precision=PRECISIONS[0], plan=PLANS[0], phase=phase)
        for phase in ("prefill", "decode")
    ]
    write_sweep(url, records, key="f", sizes=3)
    with pytest.raises(InputError, match="report cost takes pairs that an engine serves"):
        queries.open(url).cost(mode="pd")


def test_compare_says_which_wins(notebook):
    answer = notebook.compare(num_devices=12, ttft_limit=400.0)
    rows = {row["mode"]: row["requests_per_s_per_device"] for row in answer.dicts()}
    winner = max(rows, key=rows.get)
    gain = rows[winner] / min(rows.values())
    (said,) = answer.verdict
    names = {"pd": "Disaggregated serving", "aggregated": "Aggregated serving"}
    assert said.startswith(f"{names[winner]} carries {gain:.2f} x the requests/s per device of")


@pytest.mark.parametrize(
    ("gain", "errors", "expected"),
    [
        (1.2, (12.0, 9.0), "do not change which is better"),  # sqrt(12^2 + 9^2) = 15 < 20
        (1.1, (12.0, 9.0), "leave open which is better"),
        (3.0, (None, 9.0), "no measured points say how far off that may be"),
    ],
)
def test_errors_leave_a_small_advantage_open(notebook, gain, errors, expected):
    answer = notebook.compare(num_devices=12)
    columns = ("question_group", "mode", "requests_per_s_per_device")
    found = tuple(
        replace(one, metric=metric, median_ape_percent=error, subject=f"d, dense, {phase}, vllm")
        for one, metric, phase, error in zip(
            answer.expected_error[:1] * 2,
            ("output_tokens_per_s", "tpot_exclusive_ms"),
            ("aggregated", "decode"),
            errors,
            strict=True,
        )
    )
    answer = replace(answer, columns=columns, rows=((0, "aggregated", 1.0), (0, "pd", gain)), expected_error=found)
    (said,) = verdicts(answer)
    assert f"{gain:.2f} x" in said
    assert expected in said


def answered_as(notebook, modes):
    """An answer of `compare` with so much a device of each mode, whose errors leave nothing open."""
    answer = notebook.compare(num_devices=12)
    found = tuple(
        replace(answer.expected_error[0], metric=metric, median_ape_percent=1.0, subject=f"d, dense, {phase}, vllm")
        for metric, phase in (("output_tokens_per_s", "aggregated"), ("tpot_exclusive_ms", "decode"))
    )
    rows = tuple((0, mode, value) for mode, value in modes.items())
    return replace(
        answer, columns=("question_group", "mode", "requests_per_s_per_device"), rows=rows, expected_error=found
    )


@pytest.mark.parametrize(
    ("surely", "expected"),
    quick(
        [
            (
                {"aggregated": 1.0, "pd": 1.2},
                "do not change which is better; with limits kept at 80 % it carries 1.20 x",
            ),
            ({"pd": 1.2}, "; with limits kept at 80 % it alone satisfies them"),
            (
                {"aggregated": 1.5, "pd": 1.2},
                "; with limits kept at 80 % aggregated serving carries 1.25 x, which leaves it open",
            ),
            (
                {"aggregated": 1.0},
                "; with limits kept at 80 % aggregated serving alone satisfies them, which leaves it open",
            ),
            ({}, "; with limits kept at 80 % neither satisfies them, which leaves it open"),
            (None, "do not change which is better"),
        ],
        2,
    ),
)
def test_limits_that_may_be_missed_leave_a_verdict_open(notebook, surely, expected):
    answer = answered_as(notebook, {"aggregated": 1.0, "pd": 1.4})
    (said,) = verdicts(answer, None if surely is None else answered_as(notebook, surely))
    assert said.startswith("Disaggregated serving carries 1.40 x")
    assert said.endswith(expected)
    (alone,) = verdicts(answered_as(notebook, {"pd": 1.4}), None if surely is None else answered_as(notebook, surely))
    still = surely is None or ("pd" in surely and surely["pd"] > surely.get("aggregated", 0.0))
    assert alone == "Disaggregated serving alone satisfies the limits" + ("" if still else ", and not at 80 %")


def test_a_verdict_asks_again_with_its_limits_read_by_their_errors(stored, monkeypatch):
    """Errors of 30 % at that confidence: the limits are those over 1.3."""
    monkeypatch.setattr(confidence, "ratio_at", lambda _error, probability: 1.3 if probability == SURELY else 1.0)
    with queries.open(stored) as notebook:  # one that has looked up no errors yet
        plain = notebook.compare(num_devices=12, ttft_limit=400.0 / 1.3, tpot_limit=40.0 / 1.3)
        answer = notebook.compare(num_devices=12, ttft_limit=400.0, tpot_limit=40.0)
        again = notebook.compare(num_devices=12, ttft_limit=400.0, tpot_limit=40.0, confidence=SURELY)
    each = {row["mode"]: row["requests_per_s_per_device"] for row in plain.dicts()}
    winner, other = sorted(each, key=each.get, reverse=True)
    (said,) = answer.verdict
    assert f"with limits kept at {100 * SURELY:.0f} %" in said
    assert f"carries {each[winner] / each[other]:.2f} x" in said.rpartition(";")[2]
    assert {row["mode"]: row["requests_per_s_per_device"] for row in again.dicts()} == pytest.approx(each)
    assert "limits kept at" not in again.verdict[0]  # they are read with it already
