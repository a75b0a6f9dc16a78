"""`watch`: pages of metrics of each engine beside stored rows; drift that is there, and drift that is not."""

from __future__ import annotations

import gzip
import json
import math
import random
import re
import shutil
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from conftest_cli import sweepdb as run
from metric_pages import BOUNDS, FIRST_TOKENS, Server, histogram
from quick import quick

import sweepdb
from evaluator.arrivals import ArrivalProcess, ArrivalRequest, PlaySettings, scenario_loads
from evaluator.evaluate import cost_of
from queries.asking import question_of
from store.errors import InputError
from sweepdb.measuring import listed_measurements
from sweepdb.sessions import open_session
from sweepdb.watching.curves import TIMES, Curve, Lengths
from sweepdb.watching.engines import METRICS, reading_of
from sweepdb.watching.judging import Earlier, Expected, differing_lengths, judged_times, lengths_seen, within_limits
from sweepdb.watching.planned import server_at, server_plan
from sweepdb.watching.prometheus import histogram_of, parse_page
from sweepdb.watching.windows import Mean, seen_over

ENGINES = ("vllm", "sglang", "trtllm")
MODEL, PROMPT, OUTPUT, LOAD = "Qwen/Qwen3-8B", 1000, 100, 8
REQUESTS, SEEDS, TOLERANCE = 600, 20, 0.05
SLOWER, LONGER = 1.1, 1.5
CURVES = {}


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('watched')}/store.sqlite"
    for engine in ENGINES:
        sweepdb.evaluate(MODEL, device="h200_sxm", num_devices=[1, 2], mode="aggregated", serving_model=engine,
                         input_length=PROMPT, output_length=OUTPUT, batch_range=24, store=url)  # fmt: skip
    return url


@pytest.fixture(scope="module")
def rows(url):
    """The row of each engine on one device at the load."""
    with sweepdb.open(url) as store:
        found = store.sql("SELECT * FROM probe WHERE tp = 1 AND dp = 1 AND pp = 1 AND concurrency = $load",
                          param={"load": LOAD}).dicts()  # fmt: skip
    return {row["serving_model"]: row for row in found}


@pytest.fixture(scope="module")
def planned(url, rows):
    with open_session(url) as session:
        return {
            engine: server_plan(session, server_at(session.location, rows[engine]["probe"], engine), LOAD, "poisson")
            for engine in ENGINES
        }


def served(engine, *, ttft_ms, tpot_ms, seed, prompt=PROMPT, requests=REQUESTS, more=None, **other):
    """Two pages of a server that keeps LOAD requests in flight, and the seconds between them."""
    server = Server(engine, model=MODEL, seed=seed, running=LOAD)
    first = server.serve(40, prompt=300, output=30, ttft_ms=9.0, tpot_ms=2.0).page()  # of another day
    server.serve(requests, prompt=prompt, output=OUTPUT, ttft_ms=ttft_ms, tpot_ms=tpot_ms, **other)
    seconds = sum(server.values["e2e"][40:]) / LOAD
    return (first, server.page()), seconds


def seen_of(engine, **of):
    pages, seconds = served(engine, **of)
    moments = zip(pages, (0.0, seconds), strict=True)
    return seen_over([reading_of(parse_page(text, "page"), "page", at) for text, at in moments])


def curve_of(planned, lengths):
    """Of prompts within a percent one curve: simulating takes a while."""
    place = (planned.instance.probe, planned.arrivals, round(lengths.prompt, -2))
    if place not in CURVES:
        CURVES[place] = planned.curve_at(lengths)
    return CURVES[place]


def judged(planned, seen, earlier):
    """The numbers that `watch` judges, and what earlier days say of another one."""
    lengths = differing_lengths(seen, planned.lengths, TOLERANCE)
    other = lengths_seen(planned.lengths, lengths)
    stored = curve_of(planned, planned.lengths)
    curve = stored if other is None else curve_of(planned, other)
    expected = Expected(stored=stored, seen=curve, lengths=other or planned.lengths, sd=planned.sd)
    times = judged_times(seen, seen.load, expected, TOLERANCE, earlier)
    return {one.metric: one for one in (*lengths, *times)}, expected


