"""Several servers of one row: what starts them and their router, by hand and with programs that stand in."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest_cli import sweepdb as command
from launched_rows import fill, rows_of
from page_port import listening

import sweepdb
from store.errors import InputError
from sweepdb.launching import write_launch

TESTS = Path(__file__).parents[1]
TP4, TP16 = "tp4pp1dp1ep4moetp1moedp1", "tp4pp1dp4ep16moetp1moedp1"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A store of one batch size of a mixture's plans."""
    return fill(tmp_path_factory.mktemp("several"))


def row(url, plan=TP4):
    return rows_of(url, ("aggregated", plan))[0]


def programs(folder, **said):
    """Programs by name: what each prints, or runs."""
    folder.mkdir()
    for name, text in said.items():
        (folder / name.replace("_", "-")).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name.replace("_", "-")).chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def run(script, surroundings, **more):
    return subprocess.run(
        ["bash", str(script)], env={**surroundings, **more}, capture_output=True, text=True, check=False, timeout=60
    )


def test_each_server_has_its_devices_and_port_and_the_router_knows_all(url, tmp_path):
    # 3 x TP4 on hosts of 8 devices: two on the first, one on the second.
    write_launch(["3x", row(url)], tmp_path / "out", store=url)
    said = 'echo "$CUDA_VISIBLE_DEVICES $@"; sleep 1'
    surroundings = programs(tmp_path / "bin", vllm=said, vllm_router='echo router "$@"; sleep 1', curl="exit 0")
    hosts = {"HOSTS": "10.0.0.1 10.0.0.2"}
    first = run(tmp_path / "out" / "start.sh", surroundings, **hosts)
    assert first.stdout == (
        "router --worker-urls http://10.0.0.1:8001 http://10.0.0.1:8002 http://10.0.0.2:8001 --policy round_robin"
        " --host 0.0.0.0 --port 8000\n"
    )
    logs = [(tmp_path / "out" / f"server-{number}.log").read_text() for number in (0, 1)]
    assert [log.split(" --tensor")[0] for log in logs] == [
        "0,1,2,3 serve Qwen/Qwen3-30B-A3B --port 8001", "4,5,6,7 serve Qwen/Qwen3-30B-A3B --port 8002",
    ]  # fmt: skip
    second = run(tmp_path / "out" / "start.sh", surroundings, NODE="1", PRODUCTION="1", **hosts)
    assert second.stdout == ""  # the router is on the first host
    log = (tmp_path / "out" / "server-2.log").read_text()
    assert log.startswith("0,1,2,3 serve Qwen/Qwen3-30B-A3B --port 8001")
    assert "--gpu-memory-utilization 0.9 --max-model-len 3072\n" in log
    assert "--max-num-seqs" not in log
    for wrong, message in (({}, "the addresses of the 2 hosts"), ({"HOSTS": "a"}, "HOSTS names 1 hosts, not 2")):
        assert message in run(tmp_path / "out" / "start.sh", surroundings, **wrong).stderr


def test_an_instance_over_hosts_is_started_on_each_with_the_address_of_its_first(url, tmp_path):
    write_launch(["2x", row(url, TP16)], tmp_path / "out", store=url)  # 16 devices each: hosts 0 and 1, 2 and 3
    surroundings = programs(tmp_path / "bin", vllm='echo "$@"; sleep 1', vllm_router="sleep 1", curl="exit 0")
    run(tmp_path / "out" / "start.sh", surroundings, NODE="3", HOSTS="a b c d")
    log = (tmp_path / "out" / "server-1.log").read_text()
    assert "--data-parallel-address c " in log
    assert "--data-parallel-start-rank 2 " in log
    assert "--headless" in log
    assert 'urls=("http://${hosts[0]}:8001" "http://${hosts[2]}:8001")' in (tmp_path / "out" / "router.sh").read_text()


