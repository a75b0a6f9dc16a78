"""`export profile`: numbers by hand from made-up rows, and each planner's files from a real store by its own rules."""

from __future__ import annotations

import itertools
import json
import re
from typing import NamedTuple

import planner_readers as readers
import pytest
from conftest_cli import sweepdb as run

import sweepdb
from store.errors import InputError
from sweepdb.planning.profiles.aibrix import PLANNERS as AIBRIX
from sweepdb.planning.profiles.dynamo import PLANNERS as DYNAMO
from sweepdb.planning.profiles.dynamo import PLANNERS as INFERA
from sweepdb.planning.profiles.exporting import planner_names, rows_of_plan
from sweepdb.planning.profiles.held_load import held_load, threshold
from sweepdb.planning.profiles.planner import ProfileRow, ProfileSource

LIMITS = "--ttft-limit 200 --tpot-limit 6"
LENGTHS = (256, 512, 1024, 2048)


def row(**changed):
    """A row of two devices whose cache holds 10,000 tokens."""
    usual = {
        "model": "maker/Some-Model", "device": "d", "plan": "tp2pp1dp1", "num_devices": 2, "serving_model": "vllm",
        "input_length": 64, "output_length": 72.0, "prefix_cache_hit_rate": 0.0, "batch_size": 1, "concurrency": 1,
        "context_length": 100.0, "max_kv_tokens": 10_000.0, "ttft_ms": None, "itl_ms": None, "e2e_ms": None, "requests_per_s": 1.0,
        "tokens_per_s_per_device": 1.0, "within_limits": True, "usd_per_device_hour": None, "scenario": "s",
    }  # fmt: skip
    return ProfileRow(**{**usual, **changed})


def prompts(lengths=(100, 200, 400, 800)):
    """A prompt takes 10 ms and 0.1 ms a token."""
    return [
        row(input_length=length, ttft_ms=10 + 0.1 * length, tokens_per_s_per_device=length / 0.02, scenario=str(length))
        for length in lengths
    ]


def steps(prompt=64, most=40, **changed):
    """A step takes 10 ms and 0.1 ms a request; the context is the prompt and half of 72 tokens."""
    return [
        row(
            input_length=prompt, context_length=prompt + 36.0, concurrency=count, itl_ms=10 + 0.1 * count,
            tokens_per_s_per_device=1000 * count / (10 + 0.1 * count) / 2, scenario=f"s{prompt}", batch_size=count,
            **changed,
        )
        for count in range(1, most + 1)
    ]  # fmt: skip


def source(**changed):
    usual = {
        "rows": {}, "limits_ms": {"ttft": 500.0, "tpot": 20.0}, "deployment": "chat", "namespace": "default",
        "min_replicas": 1, "max_replicas": 4, "in_flight": None, "attainment": 0.95, "created_s": 1.0,
    }  # fmt: skip
    return ProfileSource(**{**usual, **changed})


def written(folder, profile):
    """The files of a profile as a planner finds them."""
    for name, content in profile.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def pair(**changed):
    return source(rows={"prefill": prompts(), "decode": [*steps(), *steps(164)], **changed})


def test_the_grid_has_the_shares_that_every_context_has(tmp_path):
    found = readers.read_infera(written(tmp_path, INFERA["infera"].make(pair())))
    decode = found["decode"]
    assert decode["context_length"] == [100, 200]
    # One request of 200 tokens is 0.02 of 10,000; 40 of 100 tokens are 0.4. Ten shares between, evenly.
    assert decode["kv_usage"] == pytest.approx([0.02 + 0.38 * part / 9 for part in range(10)])
    # 0.4 is 40 requests of 100 tokens, 14 ms, and 20 of 200, 12 ms: 1000 x 40 / 14 / 2 and 1000 x 20 / 12 / 2 tokens/s.
    assert [line[-1] for line in decode["itl_ms"]] == pytest.approx([14, 12])
    assert [line[-1] for line in decode["thpt_per_gpu"]] == pytest.approx([10_000 / 7, 2500 / 3])
    # 0.02 + 0.38 / 9 = 0.06222 is 6.222 requests of 100 tokens, between the rows of 6 and 7.
    assert decode["itl_ms"][0][1] == pytest.approx(10.62222, abs=1e-5)
    assert decode["max_kv_tokens"] == 10_000
    assert found["prefill"]["ttft_ms"] == [20, 30, 50, 90]
    assert (found["prefill_engine_num_gpu"], found["decode_engine_num_gpu"]) == (2, 2)