@pytest.mark.parametrize("engine", quick(ENGINES))
def test_drift_is_found_where_it_is_and_nowhere_else(planned, engine):
    """Twenty days of each kind beside a baseline: as planned, a tenth slower, and prompts half as long again.

    The server is 7 % slower than its row on every day: that is the row's error, and no drift."""
    plan, off = planned[engine], 1.07
    row, long = (
        {
            name: off * curve_of(plan, Lengths(prompt=prompt, output=OUTPUT, cached_share=0.0)).at(name, LOAD)
            for name in TIMES
        }
        for prompt in (PROMPT, LONGER * PROMPT)
    )
    slow = {name: SLOWER * value for name, value in row.items()}
    right = seen_of(engine, seed=1_000, **row)
    _, expected = judged(plan, right, None)
    earlier = Earlier(seen=right, expected=expected)
    for seed in range(SEEDS):
        found, _ = judged(plan, seen_of(engine, seed=seed, **row), earlier)
        assert {one.verdict for one in found.values()} == {"as planned"}, f"{seed}: {found}"
        found, _ = judged(plan, seen_of(engine, seed=seed, **slow), earlier)
        assert found["tpot_ms"].verdict == found["ttft_ms"].verdict == "slower", f"{seed}: {found}"
        assert found["prompt_tokens"].verdict == "as planned"
        found, _ = judged(plan, seen_of(engine, seed=seed, prompt=LONGER * PROMPT, **long), earlier)
        assert found["prompt_tokens"].verdict == "other lengths"
        # They take longer because they are longer: the server itself is as fast as ever.
        assert found["tpot_ms"].verdict == found["ttft_ms"].verdict == "as planned", f"{seed}: {found}"
        # SGLang takes 100 ms of its own for each request, which longer prompts leave as they are.
        assert found["ttft_ms"].measured > 1.05 * found["ttft_ms"].planned


def test_without_a_baseline_a_tenth_is_within_what_predictions_are_off(planned):
    curve = curve_of(planned["vllm"], planned["vllm"].lengths)
    found, _ = judged(
        planned["vllm"], seen_of("vllm", seed=1, **{name: SLOWER * curve.at(name, LOAD) for name in TIMES}), None
    )
    assert found["tpot_ms"].verdict == "unsure"
    assert found["tpot_ms"].least_percent < 0 < found["tpot_ms"].most_percent


def test_many_readings_say_how_sure_a_mean_is_whatever_the_bounds(rows):
    """Tokens of 2 ms all lie below the lowest bound, 10 ms: two pages leave 3 %, and eleven a third of it."""
    server, pages = Server("vllm", seed=4, running=LOAD), []
    for reading in range(12):
        server.serve(50, prompt=PROMPT, output=OUTPUT, ttft_ms=20.0, tpot_ms=2.0)
        pages.append(reading_of(parse_page(server.page(), "page"), "page", 3.0 * reading))
    two, many = seen_over([pages[0], pages[-1]]).tpot_ms, seen_over(pages).tpot_ms
    assert two.value == many.value
    assert two.error == pytest.approx(0.03, abs=0.01)
    assert 0.1 / math.sqrt(550) / 2 < many.error < two.error / 3  # 550 requests, each 10 % off


def test_a_baseline_of_a_quiet_hour_serves_a_busy_one(url, planned):
    """Requests that the product's own simulation dealt, from another seed: as planned at three times the load.

    As many users who wait would get their first tokens later the more there are: beside them it looks faster."""
    plan = planned["vllm"]
    scenario, operators = plan.restored.scenario, plan.restored.operators
    settings = PlaySettings(process=ArrivalProcess(kind="poisson", requests=2_000, seed=77))
    asked = ArrivalRequest(settings=settings, rates=())
    player = scenario_loads(scenario, "", operators, cost_of(scenario), asked).player
    hours = []
    for share in (0.25, 0.6):
        load = player.load(share * player.saturation_per_s, keep_requests=True)
        times = load.request_times
        server = Server("vllm", model=MODEL, running=round(load.in_flight))
        first = server.serve(1, prompt=PROMPT, output=OUTPUT, ttft_ms=30.0, tpot_ms=6.0).page()
        for ttft, tpot in zip(times.ttft.tolist(), times.tpot.tolist(), strict=True):
            server.ended(PROMPT, OUTPUT, (ttft + load.outside_ms) / 1e3, tpot / 1e3)
        pages = ((first, 0.0), (server.page(), times.ttft.size / load.rate_per_s))
        hours.append(seen_over([reading_of(parse_page(text, "page"), "page", at) for text, at in pages]))
    quiet, busy = hours
    assert busy.load.value > 3 * quiet.load.value
    for arrivals, verdicts in (("poisson", {"as planned"}), ("users", {"faster", "unsure"})):
        plan = replace(plan, arrivals=arrivals)
        _, expected = judged(plan, quiet, None)
        found, _ = judged(plan, busy, Earlier(seen=quiet, expected=expected))
        assert found["ttft_ms"].verdict in verdicts, found
        assert found["tpot_ms"].verdict == "as planned", found


# -- Readings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", [0.03, 0.1, 0.4, 1.0])
@pytest.mark.parametrize("bounds", [BOUNDS["vllm"]["tpot"], BOUNDS["sglang"]["gap"], FIRST_TOKENS], ids=str)
def test_the_spread_of_a_histogram_is_never_far_below_that_of_its_values(bounds, spread):
    width = math.sqrt(math.log1p(spread**2))
    for seed in range(5):
        chance = random.Random(seed)
        values = [0.012 * math.exp(chance.gauss(-width * width / 2, width)) for _ in range(800)]
        page = parse_page(histogram("h", 'a="b"', values, bounds), "page")
        true = float(np.std(values) / np.mean(values))
        assert 0.85 * true < histogram_of(page, "h").spread() < 1.6 * true + 0.14  # wide bounds hide what is narrow


