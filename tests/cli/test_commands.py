"""The command as a user meets it: what it prints, where, and with which exit code."""

from __future__ import annotations

import csv
import io
import json
import os
import shlex
import signal
import subprocess
import sys
import time

import pytest
from conftest_cli import EXAMPLE, sweepdb

EVALUATE = "evaluate Qwen/Qwen3-0.6B --device TEST_DEVICE --num-devices 2 --input-length 100 --output-length 10"


def test_a_first_sweep_says_what_was_stored_and_what_to_type_next(tmp_path):
    url = f"sqlite:///{tmp_path}/s.sqlite"
    outcome = sweepdb(f"{EVALUATE} --batch-range 8", url)
    assert outcome.code == 0
    assert outcome.out == ""
    assert "6 scenarios, 48 probes stored" in outcome.err
    assert f"next: sweepdb query best --tpot-limit 50 --store {shlex.quote(url)}" in outcome.err
    again = sweepdb(f"{EVALUATE} --batch-range 8", url)
    assert "0 probes stored, 48 already there" in again.err
    wider = sweepdb(f"{EVALUATE} --batch-range 10", url)
    assert "12 probes stored, 48 already there" in wider.err


def test_json_of_evaluate_is_one_array_on_stdout(tmp_path):
    outcome = sweepdb(f"{EVALUATE} --batch-range 4 --format json", f"sqlite:///{tmp_path}/s.sqlite")
    (report,) = json.loads(outcome.out)
    assert (report["scenarios"], report["probes_stored"], report["failures"]) == (6, 24, [])


def test_a_dry_run_counts_and_stores_nothing(tmp_path):
    path = tmp_path / "s.sqlite"
    outcome = sweepdb(f"{EVALUATE} --batch-range 4 --dry-run", f"sqlite:///{path}")
    assert "6 scenarios (0 illegal), 24 probes; nothing was stored" in outcome.err
    assert not path.exists()


def test_best_explains_its_rules_in_the_header(example_store):
    outcome = sweepdb("query best --tpot-limit 50 --explain", example_store)
    assert outcome.code == 0
    assert "limits: tpot <= 50 ms, 10 GiB reserved" in outcome.out
    assert "rules: tpot inclusive, prefill rate capacity, decode rate minus-one" in outcome.out
    assert "Qwen/Qwen3-32B · 3500/1500 · W8A8_DYNAMIC" in outcome.out


def test_json_rows_are_numbers_and_nulls_and_obey_the_limits(example_store):
    rows = json.loads(sweepdb("query best --tpot-limit 50 --format json", example_store).out)
    assert [row["rank"] for row in rows] == [1, 2, 3, 4]
    assert all(isinstance(row["tpot_inclusive_ms"], float) and row["tpot_inclusive_ms"] <= 50 for row in rows)
    assert rows[0]["decode_step_p90_ms"] is None
    rates = [row["output_tokens_per_s"] for row in rows]
    assert rates == sorted(rates, reverse=True)


def test_nothing_fits_is_exit_0_an_empty_array_and_a_nearest_miss(example_store):
    outcome = sweepdb("query best --tpot-limit 1 --format json", example_store)
    assert (outcome.code, json.loads(outcome.out)) == (0, [])
    full = json.loads(sweepdb("query best --tpot-limit 1 --format json-full", example_store).out)
    assert full["rows"] == []
    assert full["nearest"][0]["binding_limit"] == "tpot"
    assert set(full) == {
        "question", "definitions", "left_out", "versions", "expected_error", "probes_considered", "rows", "nearest",
    }  # fmt: skip
    table = sweepdb("query best --tpot-limit 1", example_store)
    assert "Nothing satisfies the limits. The nearest misses:" in table.out
    assert sweepdb("query best --tpot-limit 1 --fail-empty", example_store).code == 5


def test_csv_and_files(example_store, tmp_path):
    rows = list(csv.DictReader(io.StringIO(sweepdb("query decode --format csv", example_store).out)))
    assert {row["phase"] for row in rows} == {"decode"}
    target = tmp_path / "rows.parquet"
    assert sweepdb(f"query decode --format parquet --output {target}", example_store).code == 0
    import duckdb

    with duckdb.connect() as connection:
        assert connection.execute(f"SELECT count(*) FROM '{target}'").fetchone() == (len(rows),)
    assert sweepdb("query decode --format parquet", example_store).code == 2


