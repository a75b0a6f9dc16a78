"""Own runs of prefill and decode instances that are apart: what they teach of each side, of pairs, and of nothing else."""

import math
import shutil

import pytest

from cli.main import run
from evaluator.serving.pairs import DecodeSide, PairLoad, PrefillSide
from queries.asking import question_of
from queries.connect import StoreConnection
from queries.learning import prior_of
from queries.probes import find_scenario
from sweepdb.own_runs import own_points
from sweepdb.own_runs.of_a_row import taught_of
from sweepdb.sessions import open_session
from tools.apart_runs import longer_prompts

COLUMNS = (
    "model", "device", "engine", "engine_version", "precision", "mode", "num_devices", "tp", "pp", "dp", "ep",
    "prefill_instances", "prefill_tp", "decode_instances", "decode_tp", "concurrency", "input_length", "output_length",
    "ttft_ms", "tpot_exclusive_ms", "completed_requests",
)  # fmt: skip
SLOWER, LONGER = 1.2, 1.5  # TPOT and TTFT of the run over those predicted of its pair
TOKENS = 0.95 * 128  # of an answer in the mean: vLLM's client draws lengths from 0.9 to 1.0 of those named


def asked(store, report, **options):
    with open_session(store) as session:
        return session.ask(question_of(report, options))


def pairs(store, **options):
    return asked(store, "pd-counts", num_devices=4, ttft_limit=2_000, tpot_limit=15, **options)


