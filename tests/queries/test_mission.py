"""The mission: new limits are answered from stored rows, nothing is evaluated, and every answer is the brute-force one."""

from __future__ import annotations

import random

import pytest
from generator import DEVICES, MODELS
from queries_stores import (
    allocate,
    best_of_plans,
    by_size,
    every_row,
    mission_records,
    pair_up,
    read_rows,
    reference,
    write_sweep,
)

import queries

TOP = 5
# Every count but the first is the whole promise; the first is what each run of the tests can afford.
COUNTS = [pytest.param(15, id="15"), pytest.param(1000, id="1000", marks=pytest.mark.long)]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The address and rows of a store with three models on two devices in every phase."""
    url = f"sqlite:///{tmp_path_factory.mktemp('mission')}/store.sqlite"
    write_sweep(url, mission_records(), key="a", sizes=16)
    return url, read_rows(url)


@pytest.fixture(scope="module")
def thinned(tmp_path_factory):
    """The same with 60 rows a side: ten plans on two devices, three batch sizes."""
    url = f"sqlite:///{tmp_path_factory.mktemp('thinned')}/store.sqlite"
    records = mission_records(models=MODELS[:1], devices=(DEVICES[1], DEVICES[2]), phases=("prefill", "decode"))
    write_sweep(url, records, key="b", sizes=3)
    rows = read_rows(url)
    for phase in ("prefill", "decode"):
        assert sum(row["phase"] == phase for row in rows) == 60
    return url, rows


def limits(rows, count, seed):
    """Random pairs of limits around what is stored; now and then no limit, or one that nothing satisfies."""
    chance = random.Random(seed)
    ttfts = sorted(row["ttft_ms"] for row in rows if row["ttft_ms"])
    tpots = sorted(row["tpot_inclusive_ms"] for row in rows if row["tpot_inclusive_ms"])
    for _ in range(count):
        ttft, tpot = chance.choice(ttfts), chance.choice(tpots)
        yield (
            None if chance.random() < 0.05 else ttft * chance.choice((1.0, 1.0, 1.1, 0.3)),
            None if chance.random() < 0.05 else tpot * chance.choice((1.0, 1.0, 1.1, 0.3)),
        )


def given(ttft, tpot, report):
    """The options of a report."""
    options = {"ttft_limit": ttft, "tpot_limit": tpot}
    if report == "prefill":
        del options["tpot_limit"]
    if report == "decode":
        del options["ttft_limit"]
    return options


@pytest.mark.parametrize("count", COUNTS)
def test_s55_best_prefill_and_decode_equal_brute_force_for_every_pair_of_limits(stored, count):
    url, rows = stored
    notebook = queries.open(url)
    phases = {"best": "aggregated", "prefill": "prefill", "decode": "decode"}
    empty = 0
    for ttft, tpot in limits(rows, count, 55):
        for report, phase in phases.items():
            answer = notebook.report(report, top=TOP, **given(ttft, tpot, report))
            found = best_of_plans(
                rows, phase, ttft=None if report == "decode" else ttft, tpot=None if report == "prefill" else tpot
            )
            expected = {
                group[0]: [(reference(row), rate) for rate, row in best[:TOP]] for group, best in by_size(found).items()
            }
            got = {}
            made = "input_tokens_per_s" if report == "prefill" else "output_tokens_per_s"
            model, probe, rate = (answer.columns.index(name) for name in ("model", "probe", made))
            for row in answer.rows:
                got.setdefault(row[model], []).append((row[probe], row[rate]))
            assert {name: [probe for probe, _ in best] for name, best in got.items()} == {
                name: [probe for probe, _ in best] for name, best in expected.items()
            }
            for name, best in got.items():
                assert [rate for _, rate in best] == pytest.approx([rate for _, rate in expected[name]], rel=1e-12)
            empty += not expected
            assert bool(answer.nearest) is not bool(answer.rows)
    assert empty > 0
    notebook.close()
    assert len(read_rows(url)) == len(rows)


def pairs_of(answer):
    """Prefill and decode references with instance counts."""
    names = ("prefill_probe", "decode_probe", "prefill_instances", "decode_instances", "devices_used")
    places = [answer.columns.index(name) for name in names]
    return sorted(tuple(row[place] for place in places) for row in answer.rows)


def expected_pairs(pairs):
    """The same of the brute force."""
    return sorted(
        (reference(prefill), reference(decode), *(counts[:3] if counts else (None, None, None)))
        for prefill, decode, counts in pairs
    )


@pytest.mark.parametrize("count", COUNTS)
def test_s55_pd_ratio_equals_brute_force_for_every_pair_of_limits(thinned, count):
    url, rows = thinned
    notebook = queries.open(url)
    chance = random.Random(1)
    for number, (ttft, tpot) in enumerate(limits(rows, count, 56)):
        budget = chance.choice((None, None, 8, 24))
        answer = notebook.pd_ratio(top=TOP, ttft_limit=ttft, tpot_limit=tpot, num_devices=budget)
        prefills = best_of_plans(rows, "prefill", ttft=ttft, by="qps")
        decodes = best_of_plans(rows, "decode", tpot=tpot, by="qps")
        expected = pair_up(prefills, decodes, top=TOP, budget=budget)
        assert pairs_of(answer) == expected_pairs(expected), (number, ttft, tpot, budget)
    notebook.close()
    assert len(read_rows(url)) == len(rows)


def test_s55_pd_ratio_equals_brute_force_on_the_whole_store(stored):
    url, rows = stored
    notebook = queries.open(url)
    for ttft, tpot in limits(rows, 20, 57):
        answer = notebook.pd_ratio(top=TOP, ttft_limit=ttft, tpot_limit=tpot)
        prefills = best_of_plans(rows, "prefill", ttft=ttft, by="qps")
        decodes = best_of_plans(rows, "decode", tpot=tpot, by="qps")
        assert pairs_of(answer) == expected_pairs(pair_up(prefills, decodes, top=TOP))
    notebook.close()


@pytest.mark.parametrize("count", [pytest.param(20, id="20"), pytest.param(500, id="500", marks=pytest.mark.long)])
def test_pruned_pairs_are_those_of_the_naive_join_on_random_cases(thinned, count):
    url, rows = thinned
    notebook = queries.open(url)
    chance = random.Random(2)
    for ttft, tpot in limits(rows, count, 58):
        top = chance.choice((1, 3, 7, 40))
        answer = notebook.pd_ratio(top=top, all_pairs=True, ttft_limit=ttft, tpot_limit=tpot)
        expected = pair_up(every_row(rows, "prefill", ttft=ttft), every_row(rows, "decode", tpot=tpot), top=top)
        assert pairs_of(answer) == expected_pairs(expected), (ttft, tpot, top)
    notebook.close()


@pytest.mark.parametrize("budget", [2, 9, 17])
def test_pruned_pairs_within_a_device_budget_are_those_of_the_naive_join(thinned, budget):
    url, rows = thinned
    notebook = queries.open(url)
    answer = notebook.pd_ratio(top=20, all_pairs=True, num_devices=budget)
    expected = pair_up(every_row(rows, "prefill"), every_row(rows, "decode"), top=20, budget=budget)
    assert pairs_of(answer) == expected_pairs(expected)
    notebook.close()


def test_allocation_by_trying_everything_is_what_the_seed_says():
    # S19: 15 devices, P 10 req/s on 4, D 15 req/s on 2: (2, 2) uses 12 devices and carries min(20, 30) = 20
    assert allocate(10, 15, 4, 2, 15) == (2, 2, 12, 20)
