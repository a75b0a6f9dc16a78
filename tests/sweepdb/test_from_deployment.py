"""Deployment files as scenarios: those that `launch` writes come back as the rows they are of; others as they say."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
import yaml
from conftest_cli import sweepdb as command
from launched_rows import CASES, MODEL, fill, rows_of
from shared_data import shared_data

import sweepdb
from evaluator.evaluate import unsupported
from evaluator.inputs.launch import Plan
from evaluator.inputs.models import load_model
from evaluator.inputs.plan_search import illegality
from evaluator.request import planned_scenarios
from store.errors import InputError
from sweepdb.evaluating.deployments import options_of_server
from sweepdb.evaluating.requests import build_request
from sweepdb.evaluating.sweep_options import SweepOptions
from sweepdb.launching import write_launch
from sweepdb.launching.reading import read_deployment

ROW = (6, 6)  # of the servers that take as many: without it, every number of users up to that
NEEDED = {"device": "h200_sxm", "input_length": 2000, "output_length": 500}


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A store of one batch size of a mixture's plans, in every phase."""
    return fill(tmp_path_factory.mktemp("launched"))


@pytest.mark.parametrize("case", [name for name in CASES if not name.startswith(("sglang", "trtllm"))])
def test_what_was_launched_comes_back_as_the_same_rows(case, url, tmp_path):
    which, options = CASES[case]
    write_launch(rows_of(url, which), tmp_path / "out", store=url, **options)
    back = sweepdb.evaluate(from_deployment=str(tmp_path / "out"), batch_range=ROW, store=url)
    assert back.probes_stored == 0
    assert back.probes_known == (2 if which == ("pair",) else 1)
    file = next((tmp_path / "out" / name for name in FILES.get(options.get("target"), ())), None)
    if file is not None:
        again = sweepdb.evaluate(from_deployment=str(file), batch_range=ROW, store=url, **NEEDED)
        assert (again.probes_stored, again.probes_known) == (0, back.probes_known)


FILES = {"dynamo": ("dynamo.yaml",), "llm-d": ("values.yaml",), "kserve": ("llminferenceservice.yaml",), "k8s": ("kubernetes.yaml",),
         "compose": ("compose.yaml",)}  # fmt: skip


@pytest.mark.parametrize("engine", ["sglang", "trtllm"])
def test_other_engines_come_back_as_rows_of_theirs(engine, tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    sweepdb.evaluate(MODEL, **NEEDED, num_devices=8, batch_range=(6, 6), serving_model=engine, store=url)
    with sweepdb.open(url) as store:
        rows = store.sql(f"SELECT probe, phase, plan FROM probe WHERE contains(launchable, '{engine}')").dicts()
    assert len({row["plan"] for row in rows}) > 1
    aggregated = sorted((row["plan"], row["probe"]) for row in rows if row["phase"] == "aggregated")
    for plan, probe in aggregated[:: max(len(aggregated) // 3, 1)]:
        write_launch(probe, tmp_path / plan, target="k8s", store=url)
        write_launch(probe, tmp_path / plan, target="dynamo", force=True, store=url)
        for file in ("", "dynamo.yaml", "kubernetes.yaml") if engine == "sglang" else ("", "dynamo.yaml"):
            back = sweepdb.evaluate(from_deployment=str(tmp_path / plan / file), batch_range=ROW, store=url, **NEEDED)
            assert (back.probes_stored, back.probes_known) == (0, 1), plan


def test_a_script_of_ones_own_is_read_and_what_nobody_maps_is_named(tmp_path):
    script = tmp_path / "serve.sh"
    script.write_text(
        "#!/bin/bash\nexport A=1\nvllm serve Qwen/Qwen3-32B -tp 4 --max_num_seqs 32 --max-num-batched-tokens=8192 \\\n"
        "  --kv-cache-dtype fp8 --enforce-eager --enable-lora --made-up 3 &\n"
    )
    (server,) = read_deployment(script).servers
    assert (server.engine, server.model, server.tp, server.most_requests) == ("vllm", "Qwen/Qwen3-32B", 4, 32)
    assert (server.token_budget, server.attention, server.compile) == (8192, "FP8", False)
    assert server.not_mapped == ["--made-up", "--enable-lora"]
    url = f"sqlite:///{tmp_path}/store.sqlite"
    done = command(f"evaluate --from-deployment {script} --device h200_sxm --input-length 200 --output-length 20", url)
    assert done.code == 0
    assert f"note: {script}: not mapped: --made-up, --enable-lora" in done.err
    with sweepdb.open(url) as store:
        rows = store.sql(
            "SELECT plan, max_batched_tokens, attention_quantization, min(batch_size), max(batch_size), count(*)"
            " FROM probe GROUP BY ALL"
        )
    # --max-num-seqs is the most that it takes: every number of users up to it.
    assert rows.rows == (("tp4pp1dp1", 8192, "FP8", 1, 32, 32),)


def test_sglang_divides_its_group_and_its_batch_among_attention_replicas(tmp_path):
    script = tmp_path / "serve.sh"
    script.write_text(
        "python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 16 --dp 8 --enable-dp-attention"
        " --ep-size 16 --max-running-requests 512 --chunked-prefill-size 65536\n"
    )
    (server,) = read_deployment(script).servers
    assert (server.tp, server.dp, server.ep, server.moe_tp) == (2, 8, 16, 1)
    assert (server.most_requests, server.token_budget) == (64, 8192)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.sh", "echo nothing\n", "starts no engine that is known"),
        ("a.sh", "vllm serve X --max-num-seqs many\n", "--max-num-seqs many is no whole number"),
        ("a.sh", "vllm serve X --max-num-seqs\n", "--max-num-seqs lacks its value"),
        ("a.yaml", "a: [1\n", "a.yaml: "),
        ("a.yaml", "a: 1\n", "describes no server that is known"),
        ("a.sh", None, "no such file"),
    ],
)
def test_files_that_start_nothing_are_one_sentence(name, text, message, tmp_path):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message) as raised:
        sweepdb.evaluate(from_deployment=str(tmp_path / name), store=f"sqlite:///{tmp_path}/s.sqlite", **NEEDED)
    assert "\n" not in raised.value.message