def test_dynamo_gets_stored_rows_and_finds_their_requests_again(tmp_path):
    profile = DYNAMO["dynamo"].make(pair())
    prompts_read, steps_read = readers.read_dynamo(written(tmp_path, profile))
    assert prompts_read == [(0.02, 1, 100), (0.03, 1, 200), (0.05, 1, 400), (0.09, 1, 800)]
    # Places round(39 n / 9) of 40 rows, n from 0 to 9.
    counts = [1, 5, 10, 14, 18, 23, 27, 31, 36, 40]
    assert [requests for _, requests, _ in steps_read] == counts * 2
    assert [tokens for *_, tokens in steps_read] == [100 * n for n in counts] + [200 * n for n in counts]
    assert [seconds for seconds, *_ in steps_read] == pytest.approx([(10 + 0.1 * n) / 1000 for n in counts * 2])
    assert profile.files == DYNAMO["dynamo"].make(pair()).files  # the same bytes each time
    assert "prefill_engine_num_gpu to 2" in profile.unsaid[0]


def test_a_cache_of_windows_is_told():
    uneven = [*steps(), *steps(164, max_kv_tokens=20_000.0)]
    told = INFERA["infera"].make(pair(decode=uneven))
    assert json.loads(told.files["profile.json"])["decode"]["max_kv_tokens"] == 20_000
    assert "windows or states" in told.unsaid[1]


def instance(prompt, answer, users, qps, **changed):
    return row(
        input_length=prompt, output_length=float(answer), concurrency=users, requests_per_s=qps, ttft_ms=100.0, itl_ms=10.0,
        e2e_ms=1000.0, context_length=prompt + answer / 2, scenario=f"{prompt}/{answer}", **changed,
    )  # fmt: skip


def test_aibrix_gets_the_most_requests_within_limits(tmp_path):
    rows = [
        instance(prompt, answer, users, users * rate, within_limits=within and (prompt, answer) != (256, 64))
        for (prompt, rate), answer in itertools.product(((128, 2.0), (256, 1.0)), (32, 64))
        for users, within in ((4, True), (8, True), (16, False))
    ]
    profile = AIBRIX["aibrix"].make(source(rows={"aggregated": [*rows, instance(100, 32, 1, 9.0)]}))
    found, key = readers.read_aibrix(written(tmp_path, profile))
    assert found["indexes"] == [[32, 64], [128, 256]]
    assert found["tputs"] == [[16, 8], [16, 0]]  # [output][input]; no batch of 256/64 keeps the limits
    assert (found["ttft"][0][0], found["tpot"][0][0], found["e2e"][0][0]) == pytest.approx((0.1, 0.01, 1.0))  # s
    assert found["slos"] == {"percentile": 0, "ttft": 0.5, "tpot": 0.02}
    assert key == "aibrix:profile_some-model_chat"
    assert profile.unsaid[0].startswith("1 stored pairs of lengths are left out")
    assert profile.unsaid[1].startswith("1 of 4 pairs of lengths keep the limits at no batch")


def test_a_hole_in_the_table_of_aibrix_names_what_fills_it():
    rows = [instance(128, 32, 4, 1.0), instance(256, 64, 4, 1.0)]
    with pytest.raises(InputError, match=r"2 of 4 pairs are not stored of tp2pp1dp1 on d, 256/32 first") as told:
        AIBRIX["aibrix"].make(source(rows={"aggregated": rows}))
    assert "`input_length=256` `output_length=32`" in told.value.hint


def test_the_target_is_what_was_in_flight_or_the_fewest_users():
    rows = [instance(128, 32, users, 1.0, within_limits=users < 9) for users in (4, 8, 16)]
    rows += [instance(256, 32, users, 1.0, within_limits=users < 7) for users in (3, 6, 12)]
    alone = held_load(source(rows={"aggregated": rows}))
    assert (alone.target, alone.most) == (6, 6)
    assert alone.kv_usage == pytest.approx(6 * 272 / 10_000)
    assert "`arrivals=poisson`" in alone.unsaid[1]
    simulated = held_load(source(rows={"aggregated": rows}, in_flight=4.5))
    assert (simulated.target, simulated.most) == (4.5, 6)
    with pytest.raises(InputError, match="keeps the limits at no batch of 128/32 tokens"):
        held_load(source(rows={"aggregated": [instance(128, 32, 4, 1.0, within_limits=False)]}))


@pytest.mark.parametrize(("number", "wanted"), [(85.58, 85.5), (164, 164), (0.12345, 0.123), (1999, 1990), (0, 0)])
def test_a_threshold_is_rounded_down_to_three_figures(number, wanted):
    assert threshold(number) == pytest.approx(wanted)


