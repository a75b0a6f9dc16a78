"""Length distributions from the command line: what is refused and how, and the tables that seed 002 asks for."""

from __future__ import annotations

import hashlib
import io
import json
import re
import sys
from contextlib import redirect_stderr, redirect_stdout

import pytest
from conftest_cli import Outcome, sweepdb, words

from cli.inference import throughput_optimizer

# Midpoints 500, 2000 and 6000; weights of any sum: the mean is 0.5 x 500 + 0.3 x 2000 + 0.2 x 6000 = 2050.
LENGTHS = """bins:
  - {min_tokens: 0, max_tokens: 1000, weight: 50}
  - {min_tokens: 1000, max_tokens: 3000, weight: 30}
  - {min_tokens: 3000, max_tokens: 9000, weight: 20}
"""
BAD = {
    "bins: [{min_tokens: -1, max_tokens: 10, weight: 1}]": "line 1: bins[0].min_tokens must be at least 0, not -1",
    "bins: [{min_tokens: 0, max_tokens: 5, weight: 1}, {min_tokens: 10, max_tokens: 10, weight: 1}]": (
        "line 1: bins[1]: max_tokens (10) must be above min_tokens (10)"
    ),
    "bins: [{min_tokens: 0, max_tokens: 10, weight: 0}]": "line 1: bins[0].weight must be above 0, not 0",
    "bins: [{min_tokens: 0, max_tokens: 10, weight: -2}]": "line 1: bins[0].weight must be above 0, not -2",
    "bins: [{min_tokens: 5, max_tokens: 20, weight: 1}, {min_tokens: 0, max_tokens: 10, weight: 1}]": (
        "line 1: bins[0] begins at 5, inside bins[1] which ends at 10; bins must not overlap"
    ),
    "bins: []": "line 1: bins must be a list of at least 1",
    "bins: [{min_tokens: 0, max_tokens: 10, weight: .nan}]": "line 1: bins[0].weight must be a finite number, not nan",
    "": "the file must be a mapping of keys to values, not None",
    "\x00": "not a YAML file: ",
}
RUN = "Qwen/Qwen3-32B --device TEST_DEVICE --num-devices 8 --output-length 10 --compile --batch-range 24"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with one store for both commands, and a good file."""
    path = tmp_path_factory.mktemp("lengths")
    (path / "lengths.yaml").write_text(LENGTHS)
    return path


@pytest.fixture
def optimizer(folder, monkeypatch):
    """The drop-in command over the shared store, without curves, as a shell would run it."""
    monkeypatch.setenv("SWEEPDB_STORE", f"sqlite:///{folder}/store.sqlite")
    monkeypatch.setitem(sys.modules, "plotext", None)

    def run(text):
        monkeypatch.setattr(sys, "argv", ["throughput_optimizer", *words(text)])
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
            throughput_optimizer.main()
        return Outcome(ended.value.code, out.getvalue(), err.getvalue())

    return run


@pytest.fixture
def evaluate(folder):
    return lambda text: sweepdb(f"evaluate {text}", f"sqlite:///{folder}/store.sqlite")


def assert_one_sentence(outcome, beginning):
    """Exit 2, nothing on standard output, and one sentence (and perhaps a hint) that begins so."""
    assert outcome.code == 2
    assert outcome.out == ""
    first, *hint = outcome.err.splitlines()
    assert first.startswith(f"error: {beginning}")
    assert len(hint) <= 1
    assert all(line.startswith("hint: ") for line in hint)


@pytest.mark.parametrize("text", BAD)
def test_s29_the_drop_in_command_names_file_bin_and_rule(optimizer, tmp_path, text):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    outcome = optimizer(f"{RUN} --input-length {path} --disagg --ttft-limits 500")
    assert_one_sentence(outcome, f"{path}: {BAD[text]}")


@pytest.mark.parametrize("text", BAD)
def test_s29_evaluate_names_file_bin_and_rule(evaluate, tmp_path, text):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    assert_one_sentence(evaluate(f"{RUN} --input-length {path}"), f"{path}: {BAD[text]}")


def test_s29_a_file_of_ten_gigabytes_is_refused_unread(evaluate, optimizer, tmp_path):
    path = tmp_path / "huge.yaml"
    with path.open("wb") as file:
        file.truncate(10 * 2**30)  # sparse: takes no disk
    said = f"{path}: 10737418240 bytes is too large for a length distribution"
    assert_one_sentence(evaluate(f"{RUN} --input-length {path}"), said)
    assert_one_sentence(optimizer(f"{RUN} --input-length {path} --disagg --ttft-limits 500"), said)


def test_s29_midpoints_stand_for_bins_and_weights_are_normalised(folder):
    address = f"sqlite:///{folder}/named.sqlite"
    assert sweepdb(f"workloads add mine --input-length {folder}/lengths.yaml --output-length 10", address).code == 0
    bins = json.loads(sweepdb("workloads show mine --format json", address).out)
    assert [(row["input_length"], row["weight"]) for row in bins] == [
        (500, pytest.approx(0.5)), (2000, pytest.approx(0.3)), (6000, pytest.approx(0.2)),
    ]  # fmt: skip


def table(outcome):
    """(aggregate row, rows of its bins) of each configuration of the printed table, as mappings."""
    assert outcome.code == 0, outcome.err
    lines = [line for line in outcome.out.splitlines() if line.startswith("|")]
    header, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in map(unpiped, lines)]
    found = []
    for cells in rows:
        row = dict(zip(header, cells, strict=True))
        if row["num_input_tokens"] == "all":
            found.append((row, []))
        else:
            found[-1][1].append(row)
    return found


def unpiped(line):
    """A table line whose plan label has no bars of its own."""
    return re.sub(r"TP=(\d+) \| PP=(\d+) \| DP=(\d+)", r"TP=\1 PP=\2 DP=\3", line)


@pytest.mark.parametrize("rule", ["seed002", "upstream"])
def test_s31_the_rows_of_bins_rebuild_the_aggregate(optimizer, folder, rule):
    outcome = optimizer(
        f"{RUN} --input-length {folder}/lengths.yaml --disagg --ttft-limits 3000 --prefill-rule {rule}"
        " --max-batched-tokens 12000"
    )
    model = "seed002" if rule == "seed002" else "waves"
    asked = f"SELECT plan, batch_size, makespan_ms FROM prefill WHERE serving_model = '{model}' AND max_batched_tokens = 12000"
    stored = json.loads(sweepdb("sql --format json", None, stdin=asked).out)
    makespans = {(row["plan"], row["batch_size"]): row["makespan_ms"] for row in stored}
    configurations = table(outcome)
    assert len(configurations) == 4
    for whole, bins in configurations:
        tp, dp = (int(re.search(rf"{name}=(\d+)", whole["parallel"])[1]) for name in ("TP", "DP"))
        # token/s = sum of raw input tokens of the whole batch / time: rows are those of one of dp replicas
        tokens = dp * sum(int(row["num_input_tokens"]) * int(row["samples"]) for row in bins)
        ttft, rate = float(whole["TTFT (ms)"]), float(whole["Throughput (token/s)"])
        makespan = makespans[f"tp{tp}pp1dp{dp}", int(whole["batch_size"])]
        assert rate == pytest.approx(1000 * tokens / makespan, rel=1e-5)
        if rule == "seed002":  # the batch runs once, so that everyone's first token comes at its end
            assert ttft == pytest.approx(makespan, abs=0.006)
            assert rate == pytest.approx(1000 * tokens / ttft, rel=1e-3)
        else:
            assert ttft <= makespan + 0.006


def test_s32_an_aggregate_row_stands_above_a_row_for_each_bin(optimizer, folder):
    outcome = optimizer(f"{RUN} --input-length {folder}/lengths.yaml --disagg --ttft-limits 3000")
    for rank, (whole, bins) in enumerate(table(outcome), start=1):
        assert (whole["Top"], whole["request_ratio"], whole["samples"]) == (str(rank), "1.000", whole["concurrency"])
        assert bins
        assert sum(int(row["samples"]) for row in bins) == int(whole["batch_size"])
        for row in bins:
            assert (row["TTFT (ms)"], row["Throughput (token/s)"], row["Top"]) == ("-", "-", "-")
            assert {row[name] == whole[name] for name in ("num_devices", "concurrency", "parallel", "batch_size")} == {
                True
            }
        lengths = [int(row["num_input_tokens"]) for row in bins]
        assert lengths == sorted(set(lengths) & {500, 2000, 6000})


def test_s32_aggregate_and_bins_are_two_tables_of_the_store(folder, optimizer):
    optimizer(f"{RUN} --input-length {folder}/lengths.yaml --disagg --ttft-limits 3000")
    address = f"sqlite:///{folder}/store.sqlite"
    (row,) = json.loads(sweepdb("query prefill --last --top 1 --ttft-limit 3000 --format json --wide", address).out)[:1]
    shown = sweepdb("query prefill --last --top 1 --ttft-limit 3000 --composition", address).out
    whole, *lines = [line.split() for line in shown.splitlines() if line.startswith(row["probe"])]
    assert whole[2:9] == [
        "all",
        "-",
        "-",
        "1.00",
        f"{row['concurrency']}",
        f"{row['concurrency']}",
        f"{row['batch_size']}",
    ]
    assert all(line[9:] == ["-", "-", "-"] for line in lines)
    samples = {int(line[2]): int(line[6]) for line in lines}
    whole, *bins = json.loads(
        sweepdb("query prefill --last --top 1 --ttft-limit 3000 --composition --format json-full", address).out
    )["composition"]
    assert (whole["num_input_tokens"], whole["samples"]) == ("all", row["concurrency"])
    assert {item["num_input_tokens"]: item["samples"] for item in bins} == samples
    assert {item["ttft_ms"] for item in bins} == {None}
    assert sum(samples.values()) == row["batch_size"]
    mean = sum(length * number for length, number in samples.items()) / row["batch_size"]
    assert row["realised_input_length_mean"] == pytest.approx(mean)


def test_s34_what_the_seed_refuses_sweepdb_evaluates(optimizer, evaluate, folder):
    file = f"{folder}/lengths.yaml"
    accepted = optimizer(f"{RUN} --input-length {file} --disagg --ttft-limits 3000")
    assert accepted.code == 0
    refused = {
        "--disagg": "A length distribution with --disagg needs --ttft-limits here",
        "--disagg --ttft-limits 3000 --tpot-limits 50": (
            "A length distribution with --disagg does not support --tpot-limits here"
        ),
        "--disagg --ttft-limits 3000 --max-batched-tokens 2000 --prefill-rule seed002": (
            "This distribution needs chunked prefill: its mean of 2050 new tokens is above --max-batched-tokens 2000"
        ),
    }
    for options, sentence in refused.items():
        assert_one_sentence(optimizer(f"{RUN} --input-length {file} {options}"), sentence)
    # aggregated, decode, chunks (6000 tokens over a budget of 2000) and PD ratio, in one sweep
    assert evaluate(f"{RUN} --input-length {file} --max-num-batched-tokens 2000").code == 0
    address = f"sqlite:///{folder}/store.sqlite"
    for report in ("best", "prefill", "decode", "pd-ratio"):
        rows = json.loads(sweepdb(f"query {report} --last --format json --wide", address).out)
        assert rows, report
        if report in {"best", "prefill"}:
            assert {row["prefill_chunks"] for row in rows} == {3}


def test_a_workload_goes_by_its_name_in_every_command(optimizer, folder, tmp_path):
    address = f"sqlite:///{folder}/store.sqlite"
    file = f"{folder}/lengths.yaml"
    for name, length in (("spread", file), ("alike", "640")):
        assert sweepdb(f"workloads add {name} --input-length {length} --output-length 10", address).code == 0
    run = "--disagg --ttft-limit 3000"
    # the drop-in command: a name stands for the file, or for the number
    assert table(optimizer(f"{RUN} --input-length spread {run}")) == table(
        optimizer(f"{RUN} --input-length {file} {run}")
    )
    named, number = (optimizer(f"{RUN} --input-length {length} {run}") for length in ("alike", "640"))
    assert named.out.splitlines()[:-1] == number.out.splitlines()[:-1]
    # evaluate and sweep files
    (tmp_path / "sweep.yaml").write_text(
        f"models: [Qwen/Qwen3-8B]\ndevice: TEST_DEVICE\nbatch_range: 4\nmodes: [decode]\nworkloads: [{{workload: spread}}, {{workload: alike}},"
        f" {{input_length: {file}, output_length: 10}}]"
    )
    assert sweepdb(f"evaluate --sweep {tmp_path}/sweep.yaml --label named", address).code == 0
    again = sweepdb(
        "evaluate Qwen/Qwen3-8B --device TEST_DEVICE --workload spread,alike --batch-range 4 --mode decode", address
    )
    assert again.code == 0
    assert "0 probes stored, 8 already there" in again.err
    # questions, by file, by name and by both spellings
    asked = [
        sweepdb(f"query decode --model Qwen3-8B --output-length 10 {scope} --format json", address).out
        for scope in (f"--input-length {file}", "--input-length spread", "--workload spread")
    ]
    assert asked[0] == asked[1] == asked[2]
    # It is shown under the name, or the label, that it was first stored with.
    assert {row["workload"] for row in json.loads(asked[0])} in ({"spread"}, {"~2050/10 (3 bins)"})


def test_a_file_is_a_scope_of_every_report(evaluate, folder):
    file, address = f"{folder}/lengths.yaml", f"sqlite:///{folder}/store.sqlite"
    assert evaluate(f"{RUN} --input-length {file} --max-num-batched-tokens 4096").code == 0
    assert evaluate(f"{RUN} --input-length 2050").code == 0
    scope = f"--input-length {file} --output-length 10 --max-num-batched-tokens 4096 --format json --wide"
    for report in ("best", "prefill", "decode", "pd-ratio", "curve", "pareto", "devices", "coverage"):
        rows = json.loads(sweepdb(f"query {report} {scope}", address).out)
        assert rows, report
        assert {row.get("workload", "~2050/10 (3 bins) max-num-batched-tokens 4096") for row in rows} == {
            "~2050/10 (3 bins) max-num-batched-tokens 4096"
        }
    assert_one_sentence(sweepdb(f"query best --input-length {folder}/none.yaml", address), "No workload")
    for report, phases in (("best", 1), ("prefill", 1), ("decode", 1), ("pd-ratio", 2)):
        shown = sweepdb(
            f"query {report} --top 1 --composition {scope.replace('--format json --wide', '')}", address
        ).out
        assert len(re.findall(r"^\w{8}:\d+ +\w+ +all ", shown, re.MULTILINE)) == phases, report
    fixed = sweepdb("query best --top 1 --composition --input-length 2050", address)
    assert "no length distribution among these rows" in fixed.err
    (folder / "other.yaml").write_text("bins: [{min_tokens: 0, max_tokens: 7, weight: 1}]")
    said = "Nothing is stored of the length distribution"
    assert_one_sentence(sweepdb(f"query best --input-length {folder}/other.yaml", address), said)


def test_every_report_says_where_a_batch_misses_bins(evaluate, folder):
    file, address = f"{folder}/lengths.yaml", f"sqlite:///{folder}/store.sqlite"
    assert (
        evaluate(
            f"Qwen/Qwen3-8B --device TEST_DEVICE --num-devices 2 --output-length 20 --batch-range 7 --input-length {file}"
        ).code
        == 0
    )
    scope = "--model Qwen3-8B --output-length 20"
    # A batch of one holds the bin of 500 tokens, of two those of 500 and 2000: -76 % and -39 % of 2050.
    for report, options in (("prefill", ""), ("devices", "--mode prefill"), ("by-length", "")):
        told = " ".join(sweepdb(f"query {report} {scope} --top 1 {options}", address).out.split())
        assert re.search(r"has a mean prompt of \d+ tokens, the distribution 2050 \(-\d+%\)", told), report
    many = " ".join(sweepdb(f"query curve {scope} --mode prefill", address).out.split())
    assert "of these batches are too small to hold every length bin: their mean prompts are off by -76% to " in many
    assert "mean prompt" not in sweepdb(f"query decode {scope}", address).err


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--workload spread --input-length 5", "Give --workload or --input-length, not both"),
        ("--workload spread --output-length 5", "A named workload brings its own settings: drop --output-length"),
        (
            "--workload spread --max-num-batched-tokens 5",
            "A named workload brings its own settings: drop --max-num-batched",
        ),
        ("--workload nobody", "This store has no workload named 'nobody'"),
        ("--workload nobody.yaml", "--workload nobody.yaml: there is no such file."),
        ("--workload nobody.yaml,spread", "A file of lengths stands alone"),
        (
            "--input-length nowhere.yaml --output-length 5",
            "--input-length nowhere.yaml is neither a number of tokens nor a file.",
        ),
    ],
)
def test_options_that_a_name_would_overrule_are_refused(evaluate, folder, options, complaint):
    sweepdb(
        f"workloads add spread --input-length {folder}/lengths.yaml --output-length 10",
        f"sqlite:///{folder}/store.sqlite",
    )
    assert_one_sentence(evaluate(f"Qwen/Qwen3-8B --device TEST_DEVICE {options}"), complaint)


def test_a_file_is_a_workload_as_it_is_an_input_length(evaluate, folder):
    """The same subject, so nothing is new the second time."""
    line = "Qwen/Qwen3-0.6B --device TEST_DEVICE --batch-range 2"
    assert evaluate(f"{line} --workload {folder}/lengths.yaml --output-length 10").code == 0
    again = evaluate(f"{line} --input-length {folder}/lengths.yaml --output-length 10")
    assert "0 probes stored, 6 already there" in again.err  # two batch sizes of three phases


def test_a_trace_leaves_its_hash_with_the_workload(folder, tmp_path):
    trace = tmp_path / "log.csv"
    trace.write_text("input_tokens,output_tokens\n10,4\n30,8\n20,0\n")
    address = f"sqlite:///{folder}/traces.sqlite"
    digest = hashlib.sha256(trace.read_bytes()).hexdigest()
    said = f"workload log: ~20/6 (2 bins), mean prompt 20 tokens, from a trace of 2 requests (1 more without prompt or output), sha256 {digest}"
    assert sweepdb(f"workloads add log --trace {trace} --trace-bins 2", address).err.strip() == said
    trace.unlink()  # it is not needed any more
    shown = sweepdb("workloads show log", address)
    assert shown.err.strip() == said
    assert (
        sweepdb(
            "evaluate Qwen/Qwen3-8B --device TEST_DEVICE --workload log --batch-range 3 --mode decode", address
        ).code
        == 0
    )
    assert_one_sentence(sweepdb("workloads add a,b --input-length 5 --output-length 5", address), "'a,b' is no name")