def test_samples_of_kserve_and_llm_d_are_read():
    kserve = shared_data("deployments", "kserve")
    (one,) = read_deployment(kserve / "inference_default.yaml").servers
    assert (one.model, one.instances, one.role) == ("RedHatAI/gpt-oss-20b", 2, "server")
    pair = read_deployment(kserve / "inference_pd_disaggregation.yaml").servers
    assert [(server.role, server.instances) for server in pair] == [("prefill", 2), ("decode", 1)]
    wide = read_deployment(next(kserve.glob("*deepseek-r1*"))).servers
    assert [(server.role, server.tp, server.dp, server.ep) for server in wide] == [
        ("prefill", 1, 16, 16), ("decode", 1, 16, 16),
    ]  # fmt: skip
    values = read_deployment(shared_data("deployments", "llm-d", "values-pd.yaml")).servers
    assert [(server.role, server.model) for server in values] == [
        ("prefill", "facebook/opt-125m"), ("decode", "facebook/opt-125m"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "servers"),
    [
        # Attention replicas over a group that ep counts, where tp is of one of them
        (
            {
                "prefill": {"num-worker": 2, "tp": 1, "ep": 8, "dp-attn": True},
                "decode": {"num-worker": 1, "tp": 8, "ep": 1},
            },
            [("prefill", 2, 1, 8, 8, 1, 0), ("decode", 1, 8, 1, 1, 8, 0)],
        ),
        # No decode workers: one server over several hosts, its replicas counted as workers
        (
            {"prefill": {"num-worker": 2, "tp": 16, "ep": 32, "dp-attn": True}, "decode": {"num-worker": 0, "tp": 16}},
            [("server", 1, 16, 2, 32, 1, 0)],
        ),
        (
            {"prefill": {"num-worker": 1, "tp": 4, "ep": 16, "dp-attn": True}, "decode": {"num-worker": 0, "tp": 4}},
            [("server", 1, 1, 16, 16, 1, 0)],
        ),
        # 24 devices do not divide 256 experts: 264 slots
        ({"tp": 24, "ep": 24, "dp-attn": True}, [("server", 1, 1, 24, 24, 1, 8)]),
    ],
)
def test_groups_of_public_configurations_are_split_as_their_recipes_say(row, servers, tmp_path):
    entry = {
        "model": "deepseek-ai/DeepSeek-R1-0528", "runner": "gb200", "framework": "dynamo-vllm", "precision": "fp8",
        "scenarios": {"fixed-seq-len": [{"isl": 1000, "osl": 100, "search-space": [{**row, "conc-list": [64]}]}]},
    }  # fmt: skip
    path = tmp_path / "mine.yaml"
    path.write_text(json.dumps({"one": entry}))
    found = read_deployment(path).servers
    assert [
        (one.role, one.instances, one.tp, one.dp, one.ep, one.moe_tp, one.redundant_experts) for one in found
    ] == servers
    assert all(("8 copies of experts" in " ".join(one.not_mapped)) == (one.redundant_experts == 8) for one in found)


