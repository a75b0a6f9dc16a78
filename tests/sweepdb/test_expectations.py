"""expected.json: what a client should see of a whole deployment is what answers say of it, and what `validate` predicts."""

from __future__ import annotations

import json

import pytest
from client_files import VLLM

import sweepdb
from evaluator.inputs import Client, Launch
from store.location import parse_url
from sweepdb.explaining import explain_probes
from sweepdb.launching import write_launch
from sweepdb.measuring import import_measurements
from sweepdb.restoring import stored_scenario

MODEL, DEVICE, INPUT, OUTPUT, SHORTEST = "Qwen/Qwen3-8B", "h100_sxm", 1000, 200, 0.8
MEASURED = {
    "ttft": "ttft_ms", "tpot": "tpot_exclusive_ms",
    **{name: name for name in ("e2e_ms", "requests_per_s", "output_tokens_per_s")},
}  # fmt: skip


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A store of instances of one device, asked by a client whose lengths begin at 0.8 of those named."""
    url = f"sqlite:///{tmp_path_factory.mktemp('expected')}/store.sqlite"
    sweepdb.evaluate(
        MODEL, device=DEVICE, num_devices=1, input_length=INPUT, output_length=OUTPUT, batch_range=(1, 40),
        client_lengths=SHORTEST, store=url,
    )  # fmt: skip
    return url


@pytest.fixture(scope="module")
def deployments(url):
    with sweepdb.open(url) as store:
        return {row["mode"]: row for row in store.deployments(num_devices=3).dicts()}


def launched(row, url, folder):
    if row["mode"] == "pd":
        counts = f"{row['prefill_instances']}P{row['decode_instances']}D"
        write_launch([row["prefill_probe"], row["decode_probe"], counts], folder, store=url)
    else:
        write_launch(row["probe"], folder, store=url)
    return json.loads((folder / "expected.json").read_text())


def test_a_pair_is_expected_as_it_is_answered(deployments, url, tmp_path):
    row = deployments["pd"]
    expected = launched(row, url, tmp_path / "out")["deployment"]
    for name, column in (
        ("requests_per_s", "system_requests_per_s"), ("output_tokens_per_s", "output_tokens_per_s"), ("ttft_ms", "ttft_ms"),
        ("tpot_exclusive_ms", "tpot_ms"), ("e2e_ms", "e2e_ms"),
    ):  # fmt: skip
        assert expected[name] == pytest.approx(row[column], rel=1e-5), name
    assert expected["users"] == round(row["users"])
    assert (expected["input_length"], expected["output_length"]) == (900.0, 180.0)  # (1 + 0.8) / 2 of those named
    assert f'USERS="${{USERS:-{expected["users"]}}}"' in (tmp_path / "out" / "bench.sh").read_text()


def test_an_instance_is_expected_at_its_clients_mean_length_too(deployments, url, tmp_path):
    row = deployments["aggregated"]
    said = launched(row, url, tmp_path / "out")
    expected, stored = said["deployment"], said["roles"]["server"]["predicted"]
    assert stored["requests_per_s"] * row["instances"] == pytest.approx(row["system_requests_per_s"], rel=1e-9)
    # A tenth of 200 tokens fewer than are named: the first token, then as many steps as 179 more tokens take.
    whole = stored["ttft_ms"] + (0.9 * OUTPUT - 1) * stored["tpot_exclusive_ms"]
    assert expected["e2e_ms"] == pytest.approx(whole, rel=1e-9)
    assert expected["e2e_ms"] == stored["e2e_ms"] == pytest.approx(row["e2e_ms"], rel=1e-9)  # one meaning everywhere
    # Little's law holds in the row of a server that stays full: users = rate x time.
    assert expected["users"] == pytest.approx(stored["requests_per_s"] * expected["e2e_ms"] / 1000, rel=1e-9)
    # A run ends with its last answers, while users become fewer: of ten answers a user, up to half of one is made without others.
    assert 0.95 * stored["requests_per_s"] < expected["requests_per_s"] < 0.995 * stored["requests_per_s"]
    assert expected["output_tokens_per_s"] == pytest.approx(0.9 * OUTPUT * expected["requests_per_s"], rel=1e-9)


def test_a_row_is_restored_with_the_client_that_it_was_evaluated_for(deployments, url):
    probe = deployments["aggregated"]["probe"]
    scenario = stored_scenario(parse_url(url), probe.partition(":")[0]).scenario
    assert (scenario.client, scenario.launch) == (Client(shortest=SHORTEST), Launch())
    # Lengths drawn from 0.8 on keep nobody in step: there is no second time of first tokens to explain.
    assert explain_probes([probe], url, step=None).first_tokens == ()


def stored_under(url, keyword, given, columns):
    """Rows of four users, evaluated with each value of an option."""
    asked = {"device": DEVICE, "num_devices": 1, "input_length": INPUT, "output_length": OUTPUT, "batch_range": (4, 4)}
    for value in given:
        sweepdb.evaluate(MODEL, **asked, **{keyword: value}, store=url)
    with sweepdb.open(url) as store:
        return store.sql(f"SELECT {columns} FROM aggregated").dicts()


def test_usual_rows_are_restored_without_a_client_and_seats_as_they_were(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    stored = stored_under(url, "max_num_seqs", (None, 3), "scenario, seats")
    for row in stored:
        scenario = stored_scenario(parse_url(url), row["scenario"]).scenario
        assert (scenario.client, scenario.launch.seats) == (None, row["seats"])
    assert {row["seats"] for row in stored} == {None, 3}


def test_the_benchmark_asks_as_often_as_the_users_of_its_row(tmp_path):
    """Of two prompts a user half of the first tokens wait for all others, of ten a tenth: TTFT is another."""
    url = f"sqlite:///{tmp_path}/store.sqlite"
    stored = stored_under(url, "prompts_per_user", (None, 2), "probe, prompts_per_user")
    for row in stored:
        write_launch(row["probe"], tmp_path / row["probe"], store=url)
        script = (tmp_path / row["probe"] / "bench.sh").read_text()
        assert f"USERS * ${{PER_USER:-{row['prompts_per_user']}}}" in script
    assert {row["prompts_per_user"] for row in stored} == {10, 2}


@pytest.mark.parametrize("mode", ["aggregated", "pd"])
def test_a_measurement_of_the_folder_is_compared_with_what_it_expects(mode, deployments, url, tmp_path):
    folder = tmp_path / "out"
    expected = launched(deployments[mode], url, folder)["deployment"]
    users = expected["users"]
    requests = 10 * users  # as often as a predicted user asks
    result = {name: value for name, value in VLLM.items() if name not in {"device", "tensor_parallel_size"}} | {
        "model_id": MODEL, "max_concurrency": users, "num_prompts": requests, "completed": requests,
        "total_input_tokens": requests * INPUT * 0.9, "total_output_tokens": requests * OUTPUT * 0.9,
        "request_throughput": expected["requests_per_s"], "output_throughput": expected["output_tokens_per_s"],
        "mean_ttft_ms": expected["ttft_ms"], "mean_tpot_ms": expected["tpot_exclusive_ms"],
        "mean_e2el_ms": expected["e2e_ms"],
    }  # fmt: skip
    (folder / "results").mkdir()
    (folder / "results" / "run.json").write_text(json.dumps(result), encoding="utf-8")
    own = f"sqlite:///{tmp_path}/measured.sqlite"
    assert import_measurements([folder], own).added == 1
    compared = sweepdb.validate(store=own)
    # The folder says who asked, so that as known the row itself is predicted.
    found = {one.metric: one.predicted for one in compared.of("known")}
    # The answer's users are no whole number. Up to half a user more waits before prefill: half a request's share of a second.
    half_a_user = 500 / expected["requests_per_s"] if mode == "pd" else 0.0
    for metric, name in MEASURED.items():
        within = half_a_user if metric in {"ttft", "e2e_ms"} else 0.0
        # The row is predicted at the mean lengths that the folder's client asks: of one instance the error is 0.
        exactly = 0.01 if mode == "pd" else 1e-9
        assert found[metric] == pytest.approx(expected[name], rel=exactly, abs=within), metric
    asked = {one.metric: one.predicted for one in compared.of("asked")}
    assert asked["e2e_ms"] == pytest.approx(expected["e2e_ms"], rel=0.1)