def test_the_load_is_that_of_requests_counted_moment_by_moment():
    """A brute force over moments: requests that arrive at random, and how many are there on the average."""
    chance, now, requests = random.Random(5), 0.0, []
    while now < 1_200:
        now += chance.expovariate(2.0)
        requests.append((now, now + chance.uniform(2.0, 6.0)))
    start, end = 300.0, 900.0
    moments = np.arange(start, end, 0.05)
    counted = float(np.mean([sum(begun <= one < ended for begun, ended in requests) for one in moments[::10]]))
    pages = []
    for moment in (start, end):
        ended = [after - before for before, after in requests if after <= moment]
        running = sum(begun <= moment < after for begun, after in requests)
        text = histogram("vllm:e2e_request_latency_seconds", 'model_name="m"', ended, FIRST_TOKENS)
        pages.append((text + f'vllm:num_requests_running{{model_name="m"}} {running}\n', moment))
    load = seen_over([reading_of(parse_page(text, "page"), "page", at) for text, at in pages]).load
    assert counted == pytest.approx(8.0, rel=0.1)  # 2 a second, 4 s each
    assert load.value == pytest.approx(counted, rel=3 * load.error)
    assert load.error < 0.01


def page_of(*lines):
    return reading_of(parse_page("".join(f"{line}\n" for line in lines), "page"), "page", 0.0)


END = ("vllm:e2e_request_latency_seconds_sum 1", "vllm:e2e_request_latency_seconds_count 1")
SGLANG_END = tuple(line.replace("vllm", "sglang") for line in END)


def test_replicas_add_up_and_ranks_of_one_replica_count_once():
    both = page_of('vllm:num_requests_running{engine="0"} 3', 'vllm:num_requests_running{engine="1"} 4.0',
                   'vllm:kv_cache_usage_perc{engine="0"} 0.2', 'vllm:kv_cache_usage_perc{engine="1"} 0.4', *END)  # fmt: skip
    assert (both.running, both.cache_use) == (7.0, pytest.approx(0.3))
    ranks = page_of(*(f'sglang:num_running_reqs{{dp_rank="{dp}",tp_rank="{tp}"}} {5 + dp}' for dp in (0, 1) for tp in (0, 1)),
                    *SGLANG_END)  # fmt: skip
    assert ranks.running == 5 + 6
    # With priorities SGLang counts all together, too; of two front ends of vLLM one hears of no replica.
    parts = page_of('sglang:num_running_reqs{priority=""} 14', 'sglang:num_running_reqs{priority="-1"} 4',
                    'sglang:num_running_reqs{priority="0"} 10', *SGLANG_END)  # fmt: skip
    assert parts.running == 14
    fronts = page_of(*(f'vllm:kv_cache_usage_perc{{engine="{engine}",pid="{pid}"}} {0.2 * (engine + 1) * (pid == 71)}'
                       for engine in (0, 1) for pid in (70, 71)), *END)  # fmt: skip
    assert fronts.cache_use == pytest.approx(0.3)
    sources = page_of('sglang:cached_tokens_total{cache_source="device"} 30', 'sglang:cached_tokens_total{cache_source="host"} 5',
                      'sglang:cached_tokens_total{cache_source="total"} 7', *SGLANG_END)  # fmt: skip
    assert sources.cached_tokens == 42  # of requests whose sources are not known, `total` is all


def test_a_cache_has_the_tokens_that_the_page_says_before_those_of_its_blocks():
    """Layers of two kinds share blocks of vLLM: 9,120 blocks of 64 tokens hold more than these."""
    info = 'vllm:cache_config_info{{block_size="64",engine="{}",num_gpu_blocks="9120"{}}} 1.0'
    said = page_of(*(info.format(engine, ',kv_cache_size_tokens="400000"') for engine in (0, 1)), *END)
    assert said.room_tokens == 800_000
    assert page_of(info.format(0, ""), *END).room_tokens == 9120 * 64
    assert page_of(info.format(0, ',kv_cache_size_tokens="None"'), *END).room_tokens == 9120 * 64


def test_the_served_name_is_the_model_and_the_checkpoint_is_not_another():
    info = 'trtllm_model_config_info{dtype="auto",engine_type="pytorch",model="/models/qwen",model_name="qwen"} 1.0'
    end = tuple(line.replace("vllm:", "trtllm_").replace("_sum", '_sum{model_name="qwen"}') for line in END)
    assert page_of(info, *end).models == ("qwen",)


