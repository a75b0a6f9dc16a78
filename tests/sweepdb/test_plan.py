"""`plan`: evaluates what the store lacks, answers from rows, says what wins, what comes next and what to type."""

from __future__ import annotations

import json
import shlex

import pytest
from conftest_cli import sweepdb as command

import sweepdb
from store.errors import InputError
from store.schema import read_label, short_plan

MODEL = "Qwen/Qwen3-0.6B"
QUESTION = {"device": "h200_sxm", "total_devices": 2, "input_length": 2000, "output_length": 100, "ttft_limit": 400.0,
            "tpot_limit": 8.0, "prefix_cache_hit_rate": 0.5, "quantization": "NATIVE"}  # fmt: skip
COMMAND = (
    f"plan {MODEL} --device h200_sxm --total-devices 2 --input-length 2000 --output-length 100"
    " --prefix-cache-hit-rate 0.5 --tpot-limit 8 --quantization NATIVE"
)


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('planned')}/store.sqlite"
    assert sweepdb.plan(MODEL, store=url, **QUESTION).probes_evaluated > 100
    return url


def sweeps(url):
    with sweepdb.open(url) as store:
        return [one.key for one in store.sweeps()]


def test_the_same_question_and_other_limits_evaluate_nothing_and_store_nothing(url):
    before = sweeps(url)
    for limits in ({}, {"ttft_limit": 250.0, "tpot_limit": 5.0}, {"concurrency": 20, "total_devices": 2}):
        found = sweepdb.plan(MODEL, store=url, **{**QUESTION, **limits})
        assert (found.probes_evaluated, found.sweep) == (0, before[0])
    assert sweeps(url) == before


def test_rows_are_those_of_the_report(url):
    found = sweepdb.plan(MODEL, store=url, **QUESTION)
    with sweepdb.open(url) as store:
        asked = store.deployments(sweep=found.sweep, num_devices=2, ttft_limit=400.0, tpot_limit=8.0)
    rows = found.dicts()
    assert {row.pop("quantization") for row in rows} == {"BF16"}
    assert rows == asked.dicts()
    assert {row["mode"] for row in found.dicts()} == {"aggregated", "pd"}
    assert found.best == found.dicts()[0]
    assert list(found.df().columns) == list(found.columns)


