"""`schedule --pool`: two models that share devices through a day, from stored loads, simulated."""

from __future__ import annotations

import re

import pytest
from conftest_cli import sweepdb as run
from conftest_loads import evaluate_loads

import sweepdb

pytest.importorskip("highspy")

SMALL, LARGE = "Qwen/Qwen3-0.6B", "Qwen/Qwen3-1.7B"
LIMITS = {"ttft_limit": 100.0, "tpot_limit": 6.0}


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('pools')}/store.sqlite"
    evaluate_loads(url, mode="aggregated")
    sweepdb.evaluate(
        LARGE, device="a100_sxm", input_length=500, output_length=60, batch_range=4, serving_model="vllm",
        arrivals="poisson", requests=1_500, mode="aggregated", store=url,
    )  # fmt: skip
    return url


@pytest.fixture
def traces(tmp_path):
    """The small model is asked in the first hour, the large one in the second, for ten minutes each."""
    rates = {SMALL: [60.0] * 10 + [0.0] * 110, LARGE: [0.0] * 60 + [30.0] * 10 + [0.0] * 50}
    found = {}
    for model, minutes in rates.items():
        found[model] = tmp_path / f"{model.partition('/')[2]}.csv"
        lines = (f"{minute},{rate}" for minute, rate in enumerate(minutes))
        found[model].write_text("\n".join(["minute,rate", *lines]), encoding="utf-8")
    return found


def test_devices_of_one_model_serve_another_an_hour_later(url, traces):
    apart = [sweepdb.schedule(traces[model], model=model, store=url, cool_down=0, **LIMITS) for model in traces]
    most = [int(one.candidates[0].scaled["static"].ready[0]) for one in apart]
    assert min(most) >= 2
    found = sweepdb.schedule_pool(traces, pool=max(most), minimum=0, start_up=0, store=url, **LIMITS)
    assert [one.replicas for one in found.models] == [(most[0], 0), (0, most[1])]
    assert found.device_hours == sum(most)
    assert [one.lost for one in found.models] == [(0, 0), (0, 0)]
    assert all(share is None or share >= 0.95 for one in found.models for share in one.attained)
    # With one device less, the model that needs all loses what one of its replicas carries, and no more.
    less = sweepdb.schedule_pool(traces, pool=max(most) - 1, minimum=0, start_up=0, store=url, **LIMITS)
    short = [one.requests / needed if needed == max(most) else 0 for one, needed in zip(less.models, most, strict=True)]
    assert [sum(one.lost) for one in less.models] == pytest.approx(short, abs=0.1)
    for one, lost in zip(less.models, short, strict=True):
        (share,) = [share for share in one.attained if share is not None]
        # Those that are let in have as many to a replica as before.
        assert share == pytest.approx((1 - lost / one.requests) * 0.98, abs=0.04)


def test_the_command_says_what_python_says(url, traces, capfd):
    typed = ["schedule", "--pool", "6", "--ttft-limit", "100", "--tpot-limit", "6"]
    typed += [word for model, path in traces.items() for word in ("--trace", f"{model}={path}")]
    found = sweepdb.schedule_pool(traces, pool=6, store=url, **LIMITS)
    out = " ".join(run(typed, url).out.split())
    assert all(sentence in out for sentence in found.sentences())
    assert not re.search(r"tp\dpp", out)  # plans as people write them
    rows = run([*typed, "--format", "csv"], url).out.splitlines()
    assert rows[0].split(",") == list(found.columns)
    assert len(rows) == 1 + len(found.rows) == 5
    assert capfd.readouterr().out == ""  # HiGHS itself says nothing


def test_a_pool_of_two_kinds_of_devices(traces, tmp_path):
    """The small model needs two of a100 or one of h100 for its hour: it takes the one."""
    url = f"sqlite:///{tmp_path}/store.sqlite"
    evaluate_loads(url, mode="aggregated", device=["a100_sxm", "h100_sxm"])
    trace = traces[SMALL]
    typed = ["schedule", "--trace", f"{SMALL}={trace}", "--ttft-limit", "100", "--tpot-limit", "6", "--start-up", "0",
             "--minimum", "0", "--format", "csv"]  # fmt: skip
    rows = {}
    for pool in ("a100_sxm=2,h100_sxm=1", "a100_sxm=2"):
        lines = [line.split(",") for line in run([*typed, "--pool", pool], url).out.splitlines()]
        rows[pool] = [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]
    both, old = rows.values()
    assert [(row["device"], row["replicas"], row["lost_requests"]) for row in both] == [
        ("h100_sxm", "1", "0.0"),
        ("h100_sxm", "0", "0.0"),
    ]
    assert [(row["device"], row["replicas"]) for row in old] == [("a100_sxm", "2"), ("a100_sxm", "0")]
    for pool, said in (
        ("b200=4", "no stored loads are of b200_sxm"),
        ("4", "the stored loads are of a100_sxm, h100_sxm"),
        ("a100_sxm=x", "--pool a100_sxm=x is no number of devices"),
        ("a100_sxm=1,a100_sxm=2", "--pool names a device twice"),
    ):
        assert said.lower() in run([*typed, "--pool", pool], url).err.lower()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--pool 1", "--pool 1 devices are too few: 1 replica of each model takes 2"),
        ("--pool 0", "--pool must be a whole number from 1 to 10,080, not 0"),
        ("--pool 4 --spare 1", "--spare 1 is not scheduled on a pool"),
        ("--pool 4 --format svg", "a pool has no picture"),
        ("--pool 4 --trace b.csv", "--trace b.csv names no model and file"),
        (f"--pool 4 --trace {SMALL}=b.csv", f"--trace {SMALL}=... stands twice"),
        ("", "several traces share a pool of devices"),
    ],
)
def test_wrong_pools_are_one_sentence(url, traces, options, said):
    typed = f"schedule --ttft-limit 100 --tpot-limit 6 {options}".split()
    typed += [word for model, path in traces.items() for word in ("--trace", f"{model}={path}")]
    outcome = run(typed, url)
    assert outcome.code == 2
    assert said.lower() in outcome.err.lower()