def test_openmetrics_is_read_as_prometheus_text_is():
    text = (
        "# TYPE vllm:request_success counter\n"
        'vllm:request_success_total{engine="0"} 3.0 1.7904e+09\nvllm:request_success_created{engine="0"} 1.7904e+09\n'
        "# TYPE vllm:e2e_request_latency_seconds histogram\n"
        'vllm:e2e_request_latency_seconds_bucket{le="1.0"} 2.0 # {trace_id="a\\"b"} 0.67 1790434112.5\n'
        'vllm:e2e_request_latency_seconds_bucket{le="+Inf"} 3.0\n'
        "vllm:e2e_request_latency_seconds_count 3.0\nvllm:e2e_request_latency_seconds_sum 4.5\n# EOF"
    )
    reading = reading_of(parse_page(text, "page"), "page", 0.0)
    assert (reading.finished, reading.e2e.mean, reading.e2e.buckets[0]) == (3.0, 1.5, (1.0, 2.0))


def test_what_a_line_of_the_format_may_hold():
    page = parse_page(
        '# HELP a text\n\n a{x="1,}\\"\\n",y="\\\\"} 1.5e3 1700000000000\nb 2 # {trace_id="7"} 0.5\nc{} NaN\nd +Inf\n',
        "page",
    )
    assert page["a"][0] == ({"x": '1,}"\n', "y": "\\"}, 1500.0)
    assert page["b"][0].value == 2.0
    assert math.isnan(page["c"][0].value)
    assert page["d"][0].value == math.inf


def test_newer_names_come_first_and_drafts_make_gaps_no_times_of_tokens():
    gaps = histogram("vllm:inter_token_latency_seconds", "", [0.03] * 300, FIRST_TOKENS)
    old = histogram("vllm:time_per_output_token_seconds", "", [0.05] * 300, FIRST_TOKENS)
    whole = histogram("vllm:e2e_request_latency_seconds", "", [2.1] * 30, FIRST_TOKENS)
    first = histogram("vllm:time_to_first_token_seconds", "", [0.1] * 30, FIRST_TOKENS)
    lengths = histogram("vllm:request_generation_tokens", "", [101] * 30, BOUNDS["vllm"]["outputs"])
    reading = reading_of(parse_page((gaps + old + whole + first + lengths).replace("{,", "{"), "page"), "page", 0.0)
    assert seen_over([reading]).tpot_ms.value == pytest.approx(30.0)
    assert seen_over([reading], drafts=True).tpot_ms.value == pytest.approx(
        20.0
    )  # 2.0 s for 100 tokens after the first


def test_every_engine_that_is_known_writes_its_pages_here():
    assert {one.engine for one in METRICS} == set(ENGINES) == set(BOUNDS)


# -- Limits -----------------------------------------------------------------------------------------------------------


def test_the_rate_at_which_a_limit_will_be_missed():
    curve = Curve(load=np.array([1.0, 10.0, 20.0]), ttft_ms=np.array([50.0, 100.0, 300.0]),
                  tpot_ms=np.array([5.0, 10.0, 20.0]))  # fmt: skip
    # TPOT reaches 15 ms halfway from 10 to 20: at 15 in flight, TTFT 200 ms, 11 tokens: 350 ms, so 15 / 0.35 s.
    kept = within_limits(curve, 11.0, {"tpot_ms": 15.0, "ttft_ms": 1_000.0})
    assert (kept.load, kept.breaks) == (15.0, "tpot_ms")
    assert kept.requests_per_s == pytest.approx(15 / 0.35)
    assert within_limits(curve, 11.0, {"tpot_ms": 4.9}) is None
    assert within_limits(curve, 11.0, {"tpot_ms": 21.0}).breaks is None
    tighter = within_limits(curve.times(1.0, 1.2), 11.0, {"tpot_ms": 15.0})
    assert tighter.load == pytest.approx(10 + 10 * (15 - 12) / 12)


# -- Whole answers ----------------------------------------------------------------------------------------------------


def times_of(plan):
    """The times at LOAD of requests that arrive."""
    return {name: float(curve_of(plan, plan.lengths).at(name, LOAD)) for name in TIMES}


def kept_pages(folder, engine, name, **of):
    pages, seconds = served(engine, **of)
    paths = [folder / f"{name}{place}.prom" for place in (0, 1)]
    for path, text in zip(paths, pages, strict=True):
        path.write_text(text, encoding="utf-8")
    return paths, seconds


@pytest.mark.parametrize("engine", quick(ENGINES, lambda engine: engine == "trtllm"))
def test_a_day_beside_another_says_what_it_means(url, rows, planned, tmp_path, engine):
    row, times = rows[engine], times_of(planned[engine])
    right, seconds = kept_pages(tmp_path, engine, "right", seed=1, **times)
    line = f"watch {row['probe']} --metrics {{}} --metrics {{}} --every {{}}"
    done = run(f"{line.format(*right, seconds)} --format json --output {tmp_path / 'right.json'}", url)
    assert (done.code, done.out) == (0, "")
    assert "As planned" in done.err
    slow, seconds = kept_pages(tmp_path, engine, "slow", seed=2, **{name: 1.2 * value for name, value in times.items()})
    limit = 1.1 * times["tpot_ms"]
    done = run(f"{line.format(*slow, seconds)} --baseline {tmp_path / 'right.json'} --tpot-limit {limit}", url)
    assert done.code == 5
    assert re.search(r"Slower by (19|20|21) % \(.*\): TPOT is", done.out)
    assert "The limit is missed now" in done.out
    assert done.err.startswith(f"error: {row['probe']} is not as planned.")