def test_the_plan_has_the_most_lengths_then_the_most_tokens_of_a_device():
    fast = steps(plan="tp1pp1dp1", num_devices=1)
    assert rows_of_plan([*steps(), *steps(164), *fast], "decode", None)[0][0].plan == "tp2pp1dp1"
    better = [
        row(plan="tp4pp1dp1", itl_ms=1.0, tokens_per_s_per_device=1e6, within_limits=within) for within in (True, False)
    ]
    found, said = rows_of_plan([*steps(), better[0]], "decode", None)
    assert found[0].plan == "tp4pp1dp1"
    assert "with the most generated tokens/s a device of 2 stored" in said
    assert rows_of_plan([*steps(), better[1]], "decode", None)[0][0].plan == "tp2pp1dp1"  # it keeps no limit
    assert rows_of_plan([*steps(), better[0]], "decode", "TP2")[0][0].plan == "tp2pp1dp1"
    with pytest.raises(InputError, match=r"`decode_plan=TP8` is not stored among decode rows"):
        rows_of_plan(steps(), "decode", "TP8")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({"prefill": prompts((100,))}, "is stored for 1 prompt length, and this planner interpolates between 2"),
        ({"decode": steps()}, "is stored for 1 context length, and this planner interpolates between 2"),
        (
            {"decode": [*steps(most=1), *steps(164)]},
            "only batch size 1 of tp2pp1dp1 on d is stored at a context of 100",
        ),
        ({"decode": [*steps(most=3), *steps(900)]}, "batches of tp2pp1dp1 on d at a context of 100 tokens end at 0.03"),
    ],
)
def test_what_lacks_is_named_with_the_command_that_stores_it(rows, said):
    with pytest.raises(InputError, match=said) as told:
        INFERA["infera"].make(pair(**rows))
    assert "sweepdb evaluate maker/Some-Model `device=d` `num_devices=2` `mode=" in told.value.hint


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([row(input_length=None)], "the stored lengths are distributions"),
        ([row(prefix_cache_hit_rate=0.5)], "found in the cache in part"),
        ([row(), row(scenario="other")], "is stored 2 times for 64 and 72 tokens"),
        ([], "no prefill row of this scope fits the memory"),
    ],
)
def test_rows_that_make_no_profile_are_refused(rows, said):
    with pytest.raises(InputError, match=said):
        rows_of_plan(rows, "prefill", None)


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A small model at four prompt lengths, every phase; requests that arrive at one of them."""
    url = f"sqlite:///{tmp_path_factory.mktemp('profiles')}/store.sqlite"
    for length in LENGTHS:
        line = f"evaluate Qwen/Qwen3-0.6B --device h200_sxm --num-devices 1 --input-length {length} --output-length 64"
        outcome = run(f"{line} --batch-range 96", url)
        assert outcome.code == 0, outcome.err
    assert run("prices set h200_sxm --usd-per-device-hour 3", url).code == 0
    return url


def exported(url, folder, planner, more=LIMITS):
    outcome = run(f"export profile --for {planner} --output {folder} {more}", url)
    assert outcome.code == 0, outcome.err
    assert sorted(outcome.out.split()) == sorted(str(path) for path in folder.rglob("*") if path.is_file())
    return outcome.err


def test_every_planner_reads_its_files(url, tmp_path):
    said = exported(url, tmp_path / "dynamo", "dynamo")
    assert "prefill: tp1pp1dp1 on h200_sxm, prompts of 4 lengths from 256 to 2,048 tokens\n" in said
    prompts_read, steps_read = readers.read_dynamo(tmp_path / "dynamo")
    stored = {
        (one["input_length"], one["concurrency"]): one for one in sweepdb.open(url).profile(mode="decode").dicts()
    }
    assert {(round(tokens / requests) - 32, requests): seconds * 1000 for seconds, requests, tokens in steps_read} == {
        key: pytest.approx(stored[key]["itl_ms"]) for key in ((length, n) for length in LENGTHS for n in
        [1 + round(95 * part / 9) for part in range(10)])
    }  # fmt: skip
    exported(url, tmp_path / "infera", "infera")
    infera = readers.read_infera(tmp_path / "infera")
    # 151.4 GB less 10.7 of reserve and 1.2 of weights, at 28 layers x 2 x 8 heads x 128 numbers of 2 bytes, which is what an engine counts.
    assert infera["decode"]["max_kv_tokens"] == pytest.approx(139.4e9 / 114_688, rel=0.01)
    assert infera["prefill"]["isl"] == list(LENGTHS) == [tokens for *_, tokens in prompts_read]
    exported(url, tmp_path / "aibrix", "aibrix", f"{LIMITS} --deployment chat-h200")
    aibrix, key = readers.read_aibrix(tmp_path / "aibrix")
    assert (key, aibrix["cost"]) == ("aibrix:profile_qwen3-0-6b_chat-h200", 3)
    best = [
        max(one["requests_per_s"] for one in sweepdb.open(url).profile(mode="aggregated", ttft_limit=200, tpot_limit=6).dicts()
            if one["input_length"] == length and one["within_limits"])
        for length in LENGTHS
    ]  # fmt: skip
    assert aibrix["tputs"] == [pytest.approx(best)]
    exported(url, tmp_path / "wva", "wva", f"{LIMITS} --namespace prod")
    notes, full, limits = readers.read_wva(tmp_path / "wva")
    assert (float(notes["llm-d.ai/variant-cost"]), full["namespace"]) == (3, "prod")
    assert (limits["targetTTFT"], limits["targetITL"]) == (200, 6)


class Workload(NamedTuple):
    """Requests of one length, as AIBrix's planner wants them described."""

    signature: tuple[int, int]
    rate: float

    def get_signature(self, _indexes, _error_suppressor=None):
        return self.signature


