"""The seeds' command line: what each mode prints, letter for letter, and that other limits evaluate nothing.

SWEEPDB_WRITE_GOLDENS=1 writes the expected texts down again; read the difference before committing it."""

from __future__ import annotations

import csv
import os
import re
import sys
from pathlib import Path

import pytest
from conftest_cli import words
from quick import quick
from restated import length_file, rows

from cli.derived import as_typed
from cli.inference import throughput_optimizer
from cli.inference.parser import parse
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
DEARER = {
    "aggregated_two_devices", "disaggregated_two_devices", "pd_ratio_two_devices", "pd_ratio_counted", "pd_ratio_dumped",
}  # fmt: skip
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
        assert throughput_optimizer.run_optimizer(words(text.replace("LENGTHS", str(folder / "lengths.yaml")))) == 0
        return capsys.readouterr()

    return run


@pytest.mark.parametrize("name", quick(CASES, lambda name: name not in DEARER))
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


def test_a_batch_too_small_for_its_lengths_is_noted_in_the_table(optimizer):
    # Two requests a replica: of the bins of midpoints 500 and 2000; the mean of all is 0.5 x 500 + 0.3 x 2000 + 0.2 x
    # 6000 = 2050.
    printed = optimizer(CASES["lengths"].replace("--batch-range 24", "--batch-range 2"))
    assert "has a mean prompt of 1250 tokens, the distribution 2050 (-39%)" in printed.out
    assert "mean prompt" not in printed.err
    whole = optimizer(CASES["lengths"])
    # A search that doubles and bisects does not end at the batch of one that holds the shortest prompts alone.
    assert [int(line.split("|")[5]) for line in whole.out.splitlines() if "|       500 " in line] == [3, 6, 11, 6]


def test_without_plotext_the_answer_comes_with_a_warning(optimizer):
    printed = optimizer(CASES["aggregated"])
    assert "warning: no curves, because plotext is not installed" in printed.err
    assert "Top 4 Aggregation Configurations:" in printed.out