def test_what_is_expected_and_measured_is_of_all_servers(url, tmp_path):
    # One of TP4 has 6 users; two have 12, twice the tokens/s, and the times of one.
    said = {}
    for times in (1, 2):
        write_launch(f"{times}x {row(url)}", tmp_path / str(times), store=url)
        said[times] = json.loads((tmp_path / str(times) / "expected.json").read_text())
    one, two = (said[times]["deployment"] for times in (1, 2))
    assert (one["users"], two["users"]) == (6, 12)
    assert two["output_tokens_per_s"] == pytest.approx(2 * one["output_tokens_per_s"])
    assert (two["ttft_ms"], two["tpot_exclusive_ms"]) == (one["ttft_ms"], one["tpot_exclusive_ms"])
    stated = said[2]["measured_as"]
    # Copies of a server are replicas of one on 8 devices: DP2, and the experts twice.
    assert {name: stated[name] for name in ("num_devices", "tp", "dp", "ep", "moe_dp")} == {
        "num_devices": 8, "tp": 4, "dp": 2, "ep": 4, "moe_dp": 2,
    }  # fmt: skip
    assert 'USERS="${USERS:-12}"' in (tmp_path / "2" / "bench.sh").read_text()


@pytest.mark.parametrize(
    ("engine", "program"),
    [("vllm", "exec vllm-router "), ("sglang", "sglang_router.launch_router "), ("trtllm", "exec nginx ")],
)
def test_every_engine_has_a_router_before_its_servers(engine, program, url, tmp_path):
    write_launch([row(url), "2"], tmp_path / "out", engine=engine, store=url)
    router = (tmp_path / "out" / "router.sh").read_text()
    assert program in router
    assert '"http://${hosts[0]}:8001" "http://${hosts[0]}:8002"' in router
    for script in (tmp_path / "out").glob("*.sh"):
        subprocess.run(["bash", "-n", str(script)], check=True)
    assert "a router in front" not in (tmp_path / "out" / "not_set.txt").read_text()
    assert '"${PORT:-8000}"' in (tmp_path / "out" / "server.sh").read_text()


def test_nginx_gets_a_file_that_names_every_server(url, tmp_path):
    write_launch([row(url), "2"], tmp_path / "out", engine="trtllm", store=url)
    run(tmp_path / "out" / "router.sh", programs(tmp_path / "bin", nginx="exit 0", curl="exit 0"))
    text = " ".join((tmp_path / "out" / "router.conf").read_text().split())
    assert "upstream servers { server 127.0.0.1:8001; server 127.0.0.1:8002; }" in text
    assert text.count("{") == text.count("}")
    assert "proxy_buffering off;" in text  # tokens are sent on as they come


def test_flags_to_serve_with_keep_the_plan_and_drop_the_limits_of_the_row(url, tmp_path):
    folder = tmp_path / "out"
    write_launch(row(url), folder, store=url)
    flags = {name: (folder / f"{name}server.sh").read_text() for name in ("", "production-")}
    dropped = {"--max-num-seqs", "--disable-prefix-caching"}
    found = {name: set(re.findall(r"--[a-z-]+", text.partition("\nexec ")[2])) for name, text in flags.items()}
    assert found[""] - found["production-"] == dropped
    words = r"^# (Memory|Length|Longest that would fit|Requests at once|Prefix cache): (.*)"
    stated = dict(re.findall(r"(--[a-z-]+) ([\d.]+)", flags[""]))
    assert dict(re.findall(words, flags["production-"], re.MULTILINE)) == {
        "Memory": f"--gpu-memory-utilization 0.9; the row alone needs {stated['--gpu-memory-utilization']}.",
        # 2,000 + 500 tokens and 32 for a chat template, in whole 1,024s.
        "Length": "--max-model-len 3072: the workload's longest request has 2,500 tokens; longer ones are turned away.",
        # 30.5 billion weights in BF16 on four H200 leave room for more than the model's own.
        "Longest that would fit": "40,960 tokens, the model's own longest.",
        "Requests at once": f"the engine's own number; the row has --max-num-seqs {stated['--max-num-seqs']}.",
        "Prefix cache": "on; the row was predicted without.",
    }
    assert re.search(
        r"^exec .*--gpu-memory-utilization 0\.9 .*--max-model-len 3072$", flags["production-"], re.DOTALL | re.MULTILINE
    )
    assert "production-" in (folder / "README.md").read_text()
    write_launch(row(url), tmp_path / "trtllm", engine="trtllm", store=url)
    text = (tmp_path / "trtllm" / "production-server-engine.yaml").read_text()
    assert "max_batch_size" not in text
    assert "free_gpu_memory_fraction: 0.9" in text
    assert "max_seq_len: 3072" in text
    assert "production-server-engine.yaml" in (tmp_path / "trtllm" / "production-server.sh").read_text()