def test_explained_operators_sum_to_the_stored_step(example_store):
    probe = json.loads(sweepdb("query best --tpot-limit 50 --format json", example_store).out)[0]
    rows = json.loads(sweepdb(f"explain {probe['probe']} --format json", example_store).out)
    for step in ("prefill", "decode"):
        total = sum(row["time_ms"] for row in rows if row["step"] == step)
        assert total == pytest.approx(probe[f"{step}_step_ms"], rel=1e-6)


def test_two_probes_are_set_side_by_side(example_store):
    rows = json.loads(sweepdb("query decode --format json", example_store).out)
    outcome = sweepdb(f"explain {rows[0]['probe']} {rows[1]['probe']} --format json", example_store)
    told = json.loads(outcome.out)
    assert {"a_ms", "b_ms", "difference_ms"} <= set(told[0])
    named = [(row["step"], row["operator"], row["kind"]) for row in told]
    assert len(set(named)) == len(named) > len({name[:2] for name in named})  # one name may have two kinds
    for side, row in zip("ab", rows, strict=False):
        total = sum(one[f"{side}_ms"] or 0.0 for one in told)
        assert total == pytest.approx(row["decode_step_ms"], rel=1e-6)


def test_sql_reads_and_only_reads(example_store):
    outcome = sweepdb(["sql", "SELECT count(*) AS n FROM probe", "--format", "json"], example_store)
    assert json.loads(outcome.out)[0]["n"] > 1000
    refused = sweepdb(["sql", "DELETE FROM probe"], example_store)
    assert refused.code == 2
    assert "Only SELECT and EXPLAIN" in refused.err
    piped = sweepdb(["sql", "--format", "csv"], example_store, stdin="SELECT 1 AS one")
    assert piped.out == "one\n1\n"


