"""Groups that divide prompts and halves of batches from the command to the store, to a server, and back."""

from __future__ import annotations

import json

import pytest
from conftest_cli import sweepdb as command

import sweepdb
from store.errors import InputError
from sweepdb.launching import write_launch
from sweepdb.launching.reading import read_deployment

MIXTURE = "Qwen/Qwen3-30B-A3B"
NEEDED = {"device": "h200_sxm", "input_length": 16_000, "output_length": 500, "num_devices": 8, "batch_range": (64, 64)}
SHARED, HALVED = "tp2pp1dp1ep8moetp1moedp1pcp4", "tp1pp1dp8ep8moetp1moedp1mb2"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A store of prefill plans with and without groups, and of decode plans with and without halves."""
    url = f"sqlite:///{tmp_path_factory.mktemp('prompts')}/store.sqlite"
    sweepdb.evaluate(MIXTURE, **NEEDED, ep_sizes=8, dp_sizes=1, pcp_sizes=(1, 4), mode="prefill", store=url)
    sweepdb.evaluate(MIXTURE, **NEEDED, tp_sizes=1, ep_sizes=8, micro_batches=(1, 2), mode="decode", store=url)
    return url


def test_plans_are_stored_apart_and_asked_by_their_sizes(url):
    with sweepdb.open(url) as store:
        rows = store.sql("SELECT phase, plan, pcp, micro_batches, num_devices, tp FROM probe").dicts()
        ttft = {row["plan"]: row["ttft_ms"] for row in store.sql("SELECT plan, ttft_ms FROM probe").dicts()}
        best = store.prefill(top=9).dicts()
    assert {(row["plan"], row["pcp"], row["micro_batches"]) for row in rows} == {
        ("tp8pp1dp1ep8moetp1moedp1", 1, 1), (SHARED, 4, 1),
        ("tp1pp1dp8ep8moetp1moedp1", 1, 1), (HALVED, 1, 2),
    }  # fmt: skip
    assert {row["num_devices"] for row in rows} == {8}
    assert {row["pcp"] for row in best} == {1, 4}
    assert ttft[SHARED] != ttft["tp8pp1dp1ep8moetp1moedp1"]


def probe_of(url, plan):
    with sweepdb.open(url) as store:
        return store.sql(f"SELECT probe FROM probe WHERE plan = '{plan}'").dicts()[0]["probe"]


def test_a_step_is_explained_with_what_groups_exchange_and_halves_hide(url):
    rows = json.loads(command(f"explain {probe_of(url, SHARED)} --format json", url).out)
    assert any("layers.kv_write.prompt_all_gather" in row.values() for row in rows)
    probe = probe_of(url, HALVED)
    rows = json.loads(command(f"explain {probe} --format json", url).out)
    hidden = [row for row in rows if "exchange beside the other half" in row.values()]
    assert len(hidden) == 1
    assert hidden[0]["time_ms"] < 0
    with sweepdb.open(url) as store:
        (step,) = store.sql(f"SELECT decode_step_ms FROM probe WHERE probe = '{probe}'").dicts()
    assert sum(row["time_ms"] for row in rows) == pytest.approx(step["decode_step_ms"], rel=1e-9)
    compared = command(f"query why {probe_of(url, 'tp1pp1dp8ep8moetp1moedp1')} {probe} --format json", url)
    assert any("micro_batches" in row.values() for row in json.loads(compared.out))


@pytest.mark.parametrize(
    ("engine", "flags"),
    [
        ("vllm", ["--tensor-parallel-size 2", "--prefill-context-parallel-size 4", "--enable-expert-parallel",
                  "--enable-dbo", "--all2all-backend deepep_low_latency"]),
        ("sglang", ["--tp-size 8", "--attn-cp-size 4", "--enable-prefill-cp", "--cp-strategy zigzag",
                    "--enable-two-batch-overlap", "--moe-a2a-backend deepep"]),
    ],
)  # fmt: skip
def test_rows_are_launched_with_their_flags_and_read_back(engine, flags, url, tmp_path):
    rows = [probe_of(url, SHARED), probe_of(url, HALVED)]
    write_launch(rows, tmp_path / "out", engine=engine, store=url)
    text = " ".join(path.read_text().replace("\\\n", " ") for path in (tmp_path / "out").rglob("*.sh"))
    assert all(flag in " ".join(text.split()) for flag in flags), text
    found = {server.role: server for server in read_deployment(tmp_path / "out").servers}
    sizes = {role: (one.tp, one.dp, one.pcp, one.micro_batches) for role, one in found.items()}
    assert sizes == {"prefill": (2, 1, 4, 1), "decode": (1, 8, 1, 2)}
    for server in found.values():
        assert server.options()["num_devices"] == 8
        assert not [name for name in server.not_mapped if name.startswith(tuple(flag.split()[0] for flag in flags))]


def test_trtllm_does_not_launch_them(url, tmp_path):
    with pytest.raises(InputError, match="TensorRT-LLM cannot start"):
        write_launch([probe_of(url, SHARED), probe_of(url, HALVED)], tmp_path / "out", engine="trtllm", store=url)


def test_what_cannot_be_divided_is_told(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    told = command(
        "evaluate Qwen/Qwen3.5-397B-A17B --device h200_sxm --num-devices 8 --tp-sizes 2 --pcp-sizes 4"
        " --mode prefill --input-length 200 --output-length 20 --batch-range 1 2",
        url,
    )
    assert "pcp 4 divides prompts among whole layers of attention" in told.out + told.err
    told = command(
        "evaluate Qwen/Qwen3-32B --device h200_sxm --num-devices 8 --tp-sizes 8 --micro-batches 2 --mode decode"
        " --input-length 200 --output-length 20 --batch-range 1 2",
        url,
    )
    assert "micro_batches 2 takes experts over replicas" in told.out + told.err