def test_compose_starts_what_one_host_holds_and_kubernetes_any_number(url, tmp_path):
    write_launch(["2x", row(url)], tmp_path / "two", target="compose", store=url)
    text = (tmp_path / "two" / "compose.yaml").read_text()
    assert "8001:8000" in text
    assert "8002:8000" in text
    with pytest.raises(InputError, match="12 devices are more than the 8 of a host"):
        write_launch(["3x", row(url)], tmp_path / "three", target="compose", store=url)
    write_launch(["3x", row(url)], tmp_path / "k8s", target="k8s", store=url)
    assert "replicas: 3" in (tmp_path / "k8s" / "kubernetes.yaml").read_text()


def test_a_folder_comes_back_as_its_row(url, tmp_path):
    done = command(["launch", "2x", row(url), "--output", str(tmp_path / "out")], url)
    assert (done.code, "start.sh" in done.out) == (0, True)
    back = sweepdb.evaluate(from_deployment=str(tmp_path / "out"), batch_range=(6, 6), store=url)
    assert (back.probes_stored, back.probes_known) == (0, 1)


@pytest.mark.survival
@pytest.mark.usefixtures("page_port")
def test_two_servers_and_their_router_are_started_measured_and_compared(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    sweepdb.evaluate(
        "Qwen/Qwen3-8B", device="h100_sxm", num_devices=1, input_length=300, output_length=40, batch_range=(4, 4),
        mode="aggregated", client_lengths=0.8, store=url,
    )  # fmt: skip
    with sweepdb.open(url) as store:
        ((probe,),) = store.sql("SELECT probe FROM probe").rows
    folder = tmp_path / "started"
    write_launch(["2x", probe], folder, store=url)
    serve = f'"{sys.executable}" "{TESTS / "openai_server.py"}" {probe} --store {url} --port $PORT'
    surroundings = {
        **programs(
            tmp_path / "bin",
            vllm=f'if [ "$1" = serve ]; then exec {serve}; fi; exec "{sys.executable}" "{TESTS / "bench_client.py"}" "$@"',
            vllm_router=f'exec "{sys.executable}" "{TESTS / "round_robin.py"}" "$@"',
        ),
        "PYTHONPATH": f"{TESTS.parent}:{TESTS}",
        "REQUESTS": "24",
    }
    with subprocess.Popen(["bash", str(folder / "start.sh")], env=surroundings, start_new_session=True) as started:
        try:
            for _ in range(600):
                if listening():
                    break
                assert started.poll() is None
                time.sleep(0.1)
            subprocess.run(["bash", str(folder / "bench.sh")], env=surroundings, check=True, capture_output=True)
        finally:
            os.killpg(started.pid, signal.SIGTERM)
    result = json.loads((folder / "results" / "vllm-8.json").read_text())
    assert result["completed"] == 24
    from sweepdb.measuring import import_measurements

    assert import_measurements([folder], url).added == 1
    compared = sweepdb.validate(store=url)
    assert {"ttft", "tpot"} <= set(compared.metrics())
