"""The report `deployments`: the best of each device by itself, for a budget, a rate or users, with its cost."""

from __future__ import annotations

import math

import pytest
from generator import WORKLOADS
from queries_stores import GIB, read_rows
from served_store import SERVED_DEVICES

import queries
import sweepdb
from store.errors import InputError

LIMITS = {"ttft_limit": 400.0, "tpot_limit": 40.0}
DEVICES = [device[0] for device in SERVED_DEVICES]
PROMPT, ANSWER, CACHED, _ = WORKLOADS[1]
PRICES = dict(zip(DEVICES, (2.0, 3.0), strict=True))


def by_place(answer):
    return {(row["device"], row["mode"]): row for row in answer.dicts()}


def admitted(rows, device):
    """The aggregated rows of a device within the limits, by brute force, with the requests/s of one instance."""
    for row in rows:
        free = row["device_memory_bytes"] - row["weight_bytes"] - row["activation_bytes"] - row["kv_cache_bytes"]
        if (
            (row["device"], row["phase"]) == (device, "aggregated")
            and free >= 10 * GIB
            and row["ttft_ms"] <= LIMITS["ttft_limit"]
            and row["tpot_exclusive_ms"] <= LIMITS["tpot_limit"]
        ):
            mean = (1.0 + (row["shortest_length"] or 1.0)) / 2
            longer = (1.0 - mean) * row["output_length"] * row["tpot_exclusive_ms"]
            yield row, 1000 * row["concurrency"] / (row["e2e_ms"] - longer)


def test_each_device_has_the_deployments_that_compare_finds_of_it(notebook):
    found = by_place(notebook.deployments(num_devices=12, **LIMITS))
    assert {device for device, _ in found} == set(DEVICES)
    for device in DEVICES:
        for row in notebook.compare(num_devices=12, device=device, **LIMITS).dicts():
            mine = found[device, row["mode"]]
            for name in (
                "system_requests_per_s",
                "devices_used",
                "ttft_ms",
                "tpot_ms",
                "e2e_ms",
                "probe",
                "decode_probe",
            ):
                assert mine[name] == row[name]


