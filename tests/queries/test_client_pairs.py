"""A pair under a client of any range of lengths: SQL, the closed form and what `validate` predicts are one number."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from conftest_cli import sweepdb

from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Client, Plan
from evaluator.inputs.models import load_model
from evaluator.ledger.deployments import Deployment
from evaluator.ledger.predicting import asked_of, evaluated, predicted
from evaluator.serving.pairs import DecodeSide, PairLoad, PrefillSide, moving_bytes_per_s, pair_times, transfer_ms
from store.location import parse_url
from store.reading import read_transaction

INPUT, OUTPUT = 2000, 200
EVALUATE = (
    f"evaluate Qwen/Qwen3-8B --device h100_sxm --num-devices 1 --input-length {INPUT} --output-length {OUTPUT}"
    " --batch-range 12 --serving-model sglang"
)
CLIENTS = (Client(shortest=0.6, prompts_per_user=4), Client(shortest=0.9, prompts_per_user=25))


@pytest.fixture(scope="module")
def url(tmp_path_factory) -> str:
    """Both sides and the whole, evaluated for two clients into one store."""
    found = f"sqlite:///{tmp_path_factory.mktemp('clients')}/store.sqlite"
    for client in CLIENTS:
        said = f"--client-lengths {client.shortest} --prompts-per-user {client.prompts_per_user}"
        told = sweepdb(f"{EVALUATE} {said}", found)
        assert told.code == 0, told.err
    return found


def asked(url: str, question: str, client: Client) -> list[dict]:
    scope = f"--shortest-length {client.shortest} --prompts-per-user {client.prompts_per_user} --all"
    outcome = sweepdb(f"query {question} {scope} --format json", url)
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


def probes(url: str) -> dict[str, dict]:
    asked = "SELECT probe, phase, concurrency, ttft_ms, makespan_ms, prompt_service_ms, tpot_exclusive_ms,"
    asked += " kv_bytes_per_request FROM probe"
    return {row["probe"]: row for row in json.loads(sweepdb(["sql", asked, "--format", "json"], url).out)}


@pytest.mark.parametrize("client", CLIENTS)
def test_sql_the_closed_form_and_a_comparison_say_one_pair(url, client):
    (row,) = asked(url, "pd-ratio --num-devices 3 --top 1", client)
    rows, mean = probes(url), (1.0 + client.shortest) / 2
    p, d = rows[row["prefill_probe"]], rows[row["decode_probe"]]
    request = p["ttft_ms"] - p["makespan_ms"]
    device = load_device("h100_sxm")
    link = device.links[0].bandwidth_bytes_per_s * device.links[0].efficiency
    times = pair_times(
        PrefillSide(
            alone_ms=mean * p["makespan_ms"] + request,
            service_ms=mean * p["prompt_service_ms"],
            servers=row["prefill_instances"],
            request_ms=request,
        ),
        DecodeSide(decoding=row["decode_instances"] * d["concurrency"], tpot_ms=d["tpot_exclusive_ms"]),
        PairLoad(
            output_length=mean * OUTPUT,
            transfer_ms=mean * transfer_ms(p["kv_bytes_per_request"], 1, moving_bytes_per_s(link)),
            prompts_per_user=client.prompts_per_user,
        ),
    )
    assert times is not None
    deployment = Deployment(
        model_name="Qwen/Qwen3-8B",
        model=load_model("Qwen/Qwen3-8B")[1],
        device=device,
        precision=Precision(),
        plan=Plan(tp=1),
        engine="sglang",
        mode="disaggregated",
        input_length=INPUT,
        output_length=OUTPUT,
        users=math.ceil(row["users"]),
        prefill_plan=Plan(tp=1),
        prefill_instances=row["prefill_instances"],
        instances=row["decode_instances"],
        client=client,
    )
    point = asked_of(deployment, "known")
    exactly = replace(deployment, users=row["users"])  # the loop of an answered pair has no whole number of users
    compared = predicted(exactly, "known", point, evaluated([point]))
    for name, said in (
        ("system_requests_per_s", times.requests_per_s), ("ttft_ms", times.ttft_ms), ("e2e_ms", times.e2e_ms),
        ("users", times.users), ("prefill_wait_ms", times.wait_ms), ("prefill_burst_ms", times.burst_ms),
    ):  # fmt: skip
        assert row[name] == pytest.approx(said, rel=1e-9), name
    assert compared["ttft_ms"] == pytest.approx(row["ttft_ms"], rel=1e-9)
    assert compared["e2e_ms"] == pytest.approx(row["e2e_ms"], rel=1e-9)
    assert compared["requests_per_s"] == pytest.approx(row["system_requests_per_s"], rel=1e-9)


def test_pairs_of_two_clients_are_two_groups_and_each_states_its_own(url):
    with read_transaction(parse_url(url)) as transaction:
        stated = set(transaction.cells("SELECT phase, shortest_length, prompts_per_user, unusual_service FROM subject"))
    said = "shortest_length,prompts_per_user"
    assert {(row[1], row[2], row[3]) for row in map(tuple, stated) if row[0] == "prefill"} == {
        (client.shortest, client.prompts_per_user, said) for client in CLIENTS
    }
    assert {(row[1], row[2]) for row in map(tuple, stated) if row[0] == "decode"} == {
        (client.shortest, None) for client in CLIENTS
    }
    outcome = sweepdb("query pd-ratio --all --top 1 --format json-full", url)
    answer = json.loads(outcome.out)
    assert len({row["question_group"] for row in answer["rows"]}) == 2
    first, second = (row["ttft_ms"] for row in answer["rows"])
    assert not np.isclose(first, second)


def test_both_deployments_of_a_comparison_count_requests_of_the_mean_length(url):
    """An instance that does both is stored for nominal lengths; requests/s of a comparison are those that pass."""
    client = CLIENTS[0]
    (row,) = (row for row in asked(url, "compare --num-devices 1", client) if row["mode"] == "aggregated")
    mean = (1.0 + client.shortest) / 2
    with read_transaction(parse_url(url)) as transaction:
        ((stored,),) = transaction.cells(
            f"SELECT e2e_ms FROM probe p JOIN scenario s ON s.id = p.scenario_id WHERE s.key LIKE '{row['probe'][:8]}%'"
            f" AND p.batch_size = {row['probe'].rpartition(':')[2]}"
        )
    # TTFT and O - 1 tokens are e2e: of mean O, as many decode steps less
    assert row["e2e_ms"] == pytest.approx(stored - (1.0 - mean) * OUTPUT * row["tpot_ms"], rel=1e-9)
    concurrency = int(row["probe"].rpartition(":")[2])
    assert row["system_requests_per_s"] == pytest.approx(1000.0 * concurrency / row["e2e_ms"], rel=1e-9)
    assert row["output_tokens_per_s"] == pytest.approx(row["system_requests_per_s"] * mean * OUTPUT, rel=1e-9)