def copied(url, folder):
    shutil.copytree(Path(url.removeprefix("sqlite:///")).parent, folder)
    return f"sqlite:///{folder}/store.sqlite"


def test_what_was_kept_of_users_corrects_rows_and_what_drifted_does_not(url, rows, tmp_path):
    store, row, table = copied(url, tmp_path / "copy"), rows["vllm"], tmp_path / "seen.csv"
    times = {"ttft_ms": 1.3 * row["ttft_ms"], "tpot_ms": 1.3 * row["tpot_exclusive_ms"]}
    options = {"arrivals": "users", "keep": table, "store": store}
    right, seconds = kept_pages(tmp_path, "vllm", "right", seed=1, **times)
    sweepdb.watch(right, row["probe"], every=seconds, **options)
    slow, seconds = kept_pages(tmp_path, "vllm", "slow", seed=3, **{name: 1.2 * value for name, value in times.items()})
    for _ in range(2):  # the first answer is kept, too, and the second is the same
        found = sweepdb.watch(slow, row["probe"], every=seconds, **options)
        tpot = next(one for one in found.judged if one.metric == "tpot_ms")
        assert tpot.verdict == "slower"
        assert tpot.planned == pytest.approx(1.3 * row["tpot_exclusive_ms"], rel=0.03)
    assert listed_measurements(store)[1] == 3
    assert [line.rpartition(",")[2].strip('"') for line in table.read_text().splitlines()[1:]] == [
        "watch",
        "drift",
        "drift",
    ]


def test_what_was_kept_of_requests_that_arrive_is_compared_at_its_rate(url, rows, planned, tmp_path):
    store, row, times = copied(url, tmp_path / "copy"), rows["vllm"], times_of(planned["vllm"])
    right, seconds = kept_pages(tmp_path, "vllm", "right", seed=1, **times)
    for _ in range(2):
        found = sweepdb.watch(right, row["probe"], every=seconds, keep=tmp_path / "seen.csv", store=store)
        tpot = next(one for one in found.judged if one.metric == "tpot_ms")
        assert tpot.planned == pytest.approx(times["tpot_ms"], rel=0.02)  # at no other load than before
    kept = [one for one in sweepdb.validate(store=store).at_rates if one.metric == "tpot"]
    rate = LOAD * 1e3 / (times["ttft_ms"] + (OUTPUT - 1) * times["tpot_ms"])
    assert [one.requests_per_s for one in kept] == [pytest.approx(rate, rel=0.02)]  # equal points count once
    assert abs(kept[0].error) < 0.1  # beside a fit that never saw this model on this device


def test_another_plan_is_named_where_it_carries_more(url, rows, tmp_path):
    """By brute force: tokens a device of each plan's largest row within the limit, and of the plan that runs."""
    with sweepdb.open(url) as store:
        found = store.sql("SELECT probe, tp, concurrency, ttft_ms, tpot_exclusive_ms AS tpot, output_tokens_per_s_per_device"
                          " AS carried FROM probe WHERE serving_model = 'vllm'").dicts()  # fmt: skip
    runs = next(row for row in found if row["tp"] == 2 and row["concurrency"] == LOAD)
    for limit in (1.02 * runs["tpot"], 2.0 * runs["tpot"]):
        most = {}
        for row in found:
            if row["tpot"] <= limit and row["carried"] > most.get(row["tp"], {"carried": 0.0})["carried"]:
                most[row["tp"]] = row
        right, seconds = kept_pages(
            tmp_path, "vllm", "right", seed=1, ttft_ms=runs["ttft_ms"], tpot_ms=runs["tpot"], spread=0.001
        )
        said = list(
            sweepdb.watch(
                right, runs["probe"], every=seconds, tpot_limit=limit, arrivals="users", store=url
            ).sentences()
        )
        gain = most[1]["carried"] / most[2]["carried"] - 1.0 if 1 in most else 0.0
        named = [line for line in said if "would carry" in line]
        assert len(named) == (gain > TOLERANCE), said
        if named:
            assert named[0].startswith(
                f"{most[1]['probe']} (tp1pp1dp1, 1 device) would carry {100 * gain:.0f} % more a device"
            )


# -- Prefill and decode apart --


