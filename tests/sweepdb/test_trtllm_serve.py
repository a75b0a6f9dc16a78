"""Command lines of trtllm-serve: as they say, with the YAML they name; those that `launch` writes as their rows."""

from pathlib import Path

import pytest
import yaml
from conftest_cli import sweepdb as command
from launched_rows import MODEL, REQUEST, fill, rows_of

import sweepdb
from store.errors import InputError
from sweepdb.launching import write_launch
from sweepdb.launching.reading import changed_line, read_deployment

ASKED = {name: REQUEST[name] for name in ("device", "input_length", "output_length")}
OPTIONS = [word for name, value in ASKED.items() for word in (f"--{name.replace('_', '-')}", str(value))]
PLANS = {  # tp, pp, dp, ep and moe_tp as they are read
    "tp8pp1dp1ep1moetp8moedp1": (8, 1, 1, 1, 8),
    "tp8pp1dp1ep8moetp1moedp1": (8, 1, 1, 8, 1),
    "tp8pp1dp1ep2moetp4moedp1": (8, 1, 1, 2, 4),
    "tp4pp2dp1ep4moetp1moedp1": (4, 2, 1, 4, 1),
    "tp1pp1dp8ep8moetp1moedp1": (1, 1, 8, 8, 1),
    "tp1pp1dp8ep2moetp4moedp1": (1, 1, 8, 2, 4),
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """A store of one number of users of plans on eight devices under TensorRT-LLM, with their references."""
    url = f"sqlite:///{tmp_path_factory.mktemp('trtllm')}/store.sqlite"
    sweepdb.evaluate(MODEL, **REQUEST, num_devices=8, pp_sizes=(1, 2), serving_model="trtllm", store=url)
    with sweepdb.open(url) as store:
        found = store.sql("SELECT plan, probe FROM probe WHERE phase = 'aggregated'").dicts()
    return url, {row["plan"]: row["probe"] for row in found}


@pytest.mark.parametrize("plan", PLANS)
def test_what_launch_writes_is_read_back_as_the_same_plan_batch_and_budget(plan, rows, tmp_path):
    url, probes = rows
    write_launch(probes[plan], tmp_path / "out", target="k8s", store=url)
    write_launch(probes[plan], tmp_path / "out", target="compose", force=True, store=url)
    for name in ("", "server.sh", "compose.yaml", "kubernetes.yaml"):
        (server,) = read_deployment(tmp_path / "out" / name).servers
        assert (server.tp, server.pp, server.dp, server.ep, server.moe_tp) == PLANS[plan], name
        assert (server.most_requests, server.token_budget, server.not_mapped) == (6, 8192, [])
        back = sweepdb.evaluate(from_deployment=str(tmp_path / "out" / name), batch_range=(6, 6), store=url, **ASKED)
        assert (back.probes_stored, back.probes_known) == (0, 1), name


def test_a_server_without_graphs_is_written_and_read_as_one(tmp_path):
    """Left out, `cuda_graph_config` means graphs (tensorrt_llm/llmapi/llm_args.py, TorchLlmArgs)."""
    url = f"sqlite:///{tmp_path}/store.sqlite"
    sweepdb.evaluate("Qwen/Qwen3-8B", **REQUEST, num_devices=1, serving_model="trtllm", compile=False, store=url)
    with sweepdb.open(url) as store:
        probe = store.sql("SELECT probe FROM probe WHERE phase = 'aggregated'").rows[0][0]
    write_launch(probe, tmp_path / "out", engine="trtllm", store=url)
    for name in ("server-engine.yaml", "production-server-engine.yaml"):
        assert yaml.safe_load((tmp_path / "out" / name).read_text())["cuda_graph_config"] is None
    assert not read_deployment(tmp_path / "out").servers[0].compile
    assert read_deployment("trtllm-serve Qwen/Qwen3-8B").servers[0].compile


def test_roles_of_a_pair_are_read_of_its_manifest(tmp_path):
    url = fill(tmp_path)
    write_launch(rows_of(url, ("pair",)), tmp_path / "out", engine="trtllm", target="k8s", store=url)
    found = read_deployment(tmp_path / "out" / "kubernetes.yaml").servers
    assert [(one.role, one.tp, one.dp) for one in found] == [("prefill", 4, 1), ("decode", 1, 8)]


def test_flags_are_read_by_each_of_their_names_and_others_are_listed():
    said = (
        "trtllm-serve deepseek-ai/DeepSeek-R1 --backend pytorch --tp_size 8 --pp_size 2 --ep_size=4"
        " --max_batch_size 161 --max_num_tokens 1160 --max_seq_len 9216 --kv_cache_free_gpu_memory_fraction 0.8"
        " --trust_remote_code --kv_cache_dtype fp8 --num_postprocess_workers 4 --made_up 3"
    )
    long = (
        "mpirun -n 16 trtllm-llmapi-launch trtllm-serve serve deepseek-ai/DeepSeek-R1 --tensor_parallel_size 8"
        " --pipeline-parallel-size 2 --moe_expert_parallel_size 4 --max-batch-size=161 --max_num_tokens 1160"
        " --max_seq_len 9216 --free_gpu_memory_fraction 0.8 --kv_cache_dtype fp8 2>&1 | tee server.log"
    )
    for line, others in ((said, ["--made-up", "--num_postprocess_workers"]), (long, [])):
        (server,) = read_deployment(line).servers
        assert (server.engine, server.model, server.role) == ("trtllm", "deepseek-ai/DeepSeek-R1", "server")
        # 8 ranks of experts: 4 groups, in each of which 2 share an expert
        assert (server.tp, server.pp, server.dp, server.ep, server.moe_tp) == (8, 2, 1, 4, 2)
        assert (server.most_requests, server.token_budget, server.longest) == (161, 1160, 9216)
        assert (server.memory_share, server.attention, server.not_mapped) == (0.8, "FP8", others)
    line = "trtllm-serve a/model --tp_size 8 --enable_attention_dp --server_role GENERATION"
    (apart,) = read_deployment(line).servers
    assert (apart.tp, apart.dp, apart.role) == (1, 8, "decode")


SETTINGS = {
    "enable_attention_dp": True, "max_batch_size": 64, "max_num_tokens": 2048, "stream_interval": 10,
    "kv_cache_config": {"dtype": "fp8", "free_gpu_memory_fraction": 0.5},
}  # fmt: skip
WORDS = ["trtllm-serve", MODEL, "--tp_size", "4", "--max_batch_size", "16", "--free_gpu_memory_fraction", "0.7"]
BESIDE = {
    "serve.sh": " ".join([*WORDS, "--extra_llm_api_options ./my.yml\n"]),
    "compose.yaml": yaml.safe_dump({"services": {"a": {"command": [*WORDS, "--config", "/mounted/my.yml"]}}}),
    "pod.yaml": yaml.safe_dump_all([
        {"kind": "ConfigMap", "data": {"settings.yaml": yaml.safe_dump(SETTINGS)}},
        {"kind": "Pod", "spec": {"containers": [
            {"command": ["bash", "-c"], "args": [" ".join([*WORDS, "--config=/etc/settings.yaml"])]},
        ]}},
    ]),
}  # fmt: skip


@pytest.mark.parametrize("name", BESIDE)
def test_a_command_is_read_with_the_file_it_names_and_its_own_flags_win(name, tmp_path):
    (tmp_path / "my.yml").write_text(yaml.safe_dump(SETTINGS))
    (tmp_path / name).write_text(BESIDE[name])
    (server,) = read_deployment(tmp_path / name).servers
    assert (server.model, server.tp, server.dp) == (MODEL, 1, 4)  # the file turns replicas of attention on
    assert (server.most_requests, server.token_budget) == (16, 2048)  # the flag's; the file's
    assert (server.memory_share, server.attention) == (0.7, "FP8")  # one of each in one group of settings
    assert server.not_mapped == ["stream_interval"]


def test_a_typed_command_finds_its_file_where_it_is_typed(tmp_path, monkeypatch):
    (tmp_path / "my.yml").write_text(yaml.safe_dump(SETTINGS))
    monkeypatch.chdir(tmp_path)
    assert read_deployment("trtllm-serve a/model --config my.yml").servers[0].token_budget == 2048


def test_a_file_that_is_not_there_is_said(tmp_path):
    Path(tmp_path / "serve.sh").write_text(f"trtllm-serve {MODEL} --tp_size 2 --config $HOME/none.yaml\n")
    url = f"sqlite:///{tmp_path}/store.sqlite"
    done = command(["evaluate", "--from-deployment", f"{tmp_path}/serve.sh", "--batch-range", "1,2", *OPTIONS], url)
    assert done.code == 0
    assert f"note: {tmp_path}/serve.sh: not mapped: $HOME/none.yaml, which was not found" in done.err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("trtllm-serve a/model --config broken.yaml", "broken.yaml is no YAML"),
        ("trtllm-serve a/model --tp_size many", "--tensor_parallel_size many is no whole number"),
        ("trtllm-serve a/model --tp_size", "--tp_size lacks its value"),
        ("trtllm-serve disaggregated -c router.yaml", "starts no engine that is known"),
        ("which trtllm-serve", "starts no engine that is known"),
    ],
)
def test_lines_that_start_nothing_are_one_sentence(line, message, tmp_path):
    (tmp_path / "broken.yaml").write_text("a: [1\n")
    (tmp_path / "serve.sh").write_text(f"{line}\n")
    with pytest.raises(InputError, match=message) as raised:
        read_deployment(tmp_path / "serve.sh")
    assert "\n" not in raised.value.message


