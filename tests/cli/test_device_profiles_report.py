"""The report on device profiles prints the seed's table of devices (S21)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest_cli import sweepdb

GOLDEN = Path(__file__).parent / "golden" / "device_profiles.txt"


@pytest.fixture(scope="module")
def two_devices(tmp_path_factory) -> str:
    url = f"sqlite:///{tmp_path_factory.mktemp('devices')}/sweepdb.sqlite"
    command = "evaluate Qwen/Qwen3-0.6B --device TEST_DEVICE ATLAS_800_A2_376T_64G --input-length 100"
    assert sweepdb(f"{command} --output-length 10 --mode decode --batch-range 2", url).code == 0
    return url


def test_s21_the_report_prints_the_effective_figures_of_the_seed(two_devices):
    # 353.9 x 0.7 = 247.73 TFLOPS; 11 x 0.7 = 7.70 and 22 x 0.7 = 15.40; 1.6 TiB/s x 0.6 = 0.960; 50, 25 and 196 GB/s x 0.7.
    assert sweepdb("query device-profiles --explain", two_devices).out == GOLDEN.read_text(encoding="utf-8")


def test_s21_the_figures_are_numbers_for_machines(two_devices):
    rows = json.loads(sweepdb("query device-profiles --format json", two_devices).out)
    found = {
        row["device"]: [
            round(row["matrix_tflops"], 2),
            round(row["vector_tflops"], 2),
            round(row["memory_bandwidth_tib_per_s"], 3),
            row["memory_gib"],
            row["grid"],
            row["link_gb_per_s"],
        ]
        for row in rows
    }
    assert found == {
        "TEST_DEVICE": [247.73, 7.70, 0.960, 64, "256 x 8", "35 | 137.2"],
        "ATLAS_800_A2_376T_64G": [247.73, 15.40, 0.960, 64, "128 x 8", "17.5 | 137.2"],
    }
