"""Calibrating from a table of kernels: held-out errors, a profile that can be used, a fit kept with its measurements."""

from __future__ import annotations

import csv
import itertools
import json

import duckdb
import pytest
from conftest_cli import sweepdb
from sqlalchemy import select

from evaluator.inputs.devices.calibration_record import calibration_from_json
from evaluator.inputs.devices.device_profiles import list_shipped, load_device, profile_from_text
from evaluator.inputs.devices.shipped_calibrations import shipped_calibration
from store.opening import open_store
from store.schema.sql_tables import CALIBRATION
from store.writing.beside import list_calibrations
from sweepdb.measuring.kernel_fitting import profile_yaml


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """Products that take 3 us, and 60 % of 312 TFLOP/s or 80 % of 2.039 TB/s, whichever is slower."""
    path = tmp_path_factory.mktemp("kernels") / "gemm.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["m", "n", "k", "dtype", "latency_us"])
        for m, n, k in itertools.product((1, 16, 256, 2048, 8192), (1024, 4096, 8192), (1024, 4096, 8192)):
            seconds = 3e-6 + max(2 * m * n * k / (0.6 * 312e12), 2 * (m * n + n * k + m * k) / (0.8 * 2.039e12))
            writer.writerow([m, n, k, "bfloat16", seconds * 1e6])
    return path


def test_a_fit_predicts_what_it_was_not_fitted_to_and_is_kept(kernels, tmp_path):
    url, profile = f"sqlite:///{tmp_path}/store.sqlite", tmp_path / "mine.yaml"
    outcome = sweepdb(f"calibrate a100_sxm --kernels {kernels} --profile {profile} --format json", url)
    assert outcome.code == 0, outcome.err
    (row,) = json.loads(outcome.out)
    assert (row["kernel"], row["fitted_rows"] + row["held_out_rows"]) == ("gemm.bf16", 45)
    assert row["median_ape_percent"] < 10
    fitted = load_device(str(profile))
    assert fitted.family == "calibrated"
    assert (
        "assumed, carried from the shipped a100_sxm and scaled as their family: collective.all_gather x 1"
        in outcome.err
    )
    assert set(calibration_from_json(fitted.calibration).kernels) == set(shipped_calibration("a100_sxm").kernels)
    with open_store(url, read_only=True) as store:
        (record,) = list_calibrations(store)
        with store.reading() as connection:
            tables = connection.scalar(select(CALIBRATION.c.kernels))
    assert (record.device_name, record.version) == ("a100_sxm", 1)
    assert json.loads(record.errors)["gemm.bf16"]["rows"] == row["held_out_rows"]
    (tmp_path / "kept.parquet").write_bytes(tables)
    with duckdb.connect() as connection:  # the module's own one may still hold what another test has asked it
        counted = f"SELECT kind, count(*), max(m) FROM '{tmp_path}/kept.parquet' GROUP BY kind"
        kept = connection.execute(counted).fetchall()
    assert kept == [("gemm", 45, 8192)]


def test_a_profile_is_never_overwritten(kernels, tmp_path):
    profile = tmp_path / "mine.yaml"
    profile.write_text("mine")
    outcome = sweepdb(f"calibrate a100_sxm --kernels {kernels} --profile {profile}", f"sqlite:///{tmp_path}/s.sqlite")
    assert (outcome.code, profile.read_text()) == (2, "mine")
    assert "is there already" in outcome.err
    assert not (tmp_path / "s.sqlite").exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("calibrate --kernels nowhere", "needs the device they were measured on"),
        ("calibrate a100_sxm", "needs --kernels DIR_OR_FILE or --measure cpu|cuda"),
        ("calibrate a100_sxm --measure tpu", "not one of cpu, cuda"),
        ("calibrate a100_sxm --measure cpu --budget 0", "between 1 and 86400"),
        ("calibrate a100_sxm --kernels nowhere", "No kernel measurements at nowhere"),
        ("calibrate no_such_chip --kernels nowhere", "Unknown device"),
    ],
)
def test_what_is_refused(tmp_path, monkeypatch, arguments, complaint):
    monkeypatch.chdir(tmp_path)
    outcome = sweepdb(arguments, f"sqlite:///{tmp_path}/s.sqlite")
    assert outcome.code == 2
    assert complaint in outcome.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", list_shipped())
def test_a_written_profile_is_read_back_whole(name):
    profile = load_device(name)
    assert profile_from_text(profile_yaml(profile), "written") == profile


@pytest.mark.survival
def test_this_machine_is_measured_fitted_and_kept(tmp_path):
    url, profile = f"sqlite:///{tmp_path}/store.sqlite", tmp_path / "here.yaml"
    outcome = sweepdb(f"calibrate --measure cpu --seconds 60 --output {profile} --format json", url)
    assert outcome.code == 0, outcome.err
    assert "gemm.bf16" in {row["kernel"] for row in json.loads(outcome.out)}
    assert "version 1 of this-cpu is stored with its measurements" in outcome.err
    assert load_device(str(profile)).memory_bandwidth_bytes_per_s > 0
