"""The seeds' command line: what each mode prints, letter for letter, and that other limits evaluate nothing.

SWEEPDB_WRITE_GOLDENS=1 writes the expected texts down again; read the difference before committing it."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from shared_data import shared_data

from cli.inference import throughput_optimizer
from store.errors import InputError

GOLDEN = Path(__file__).parent / "golden"
DENSE = "Qwen/Qwen3-32B --num-devices 8 --input-length 3500 --output-length 1500 --compile --batch-range 24"
PAIRS = (
    "Qwen/Qwen3-32B --input-length 2048 --output-length 512 --compile --batch-range 24"
    " --enable-optimize-prefill-decode-ratio --prefill-devices-per-instance 4 --decode-devices-per-instance 2"
    " --ttft-limits 500 --tpot-limits 50"
)
TWO = "--device TEST_DEVICE ATLAS_800_A2_376T_64G TEST_DEVICE"
CASES = {
    "aggregated": f"{DENSE} --tpot-limits 50",
    "aggregated_wide": f"{DENSE} --tpot-limits 50 --wide",
    "aggregated_two_devices": f"{DENSE} --tpot-limits 50 {TWO}",
    "aggregated_dumped": f"{DENSE} --tpot-limits 12 --dump-original-results",
    "prefill": f"{DENSE} --disagg --ttft-limits 2000",
    "decode": f"{DENSE} --disagg --tpot-limits 50",
    "disaggregated_two_devices": f"{DENSE} --disagg --ttft-limits 2000 --tpot-limits 50 {TWO}",
    "pd_ratio": PAIRS,
    "pd_ratio_counted": f"{PAIRS} --num-devices 16",
    "pd_ratio_two_devices": f"{PAIRS} --num-devices 16 {TWO}",
    "pd_ratio_dumped": f"{PAIRS} --dump-original-results",
    "nothing_fits": f"{DENSE} --tpot-limits 1",
    "experts": "Qwen/Qwen3-30B-A3B --num-devices 8 --input-length 3500 --output-length 1500 --batch-range 8"
    " --tp-sizes 1 8 --ep-sizes 1 8 --tpot-limits 50",
    "lengths": f"{DENSE.replace('3500', 'LENGTHS')} --disagg --ttft-limits 2000",
}
LENGTHS = """bins:
  - {min_tokens: 0, max_tokens: 1000, weight: 0.5}
  - {min_tokens: 1000, max_tokens: 3000, weight: 0.3}
  - {min_tokens: 3000, max_tokens: 9000, weight: 0.2}
"""
ENDING = re.compile(r"completed in [0-9.]+ seconds \((.*), \d+ already stored\)")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One store for all modes: operators are captured once."""
    path = tmp_path_factory.mktemp("optimizer")
    (path / "lengths.yaml").write_text(LENGTHS)
    return path


@pytest.fixture
def optimizer(folder, monkeypatch, capsys):
    """Run one command line over the shared store, without curves; returns what it printed."""
    monkeypatch.setenv("SWEEPDB_STORE", f"sqlite:///{folder}/store.sqlite")
    monkeypatch.setitem(sys.modules, "plotext", None)

    def run(text):
        assert throughput_optimizer.run(text.replace("LENGTHS", str(folder / "lengths.yaml")).split()) == 0
        return capsys.readouterr()

    return run