def test_sweeps_show_void_and_unvoid(tmp_path):
    url = f"sqlite:///{tmp_path}/s.sqlite"
    sweepdb(f"{EVALUATE} --batch-range 4 --label first", url)
    (row,) = json.loads(sweepdb("sweeps --format json", url).out)
    assert (row["status"], row["probes_stored"], row["label"]) == ("finished", 24, "first")
    assert "Qwen/Qwen3-0.6B on TEST_DEVICE" in row["asked"]
    assert sweepdb(["void", row["sweep"], "--reason", "a test"], url).code == 0
    hidden = sweepdb("query best", url)
    assert hidden.code == 2
    assert "no probes" in hidden.err or "nothing stored" in hidden.err
    assert sweepdb(["unvoid", row["sweep"]], url).code == 0
    assert sweepdb("query best", url).code == 0
    assert "finished" in sweepdb(f"show {row['sweep']}", url).out


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        (f"{EVALUATE} --tpot-limit 50", 2, "Limits belong to query"),
        ("evaluate NoSuch/Model-9B --input-length 10 --output-length 10", 2, "Unknown model"),
        ("evaluate Qwen/Qwen3-0.6B --device H900 --input-length 10 --output-length 10", 2, "Unknown device"),
        ("evaluate Qwen/Qwen3-0.6B --device TEST_DEVICE --output-length 10", 2, "--input-length is missing"),
        (
            "evaluate Qwen/Qwen3-0.6B --device TEST_DEVICE --input-length 0 --output-length 10",
            2,
            "--input-length must lie between 1",
        ),
        (
            "evaluate Qwen/Qwen3-0.6B --device TEST_DEVICE --input-length 10 --output-length 10 --num-devices 0",
            2,
            "at least 1",
        ),
        (
            "evaluate Qwen/Qwen3-0.6B --device TEST_DEVICE --input-length 10 --output-length 10 --prefix-cache-hit-rate 1",
            2,
            "[0, 1)",
        ),
        (
            "evaluate Qwen/Qwen3-0.6B --device TEST_DEVICE --input-length 10 --output-length 10 --num-devices 4096",
            2,
            "grid holds",
        ),
        (
            "evaluate deepseek-ai/DeepSeek-V3 --device TEST_DEVICE --input-length 9 --output-length 9 --num-mtp-tokens 3 --mtp-acceptance-rate 0.9",
            2,
            "3 MTP tokens need 3 acceptance rates",
        ),
        (
            "evaluate Qwen/Qwen3-0.6B --device TEST_DEVICE --input-length 10 --output-length 10 --quantization W3",
            2,
            "Unknown linear",
        ),
        (
            "evaluate Qwen/Qwen3-0.6B --input-length 10 --output-length 10 --frobnicate",
            2,
            "has no option --frobnicate.",
        ),
        ("--store sqlite:///s.sqlite query best", 2, "Type it behind a command: sweepdb query ... --store"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(tmp_path, line, code, said):
    outcome = sweepdb(line, f"sqlite:///{tmp_path}/s.sqlite")
    assert outcome.code == code
    assert said in outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("query bset", "Nearest: best"),
        ("query best --model Qwen/Qwen3-33B", "Nearest: Qwen/Qwen3-32B"),
        ("query best --device TESTDEVICE", "Nearest: TEST_DEVICE"),
        ("query best --tpot-limit -5", "must be a number above 0, not -5"),
        ("query best --ttft-limit nan", "--ttft-limit must be a number above 0, not nan"),
        ("query prefill --tpot-limit 50", "Prefill rows have no such metric"),
        ("query best --preset nonsense", "is not one of sweepdb, upstream"),
        ("query best --top 0", "--top must be a positive whole number, not 0"),
        (
            "query coverage --tpot-limit 50",
            "Report coverage makes no use of --tpot-limit\nhint: Coverage lists what is",
        ),
        ("query coverage --reserved-memory-gb 4", "Report coverage makes no use of --reserved-memory-gb"),
        ("query best --mode decode --target-rate 3", "Report best makes no use of --target-rate, --mode"),
        ("query pd-ratio --e2e-limit 9", "--e2e-limit"),
        ("query capacity --rank-by qps", "Report capacity makes no use of --rank-by"),
        ("query decode --price-date 2026-01-01 --vary ttft", "makes no use of --vary, --price-date"),
        ("explain nonsense", "is not a probe"),
        ("show abcdef12:1", "No scenario"),
    ],
)
def test_a_bad_question_says_what_to_type(example_store, line, said):
    outcome = sweepdb(line, example_store)
    assert outcome.code == 2
    assert said in outcome.err
    assert "Traceback" not in outcome.err


def test_an_explicit_illegal_plan_is_a_row_with_its_reason(tmp_path):
    url = f"sqlite:///{tmp_path}/s.sqlite"
    outcome = sweepdb(f"{EVALUATE} --tp-sizes 1 3 --batch-range 2", url)
    assert outcome.code == 0
    assert "3 illegal: tp 3" in outcome.err
    rows = json.loads(
        sweepdb(["sql", "SELECT DISTINCT reason FROM scenario WHERE status = 'illegal'", "--format", "json"], url).out
    )
    assert rows[0]["reason"].startswith("tp 3 x pp 1 x dp 1 is 3, not 2 devices")


def test_a_model_that_fits_nowhere_is_told_with_what_to_change(tmp_path):
    outcome = sweepdb(
        "evaluate meta-llama/Llama-3.1-405B --device TEST_DEVICE --num-devices 1 --input-length 100 --output-length 10 --batch-range 1",
        f"sqlite:///{tmp_path}/s.sqlite",
    )
    assert outcome.code == 2
    assert "does not fit the device memory at batch size 1" in outcome.err


def test_no_store_and_no_probes_say_how_to_begin(tmp_path):
    url = f"sqlite:///{tmp_path}/s.sqlite"
    assert "no store" in sweepdb("query best", url).err
    assert sweepdb("db init", url).code == 0
    empty = sweepdb("query best", url)
    assert empty.code == 2
    assert "sweepdb evaluate" in empty.err