def with_run(folder, name, row):
    """A copy of the store that holds one run."""
    store = f"sqlite:///{shutil.copy(folder / 'store.sqlite', folder / f'{name}.sqlite')}"
    text = ",".join(str(row.get(column, "")) for column in COLUMNS)
    (folder / f"{name}.csv").write_text(f"{','.join(COLUMNS)}\n{text}\n", encoding="utf-8")
    assert run(["measurements", "import", f"{folder}/{name}.csv", "--store", store]) == 0
    return store


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A store of one device: (its folder, its URL, the best pair, the decode row of that)."""
    folder = tmp_path_factory.mktemp("apart")
    store = f"sqlite:///{folder}/store.sqlite"
    told = "evaluate Qwen/Qwen3-8B --device h100_sxm --num-devices 1 --input-length 1024 --output-length 128"
    assert run([*told.split(), "--store", store]) == 0
    pair = pairs(store).dicts()[0]
    decode = next(row for row in asked(store, "curve", mode="decode").dicts() if row["probe"] == pair["decode_probe"])
    return folder, store, pair, decode


def measured(pair, decode, *, mode="disaggregated", slower=SLOWER, longer=LONGER):
    """A run of a pair at the load of its decode row: as many users as that row, and those who wait for a first token."""
    tpot, ttft = slower * decode["tpot_ms"], longer * pair["ttft_ms"]
    rate = pair["system_requests_per_s"] / slower / 1000
    return {
        "model": "Qwen/Qwen3-8B", "device": "h100_sxm", "engine": "vllm", "engine_version": "0.19.0",
        "precision": "bf16", "mode": mode, "num_devices": 4 if mode == "disaggregated" else 1, "tp": 1, "pp": 1,
        "dp": 1, "ep": 1,
        "prefill_instances": pair["prefill_instances"] if mode == "disaggregated" else "",
        "prefill_tp": 1 if mode == "disaggregated" else "",
        "decode_instances": pair["decode_instances"] if mode == "disaggregated" else "",
        "decode_tp": 1 if mode == "disaggregated" else "",
        "concurrency": round(rate * (ttft + (TOKENS - 1) * tpot)), "input_length": round(0.95 * 1024),
        "output_length": round(TOKENS), "ttft_ms": ttft, "tpot_exclusive_ms": tpot,
    }  # fmt: skip


@pytest.fixture(scope="module")
def taught(bare):
    folder, _, pair, decode = bare
    return with_run(folder, "own", measured(pair, decode)), pair, decode


def test_a_run_of_whole_requests_says_nothing_of_sides_apart(bare):
    """By left-out pairs of serving.csv it would make sides worse: TPOT 8 % off becomes 10 % (bench_learning.py)."""
    folder, store, pair, decode = bare
    whole = with_run(folder, "whole", measured(pair, decode, mode="aggregated"))
    assert pairs(whole).rows == pairs(store).rows
    assert asked(whole, "best", ttft_limit=1e6).own_runs is not None


def test_the_decode_row_that_was_run_has_the_measured_time(taught):
    store, _, decode = taught
    rows = asked(store, "curve", mode="decode", tpot_limit=1e6).dicts()
    row = next(row for row in rows if row["probe"] == decode["probe"])
    assert row["basis"] == "measured"
    assert row["tpot_ms"] == pytest.approx(SLOWER * decode["tpot_ms"], rel=0.01)
    assert row["tokens_per_s_per_user"] == pytest.approx(1000 / row["tpot_ms"])


def test_the_pair_that_was_run_is_measured_and_others_are_near(taught):
    store, pair, decode = taught
    answer = asked(store, "pd-counts", num_devices=4, ttft_limit=2_000, tpot_limit=1.05 * SLOWER * decode["tpot_ms"])
    rows = answer.dicts()
    words = {row["basis"] for row in rows}
    assert "near 1 run" in words
    assert words <= {"measured", "near 1 run", "far from 1 run"}
    assert "from 1 run of yours" in answer.own_runs.lines[0]
    whole = asked(store, "pd-counts", num_devices=4, ttft_limit=2_000, tpot_limit=1.01 * SLOWER * decode["tpot_ms"])
    same = next(row for row in whole.dicts() if row["ratio"] == pair["ratio"])
    assert same["system_requests_per_s"] == pytest.approx(pair["system_requests_per_s"] / SLOWER, rel=0.02)
    # The prior leaves a part of what one TTFT says to chance: it lies between predicted and measured, near the latter.
    assert 1.2 * pair["ttft_ms"] < same["ttft_ms"] < 1.6 * pair["ttft_ms"]


def test_holds_and_confidence_read_the_corrected_sides(taught):
    store, _, decode = taught
    limits = {"tpot_limit": 1.02 * SLOWER * decode["tpot_ms"]}
    ((sure,), (likely,)) = (
        asked(store, "decode", top=1, **limits, **more).dicts() for more in ({"confidence": 0.9}, {})
    )
    assert sure["batch_size"] < likely["batch_size"]
    rows = asked(store, "curve", mode="decode", **limits).dicts()
    # Half of the measured row's chance is above 50 %: 2 % of room, and 1.9 % of noise (priors.json) and a little more.
    word = {row["probe"]: row["holds"] for row in rows}
    assert word[decode["probe"]] == "likely"


def test_as_predicted_is_the_bare_pair_and_whole_requests_stay(taught, bare):
    store, pair, _ = taught
    assert pairs(store, as_predicted=True).dicts()[0]["ttft_ms"] == pair["ttft_ms"]
    assert asked(store, "best", ttft_limit=1e6).rows == asked(bare[1], "best", ttft_limit=1e6).rows


def test_profiles_of_planners_have_the_corrected_sides(taught):
    store, pair, decode = taught
    for mode, probe, column, longer in (
        ("decode", decode["probe"], "itl_ms", (0.99 * SLOWER, 1.01 * SLOWER)),
        ("prefill", pair["prefill_probe"], "ttft_ms", (1.1, LONGER)),
    ):
        now, then = (
            {row["probe"]: row[column] for row in asked(store, "profile", mode=mode, **more).dicts()}[probe]
            for more in ({}, {"as_predicted": True})
        )
        assert longer[0] < now / then < longer[1]


@pytest.mark.parametrize("each", [None, 2])
def test_the_factor_of_prompts_is_that_of_the_closed_form(bare, taught, each):
    """Of users who ask twice, half of the prompts come at once, and the measured TTFT is theirs in half."""
    store, pair, decode = taught
    row = measured(pair, decode)
    if each is not None:
        store = with_run(bare[0], "twice", row | {"completed_requests": each * row["concurrency"]})
    with open_session(store) as session:
        location = session.location
    (point,) = own_points(location, [find_scenario(location, pair["prefill_probe"].partition(":")[0])]).points
    with StoreConnection(location) as connection:
        row = connection.execute(
            "SELECT ttft_ms, makespan_ms, prompt_service_ms, kv_bytes_per_request, scenario_id, link_bandwidths"
            " FROM probe JOIN device ON device.key = device_key WHERE probe = $probe",
            {"probe": pair["prefill_probe"]},
        ).fetchall()[0]
    ttft, makespan, service, kv_bytes, scenario, links = row
    side = PrefillSide(
        alone_ms=0.95 * makespan + ttft - makespan, service_ms=0.95 * service, servers=pair["prefill_instances"],
        request_ms=ttft - makespan,
    )  # fmt: skip
    tpot = point.measured["tpot_exclusive_ms"]
    load = PairLoad(
        output_length=round(TOKENS), transfer_ms=0.95 * 1000 * kv_bytes / (0.7 * float(str(links).split(" | ")[0])),
        prompts_per_user=each or 10,
    )  # fmt: skip
    decoding = point.prompts.requests_per_s / 1000 * point.prompts.answer_ms
    told = longer_prompts(side, DecodeSide(decoding=decoding, tpot_ms=tpot), load, point.measured["ttft_ms"])
    _, learned = taught_of(location, [point], frozenset({scenario}))
    (group,) = learned.groups.values()
    assert group.prior == prior_of("apart")
    decoded, prompts = sorted(group.runs, key=lambda one: one.ttft is not None)
    assert prompts.ttft == pytest.approx(told, abs=1e-5)
    assert decoded.tpot == pytest.approx(math.log(SLOWER), abs=0.01)
