"""`decide` among pairs of prefill and decode instances, against sums over one world after another."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest

import sweepdb
from evaluator.serving import pair_of_users
from queries.asking import Limits, PairOptions, question_of
from queries.learning import prior_of
from store.errors import InputError
from sweepdb.deciding import decided, sentences
from sweepdb.deciding.pairs import PairsInWorlds
from sweepdb.deciding.stored import Teaching, stored_settings
from sweepdb.deciding.worlds import OwnSettings, Wanted
from sweepdb.launching import launch_files
from sweepdb.measuring import import_measurements
from sweepdb.sessions import open_session

ASKED = {"num_devices": 4, "ttft_limit": 500, "tpot_limit": 10}
TOKENS = 0.95 * 128  # of an answer in the mean: vLLM's client draws lengths from 0.9 to 1.0 of those named
COLUMNS = (
    "model,device,engine,precision,mode,num_devices,prefill_instances,prefill_tp,decode_instances,decode_tp,concurrency,"
    "input_length,output_length,ttft_ms,tpot_exclusive_ms"
)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A store of one device: every unit of pairs is of single devices."""
    path = tmp_path_factory.mktemp("pairs") / "s.sqlite"
    sweepdb.evaluate(
        "Qwen/Qwen3-8B", device="h100_sxm", num_devices=1, input_length=1024, output_length=128,
        batch_range=(1, 64), store=f"sqlite:///{path}",
    )  # fmt: skip
    return path


@pytest.fixture
def url(stored, tmp_path):
    return f"sqlite:///{shutil.copy(stored, tmp_path / 's.sqlite')}"


def decide(url, **options):
    with sweepdb.open(url) as store:
        return store.decide(mode="pd", **{**ASKED, **options})


@pytest.fixture(scope="module")
def settings(stored):
    with open_session(f"sqlite:///{stored}") as session:
        return tuple(stored_settings(session, question_of("deployments", ASKED), "pd").sides.settings(4))


def in_one_world(setting, longer, slower):
    """TTFT and TPOT of a setting by the closed form over rows that take longer."""
    pair = setting.pair
    prompts = replace(
        pair.prompts, alone_ms=longer * pair.prompts.alone_ms, service_ms=longer * pair.prompts.service_ms,
        request_ms=longer * pair.prompts.request_ms,
    )  # fmt: skip
    steps = [replace(step, tpot_ms=slower * step.tpot_ms) for step in pair.steps]
    found = pair_of_users(prompts, steps, pair.load, setting.concurrency)
    return found.ttft_ms, found.tpot_ms