def test_a_sweep_file_is_a_product(tmp_path):
    path = tmp_path / "sweep.yaml"
    path.write_text(
        """
        models: [Qwen/Qwen3-0.6B]
        devices: [TEST_DEVICE, ATLAS_800_A2_376T_64G]
        num_devices: 2
        workloads: [{input_length: 100, output_length: 10}, {input_length: 200, output_length: 10}]
        precisions: [{linear: BF16}, {linear: FP8}]
        """
    )
    outcome = sweepdb(f"evaluate --sweep {path} --batch-range 2 --dry-run", f"sqlite:///{tmp_path}/s.sqlite")
    # 2 devices x 2 workloads x 2 precisions x 3 phases x 2 plans, 2 batch sizes each
    assert "48 scenarios (0 illegal), 96 probes" in outcome.err


def test_a_proof_holds_on_a_copy_and_fails_on_another_store(example_store, tmp_path):
    proof = tmp_path / "proof.json"
    assert sweepdb(f"query best --tpot-limit 50 --proof {proof}", example_store).code == 0
    copy = tmp_path / "copy.sqlite"
    import sqlite3

    with sqlite3.connect(example_store.removeprefix("sqlite:///")) as source, sqlite3.connect(copy) as target:
        source.backup(target)
    assert "verified" in sweepdb(f"verify {proof}", f"sqlite:///{copy}").err
    other = f"sqlite:///{tmp_path}/other.sqlite"
    sweepdb(EXAMPLE.replace("--batch-range 260", "--batch-range 20"), other)
    outcome = sweepdb(f"verify {proof}", other)
    assert outcome.code != 0
    assert "Traceback" not in outcome.err


def test_help_is_cheap_and_loads_nothing_heavy():
    code = "import sys, cli.main as m; m.run(['--help']); print(sorted({'torch','pandas','sqlalchemy','duckdb','numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_question_loads_no_torch_pandas_or_sqlalchemy(example_store):
    code = (
        f"import sys, cli.main as m; m.run(['query', 'best', '--store', {example_store!r}, '--format', 'csv']);"
        "print(sorted({'torch', 'pandas', 'sqlalchemy', 'alembic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.survival
def test_control_c_keeps_what_is_done_and_says_how_to_go_on(tmp_path):
    url = f"sqlite:///{tmp_path}/s.sqlite"
    line = [
        *["evaluate", "deepseek-ai/DeepSeek-V3.1", "--device", "h200_sxm", "--prefill-devices-per-instance", "16"],
        *["--decode-devices-per-instance", "16", "--input-length", "3500", "--output-length", "1500", "--store"],
        url,
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "cli.main", *line],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=_hears,  # noqa: PLW1509  no thread runs here
    )
    path = tmp_path / "s.sqlite"
    while process.poll() is None and not (path.exists() and _blocks(path) > 0):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "run the same command again to go on" in said
    kept = _blocks(path)
    assert kept > 0
    assert json.loads(sweepdb("sweeps --format json", url).out)[0]["status"] == "interrupted"
    assert sweepdb("query decode --format json", url).code in {0, 2}


def _hears() -> None:
    """A shell starts what runs in the background deaf to ^C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _blocks(path) -> int:
    import sqlite3

    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
            return connection.execute("SELECT count(*) FROM block").fetchone()[0]
    except sqlite3.Error:
        return 0


def test_a_bundle_carries_a_store_over_once(example_store, tmp_path):
    folder, other = tmp_path / "bundle", f"sqlite:///{tmp_path}/other.sqlite"
    assert sweepdb(f"export {folder}", example_store).code == 0
    assert (folder / "bundle.json").exists()
    first = sweepdb(f"import {folder}", other)
    assert first.code == 0
    count = json.loads(sweepdb(["sql", "SELECT count(*) AS n FROM probe", "--format", "json"], example_store).out)[0][
        "n"
    ]
    assert f"1 sweep and {count:,} probes added" in first.err
    assert "0 sweeps and 0 probes added" in sweepdb(f"import {folder}", other).err
    line = "query best --tpot-limit 50 --format csv"
    here, there = (list(csv.DictReader(io.StringIO(sweepdb(line, url).out))) for url in (example_store, other))
    local = {"stored_at"}
    assert [{k: v for k, v in row.items() if k not in local} for row in here] == [
        {k: v for k, v in row.items() if k not in local} for row in there
    ]


def test_an_empty_probe_is_refused_with_a_sentence(example_store):
    outcome = sweepdb(["explain", ""], example_store)
    assert outcome.code == 2
    assert outcome.err.startswith("error: '' is not a probe")