@pytest.mark.parametrize(
    ("case", "axes"),
    quick(
        [
            ("aggregated", ["Concurrency", "TPOT (ms)"]),
            ("prefill", ["Concurrency", "TTFT (ms)"]),
            ("lengths", []),
            ("decode", ["Concurrency", "TPOT (ms)"]),
            ("pd_ratio", ["Concurrency", "TPOT (ms)"]),
            ("aggregated_two_devices", []),
        ],
        3,
    ),
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
    with pytest.raises(InputError) as caught:
        optimizer(f"Qwen/Qwen3-32B --num-devices 8 --input-length 100 --output-length 10 --batch-range 2 {options}")
    assert complaint in as_typed(caught.value.message)


def numbers(line):
    cells = [cell.strip() for cell in line.strip().strip("|").split(" | " if "TP=" not in line else "|")]
    return [float(cell) for cell in cells if re.fullmatch(r"-?\d+(\.\d+)?", cell)]


def rows_of(text):
    return [numbers(line) for line in re.findall(r"^ *\|  [1-4]  \|.*$", text, re.MULTILINE)]


@pytest.mark.parametrize(
    ("run", "limits", "columns"),
    [
        ("01", "--tpot-limits 50", ("tokens_per_s", "ttft_ms", "tpot_ms", "concurrency")),
        ("03", "--disagg --ttft-limits 2000", ("tokens_per_s", "requests_per_s", "ttft_ms", "concurrency")),
        ("04", "--disagg --tpot-limits 50", ("tokens_per_s", "requests_per_s", "tpot_ms", "concurrency")),
    ],
)
def test_a_published_run_is_reproduced(optimizer, run, limits, columns):
    # The token budget is four times the prompt where none is given, as it was for them.
    theirs = [row for row in rows("upstream_answers") if row["run"] == run]
    found = rows_of(optimizer(f"{DENSE.replace('--batch-range 24', '')} {limits}").out)
    assert len(found) == len(theirs) == 4
    for ours, row in zip(found, theirs, strict=True):
        assert ours[0] == float(row["rank"])
        assert ours[1:5] == pytest.approx([float(row[name]) for name in columns], abs=0.011)


COMPARED = ("ca00", "du02", "cp02", "ca05", "sp01", "sp03", "mo02")
CELLS = {
    "batch_size": "batch", "concurrency": "concurrency", "prefill_num_chunks": "chunks", "ttft": "ttft_ms",
    "tpot": "tpot_ms", "token/s": "tokens_per_s", "token/s/device": "tokens_per_s_per_device",
    "weight_GB": "weights_gib", "effective_input_length": None,
}  # fmt: skip


@pytest.mark.parametrize("case", quick(COMPARED, 3))
def test_every_row_that_was_found_is_theirs(optimizer, tmp_path, case):
    theirs = [row for row in rows("upstream_rows") if row["case"] == case]
    first = theirs[0]
    length = length_file(tmp_path) if first["input"] == "lengths" else first["input"]
    limits = " ".join(
        f"--{name}-limit {first[f'{name}_limit_ms']}" for name in ("ttft", "tpot") if first[f"{name}_limit_ms"]
    )
    sizes = {name: sorted({row[name] for row in theirs}, key=int) for name in ("tp", "ep")}
    routed = "" if first["moe_tp"] == "1" else f"--ep-sizes {' '.join(sizes['ep'])}"
    batches = f"--batch-range {first['first_batch']} {first['last_batch']}" if first["last_batch"] else ""
    found = optimizer(
        f"{first['model']} --device {first['device']} --num-devices 8 --input-length {length} --output-length"
        f" {first['output']} --max-batched-tokens {first['budget']} --tp-sizes {' '.join(sizes['tp'])} {routed} {batches}"
        f" --quantize-linear-action {first['linear']} --prefix-cache-hit-rate {first['hit_rate']} {limits}"
        f" --dump-original-results {'--disagg' if first['phase'] != 'aggregated' else ''}"
    ).out.splitlines()
    start = next(number for number, line in enumerate(found) if line.startswith("device_name,"))
    dumped = list(csv.DictReader(found[start : start + 1 + len(theirs)]))
    assert [row["parallel"] for row in dumped] == sorted(
        (row["parallel"] for row in dumped), key=lambda text: int(text[3])
    )
    key = lambda row, tp, batch: (int(row[tp][3:4] if tp == "parallel" else row[tp]), int(row[batch]))  # noqa: E731
    dumped.sort(key=lambda row: key(row, "parallel", "batch_size"))
    for ours, row in zip(dumped, sorted(theirs, key=lambda row: key(row, "tp", "batch")), strict=True):
        for cell, name in CELLS.items():
            if name is not None and row[name]:
                tolerance = 5e-4 if first["moe_tp"] != "1" else 1e-6
                assert float(ours[cell]) == pytest.approx(float(row[name]), abs=0.0011, rel=tolerance), (cell, row)
        if row["prefill_split"] and case not in {"cp02", "sp03"}:  # of several unlike steps theirs is a mean
            assert shares(ours.get("percentage_breakdowns(p)")) == pytest.approx(shares(row["prefill_split"]), abs=0.03)


def shares(text):
    return [float(number) for number in re.findall(r"[\d.]+", text)]


def test_the_published_pairs_are_reproduced(optimizer):
    theirs = rows("upstream_pairs")
    # It ran without --compile, over every batch size.
    found = optimizer(f"{PAIRS.replace('--compile --batch-range 24', '')} --num-devices 16").out
    for name, pattern in {
        "pd_ratio": r"PD Ratio: +([\d.]+) ",
        "prefill_requests_per_s": r"Prefill QPS: +([\d.]+) req/s",
        "ttft_ms": r"TTFT: ([\d.]+) ms,",
        "decode_requests_per_s": r"Decode QPS: +([\d.]+) req/s",
        "tpot_ms": r"TPOT: ([\d.]+) ms,",
    }.items():
        assert float(re.search(pattern, found)[1]) == pytest.approx(float(theirs[0][name]), rel=0.01), name
    # Theirs pairs the best prefill plan with each decode plan; both rows are among our three by two pairs.
    pairs = [
        [float(cell) for cell in re.findall(r"\| +([\d.]+) +", line)] for line in found.splitlines() if "tp" in line
    ]
    pairs = [cells for cells in pairs if len(cells) == 12]
    assert len(pairs) == 6
    for row, place in zip(theirs, (0, 3), strict=True):
        columns = ("pd_ratio", "prefill_requests_per_s", "decode_requests_per_s")
        assert pairs[place][1:4] == pytest.approx([float(row[name]) for name in columns], abs=0.011)
    # Theirs holds 1 and 4 instances (12 of the 16 devices), which serve min(8.22, 4 x 2.24) = 8.22 requests/s. Ours is
    # the best exact allocation: 2 x 4 + 4 x 2 = 16 devices, min(2 x 8.22, 4 x 2.24) = 8.96 requests/s.
    assert (theirs[0]["prefill_instances"], theirs[0]["decode_instances"]) == ("1", "4")
    assert re.findall(r"[PD] Instances: (\d+) \((\d+) devices\)", found) == [("2", "8"), ("4", "8")]


def test_the_published_mixed_lengths_are_reproduced(optimizer, tmp_path):
    # It ran with four times the mean of 4230 tokens, which is the budget where none is given.
    printed = optimizer(
        f"Qwen/Qwen3-32B --num-devices 8 --input-length {length_file(tmp_path)} --output-length 1500 --compile --disagg"
        " --ttft-limits 2000"
    )
    aggregate = r"^\|  {}  \| +8 +\| +all .*$"
    theirs = [row for row in rows("upstream_answers") if row["run"] == "12"]
    ours = [numbers(re.search(aggregate.format(row["rank"]), printed.out, re.MULTILINE)[0]) for row in theirs]
    # Cells: rank, devices, share, samples, concurrency, TTFT, tokens/s, tp, dp, batch
    columns = ("concurrency", "ttft_ms", "tokens_per_s")
    for our, row in zip(ours, theirs, strict=True):
        assert our[4:7] == pytest.approx([float(row[name]) for name in columns], abs=0.011)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--disagg", "a length distribution with --disagg needs --ttft-limits"),
        ("--disagg --ttft-limits 500 --tpot-limits 50", "with --disagg does not support --tpot-limits"),
        (
            "--enable-optimize-prefill-decode-ratio --prefill-devices-per-instance 4 --decode-devices-per-instance 2",
            "does not support --enable-optimize-prefill-decode-ratio",
        ),
        # 0.5 x 500 + 0.3 x 2000 + 0.2 x 6000 = 2050
        (
            "--disagg --ttft-limits 500 --max-batched-tokens 2000 --prefill-rule seed002",
            "its mean of 2050 new tokens is above --max-batched-tokens 2000",
        ),
    ],
)
def test_distributions_are_refused_where_they_are_not_evaluated(optimizer, options, complaint):
    with pytest.raises(InputError, match=re.escape(complaint)):
        optimizer(f"Qwen/Qwen3-32B --num-devices 8 --input-length LENGTHS --output-length 10 {options}")