@pytest.fixture(scope="module")
def apart(tmp_path_factory):
    """A store of both sides, their rows of one batch, and what each is expected to do at a load."""
    url = f"sqlite:///{tmp_path_factory.mktemp('apart')}/store.sqlite"
    sweepdb.evaluate(MODEL, device="h200_sxm", num_devices=1, mode=["prefill", "decode"], serving_model="sglang",
                     input_length=PROMPT, output_length=OUTPUT, batch_range=16, store=url)  # fmt: skip
    with open_session(url) as session:
        found = session.ask(question_of("curve", {"mode": "prefill"})).dicts()[0]["probe"]
        other = session.ask(question_of("curve", {"mode": "decode"})).dicts()[-1]["probe"]
        plans = [server_plan(session, server_at(session.location, probe, "sglang"), None, "poisson")
                 for probe in (found, other)]  # fmt: skip
    return url, (found, other), plans


def side_pages(folder, role, curve, *, times=1.0, prompt=PROMPT, seed=1):
    """Two pages of a side at a load: what a prefill server answers is one token, to a decode server prompts come done."""
    server = Server("sglang", model=MODEL, seed=seed, running=4)
    first = server.serve(40, prompt=300, output=30, ttft_ms=9.0, tpot_ms=2.0).page(engine_type=role)
    load, chance, requests = float(curve.load[6]), random.Random(seed), 2_000
    ttft, tpot = times * float(curve.ttft_ms[6]), times * float(curve.tpot_ms[6])
    for _ in range(requests):
        spread = chance.gauss(1.0, 0.1)
        if role == "prefill":
            server.ended(prompt, 1, spread * ttft / 1e3, 0.0)
        else:
            server.ended(prompt, OUTPUT, 0.5, spread * tpot / 1e3)  # half a second until the keys are there
    seconds = requests / load if role == "prefill" else requests * (OUTPUT - 1) * tpot / 1e3 / load
    paths = [folder / f"{role}{place}.prom" for place in (0, 1)]
    for path, text in zip(paths, (first, server.page(engine_type=role)), strict=True):
        path.write_text(text, encoding="utf-8")
    return paths, seconds


def test_each_side_is_compared_with_its_own_row(apart, tmp_path):
    """As planned, then decode a fifth slower beside a day when it was right. Neither page has the other side's times."""
    url, rows, plans = apart
    curves = [plan.curve_at(plan.lengths) for plan in plans]
    assert [curve.by_rate for curve in curves] == [True, False]
    answers = {}
    for name, slower in (("right", 1.0), ("slow", 1.2)):
        folder = tmp_path / name
        folder.mkdir()
        for role, probe, curve in zip(("prefill", "decode"), rows, curves, strict=True):
            paths, seconds = side_pages(folder, role, curve, times=slower if role == "decode" else 1.0)
            line = f"watch {' '.join(rows)} --metrics {role}={paths[0]} --metrics {role}={paths[1]} --every {seconds}"
            if slower > 1:
                line += f" --baseline {tmp_path / f'{role}.json'}"
            answers[name, role] = run(f"{line} --format json --output {tmp_path / f'{role}.json'}", url)
            assert f"{probe}" in answers[name, role].err or slower == 1.0 or role == "prefill"
    assert [done.code for done in answers.values()] == [0, 0, 0, 5]
    found = {role: json.loads((tmp_path / f"{role}.json").read_text()) for role in ("prefill", "decode")}
    metrics = {role: {row["metric"] for row in listed} for role, listed in found.items()}
    assert "tpot_ms" not in metrics["prefill"]
    assert "output_tokens" not in metrics["prefill"]
    assert "ttft_ms" not in metrics["decode"]
    assert next(row for row in found["decode"] if row["metric"] == "tpot_ms")["verdict"] == "slower"
    assert re.search(r"Slower by (19|20|21) %", answers["slow", "decode"].err)
    of_decode = {row["metric"]: row for row in found["decode"]}
    # Each of so many in flight stays for the 99 tokens after its first, which the prefill server gave it.
    stay_s = (OUTPUT - 1) * of_decode["tpot_ms"]["planned"] / 1e3
    assert of_decode["requests_per_s"]["planned"] == pytest.approx(of_decode["in_flight"]["measured"] / stay_s)


def test_both_sides_are_one_answer(apart, tmp_path):
    url, rows, plans = apart
    pages = {role: side_pages(tmp_path, role, plan.curve_at(plan.lengths))[0]
             for role, plan in zip(("prefill", "decode"), plans, strict=True)}  # fmt: skip
    found = sweepdb.watch(pages, rows, every=60.0, ttft_limit=500.0, tpot_limit=50.0, store=url)
    assert (found.probe, found.decode.probe) == rows
    assert {row[0] for row in found.rows} == {"prefill", "decode"}
    said = list(found.sentences())
    assert {line.partition(":")[0] for line in said} == {"Prefill", "Decode"}
    assert any("TTFT" in line for line in said if line.startswith("Prefill"))
    assert not any("TTFT" in line for line in said if line.startswith("Decode"))