def test_every_public_configuration_is_servers_or_a_reason():
    folder = shared_data("deployments", "inferencex")
    found = {path.name: read_deployment(path) for path in sorted(folder.glob("*-master.yaml"))}
    configurations = {server.where.partition(" (")[0] for one in found.values() for server in one.servers}
    refused = [reason for one in found.values() for reason in one.refused]
    assert {reason for one in found.values() for server in one.servers if (reason := illegal(server))} == set()
    assert len(configurations) + len(refused) == 208
    kept = json.loads((Path(__file__).parent / "launched" / "inferencex.json").read_text())
    assert {"read": len(configurations), "refused": counted(refused)} == kept


def test_drafts_of_public_configurations_are_those_of_their_recipes():
    """136 configurations draft; 8 of them are served by engines that are not modelled. Tables say what others gain."""
    folder = shared_data("deployments", "inferencex")
    drafting, measured, stated, refused = set(), set(), set(), []
    for path in sorted(folder.glob("*-master.yaml")):
        entries = yaml.safe_load(path.read_text())
        drafting |= {
            f"{path}, {name}" for name, entry in entries.items() for blocks in entry["scenarios"].values()
            for block in blocks for row in block["search-space"] if row.get("spec-decoding", "none") != "none"
        }  # fmt: skip
        found = read_deployment(path)
        refused += [f"{path}, {reason.partition(':')[0]}" for reason in found.refused]
        for server in found.servers:
            if server.speculative or server.mtp_tokens:
                (measured if server.speculative else stated).add(server.where.partition(" (")[0])
    assert len(drafting) == 136
    assert drafting - set(refused) == measured | stated
    assert (len(drafting & set(refused)), len(measured), len(stated)) == (8, 101, 27)


@pytest.mark.parametrize(
    ("recipe", "drafts"),
    [
        ("recipes/mtp/agg-gb300-tp8-c1-b2-mtp8.yaml", 8),
        ("ctx10_gen1_dep8_batch256_eplb0_mtp1.yaml", 1),
        ("mtp/a.yaml", 3),
    ],
)
def test_a_recipe_says_how_many_drafts(recipe, drafts, tmp_path):
    row = {"tp": 8, "ep": 8, "conc-list": [8], "spec-decoding": "mtp", "additional-settings": [f"CONFIG_FILE={recipe}"]}
    entry = {
        "model": "deepseek-ai/DeepSeek-R1-0528", "runner": "gb200", "framework": "dynamo-vllm", "precision": "fp8",
        "scenarios": {"fixed-seq-len": [{"isl": 1000, "osl": 100, "search-space": [row]}]},
    }  # fmt: skip
    path = tmp_path / "mine.yaml"
    path.write_text(json.dumps({"one": entry}))
    assert [one.mtp_tokens for one in read_deployment(path).servers] == [drafts]


def illegal(server):
    """Why the plan of a server cannot be, or None."""
    plan = Plan(
        tp=server.tp, pp=server.pp, dp=server.dp, ep=server.ep or 1, moe_tp=server.moe_tp or 1, dcp=server.dcp,
        redundant_experts=server.redundant_experts, pcp=server.pcp, micro_batches=server.micro_batches,
    )  # fmt: skip
    return illegality(load_model(server.model)[1], plan, plan.num_devices)


@pytest.mark.survival
def test_public_configurations_are_scenarios_that_can_be_evaluated():
    known, whole, with_tiers = {}, set(), set()
    lengths = {"input_length": "60000", "output_length": 500.0}
    for path in sorted(shared_data("deployments", "inferencex").glob("*-master.yaml")):
        for server in read_deployment(path).servers:
            name = server.where.partition(" (")[0]
            asked = SweepOptions(
                **(lengths if server.input_length is None else {}), host_hit_rate=0.5 * bool(server.tiers)
            )
            options = options_of_server(asked, server)
            if options not in known:
                planned = planned_scenarios(build_request(options, None, None).parts)
                reasons = [one.illegal or unsupported(one.scenario) for one in planned]
                known[options] = bool(reasons) and not any(reasons)
            whole.add((name, known[options]))
            with_tiers |= {name} if server.tiers else set()
    failing = {name for name, legal in whole if not legal}
    legal = {name for name, _ in whole} - failing
    assert len(legal) >= 191, failing
    assert (
        len(with_tiers) == 54
    )  # of 56 that keep keys in the hosts' memory, the others are of engines that are not modelled


def counted(refused):
    """How many configurations are refused for each reason."""
    return dict(sorted(Counter(reason.partition(": ")[2] for reason in refused).items()))