def test_a_changed_line_has_the_flags_and_says_what_only_its_file_can():
    words = ("exec", "trtllm-serve", MODEL, "--tp_size", "4", "--config", "my.yml", "--port", "8000", "2>&1")
    changes = {"tensor_parallel_size": "8", "moe_tensor_parallel_size": "2", "enable_attention_dp": "True"}
    assert changed_line(words, changes, ("speculative_config", "pipeline_parallel_size")) == (
        f"exec trtllm-serve {MODEL} --config my.yml --port 8000 --tensor_parallel_size 8;"
        " in its YAML: moe_tensor_parallel_size 2, enable_attention_dp True, without speculative_config"
    )


def test_a_running_server_is_answered_with_lines_that_start_its_changes(tmp_path):
    line, url = "trtllm-serve Qwen/Qwen3-8B --tp_size 2 --max_batch_size 16", f"sqlite:///{tmp_path}/store.sqlite"
    done = command(["plan", "--from-deployment", line, *OPTIONS, "--concurrency", "8"], url)
    assert done.code == 0, done.err
    assert f": {line} --kv_cache_dtype fp8\n" in done.out  # half of the bytes of keys
    (tmp_path / "mine.yaml").write_text("tensor_parallel_size: 2\nmax_batch_size: 16\n")
    done = command(
        ["plan", "Qwen/Qwen3-8B", "--from-deployment", f"{tmp_path}/mine.yaml", *OPTIONS, "--concurrency", "8"], url
    )
    assert ": kv_cache_config.dtype fp8\n" in done.out