def test_sides_that_are_confused_are_one_sentence(apart, tmp_path):
    store, (prefill, decode), plans = apart
    paths, _ = side_pages(tmp_path, "prefill", plans[0].curve_at(plans[0].lengths))
    for metrics, server, options, said in (
        (paths, decode, {}, f"the page is of a prefill server, and {decode} is a decode row"),
        (paths, (decode, decode), {}, "no prefill row is named"),
        ({"decode": paths}, prefill, {}, f"the page is of a decode server, and {prefill} is a prefill row"),
        ({"router": paths}, prefill, {}, "`metrics` of router are of no side"),
        (paths[1], prefill, {}, "one page does not say how many requests are served"),
        (paths, prefill, {"arrivals": "users"}, "users ask a whole deployment"),
        (paths, prefill, {"keep": tmp_path / "kept.csv"}, "nothing is kept of one side"),
    ):
        every = 60.0 if metrics is not paths[1] else None
        with pytest.raises(InputError) as caught:
            sweepdb.watch(metrics, server, every=every, store=store, **options)
        assert said in caught.value.message


# -- From a server ----------------------------------------------------------------------------------------------------


class Metrics(BaseHTTPRequestHandler):
    """Serves the pages that a test gave, one after the other, then the last one again."""

    def do_GET(self):
        status, content, headers = self.server.pages[min(self.server.asked, len(self.server.pages) - 1)]
        self.server.asked += 1
        self.server.paths.append(self.path)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        """Nothing on the screen of the tests."""


@pytest.fixture
def serving():
    started = []

    def serve(*pages):
        server = ThreadingHTTPServer(("127.0.0.1", 0), Metrics)
        server.pages, server.asked, server.paths = list(pages), 0, []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        started.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}", server

    yield serve
    for server in started:
        server.shutdown()
        server.server_close()


def test_an_address_is_read_again_and_again(url, rows, serving):
    row = rows["vllm"]
    times = {"ttft_ms": row["ttft_ms"], "tpot_ms": row["tpot_exclusive_ms"]}  # of eight users
    (first, last), _ = served("vllm", seed=1, requests=24, **times)
    packed = (200, gzip.compress(last.encode()), {"Content-Encoding": "gzip"})
    address, server = serving((200, first.encode(), {}), packed, packed)
    seconds = 24 * row["e2e_ms"] / 1e3 / LOAD
    found = sweepdb.watch(address, row["probe"], every=seconds / 2, during=seconds, store=url)
    assert server.paths == ["/metrics"] * 3
    assert found.seen.finished == 24
    assert found.seen.load.value == pytest.approx(LOAD, rel=0.25)
    assert found.seen.seconds == pytest.approx(seconds, rel=0.2)


def test_a_server_is_found_by_its_model_and_engine_where_it_is_the_only_one(rows, url, tmp_path):
    right, seconds = kept_pages(tmp_path, "vllm", "right", seed=1, ttft_ms=30.0, tpot_ms=3.0)
    with pytest.raises(InputError, match="several stored servers could be the one that runs"):
        sweepdb.watch(right, every=seconds, store=url)
    with pytest.raises(InputError, match=r"no stored server of Qwen/Qwen3-8B under vllm"):
        sweepdb.watch(right, every=seconds, device="b200", store=url)