def test_half_of_cached_prompts_cost_twice_as_much_a_computed_token(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    small = {**QUESTION, "total_devices": 1}
    sweepdb.plan(MODEL, store=url, **small)
    assert command("prices set h200_sxm --usd-per-device-hour 3", url).code == 0
    (row,) = sweepdb.plan(MODEL, store=url, **small).dicts()
    assert row["usd_per_hour"] == 3.0
    assert row["usd_per_million_uncached_tokens"] == pytest.approx(2 * row["usd_per_million_input_tokens"])
    rate = row["usd_per_hour"] / (3600 * row["output_tokens_per_s"])
    assert row["usd_per_million_output_tokens"] == pytest.approx(1e6 * rate)


def test_another_request_is_evaluated_and_a_voided_one_again(url, tmp_path):
    other = f"sqlite:///{tmp_path}/store.sqlite"
    small = {**QUESTION, "total_devices": 1}
    first = sweepdb.plan(MODEL, store=other, **small)
    longer = sweepdb.plan(MODEL, store=other, **{**small, "output_length": 101})
    assert longer.probes_evaluated > 0
    assert longer.sweep != first.sweep
    assert command(f"void {first.sweep} --reason tested", other).code == 0
    assert sweepdb.plan(MODEL, store=other, **small).sweep not in {first.sweep, longer.sweep}


@pytest.mark.parametrize("confidence", [None, 0.8])
def test_the_words_name_the_winner_the_runner_up_and_what_longer_limits_bring(confidence, url):
    asked = {
        **QUESTION,
        "confidence": confidence,
        **({} if confidence is None else {"ttft_limit": 3000.0, "tpot_limit": 20.0}),
    }
    found = sweepdb.plan(MODEL, store=url, **asked)
    first, second, *others = found.sentences()
    rows = found.dicts()
    assert first.endswith("on 2 devices.")
    assert ",," not in " ".join([first, second, *others])
    assert f"{rows[0]['system_requests_per_s']:.3g} requests/s" in first
    assert second.startswith("Next comes ")
    assert f"with {rows[1]['system_requests_per_s'] / rows[0]['system_requests_per_s']:.2f} x the rate" in second
    for name, keyword in (("TTFT", "ttft_limit"), ("TPOT", "tpot_limit")):
        limit = 1.25 * asked[keyword]
        wider = sweepdb.plan(MODEL, store=url, **{**asked, keyword: limit}).best
        (said,) = (line for line in others if line.startswith(f"A {name} limit of {limit:g} ms "))
        gain = wider["system_requests_per_s"] / rows[0]["system_requests_per_s"]
        assert ("changes nothing" if f"{gain:.2f}" == "1.00" else f"gives {gain:.2f} x the rate") in said
    assert repr(found) == f"<Plan: {first}>"


def test_nothing_that_fits_names_the_nearest_misses(url):
    found = sweepdb.plan(MODEL, store=url, **{**QUESTION, "ttft_limit": 0.001})
    assert (found.best, found.probes, found.relaxed) == (None, (), ())
    assert list(found.sentences()) == ["Nothing satisfies the limits."]
    done = command(f"{COMMAND} --ttft-limit 0.001 --fail-empty", url)
    assert done.code == 5
    assert "Nothing satisfies the limits. The nearest misses:" in done.out


def test_every_command_that_is_named_runs(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = command(f"{COMMAND} --ttft-limit 400", url)
    assert (done.code, done.err) == (0, "")
    lines = [line.removeprefix("next:").strip() for line in done.out.splitlines() if "sweepdb " in line[:16]]
    assert len(lines) >= 4
    for line in lines:
        name, *arguments = shlex.split(line)
        assert name == "sweepdb"
        assert command(arguments).code == 0, line


def test_what_comes_next_may_be_of_another_device(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    asked = {**QUESTION, "device": "h200_sxm,h100_sxm", "total_devices": 2, "output_length": 20}
    found = sweepdb.plan(MODEL, store=url, **asked)
    rows = sorted(found.dicts(), key=lambda row: -row["system_requests_per_s"])
    assert [row["rank"] for row in rows] == [1, 2, 3, 4]
    second = list(found.sentences())[1]
    assert f" on {rows[1]['device']}, " in second
    assert ("apart" in second.partition(", with")[0]) == (rows[1]["mode"] == "pd")
    assert f"{rows[1]['system_requests_per_s'] / rows[0]['system_requests_per_s']:.2f} x the rate" in second


def test_several_engines_stand_in_groups_and_one_wins(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    found = sweepdb.plan(MODEL, store=url, **{**QUESTION, "total_devices": 1}, serving_model="vllm,sglang")
    assert [title.rpartition(" · ")[2] for title in found.answer.scope] == ["vllm", "sglang"]
    assert found.best["system_requests_per_s"] == max(row["system_requests_per_s"] for row in found.dicts())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"total_devices": None}, "how many devices are there, or what must they carry?"),
        ({"rate": 1.0, "concurrency": 2.0}, "`rate` and `concurrency` are two questions"),
        ({"rate": 1.0, "qps": 2.0}, "`rate` and `qps` are one option: give one of them"),
        ({"rate": 0.0}, "`rate` must be a number above 0, not 0"),
        ({"arrivals": "poisson", "concurrency": 2.0}, "`arrivals` are requests that arrive by themselves"),
        ({"attainment": 0.9}, "`attainment` is about requests that arrive"),
        ({"rate": 1.0, "attainment": 1.0}, "`attainment` must be at most 0.999, not 1"),
        ({"rate": 1.0, "serving_model": "waves"}, "waves simulates no requests that arrive"),
        ({"enginee": "vllm"}, "unknown option 'enginee' of plan"),
        ({"serving_model": "tgi"}, "`serving_model=tgi` is not one of"),
        ({"device": "h2000"}, "unknown device"),
    ],
)
def test_bad_options_are_one_sentence(options, message, tmp_path):
    with pytest.raises(InputError, match=message.replace("?", r"\?")):
        sweepdb.plan(MODEL, store=f"sqlite:///{tmp_path}/store.sqlite", **{**QUESTION, **options})