def test_aibrix_itself_plans_replicas_by_its_profile(url, tmp_path):
    """`make planners` installs AIBrix. Two and a half times what one instance carries takes three."""
    read = pytest.importorskip("aibrix.gpu_optimizer.load_monitor.profile_reader").FileProfileReader
    planner = pytest.importorskip("aibrix.gpu_optimizer.optimizer").Optimizer(1)
    exported(url, tmp_path / "aibrix", "aibrix", f"{LIMITS} --deployment chat-h200")
    (profile,) = read([str(tmp_path / "aibrix" / "profile.json")]).read()
    planner.set_profile(profile)
    for length, carried in enumerate(profile.tputs[0]):
        assert planner.set_workload_distribution([Workload((0, length), 1.0)], 2.5 * carried)
        assert planner.run() == {"chat-h200": 3, "cost": 9}


def test_dynamo_itself_reads_stored_times_from_its_profile(url, tmp_path):
    """`make planners` installs Dynamo. Its planner rounds the cache in use to hundredths: to 6.5 requests of 1,056 tokens
    here, and 0.03 ms each of a step of 2.4 ms."""
    planner = pytest.importorskip("dynamo.planner.utils.perf_interpolation")
    exported(url, tmp_path / "dynamo", "dynamo")
    prefill = planner.PrefillInterpolator(str(tmp_path / "dynamo"))
    decode = planner.DecodeInterpolator(str(tmp_path / "dynamo"))
    with sweepdb.open(url) as store:
        prompts, steps = store.profile(mode="prefill").dicts(), store.profile(mode="decode").dicts()
    alone = {one["input_length"]: one["ttft_ms"] for one in prompts if one["concurrency"] == 1}
    assert {length: prefill.interpolate_ttft(length) for length in LENGTHS} == pytest.approx(alone)
    found = [one for one in steps if one["concurrency"] >= 24 and one["input_length"] >= 1024]
    assert len(found) > 50
    for one in found:
        step_ms = decode.interpolate_itl(one["concurrency"], one["context_length"])
        assert step_ms == pytest.approx(one["itl_ms"], rel=0.08)


def test_ray_itself_takes_its_profile(url, tmp_path):
    """`make planners` installs Ray."""
    schema = pytest.importorskip("ray.serve.schema").DeploymentSchema
    exported(url, tmp_path / "ray", "ray")
    told = readers.read_ray(tmp_path / "ray")
    taken = schema(**{"name": "server"} | told)
    assert taken.autoscaling_config["target_ongoing_requests"] == told["autoscaling_config"]["target_ongoing_requests"]
    assert taken.max_ongoing_requests == told["max_ongoing_requests"]


