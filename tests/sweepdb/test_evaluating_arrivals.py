"""`evaluate` with requests that arrive: what is asked, what is stored, what is found stored, and what is refused."""

from __future__ import annotations

import json

import pytest
from conftest_cli import sweepdb
from conftest_loads import DEVICE, evaluate_loads

from queries.connect import connect
from store.errors import InputError
from sweepdb.evaluating.option_values import options_of
from sweepdb.evaluating.requests import build_request

ASKED = {"model": "Qwen/Qwen3-0.6B", "device": DEVICE, "input_length": 500, "output_length": 60}


def test_a_ladder_is_stored_once_and_other_rates_are_added(sqlite_url):
    first = evaluate_loads(sqlite_url)
    assert (first.loads_stored, first.loads_known, first.unplayed) == (3 * 24, 0, ())
    again = evaluate_loads(sqlite_url)
    assert (again.loads_stored, again.loads_known) == (0, 3 * 24)
    more = evaluate_loads(sqlite_url, rates=[2.0, 1.0])
    assert (more.loads_stored, more.loads_known) == (3 * 2, 0)
    other = evaluate_loads(sqlite_url, rates=[2.0, 1.0, 3.0], seed=2)
    assert (other.loads_stored, other.loads_known) == (3 * 3, 0)
    with connect(sqlite_url) as connection:
        loads = connection.execute("SELECT count(*), count(DISTINCT settings_key) FROM load").fetchone()
        assert loads == (72 + 6 + 9, 3 * 2)
        assert connection.execute("SELECT count(*), sum(requests) FROM arrival").fetchone() == (2, 3_000)


def test_what_is_kept_of_a_load_is_small_and_adds_up(sqlite_url):
    evaluate_loads(sqlite_url, requests=20_000)
    with connect(sqlite_url) as connection:
        sides = connection.execute(
            "SELECT load_id, phase, counted_requests, rejected,"
            " sum(requests_1 + requests_2 + requests_3 + requests_4 + requests_5)"
            " FROM load JOIN raw.load_cell USING (load_id) GROUP BY ALL"
        ).fetchall()
    assert len(sides) == 72
    assert all(counted == rejected + found == 19_000 for _, _, counted, rejected, found in sides)
    from store.opening import open_store

    with open_store(sqlite_url) as opened, opened.reading() as connection:
        from sqlalchemy import text

        sizes = connection.execute(
            text(
                "SELECT s.phase, max(length(c.cells)), max(length(t.gaps)) FROM load l JOIN load_cell c ON"
                " c.load_id = l.id JOIN load_token t ON t.load_id = l.id JOIN scenario sc ON sc.id = l.scenario_id"
                " JOIN subject s ON s.id = sc.subject_id GROUP BY s.phase"
            )
        ).all()
    for phase, cells, gaps in sizes:
        assert cells + gaps <= (4_000 if phase == "aggregated" else 400), (phase, cells, gaps)


def test_formulas_play_no_requests(sqlite_url):
    with pytest.raises(InputError, match="waves simulates no requests that arrive"):
        evaluate_loads(sqlite_url, serving_model="waves")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"arrivals": "uniform"},
            "`arrivals=uniform` is not poisson, constant, gamma:CV such as gamma:3, or trace:FILE",
        ),
        ({"arrivals": "gamma:0"}, "coefficient of variation must lie in"),
        ({"arrivals": "gamma:nan"}, "coefficient of variation must lie in"),
        ({"arrivals": "poisson", "rates": [1.0, 0.0]}, "`rates` are requests a second above 0, not 0"),
        ({"arrivals": "poisson", "rates": [float("nan")]}, "`rates` are requests a second above 0, not nan"),
        ({"arrivals": "poisson", "requests": 99}, "`requests` must lie between 100 and 1,000,000, not 99"),
        ({"arrivals": "poisson", "seed": -1}, "`seed` must lie between 0"),
        ({"arrivals": "poisson", "reject_ttft": 0.0}, "`reject_ttft` must be a number of ms above 0"),
        ({"arrivals": "poisson", "reject_tbt": -1.0}, "`reject_tbt` must be a number of ms above 0"),
        ({"reject_tbt": 20.0}, "`reject_tbt` is about requests that arrive"),
        ({"rates": [1.0]}, "`rates` is about requests that arrive"),
        ({"dispatch": "least"}, "`dispatch` is about requests that arrive"),
    ],
)
def test_bad_options_are_refused_in_a_sentence(options, message):
    with pytest.raises(InputError) as caught:
        build_request(options_of({**ASKED, "serving_model": "vllm", **options}), None, None)
    assert message in caught.value.message


def test_few_requests_are_said_to_give_wide_intervals():
    options = {**ASKED, "serving_model": "vllm", "arrivals": "poisson", "requests": 500}
    notes = build_request(options_of(options), None, None).notes
    assert any("500 requests give wide intervals" in note for note in notes)


def test_waiting_launches_keep_their_probes_and_say_that_they_are_not_played(sqlite_url):
    report = evaluate_loads(sqlite_url, wait_steps=3, mode="aggregated")
    assert report.probes_stored > 0
    (unplayed,) = report.unplayed
    assert "wait_steps" in unplayed.reason


def test_loads_of_a_voided_sweep_are_not_read(sqlite_url):
    from store.opening import open_store
    from store.writing import unvoid, void

    report = evaluate_loads(sqlite_url, mode="decode", rates=[1.0, 2.0])
    with open_store(sqlite_url) as opened:
        void(opened, report.sweep, "a mistake")
    with connect(sqlite_url) as connection:
        assert connection.execute("SELECT count(*) FROM load").fetchone() == (0,)
    with open_store(sqlite_url) as opened:
        unvoid(opened, report.sweep)
    with connect(sqlite_url) as connection:
        assert connection.execute("SELECT count(*) FROM load").fetchone() == (2,)