@pytest.mark.parametrize("name", CASES)
def test_each_mode_prints_the_seeds_layout(optimizer, name):
    printed = optimizer(CASES[name])
    text = ENDING.sub("completed", printed.out)
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("SWEEPDB_WRITE_GOLDENS"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_other_limits_evaluate_nothing_and_say_so(optimizer):
    optimizer(CASES["aggregated"])
    printed = optimizer(CASES["aggregated"].replace("--tpot-limits 50", "--ttft-limits 3000 --tpot-limits 30"))
    assert ENDING.search(printed.out)[1] == "nothing evaluated"


def test_a_batch_too_small_for_its_lengths_is_noted(optimizer):
    # The best row holds one request a replica, of the bin of midpoint 500; the mean of all bins is
    # 0.5 x 500 + 0.3 x 2000 + 0.2 x 6000 = 2050.
    printed = optimizer(CASES["lengths"])
    assert "has a mean prompt of 500 tokens, the distribution 2050 (-76%)" in printed.err
    assert "mean prompt" not in printed.out


def test_without_plotext_the_answer_comes_with_a_warning(optimizer):
    printed = optimizer(CASES["aggregated"])
    assert "warning: no curves, because plotext is not installed" in printed.err
    assert "Top 4 Aggregation Configurations:" in printed.out


@pytest.mark.parametrize(
    ("case", "axes"),
    [
        ("aggregated", ["Concurrency", "TPOT (ms)"]),
        ("prefill", ["Concurrency", "TTFT (ms)"]),
        ("decode", ["Concurrency", "TPOT (ms)"]),
        ("pd_ratio", ["Concurrency", "TPOT (ms)"]),
        ("aggregated_two_devices", []),
        ("lengths", []),
    ],
)
def test_curves_have_the_axes_of_their_mode_and_one_device_only(optimizer, monkeypatch, case, axes):
    monkeypatch.delitem(sys.modules, "plotext")
    pytest.importorskip("plotext")
    printed = optimizer(CASES[case])
    assert re.findall(r"Throughput vs (.*?)\s*$", printed.out, re.MULTILINE) == axes


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--enable-optimize-prefill-decode-ratio --disagg", "cannot be used together with --disagg"),
        ("--enable-optimize-prefill-decode-ratio", "--prefill-devices-per-instance is required"),
        (
            "--enable-optimize-prefill-decode-ratio --prefill-devices-per-instance 4",
            "--decode-devices-per-instance is required",
        ),
        ("--prefill-devices-per-instance 0", "--prefill-devices-per-instance: must be a positive integer, not '0'"),
        ("--num-devices -1", "--num-devices: must be a positive integer"),
        ("--prefix-cache-hit-rate 1", "--prefix-cache-hit-rate must lie in [0, 1)"),
        ("--num-mtp-tokens 10", "--num-mtp-tokens"),
        ("--batch-range 1 2 3", "--batch-range takes one or two numbers"),
        ("--tpot-limits -5", "--tpot-limits must be a number of at least 0, not -5"),
        ("--ttft-limits nan", "--ttft-limits must be a number of at least 0, not nan"),
        ("--reserved-memory-gb -1", "--reserved-memory-gb must be a number of at least 0, not -1"),
        ("--tp-sizes 3", "no plan could be evaluated on TEST_DEVICE: tp 3"),
    ],
)
def test_what_the_seeds_refuse_is_refused_by_name(optimizer, options, complaint):
    with pytest.raises(InputError, match=re.escape(complaint)):
        optimizer(f"Qwen/Qwen3-32B --num-devices 8 --input-length 100 --output-length 10 --batch-range 2 {options}")


def numbers(line):
    """Return the cells of a table row, numbers as numbers."""
    cells = [cell.strip() for cell in line.strip().strip("|").split(" | " if "TP=" not in line else "|")]
    return [float(cell) for cell in cells if re.fullmatch(r"-?\d+(\.\d+)?", cell)]


def test_a_published_run_is_reproduced(optimizer):
    # It ran with the token budget 4 x 3500 (see docs/explanation/seeds.md); its best row: 3875.21 tokens/s at batch 193.
    published = shared_data("upstream", "runs", "01_q32b_agg_tpot50.txt").read_text(encoding="utf-8")
    ours = optimizer(f"{DENSE.replace('--batch-range 24', '--max-batched-tokens 14000')} --tpot-limits 50").out
    first = r"^\|  1  \|.*$"
    expected = numbers(re.search(first, published, re.MULTILINE)[0])
    found = numbers(re.search(first, ours, re.MULTILINE)[0])
    assert found[0] == expected[0] == 1
    assert found[4] == expected[4] == 193  # concurrency
    assert found[1:4] == pytest.approx(expected[1:4], rel=0.01)  # tokens/s, TTFT, TPOT