def test_labels_as_people_write_them():
    assert short_plan("tp8pp1dp1") == "TP8"
    assert short_plan("tp2pp1dp4ep8moetp1moedp1") == "TP2 DP4 EP8"
    assert short_plan("tp4pp2dp2ep2moetp4moedp1") == "TP4 PP2 DP2 EP2 expert TP4"
    assert short_plan("tp8pp1dp1dcp4") == "TP8 DCP4"
    assert short_plan("tp2pp1dp1pcp4") == "TP2 PCP4"
    assert short_plan("tp1pp1dp8ep8moetp1moedp1mb2") == "TP1 DP8 EP8 2 micro-batches"
    sizes = {
        "tp": 4,
        "pp": 2,
        "dp": 1,
        "ep": 2,
        "moetp": 4,
        "moedp": 1,
        "red": 0,
        "dcp": 1,
        "pcp": 1,
        "mb": 1,
        "enc": 0,
    }
    assert read_label("tp4pp2dp1ep2moetp4moedp1") == sizes


def test_the_command_writes_rows_as_data(url):
    done = command(f"{COMMAND} --ttft-limit 400 --format json", url)
    assert done.code == 0
    assert [row["rank"] for row in json.loads(done.out)] == [1, 2]


def test_requests_that_arrive_are_asked_about_next(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    asked = {**QUESTION, "total_devices": 2, "arrivals": "poisson", "requests": 1000, "rates": (1.0, 4.0)}
    found = sweepdb.plan(MODEL, store=url, **asked)
    (goodput,) = [one for one in found.next_commands() if one.words == ("query", "best")]
    with sweepdb.open(url) as store:
        assert store.best(**goodput.options).rows
    # What the report says of the instance, times their number; a closed loop carries more.
    row = next(row for row in found.dicts() if row["mode"] == "aggregated")
    with sweepdb.open(found.store.url) as store:
        played = {str(one["scenario"])[:8]: one["goodput"] for one in store.best(**goodput.options).dicts()}
        apart = store.best(**goodput.options, mode="pd", num_devices=2).dicts()
    assert found.kept_per_s(row) == played[row["probe"][:8]] * row["instances"]
    pair = next(row for row in found.dicts() if row["mode"] == "pd")
    (kept,) = [
        one["goodput"]
        for one in apart
        if all(one[f"{side}_scenario"].startswith(pair[f"{side}_probe"][:8]) for side in ("prefill", "decode"))
        and (one["prefill_instances"], one["decode_instances"]) == (1, 1)
    ]
    assert found.kept_per_s(pair) == kept
    assert any(
        text.startswith("Where requests arrive by themselves (poisson, 1000 requests") for text in found.sentences()
    )


def test_own_runs_do_not_correct_simulations():
    """`plan` of a rate simulates; an option that would change nothing is refused."""
    with pytest.raises(InputError, match="`as_predicted` has no effect on a rate"):
        sweepdb.plan(
            "Qwen/Qwen3-8B", device="h100_sxm", rate=3.0, input_length=100, output_length=10, as_predicted=True
        )


def test_a_sure_answer_that_carries_less_than_asked_says_so(url):
    asked = {**QUESTION, "concurrency": 60, "tpot_limit": 5.0, "ttft_limit": 300.0}
    found = sweepdb.plan(MODEL, store=url, **asked)
    (sure, *_) = sweepdb.plan(MODEL, store=url, **asked, confidence=0.8).dicts()
    assert found.best["carries_target"]
    assert not sure["carries_target"]
    (said,) = (one for one in found.sentences() if one.startswith("Its limits may be missed"))
    users, rate = f"{sure['users']:.0f} users", f"{sure['system_requests_per_s']:.3g} requests/s"
    assert said.endswith(f": {users}, {rate} on {sure['devices_used']} devices, less than asked for.")


def test_formats_of_an_answer_by_money_are_compared_by_money(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    assert command("prices set h200_sxm 3", url).code == 0
    question = {name: value for name, value in QUESTION.items() if name not in {"total_devices", "quantization"}}
    found = sweepdb.plan(MODEL, store=url, **question, concurrency=2000)
    hourly = {row["quantization"]: row["usd_per_hour"] for row in reversed(found.dicts())}  # the first row of each wins
    (said,) = (one for one in found.sentences() if one.startswith("FP8 (quantised as it loads)"))
    share = hourly["FP8"] / hourly["BF16"]
    assert said.endswith(f"costs {hourly['FP8']:,.2f} USD an hour, {share:.2f} x as much.")
