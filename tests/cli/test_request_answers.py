"""What became of a request's defaults in the store and in answers: one sweep, who launches a plan, slow formats."""

from __future__ import annotations

import json
import re

import pytest
from conftest_cli import sweepdb

LENGTHS = "--input-length 100 --output-length 10 --batch-range 2 2 --mode decode"


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> str:
    """A mixture of experts at two sizes on two devices, of which one is served by an engine."""
    url = f"sqlite:///{tmp_path_factory.mktemp('defaults')}/sweepdb.sqlite"
    told = sweepdb(
        f"evaluate Qwen/Qwen3-30B-A3B --device h200_sxm TEST_DEVICE --num-devices 2,4 {LENGTHS} --search every", url
    )
    assert told.code == 0, told.err
    # Legal at 2 devices: 2 x 3, at 4: 3 x 6. Of the latter, three with tp 1, dp 4 and three with tp 2, dp 2 repeat a plan
    # of 2 devices: (ep, moe_tp, moe_dp) = (1, 1, 4), (2, 1, 2) and (1, 2, 2). On each device 6 + 18 - 6 = 18.
    assert re.search(r"^sweep \w+: 36 scenarios, 36 probes stored$", told.err, re.MULTILINE)
    assert len(re.findall(r"^sweep ", told.err, re.MULTILINE)) == 1
    return url


def rows_of(store: str, sql: str) -> list[dict[str, object]]:
    outcome = sweepdb(["sql", sql, "--format", "json"], store)
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


def test_one_command_is_one_sweep_of_all_its_parts(store):
    (sweep,) = json.loads(sweepdb("sweeps --format json", store).out)
    assert sweep["asked"] == "Qwen/Qwen3-30B-A3B on h200_sxm, TEST_DEVICE"
    arguments = json.loads(json.loads(sweepdb(f"show {sweep['sweep']} --format json", store).out)[0]["arguments"])
    assert [(part["devices"], part["serving_model"], part["num_devices"]) for part in arguments["parts"]] == [
        (["h200_sxm"], "vllm", [2, 4]), (["TEST_DEVICE"], "waves", [2, 4]),
    ]  # fmt: skip


def test_rows_say_who_launches_their_plan(store):
    found = {
        row["plan"]: row["launchable"]
        for row in rows_of(store, "SELECT plan, launchable FROM probe WHERE device = 'h200_sxm'")
    }
    assert found["tp4pp1dp1ep4moetp1moedp1"] == "vllm,sglang,trtllm"
    assert found["tp2pp1dp2ep4moetp1moedp1"] == "vllm,sglang"
    assert found["tp4pp1dp1ep2moetp2moedp1"] == "sglang,trtllm"
    assert found["tp4pp1dp1ep2moetp1moedp2"] == ""
    table = sweepdb("query decode --device h200_sxm --top 50", store).out
    line = next(line for line in table.splitlines() if "tp4pp1dp1ep2moetp2moedp1" in line)
    assert "sglang,trtllm" in line


def test_a_copy_of_a_smaller_server_is_no_row(store):
    plans = {str(row["plan"]) for row in rows_of(store, "SELECT DISTINCT plan FROM probe")}
    assert "tp1pp1dp2ep2moetp1moedp1" in plans
    assert "tp1pp1dp4ep2moetp1moedp2" not in plans  # twice the above
    assert "tp4pp1dp1ep2moetp1moedp2" in plans  # attention over all four: no copy of anything


def test_a_slow_format_is_said_at_evaluation_and_beside_every_answer_that_is_explained(tmp_path):
    url = f"sqlite:///{tmp_path}/sweepdb.sqlite"
    told = sweepdb(f"evaluate Qwen/Qwen3-0.6B --device gb300 --quantization W8A8_DYNAMIC,BF16 {LENGTHS}", url)
    slow = "gb300 computes int8 at 165 TFLOP/s, below its 2,500 in 16 bits: W8A8_DYNAMIC is slow there"
    assert told.err.count(f"warning: {slow}") == 1
    said = {
        row["linear_quantization"]: str(row["assumptions"])
        for row in rows_of(url, "SELECT linear_quantization, assumptions FROM scenario")
    }
    assert slow in said["W8A8_DYNAMIC"]
    assert slow not in said["BF16"]
    answer = " ".join(sweepdb("query decode --quantization W8A8_DYNAMIC --explain", url).out.split())
    assert f"assumed: {slow}" in answer


def test_the_drop_in_command_keeps_the_seeds_defaults(tmp_path, monkeypatch, capsys):
    from cli.inference.throughput_optimizer import run_optimizer as run

    url = f"sqlite:///{tmp_path}/sweepdb.sqlite"
    monkeypatch.setenv("SWEEPDB_STORE", url)
    asked = "--device h200_sxm --num-devices 4 --input-length 100 --output-length 10 --batch-range 4"
    assert run(["Qwen/Qwen3-30B-A3B", *asked.split()]) == 0
    capsys.readouterr()
    (row,) = rows_of(
        url,
        "SELECT DISTINCT serving_model, convention, linear_quantization, experts_quantization, attention_quantization,"
        " moe_dp, ep FROM probe",
    )
    assert list(row.values()) == ["waves", "upstream", "W8A8_DYNAMIC", "W8A8_DYNAMIC", "DISABLED", 1, 4]
