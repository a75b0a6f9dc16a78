"""Keys and values outside the devices from the command to the store, to a server, and back."""

from __future__ import annotations

import json

import pytest
from conftest_cli import sweepdb as command

import sweepdb
from store.errors import InputError
from sweepdb.launching import write_launch
from sweepdb.launching.reading import read_deployment

NEEDED = {
    "device": "h200_sxm", "num_devices": 2, "input_length": 32_000, "output_length": 400, "tp_sizes": 2,
    "batch_range": (4, 4), "mode": "aggregated",
}  # fmt: skip
MODEL = "Qwen/Qwen3-32B"
SHARES = {"prefix_cache_hit_rate": 0.25, "host_hit_rate": 0.5, "ssd_hit_rate": 0.125, "ssd_gb_per_s": 5}


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A store of one plan under each engine, with and without keys outside the devices."""
    url = f"sqlite:///{tmp_path_factory.mktemp('tiers')}/store.sqlite"
    for engine in ("vllm", "sglang", "trtllm"):
        sweepdb.evaluate(MODEL, **NEEDED, **SHARES, serving_model=engine, store=url)
    sweepdb.evaluate(MODEL, **NEEDED, prefix_cache_hit_rate=0.25, serving_model="vllm", store=url)
    return url


def rows_of(url):
    with sweepdb.open(url) as store:
        found = store.sql("SELECT * FROM probe").dicts()
    return {(row["serving_model"], row["host_hit_rate"]): row for row in found}


def test_shares_are_columns_and_prompts_come_sooner(url):
    rows = rows_of(url)
    with_tiers, without = rows["vllm", 0.5], rows["vllm", 0.0]
    assert (with_tiers["ssd_hit_rate"], with_tiers["remote_hit_rate"], without["ssd_hit_rate"]) == (0.125, 0, 0)
    assert with_tiers["workload"] == "32000/400 hit 0.25 host 0.5 ssd 0.125 at 5 GB/s max-num-batched-tokens 4096"
    assert with_tiers["ttft_ms"] < without["ttft_ms"]
    assert with_tiers["kv_cache_bytes"] == without["kv_cache_bytes"]
    assert rows["sglang", 0.5]["ttft_ms"] != with_tiers["ttft_ms"]
    shown = command("query best --serving-model vllm --prefix-cache-hit-rate 0.25 --explain", url)
    assert "GB of a prompt's keys in" in shown.out + shown.err
    assert "before it is scheduled: host at 51.2 GB/s" in shown.out + shown.err
    compared = json.loads(command(f"query why {without['probe']} {with_tiers['probe']} --format json", url).out)
    assert any("host_hit_rate" in row.values() for row in compared)


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        # 0.625 of the prompts of 4 requests: 64 layers, 8 heads of 128 numbers of two bytes, keys and values
        ("vllm", ["--kv-offloading-size 20", "--kv-offloading-backend lmcache"]),
        ("sglang", ["--enable-hierarchical-cache", "--hicache-storage-backend file"]),
        ("trtllm", ["host_cache_size: 20971520000", "enable_block_reuse: true"]),
    ],
)
def test_a_row_is_launched_with_its_caches_and_read_back(engine, said, url, tmp_path):
    assert 4 * 0.625 * 32_000 * 64 * 8 * 128 * 2 * 2 == 20_971_520_000
    write_launch(rows_of(url)[engine, 0.5]["probe"], tmp_path / "out", engine=engine, store=url)
    files = [path.read_text().replace("\\\n", " ") for path in (tmp_path / "out").iterdir()]
    text = " ".join(" ".join(files).split())
    assert all(flag in text for flag in said), text
    assert "50% in the hosts' memory, 12% in the hosts' SSDs" in text
    assert "disable-radix-cache" not in text
    (server,) = read_deployment(tmp_path / "out").servers
    assert "host" in server.tiers
    back = sweepdb.evaluate(from_deployment=str(tmp_path / "out"), batch_range=(4, 4), store=url)
    assert (back.probes_stored, back.probes_known) == (0, 1)


def test_a_command_line_alone_asks_for_the_shares(tmp_path):
    script = tmp_path / "serve.sh"
    script.write_text(
        f"vllm serve {MODEL} --tensor-parallel-size 2 --kv-offloading-size 200 --max-num-seqs 2"
        " --max-num-batched-tokens 8192\n"
    )
    lengths = "--device h200_sxm --input-length 32000 --output-length 400"
    told = command(f"evaluate --from-deployment {script} {lengths}", f"sqlite:///{tmp_path}/a.sqlite")
    assert "keys of prompts lie in the host, too: --host-hit-rate says how many" in told.err
    assert "not mapped" not in told.err
    told = command(
        f"evaluate --from-deployment {script} {lengths} --host-hit-rate 0.5", f"sqlite:///{tmp_path}/b.sqlite"
    )
    assert "keys of prompts" not in told.err
    assert {row["host_hit_rate"] for row in rows_of(f"sqlite:///{tmp_path}/b.sqlite").values()} == {0.5}


def test_what_cannot_be_read_is_told(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    with pytest.raises(InputError, match="must lie in"):
        sweepdb.evaluate(MODEL, **NEEDED, host_hit_rate=1.5, store=url)
    told = command(
        f"evaluate {MODEL} --device h200_sxm --num-devices 2 --input-length 4000 --output-length 40 --mode prefill"
        " --ssd-hit-rate 0.5 --batch-range 1 2",
        url,
    )
    assert "states no rate of its ssd" in told.out + told.err


def test_tokens_that_a_tier_held_are_not_paid_for_as_computed(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    asked = {
        "device": "h200_sxm", "total_devices": 1, "input_length": 2000, "output_length": 100, "ttft_limit": 400.0,
        "prefix_cache_hit_rate": 0.25, "host_hit_rate": 0.5,
    }  # fmt: skip
    sweepdb.plan("Qwen/Qwen3-0.6B", store=url, **asked)
    assert command("prices set h200_sxm --usd-per-device-hour 3", url).code == 0
    rows = sweepdb.plan("Qwen/Qwen3-0.6B", store=url, **asked).dicts()  # as published, and in narrower formats
    assert rows
    for row in rows:
        assert row["usd_per_million_uncached_tokens"] == pytest.approx(4 * row["usd_per_million_input_tokens"])