PAGE = Server("vllm", model=MODEL).serve(30, prompt=PROMPT, output=OUTPUT, ttft_ms=20.0, tpot_ms=3.0).page()
LATER = Server("vllm", model=MODEL).serve(60, prompt=PROMPT, output=OUTPUT, ttft_ms=20.0, tpot_ms=3.0).page()
OTHER = 'tgi_queue_size 3\ntgi_request_count{method="generate"} 9\n'
WRONG = [
    ((PAGE[: len(PAGE) // 2],), {}, "ends within line"),
    ((PAGE[: PAGE.index("vllm:request_queue_time_seconds_count")],), {}, "ends within vllm:request_queue_time_seconds"),
    ((OTHER,), {}, "is of no engine that is known: its metrics start with tgi"),
    (("<html>\n",), {}, "line 1: '<html>' is no line of Prometheus metrics"),
    (("",), {}, "is empty"),
    (("vllm:num_requests_running 3\n",), {}, "has neither times to the first token nor whole times of requests"),
    ((LATER, PAGE), {}, "the server started anew between them"),
    ((PAGE + PAGE.replace(MODEL, "other"),), {}, "has metrics of 2 models"),
    ((PAGE,), {"served_as": "other"}, "has no metrics of `served_as=other`"),
    ((PAGE,), {"tolerance": -1.0}, "`tolerance` must be a number above 0"),
    ((PAGE, PAGE), {"every": 0.0}, "`every` must be a number above 0"),
    ((PAGE,), {"during": 5.0}, "files were read already"),
    ((PAGE,), {"keep": "seen.csv"}, "a point needs two pages"),
]


@pytest.mark.parametrize(("pages", "options", "said"), WRONG, ids=[said for *_, said in WRONG])
def test_wrong_pages_are_one_sentence(url, rows, tmp_path, pages, options, said):  # noqa: PLR0917
    paths = []
    for place, text in enumerate(pages):
        paths.append(tmp_path / f"{place}.prom")
        paths[-1].write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        sweepdb.watch(paths, rows["vllm"]["probe"], store=url, **{"every": 60.0 if len(pages) > 1 else None, **options})
    assert said in caught.value.message
    assert "\n" not in caught.value.message


def test_a_page_of_another_engine_or_a_load_beyond_the_rows(url, rows, tmp_path):
    path = tmp_path / "page.prom"
    path.write_text(PAGE, encoding="utf-8")
    with pytest.raises(InputError, match=r"the page is of vLLM, and .* of SGLang"):
        sweepdb.watch(path, rows["sglang"]["probe"], store=url)
    path.write_text(PAGE.replace('8B"} 8\n', '8B"} 80\n'), encoding="utf-8")
    with pytest.raises(InputError, match=r"80 requests are in flight, and rows of .* end at 24"):
        sweepdb.watch(path, rows["vllm"]["probe"], arrivals="users", store=url)
    path.write_text(PAGE.replace('8B"} 8\n', '8B"} 2000\n'), encoding="utf-8")
    found = sweepdb.watch(path, rows["vllm"]["probe"], store=url)
    assert found.drifted
    assert next(found.sentences()).startswith("Overloaded: 2,000 requests in flight; it keeps up with what arrives to ")


def test_an_idle_server_is_no_drift(url, rows, tmp_path):
    path = tmp_path / "page.prom"
    path.write_text(Server("vllm", model=MODEL).serve(3, prompt=9, output=9, ttft_ms=900.0, tpot_ms=90.0).page())
    found = sweepdb.watch([path, path], rows["vllm"]["probe"], every=60.0, store=url)
    assert not found.drifted
    assert list(found.sentences()) == ["Only 0 requests ended: too few to say anything of."]


def test_addresses_that_give_no_page_are_one_sentence(url, rows, serving, tmp_path):
    address, _ = serving((404, b"", {}))
    cut, _ = serving((200, gzip.compress(PAGE.encode())[:200], {"Content-Encoding": "gzip"}))
    picture, _ = serving((200, b"\x89PNG\xff\xfe", {}))
    closed, server = serving((200, b"", {}))
    server.shutdown()
    server.server_close()
    for wrong, said in (
        (address, "answers 404 Not Found"),
        (cut, "is packed, and its end is missing"),
        (picture, "is no text"),
        (closed, "gives no page: Connection refused"),
        ("ftp://127.0.0.1/metrics", "is no address of http or https"),
    ):
        with pytest.raises(InputError) as caught:
            sweepdb.watch(wrong, rows["vllm"]["probe"], store=url)
        assert said in caught.value.message
    with pytest.raises(InputError, match="`metrics` takes one address, or files"):
        sweepdb.watch([address, closed], rows["vllm"]["probe"], store=url)


def test_baselines_that_are_none(url, rows, tmp_path):
    page, baseline = tmp_path / "page.prom", tmp_path / "right.json"
    page.write_text(PAGE, encoding="utf-8")
    for text, said in (("[", "is no answer of watch as JSON"), ("[]", "says nothing of a load and its times")):
        baseline.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=said):
            sweepdb.watch(page, rows["vllm"]["probe"], baseline=baseline, store=url)


def test_a_baseline_of_another_load_says_less(planned):
    """What rows are off by may change with the load: from one to e times as many, by a tenth."""
    plan, curve = planned["vllm"], curve_of(planned["vllm"], planned["vllm"].lengths)
    expected = Expected(stored=curve, seen=curve, lengths=plan.lengths, sd=plan.sd)
    seen = seen_of("vllm", seed=1, **times_of(plan))
    reaches = []
    for load in (LOAD, LOAD / math.e):
        then = replace(seen, load=Mean(value=load, error=0.001))
        rows = judged_times(seen, seen.load, expected, TOLERANCE, Earlier(seen=then, expected=expected))
        reaches.append(next(math.log1p(one.most_percent / 100) - math.log1p(one.change_percent / 100)
                            for one in rows if one.metric == "tpot_ms"))  # fmt: skip
    assert reaches[1] ** 2 - reaches[0] ** 2 == pytest.approx((2.5758 * 0.1) ** 2, rel=0.05)
    assert all(low < high for low, high in pairwise(reaches))


def test_the_answer_as_json_is_what_a_baseline_reads(url, rows, tmp_path):
    page = tmp_path / "page.prom"
    page.write_text(PAGE, encoding="utf-8")
    done = run(f"watch {rows['vllm']['probe']} --metrics {page} --format json", url)
    assert done.code in {0, 5}
    found = {row["metric"]: row for row in json.loads(done.out)}
    assert found["in_flight"]["measured"] == 8.0
    assert {"prompt_tokens", "output_tokens", "ttft_ms", "tpot_ms"} <= found.keys()
    assert "One page: times are means since the server started; two pages (--every) say" in done.err