def test_simulated_arrivals_lower_the_threshold(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    line = "evaluate Qwen/Qwen3-0.6B --device h200_sxm --num-devices 1 --input-length 1024 --output-length 64"
    line += " --mode aggregated --batch-range 96"
    assert run(line, url).code == 0
    exported(url, tmp_path / "users", "ray")
    users = readers.read_ray(tmp_path / "users")
    assert users["autoscaling_config"]["target_ongoing_requests"] == users["max_ongoing_requests"]
    assert run(f"{line} --arrivals poisson --requests 500", url).code == 0
    said = exported(url, tmp_path / "arrivals", "ray")
    assert "what was in flight where 95 % of the requests that arrive kept the limits" in said
    arriving = readers.read_ray(tmp_path / "arrivals")["autoscaling_config"]["target_ongoing_requests"]
    loads = sweepdb.open(url).attainment(mode="aggregated", ttft_limit=200, tpot_limit=6).dicts()
    kept = max(one["in_flight"] for one in loads if one["attained"] >= 0.95)
    assert arriving == pytest.approx(min(kept, users["max_ongoing_requests"]), rel=0.01)
    exported(url, tmp_path / "keda", "keda")
    in_flight, cache = readers.read_keda(tmp_path / "keda" / "scaledobject.yaml")["spec"]["triggers"]
    assert float(in_flight["metadata"]["threshold"]) == arriving
    assert 'vllm:num_requests_waiting{model_name="Qwen/Qwen3-0.6B"}' in in_flight["metadata"]["query"]
    assert 0 < float(cache["metadata"]["threshold"]) <= 1


def test_own_runs_correct_a_profile(tmp_path):
    url, file = f"sqlite:///{tmp_path}/store.sqlite", tmp_path / "own.csv"
    line = "evaluate Qwen/Qwen3-0.6B --device h200_sxm --num-devices 1 --input-length 1024 --output-length 64"
    assert run(f"{line} --mode aggregated --batch-range 32", url).code == 0
    file.write_text(
        "model,device,engine,precision,input_length,output_length,concurrency,tp,ttft_ms,tpot_exclusive_ms\n"
        "Qwen/Qwen3-0.6B,h200_sxm,vllm,bf16,1024,64,8,1,60,4\n"  # predicted: 31 ms and 2.3 ms
    )
    assert run(f"measurements import {file}", url).code == 0
    rates = {}
    for name, more in (("corrected", ""), ("predicted", "--as-predicted")):
        exported(url, tmp_path / name, "aibrix", f"--ttft-limit 2000 --tpot-limit 60 {more}")
        ((rates[name],),) = readers.read_aibrix(tmp_path / name)[0]["tputs"]
    assert 0 < rates["corrected"] < rates["predicted"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "profile --for nobody",
            "error: --for nobody is no planner that a profile is written for.\nhint: One of aibrix,",
        ),
        ("profile --for ray", "Ray Serve's autoscaler gets what a replica carries within limits, and none is given."),
        ("profile --for wva --ttft-limit 9", "this autoscaler takes both limits or none"),
        ("profile --for dynamo --prefill-plan TP8", "--prefill-plan TP8 is not stored among prefill rows."),
        ("profile --for keda --ttft-limit 0.001", "keeps the limits at no batch of 256/64 tokens"),
        ("profile --for infera --input-length 512", "is stored for 1 prompt length"),
        (
            "profile --for ray --tpot-limit 9 --min-replicas 4 --max-replicas 2",
            "leave no number of replicas between them",
        ),
        ("profile --for dynamo --max-replicas 3", "Dynamo's SLA planner makes no use of --max-replicas"),
        (
            "profile --for aibrix --tpot-limit 9 --decode-plan TP1",
            "AIBrix's GPU optimizer makes no use of --decode-plan",
        ),
        ("folder --for ray", "--for ray writes a profile, not folder."),
        ("folder --tpot-limit 9", "A bundle makes no use of --tpot-limit"),
    ],
)
def test_what_cannot_be_written_is_one_sentence(url, tmp_path, monkeypatch, line, said):
    monkeypatch.chdir(tmp_path)
    outcome = run(f"export {line}", url)
    assert outcome.code == 2
    assert said.lower() in outcome.err.lower()
    assert not list(tmp_path.iterdir())


def test_help_names_every_planner():
    told = run("export --help").out
    assert set(planner_names()) <= set(re.findall(r"\w+", told))


def test_python_writes_the_same_files(url, tmp_path):
    exported(url, tmp_path / "typed", "infera")
    done = sweepdb.export_profile("infera", tmp_path / "called", ttft_limit=200, tpot_limit=6, store=url)
    assert done.files == ("profile.json",)
    assert (tmp_path / "called/profile.json").read_bytes() == (tmp_path / "typed/profile.json").read_bytes()
    with pytest.raises(InputError, match="is not empty"):
        sweepdb.export_profile("infera", tmp_path / "called", store=url)
    with pytest.raises(InputError, match="Infera's SLA planner makes no use of `batch`"):
        sweepdb.export_profile("infera", tmp_path / "other", batch=1, store=url)