@pytest.mark.parametrize(
    ("bins", "complaint"),
    [
        ("{min_tokens: -1, max_tokens: 10, weight: 1}", "min_tokens"),
        ("{min_tokens: 10, max_tokens: 10, weight: 1}", "max_tokens"),
        ("{min_tokens: 0, max_tokens: 10, weight: 0}", "weight"),
        ("{min_tokens: 0, max_tokens: 10, weight: 1}, {min_tokens: 5, max_tokens: 20, weight: 1}", "overlap"),
    ],
)
def test_a_bad_file_is_refused_by_name(optimizer, tmp_path, bins, complaint):
    path = tmp_path / "bad.yaml"
    path.write_text(f"bins: [{bins}]")
    with pytest.raises(InputError, match=f"bad.yaml.*{complaint}"):
        optimizer(f"Qwen/Qwen3-32B --input-length {path} --output-length 10 --disagg --ttft-limits 500")


def test_the_defaults_are_the_seeds_and_the_budget_todays():
    options = parse(["Qwen/Qwen3-32B", "--input-length", "100", "--output-length", "10"])
    assert (options.devices, options.num_devices, options.reserved_memory_gb, options.jobs) == (
        ("TEST_DEVICE",), None, 10.0, 8,
    )  # fmt: skip
    assert (options.batch_range, options.max_batched_tokens, options.linear) == ((1, None), None, "W8A8_DYNAMIC")
    assert options.budgets() == (400, 200, 100)
    assert (options.search.rule, options.compile, options.prefix_cache_hit_rate) == ("tp", False, 0.0)
    with_draft = parse(["Qwen/Qwen3-32B", "--input-length", "100", "--output-length", "10", "--num-mtp-tokens", "4"])
    assert with_draft.workloads(400)[0].mtp_acceptance == (0.9, 0.6, 0.4, 0.2)


def test_a_refusal_is_one_sentence_and_exit_2(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["throughput_optimizer", "Qwen/Qwen3-32B", "--input-length", "100"])
    with pytest.raises(SystemExit, match="2"):
        throughput_optimizer.main()
    assert capsys.readouterr().err.startswith("error: The following arguments are required: --output-length")
