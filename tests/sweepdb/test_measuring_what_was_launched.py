"""From a row to a server, from its benchmark back into the store: nothing is typed twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from client_files import VLLM
from conftest_cli import sweepdb as typed
from launched_rows import fill, rows_of

import sweepdb
from evaluator.ledger import parse_stated
from store.errors import InputError
from sweepdb.launching import launched_as, write_launch
from sweepdb.measuring import import_measurements

TESTS = Path(__file__).parents[1]
ROWS = {"server": "aggregated", "pair": "disaggregated"}


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("measured"))


@pytest.fixture
def launched(url, tmp_path):
    """A folder of each kind, with a result that says nothing of who served."""
    folders = {"server": tmp_path / "server", "pair": tmp_path / "pair"}
    write_launch(rows_of(url, ("aggregated", "tp4pp1dp1ep4moetp1moedp1")), folders["server"], store=url)
    write_launch(rows_of(url, ("pair",)), folders["pair"], engine="sglang", store=url)
    for folder in folders.values():
        (folder / "results").mkdir()
        result = {name: value for name, value in VLLM.items() if name not in {"device", "tensor_parallel_size"}}
        (folder / "results" / "run.json").write_text(json.dumps(result), encoding="utf-8")
    return folders


def imported(folder, tmp_path, stated=None):
    from sweepdb.measuring.measurement_files import read_files

    (record,) = read_files([folder], stated).records
    return record


def test_a_result_is_of_the_row_that_its_folder_starts(launched, tmp_path):
    record = imported(launched["server"], tmp_path)
    assert (record.model, record.device, record.engine, record.mode) == (
        "Qwen/Qwen3-30B-A3B", "h200_sxm", "vllm", "aggregated"
    )  # fmt: skip
    assert (record.num_devices, record.decode.tp, record.decode.ep) == (4, 4, 4)
    assert record == replace(imported(launched["server"] / "results" / "run.json", tmp_path), source=record.source)


def test_experts_in_a_format_of_their_own_are_measured_rows_beside_predicted_ones(tmp_path):
    """gpt-oss is published in MXFP4, its experts alone: `mxfp4` says both, and bf16 would be another server."""
    store = f"sqlite:///{tmp_path}/s.sqlite"
    sweepdb.evaluate(
        "openai/gpt-oss-20b", device="h100_sxm", num_devices=1, input_length=1024, output_length=128, batch_range=64,
        mode="aggregated", store=store,
    )  # fmt: skip
    with sweepdb.open(store) as opened:
        row = opened.best().dicts()[0]["probe"]
    write_launch([row], tmp_path / "run", store=store)
    (tmp_path / "run" / "results").mkdir()
    result = {name: value for name, value in VLLM.items() if name not in {"device", "tensor_parallel_size", "model_id"}}
    (tmp_path / "run" / "results" / "run.json").write_text(json.dumps(result), encoding="utf-8")
    import_measurements([tmp_path / "run"], store)
    rows = json.loads(typed("query best --rows both --format json", store).out)
    assert [one["rows"] for one in rows] == ["predicted", "measured"]


def test_a_result_of_a_pair_has_both_its_sides(launched, tmp_path):
    record = imported(launched["pair"], tmp_path)
    assert (record.mode, record.engine, record.num_devices) == ("disaggregated", "sglang", 3 * 4 + 2 * 8)
    assert (record.prefill.instances, record.prefill.tp, record.prefill.dp) == (3, 4, 1)
    assert (record.decode.instances, record.decode.tp, record.decode.dp) == (2, 1, 8)


def test_what_a_person_states_fills_what_the_folder_lacks(launched, tmp_path):
    assert imported(launched["server"], tmp_path, {"kv_precision": "fp8"}).kv_precision == "fp8"


def test_sides_that_a_person_states_make_a_pair_of_what_a_client_measured(launched, tmp_path):
    run = tmp_path / "elsewhere" / "run.json"
    run.parent.mkdir()
    run.write_text((launched["pair"] / "results" / "run.json").read_text(), encoding="utf-8")
    said = parse_stated([
        "device=h200_sxm", "engine=sglang", "num_devices=28", "prefill_tp=4", "prefill_ep=4", "prefill_instances=3",
        "decode_dp=8", "decode_ep=8", "decode_instances=2", "pp=1",
    ])  # fmt: skip
    record = imported(run, tmp_path, said)
    folder = imported(launched["pair"], tmp_path)
    assert (record.mode, record.num_devices) == (folder.mode, folder.num_devices) == ("disaggregated", 28)
    assert (record.prefill.instances, record.prefill.tp, record.prefill.ep, record.prefill.pp) == (3, 4, 4, 1)
    assert (record.decode.instances, record.decode.tp, record.decode.dp, record.decode.ep) == (2, None, 8, 8)
    assert json.loads(record.extra)["stated_at_import"]["mode"] == "disaggregated"
    assert imported(run, tmp_path, parse_stated(["tp=4"])).mode == "aggregated"  # of both sides: nothing is apart
    with pytest.raises(InputError, match=r"decode_tp=0.*must be above 0"):
        parse_stated(["decode_tp=0"])


def test_a_folder_of_another_program_states_nothing(tmp_path):
    assert launched_as(tmp_path) is None
    (tmp_path / "expected.json").write_text("[]", encoding="utf-8")
    with pytest.raises(InputError, match="none of `sweepdb launch`"):
        launched_as(tmp_path)
    assert launched_as(tmp_path / "results" / "run.json") is None  # further up it may be anybody's


@pytest.mark.parametrize("client", ["vllm", "guidellm", "aiperf", "another"])
def test_the_script_asks_by_the_client_that_is_named(client, launched, tmp_path):
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("vllm", "guidellm", "aiperf"):
        (programs / name).write_text('#!/bin/sh\nprintf "%s\\n" "$0" "$@"\n', encoding="utf-8")
        (programs / name).chmod(0o755)
    surroundings = {"PATH": f"{programs}:{os.environ['PATH']}", "CLIENT": client, "USERS": "3", "TOKENIZER": "my words"}
    run = subprocess.run(
        ["bash", str(launched["server"] / "bench.sh")], env=surroundings, capture_output=True, text=True, check=False
    )
    if client == "another":
        assert run.returncode == 2
        assert "not one of vllm, guidellm, aiperf" in run.stderr
        return
    said = run.stdout.splitlines()
    assert said[0] == str(programs / client)
    assert any("my words" in word for word in said)
    whole = " ".join(said)
    assert {"vllm": "--max-concurrency 3 ", "guidellm": "streams=3 ", "aiperf": "--concurrency 3 "}[client] in whole
    assert {"vllm": "--num-prompts 30 ", "guidellm": "count=30 ", "aiperf": "--request-count 30 "}[client] in whole
    assert f"sweepdb measurements import {launched['server'].resolve()}" in run.stdout


@pytest.mark.survival
def test_a_served_row_is_measured_imported_and_compared(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    sweepdb.evaluate(
        "Qwen/Qwen3-8B", device="h100_sxm", num_devices=1, input_length=300, output_length=40, batch_range=(4, 4),
        mode="aggregated", client_lengths=0.8, store=url,
    )  # fmt: skip
    with sweepdb.open(url) as store:
        (probe,) = store.sql("SELECT probe FROM probe").dicts()
    folder = tmp_path / "started"
    write_launch(probe["probe"], folder, store=url)
    program = tmp_path / "vllm"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{TESTS / "bench_client.py"}" "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    with subprocess.Popen(
        [sys.executable, str(TESTS / "openai_server.py"), probe["probe"], "--store", url, "--port", "0"],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": f"{TESTS.parent}:{TESTS}"},
    ) as server:  # fmt: skip
        try:
            address = server.stdout.readline().split()[-1]
            surroundings = {
                **os.environ,
                "PATH": f"{tmp_path}:{os.environ['PATH']}",
                "BASE_URL": address,
                "REQUESTS": "12",
            }
            subprocess.run(["bash", str(folder / "bench.sh")], env=surroundings, check=True, capture_output=True)
        finally:
            server.terminate()
    from sweepdb.measuring import import_measurements

    assert import_measurements([folder], url).added == 1
    compared = sweepdb.validate(store=url)
    result = json.loads((folder / "results" / "vllm-4.json").read_text())
    assert result["completed"] == 12
    # A step takes at least the time that is predicted: the clock of a server never runs ahead.
    expected = json.loads((folder / "expected.json").read_text())["roles"]["server"]["predicted"]
    assert result["mean_tpot_ms"] > 0.9 * expected["decode_step_ms"]
    assert {"ttft", "tpot"} <= set(compared.metrics())