def test_a_sweep_that_stops_half_way_goes_on_where_it_was(sqlite_url, monkeypatch):
    """The loads of a scenario commit together; what was acknowledged is kept, and the same call adds the rest."""
    from store import writing

    put, calls = writing.put_loads, []

    def stopped(*given):
        calls.append(given)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return put(*given)

    monkeypatch.setattr(writing, "put_loads", stopped)
    with pytest.raises(KeyboardInterrupt):
        evaluate_loads(sqlite_url)
    monkeypatch.undo()
    with connect(sqlite_url) as connection:
        assert connection.execute("SELECT count(*), count(DISTINCT scenario_id) FROM load").fetchone() == (24, 1)
    report = evaluate_loads(sqlite_url)
    assert (report.loads_stored, report.loads_known) == (48, 24)


def pooled_log(tmp_path):
    """Four users who come back with two blocks more each time."""
    lines = []
    for number in range(400):
        user, turn = number % 4, 1 + number // 4 % 10
        blocks = [1000 * user + place for place in range(2 * turn)]
        lines.append(
            f'{{"timestamp": {100 * number}, "input_length": {1024 * turn}, "output_length": 9, "hash_ids": {blocks}}}\n'
        )
    path = tmp_path / "log.jsonl"
    path.write_text("".join(lines))
    return path


def test_pools_are_kept_beside_instances_alone(sqlite_url, tmp_path):
    asked = {"arrivals": f"trace:{pooled_log(tmp_path)}", "mode": "prefill", "rates": [1.0, 2.0], "requests": 400}
    alone = evaluate_loads(sqlite_url, **asked)
    assert (alone.loads_stored, alone.unplayed) == (2, ())
    pool = evaluate_loads(sqlite_url, **asked, prefill_policy="mooncake", prefill_instances=2, cache_blocks=100)
    assert (pool.loads_stored, pool.unplayed) == (2, ())
    again = evaluate_loads(sqlite_url, **asked, prefill_policy="mooncake", prefill_instances=2, cache_blocks=100)
    assert (again.loads_stored, again.loads_known) == (0, 2)
    other = evaluate_loads(sqlite_url, **asked, prefill_policy="mooncake", prefill_instances=2, cache_blocks=10)
    assert other.loads_stored == 2
    with connect(sqlite_url) as connection:
        found = connection.execute(
            "SELECT prefill_policy, pool_instances, cache_blocks, balance_threshold, hit_rate, rejected_prompt_share"
            " FROM load WHERE arrivals_per_s = 1 ORDER BY load_id"
        ).fetchall()
    assert [row[:4] for row in found] == [
        (None, None, None, None),
        ("mooncake", 2, 100, 1.3),
        ("mooncake", 2, 10, 1.3),
    ]
    assert found[0][4:] == (None, 0.0)
    assert found[1][4] > found[2][4] > 0.0


def test_rates_of_pools_are_no_rates_of_an_instance(sqlite_url, tmp_path):
    asked = {"arrivals": f"trace:{pooled_log(tmp_path)}", "rates": [1.0, 2.0], "requests": 400}
    question = "query best --by goodput --mode pd --ttft-limit 100000 --tpot-limit 1000 --attainment 0.5 --format json"
    for mode in ("prefill", "decode"):
        evaluate_loads(sqlite_url, **asked, mode=mode)
    alone = sweepdb(question, sqlite_url)
    assert json.loads(alone.out)
    evaluate_loads(sqlite_url, **asked, mode="prefill", prefill_policy="load", prefill_instances=2, cache_blocks=100)
    assert sweepdb(question, sqlite_url).out == alone.out


def test_a_pool_plays_no_other_phase(sqlite_url, tmp_path):
    asked = {"arrivals": f"trace:{pooled_log(tmp_path)}", "rates": [1.0], "requests": 400, "prefill_policy": "load"}
    report = evaluate_loads(sqlite_url, **asked)
    assert report.loads_stored == 1
    assert [(one.scenarios, one.reason) for one in report.unplayed] == [
        (2, "a pool is of prefill instances of one replica")
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"prefill_policy": "load"}, "`prefill_policy` is about requests that arrive"),
        ({"prefill_policy": "load", "arrivals": "poisson"}, "needs a trace with hashes of prompt blocks"),
        ({"prefill_policy": "load", "balance_threshold": 0.5}, "must be at least 1, not 0.5"),
    ],
)
def test_pools_that_cannot_be_played_are_refused(options, said, tmp_path):
    if "balance_threshold" in options:
        options = options | {"arrivals": f"trace:{pooled_log(tmp_path)}"}
    with pytest.raises(InputError, match=said):
        build_request(options_of({**ASKED, **options}), None, None)


def test_arrivals_that_would_make_tokens_late_are_turned_away(sqlite_url):
    asked = {"mode": "aggregated", "rates": (100.0,), "requests": 2_000}
    evaluate_loads(sqlite_url, **asked)
    evaluate_loads(sqlite_url, **asked, reject_tbt=3.2)
    with connect(sqlite_url) as connection:
        found = dict(
            connection.execute("SELECT reject_tbt_ms, (rejected, load_tpot_mean_ms, settings_key) FROM load").fetchall()
        )
    free, held = found[None], found[3.2]
    assert free[0] == 0 < held[0] < 1_900
    assert held[1] < free[1]
    assert held[2] != free[2]
