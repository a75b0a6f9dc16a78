"""Shares of a context and copies of experts from the command to the store, to a server, and back."""

from __future__ import annotations

import json

import pytest
from conftest_cli import sweepdb as command

import sweepdb
from evaluator.canonical import canonical
from evaluator.ledger import deployment_of, parse_stated, read_measurements, with_stated
from store.errors import InputError
from sweepdb.launching import write_launch
from sweepdb.launching.reading import read_deployment

NEEDED = {"device": "h200_sxm", "input_length": 2000, "output_length": 500}
MIXTURE, FEW_HEADS = "Qwen/Qwen3-30B-A3B", {"tp_sizes": 8, "ep_sizes": 8}
PLAN = "tp8pp1dp1ep8moetp1moedp1red16dcp2"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A store of plans with and without either; four KV heads over eight devices are on two each."""
    url = f"sqlite:///{tmp_path_factory.mktemp('shares')}/store.sqlite"
    sweepdb.evaluate(
        MIXTURE, **NEEDED, **FEW_HEADS, num_devices=8, batch_range=(6, 6), dcp_sizes=(1, 2),
        redundant_experts=(0, 16), mode="aggregated", store=url,
    )  # fmt: skip
    return url


def test_plans_are_stored_apart_and_asked_by_their_sizes(url):
    with sweepdb.open(url) as store:
        rows = store.sql("SELECT plan, dcp, redundant_experts, kv_cache_bytes FROM probe ORDER BY plan").dicts()
        best = store.best(top=9).dicts()
    assert {(row["plan"], row["dcp"], row["redundant_experts"]) for row in rows} == {
        ("tp8pp1dp1ep8moetp1moedp1", 1, 0), ("tp8pp1dp1ep8moetp1moedp1dcp2", 2, 0),
        ("tp8pp1dp1ep8moetp1moedp1red16", 1, 16), (PLAN, 2, 16),
    }  # fmt: skip
    held = {row["plan"]: row["kv_cache_bytes"] for row in rows}
    # 2,500 tokens are 20 blocks, 1,250 are 10
    assert held[PLAN] * 2 == held["tp8pp1dp1ep8moetp1moedp1red16"]
    assert {(row["dcp"], row["redundant_experts"]) for row in best} == {(1, 0), (2, 0), (1, 16), (2, 16)}
    again = sweepdb.evaluate(
        MIXTURE, **NEEDED, **FEW_HEADS, num_devices=8, batch_range=(6, 6), dcp_sizes=2, redundant_experts=16,
        mode="aggregated", store=url,
    )  # fmt: skip
    assert (again.probes_stored, again.probes_known) == (0, 1)


def probe_of(url, plan=PLAN):
    with sweepdb.open(url) as store:
        return store.sql(f"SELECT probe FROM probe WHERE plan = '{plan}'").dicts()[0]["probe"]


def test_a_step_is_explained_with_what_the_group_exchanges(url):
    told = command(f"explain {probe_of(url)} --format json", url)
    for label in ("query_all_gather", "output_reduce_scatter", "denominator_all_gather"):
        assert any(f"layers.{label}" in row.values() for row in json.loads(told.out)), label
    usual = probe_of(url, "tp8pp1dp1ep8moetp1moedp1")
    compared = command(f"query why {usual} {probe_of(url)} --format json", url)
    knobs = [row for row in json.loads(compared.out) if "dcp" in row.values() or "redundant_experts" in row.values()]
    assert len(knobs) == 2
    assert {-1.0, -16.0} <= {value for row in knobs for value in row.values() if isinstance(value, float)}


@pytest.mark.parametrize(
    ("engine", "flags"),
    [
        ("vllm", ["--decode-context-parallel-size 2", "--enable-eplb", "--eplb-config '{\"num_redundant_experts\": 16}'"]),
        ("sglang", ["--dcp-size 2", "--enable-eplb", "--ep-num-redundant-experts 16"]),
    ],
)  # fmt: skip
def test_a_row_is_launched_with_its_flags_and_read_back(engine, flags, url, tmp_path):
    write_launch(probe_of(url), tmp_path / "out", engine=engine, store=url)
    script = next(
        path for path in (tmp_path / "out").glob("*.sh") if "serve" in path.read_text() or "launch" in path.name
    )
    text = " ".join(path.read_text().replace("\\\n", " ") for path in (tmp_path / "out").glob("*.sh"))
    assert all(flag in " ".join(text.split()) for flag in flags), text
    (server,) = read_deployment(tmp_path / "out").servers
    assert (server.tp, server.ep, server.dcp, server.redundant_experts) == (8, 8, 2, 16)
    assert script.exists()


def test_trtllm_does_not_launch_them(url, tmp_path):
    with pytest.raises(InputError, match="TensorRT-LLM cannot start"):
        write_launch(probe_of(url), tmp_path / "out", engine="trtllm", store=url)


def test_a_share_that_cannot_be_is_told(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    done = command(
        "evaluate Qwen/Qwen3-32B --device h200_sxm --num-devices 8 --tp-sizes 8 --dcp-sizes 2 --mode decode"
        " --input-length 200 --output-length 20 --batch-range 1 2",
        url,
    )
    assert "dcp 2 does not divide the 1 devices of tp 8 that hold the same keys" in done.out + done.err


def test_errors_say_that_nobody_measured_either(url):
    told = command("query best --top 9", url)
    assert "no measured point has" in told.out + told.err
    with sweepdb.open(url) as store:
        notes = {error.note for error in store.best(top=9).expected_error}
    assert any(note and "shares of a context (dcp)" in note for note in notes)
    assert any(note and "copies of experts (redundant_experts)" in note for note in notes)


def test_measured_sides_say_shares(tmp_path):
    file = tmp_path / "own.csv"
    file.write_text(
        "model,device,engine,precision,mode,tp,ep,moe_tp,dcp,concurrency,input_length,output_length,tpot_exclusive_ms\n"
        f"{MIXTURE},h200_sxm,vllm 0.20,bf16,aggregated,8,8,1,2,8,2000,500,12.5\n"
        f"{MIXTURE},h200_sxm,vllm 0.20,bf16,aggregated,8,8,1,,8,2000,500,12.5\n"
    )
    shared, usual = read_measurements(file).records
    assert [deployment_of(one).plan.dcp for one in (shared, usual)] == [2, 1]
    assert "dcp" not in canonical(usual)
    stated = with_stated(usual, parse_stated(["micro_batches=2", "pcp=2"]))
    assert (stated.decode.micro_batches, stated.decode.pcp) == (2, 2)