def test_aggregated_instances_fill_the_budget_best(stored, notebook):
    found = by_place(notebook.deployments(num_devices=12, **LIMITS))
    for device in DEVICES:
        most = max(12 // row["num_devices"] * qps for row, qps in admitted(read_rows(stored), device))
        assert found[device, "aggregated"]["system_requests_per_s"] == pytest.approx(most)


def test_users_get_the_shortest_requests_within_the_devices(stored, notebook):
    # 20 users on 12 devices: 12 x TP1 with 2 users each wait less or more than 3 x TP4 with 7 each; by brute force.
    found = by_place(notebook.deployments(num_devices=12, concurrency=20, least_latency=True, **LIMITS))
    fewest = by_place(notebook.deployments(num_devices=12, concurrency=20, **LIMITS))
    for device in DEVICES:
        shortest = min(
            1000 * row["concurrency"] / qps
            for row, qps in admitted(read_rows(stored), device)
            if math.ceil(20 / row["concurrency"]) * row["num_devices"] <= 12
        )
        mine = found[device, "aggregated"]
        assert 1000 * mine["users"] / mine["system_requests_per_s"] == pytest.approx(shortest)
        assert mine["carries_target"]
        assert mine["devices_used"] <= 12
    at_most = [found[place]["e2e_ms"] <= one["e2e_ms"] * (1 + 1e-9) for place, one in fewest.items()]
    assert all(at_most)
    assert any(found[place]["e2e_ms"] < 0.99 * one["e2e_ms"] for place, one in fewest.items())


def test_the_shortest_requests_are_of_users_within_devices(notebook):
    with pytest.raises(InputError, match="`least_latency` is of `concurrency` users within `num_devices`"):
        notebook.deployments(num_devices=12, least_latency=True)


def test_a_rate_takes_the_fewest_devices_of_each_kind(stored, notebook):
    found = by_place(notebook.deployments(target_rate=40.0, **LIMITS))
    for device in DEVICES:
        fewest = min(
            math.ceil(40.0 / qps - 1e-12) * row["num_devices"] for row, qps in admitted(read_rows(stored), device)
        )
        mine = found[device, "aggregated"]
        assert (mine["devices_used"], mine["carries_target"]) == (fewest, True)
        assert found[device, "pd"]["carries_target"]
        of_both = notebook.capacity(device=device, target_rate=40.0, **LIMITS).dicts()
        least = min(row["devices"] for row in of_both if row["carries_target"])
        assert min(found[device, mode]["devices_used"] for mode in ("aggregated", "pd")) == least


def test_what_carries_a_rate_is_ranked_by_money(notebook):
    rows = notebook.deployments(target_rate=40.0, **LIMITS).dicts()
    assert [row["rank"] for row in rows] == [1, 2, 3, 4]
    costs = [row["usd_per_hour"] for row in rows]
    assert costs == sorted(costs)
    assert len(set(costs)) > 1


@pytest.mark.parametrize("asked", [{"target_rate": 40.0}, {"concurrency": 60.0}])
def test_the_cost_of_a_rate_or_of_users_is_that_of_whole_deployments(notebook, asked):
    wanted = notebook.deployments(**asked, **LIMITS)
    found = notebook.cost(**asked, **LIMITS)
    assert (found.report, found.columns, found.rows) == ("deployments", wanted.columns, wanted.rows)
    assert "usd_per_million_input_tokens" in found.columns
    assert notebook.cost(**LIMITS).report == "cost"


def test_users_are_those_in_flight(notebook, stored):
    with sweepdb.open(stored) as opened:
        concurrencies = dict(opened.sql("SELECT probe, concurrency FROM probe").rows)
    wanted = by_place(notebook.deployments(concurrency=100.0, **LIMITS))
    for row in wanted.values():
        if row["mode"] == "pd":
            settled = (
                row["system_requests_per_s"] * row["e2e_ms"] / 1000
            )  # first requests come all at once, and wait longer
            assert 0.8 * settled < row["users"] <= settled * (1 + 1e-9)
        else:
            assert row["users"] == row["instances"] * concurrencies[row["probe"]]
        assert row["carries_target"] == (row["users"] >= 100.0)
    assert any(row["carries_target"] for row in wanted.values())


@pytest.mark.parametrize("users", [100, 20_000])
def test_a_number_of_users_is_answered_with_the_row_of_as_many(notebook, stored, users):
    """The fewest devices that carry the users; of their rows that whose whole request is shortest, by brute force."""
    found = by_place(notebook.deployments(concurrency=users, **LIMITS))
    for device in DEVICES:
        rows = [(math.ceil(users / row["concurrency"]), row, qps) for row, qps in admitted(read_rows(stored), device)]
        fewest = min(times * row["num_devices"] for times, row, _ in rows)
        carrying = [
            (row["concurrency"] / qps, times, row) for times, row, qps in rows
            if times * row["num_devices"] == fewest
        ]  # fmt: skip
        _, times, best = min(carrying, key=lambda one: one[0])
        mine = found[device, "aggregated"]
        assert (mine["devices_used"], mine["instances"]) == (fewest, times)
        assert (mine["tpot_ms"], mine["ttft_ms"]) == (best["tpot_exclusive_ms"], best["ttft_ms"])
        assert mine["users"] == times * best["concurrency"]


def test_no_number_of_users_is_more_than_any_number_of_devices_carries(notebook):
    found = notebook.deployments(concurrency=20_000, **LIMITS).dicts()
    assert {row["mode"] for row in found} == {"aggregated", "pd"}
    for row in found:  # without a budget, so that only the limits can refuse
        assert row["users"] >= 20_000
        assert row["carries_target"]


def test_concurrency_shows_every_plan_with_the_users_asked_for(notebook, stored):
    """Each scenario's row of the fewest users that are enough, within the budget's copies; misses of limits are said."""
    with queries.open(stored) as opened:
        found = {row["probe"].partition(":")[0]: row for row in
                 opened.concurrency(concurrency=30, num_devices=8, top=1000, **LIMITS).dicts()}  # fmt: skip
    wanted = {}
    for row in read_rows(stored):
        free = row["device_memory_bytes"] - row["weight_bytes"] - row["activation_bytes"] - row["kv_cache_bytes"]
        copies = 8 // row["num_devices"]
        if row["phase"] == "aggregated" and free >= 10 * GIB and copies * row["concurrency"] >= 30:
            key = row["scenario"][:8]
            if key not in wanted or row["concurrency"] < wanted[key]["concurrency"]:
                wanted[key] = row
    assert found.keys() == wanted.keys()
    assert wanted
    for key, row in wanted.items():
        mine, copies = found[key], 8 // row["num_devices"]
        assert (mine["users"], mine["ttft_ms"]) == (copies * row["concurrency"], row["ttft_ms"])
        kept = row["ttft_ms"] <= LIMITS["ttft_limit"] and row["tpot_exclusive_ms"] <= LIMITS["tpot_limit"]
        assert mine["within_limits"] == kept
        # Little's law for requests of the client's mean length
        assert mine["system_requests_per_s"] * mine["e2e_ms"] / 1000 == pytest.approx(mine["users"])
    ranked = sorted(found.values(), key=lambda row: row["rank"])
    assert [(row["within_limits"], row["system_output_tokens_per_s"]) for row in ranked] == sorted(
        ((row["within_limits"], row["system_output_tokens_per_s"]) for row in ranked), reverse=True
    )


def test_costs_count_idle_devices_of_a_budget_and_only_used_ones_of_a_rate(notebook):
    for options, devices_of in (
        ({"num_devices": 13}, lambda _: 13),
        ({"target_rate": 40.0}, lambda row: row["devices_used"]),
    ):
        for row in notebook.deployments(**options, **LIMITS).dicts():
            hour = PRICES[row["device"]] * devices_of(row)
            assert row["usd_per_hour"] == pytest.approx(hour)
            assert row["usd_per_month"] == pytest.approx(730 * hour)
            served = 40.0 if row["carries_target"] else row["system_requests_per_s"]
            assert row["served_requests_per_s"] == pytest.approx(served)
            output = row["output_tokens_per_s"] / row["system_requests_per_s"]
            assert row["usd_per_million_output_tokens"] == pytest.approx(1e6 * hour / (3600 * served * output))
            ratio = row["usd_per_million_output_tokens"] / row["usd_per_million_input_tokens"]
            assert ratio == pytest.approx(PROMPT / ANSWER)
            assert row["usd_per_million_uncached_tokens"] * (1 - CACHED) == pytest.approx(
                row["usd_per_million_input_tokens"]
            )


def test_a_device_without_a_price_is_ranked_by_devices(notebook):
    rows = notebook.deployments(target_rate=40.0, price_date="2020-01-01", **LIMITS).dicts()
    assert {row["usd_per_hour"] for row in rows} == {None}
    assert [row["devices_used"] for row in rows] == sorted(row["devices_used"] for row in rows)


@pytest.mark.parametrize("asked", [{}, {"target_rate": 40.0}, {"concurrency": 60.0}])
def test_every_number_of_devices_has_what_it_has_by_itself(notebook, asked):
    together = notebook.deployments(num_devices=13, budgets="3,7,13", **asked, **LIMITS).dicts()
    alone = [
        row
        for number in (3, 7, 13)
        for row in notebook.deployments(num_devices=number, **asked, **LIMITS).dicts()
    ]  # fmt: skip
    assert together == alone
    assert {row["budget"] for row in together} == {3, 7, 13}
    assert len({row["deployment"] for row in together}) > 2


def test_without_devices_there_is_no_budget(notebook):
    assert {row["budget"] for row in notebook.deployments(target_rate=40.0, **LIMITS).dicts()} == {None}


@pytest.mark.parametrize(
    "wrong", [{"budgets": "4"}, {"budgets": "4,x", "num_devices": 8}, {"budgets": "16", "num_devices": 8}]
)
def test_budgets_are_numbers_of_devices_within_the_largest(notebook, wrong):
    with pytest.raises(InputError, match="budgets="):
        notebook.deployments(**wrong)


def test_what_is_missed_is_named_by_its_group(notebook):
    answer = notebook.deployments(num_devices=12, ttft_limit=1e-3)
    assert not answer.rows
    assert {row["question_group"] for row in answer.nearest_dicts()} == {0}
    assert len(answer.scope) == 1