def test_times_over_many_worlds_are_those_of_the_closed_form(settings):
    some = settings[:: max(len(settings) // 12, 1)]
    draws = np.exp(np.random.default_rng(1).normal(0.0, 0.4, (5, len(some), 2)))
    ttft, tpot = PairsInWorlds(some).times(draws[:, :, 0], draws[:, :, 1])
    for world in range(5):
        for place, one in enumerate(some):
            # TPOT follows lines between all rows there, and one from the first row to the setting's here.
            assert (ttft[world, place], tpot[world, place]) == pytest.approx(
                in_one_world(one, *draws[world, place]), rel=0.05
            )
    assert PairsInWorlds(some).times(*np.ones((2, 1, len(some)))) == pytest.approx(
        np.array([[[one.ttft_ms for one in some]], [[one.tpot_ms for one in some]]]), rel=0.02
    )


def test_the_worth_of_a_start_is_its_mean_over_worlds(settings):
    """Two units of the same plans: draws by hand from the prior, each world by itself."""
    chosen = [one for one in settings if (one.pair.prefill_instances, one.pair.decode_instances) in {(1, 1), (2, 1)}]
    chosen = tuple(chosen[::3])
    wanted = Wanted(
        limits=Limits(ttft_ms=500, tpot_ms=10), pairs=PairOptions(num_devices=4), prices={}, tpot_rule="exclusive",
        believed=0.6,
    )  # fmt: skip
    known = OwnSettings(settings=chosen, runs=(), wanted=wanted, teaching=Teaching(prior=prior_of("foreign")))
    worlds = known.worlds()
    start, gain = next(worlds.first_starts(1))

    prior, random, worths = prior_of("apart"), np.random.default_rng(7), {}
    for _ in range(300):
        common, width = random.multivariate_normal([0, 0], pairwise(prior, "common")), prior.bare
        shapes = random.standard_normal(2)
        brought = {}
        for one in chosen:
            # Steps of one plan differ in users alone: as smooth as ever, so that one draw of the shape stands for all.
            moved = [
                width[metric] * (common[metric] + prior.shape[metric] * shapes[metric])
                + prior.noise[metric] * random.standard_normal()
                for metric in (0, 1)
            ]
            ttft, tpot = in_one_world(one, *np.exp(moved))
            kept = ttft <= 500 and tpot <= 10
            units = 4 // (one.pair.prefill_instances + one.pair.decode_instances)
            rate = units * one.concurrency / (ttft + (TOKENS - 1) * tpot) * 1000
            brought[one.server] = max(brought.get(one.server, 0.0), rate if kept else 0.0)
        for server, rate in brought.items():
            worths.setdefault(server, []).append(rate)
    means = {server: float(np.mean(rates)) for server, rates in worths.items()}
    best = max(means, key=means.get)
    assert chosen[int(np.flatnonzero(worlds.starts == start)[0])].server == best
    error = np.std(worths[best]) / np.sqrt(300)
    assert gain == pytest.approx(means[best], abs=4 * error + 0.03 * means[best])


def pairwise(prior, part):
    first, second = getattr(prior, part)
    joint = getattr(prior, f"{part}_correlation") * first * second
    return [[first * first, joint], [joint, second * second]]


def measure(url, folder, start, *, longer=1.0, slower=1.0):
    """Import what the surest load of a start measures: as many times as long as predicted."""
    rung = max(start.ladder, key=lambda one: one.holds)
    prefills, decodes = start.probe.split(" ")[-1].removesuffix("D").split("P")
    devices = int(prefills) + int(decodes)
    row = (
        f"Qwen/Qwen3-8B,h100_sxm,vllm,bf16,disaggregated,{devices},{prefills},1,{decodes},1,{rung.concurrency},"
        f"{0.95 * 1024:.0f},{TOKENS:.0f},{longer * rung.ttft_ms},{slower * rung.tpot_ms}"
    )
    file = folder / f"m{len(list(folder.glob('m*.csv')))}.csv"
    file.write_text(f"{COLUMNS}\n{row}\n", encoding="utf-8")
    import_measurements([file], url)
    return rung


def steps(found, apart_from):
    """Expected ms by unit and concurrency."""
    return {
        (one.scenario, one.concurrency): one.expected_ms
        for one in found.bands
        if one.metric == "tpot_ms" and not one.scenario.startswith(apart_from)
    }


def test_a_run_of_a_pair_is_the_answer_and_teaches_both_sides(url, tmp_path):
    before = decide(url)
    assert before.answer.stands == "predicted"
    rung = measure(url, tmp_path, before.next_start, longer=0.9, slower=0.95)
    after = decide(url)
    (run,) = after.runs
    assert (run.concurrency, run.keeps_limits) == (pytest.approx(rung.concurrency, abs=0.5), True)
    same = next(one for one in after.others if one.stands == "measured")
    assert (same.concurrency, same.ttft_ms) == (rung.concurrency, pytest.approx(0.9 * rung.ttft_ms))
    each = rung.concurrency / (0.9 * rung.ttft_ms + (TOKENS - 1) * 0.95 * rung.tpot_ms) * 1000
    assert same.requests_per_s == pytest.approx(same.instances * each, rel=0.01)
    others = [one for one in after.others if one.stands != "measured"]
    assert {one.stands for one in others} <= {"near 1 run", "far from 1 run"}
    # Steps of another unit are as fast as those that were run.
    told, known = (steps(one, same.probe.rpartition(" ")[0]) for one in (before, after))
    both = told.keys() & known.keys()
    assert both
    assert any(known[one] < told[one] for one in both)


def test_the_next_run_starts_both_sides_and_their_router(url):
    start = decide(url).next_start
    files, _ = launch_files(start.probe, store=url, ladder=[one.concurrency for one in start.ladder])
    prefills, decodes = (int(count) for count in start.probe.split(" ")[-1].removesuffix("D").split("P"))
    assert files["start.sh"].count("prefill.sh") == prefills
    assert files["start.sh"].count("decode.sh") == decodes
    assert files["router.sh"].count("--prefill http://127.0.0.1:81") == prefills
    assert "ladder.sh" in files
    assert start.num_devices == prefills + decodes <= 4
    assert any("prefill" in line and "measure concurrency" in line for line in sentences(decide(url)))


def test_both_kinds_of_servers_are_decided_among_together(url):
    with sweepdb.open(url) as store:
        found = store.decide(mode="both", **ASKED)
        assert len({" " in one.probe for one in found.others}) == 2
        with pytest.raises(InputError, match="`mode=apart` is not one of aggregated, pd, both"):
            store.decide(mode="apart", **ASKED)


def test_a_pair_that_did_not_start_is_out_with_every_ratio_of_its_plans(url):
    start = decide(url).next_start
    sides = start.scenario.rpartition(" ")[0]
    with open_session(url) as session:
        found = decided(session, question_of("deployments", ASKED), mode="pd", ruled_out={sides: "out of memory"})
    assert not [one for one in found.others if one.probe.startswith(start.probe[:8])]
