"""Prices: entered by hand or from a file, corrected, joined by the cost report, and refused in one sentence."""

from __future__ import annotations

import json

import pytest
from conftest_cli import sweepdb


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/store.sqlite"


def listed(url):
    return json.loads(sweepdb("prices --format json", url).out)


def test_a_price_is_kept_under_the_profiles_own_name(url):
    outcome = sweepdb("prices set test_device --usd-per-device-hour 2.5 --watts-per-device 400 --from 2026-01-31", url)
    assert (outcome.code, outcome.out) == (0, "")
    assert outcome.err == "TEST_DEVICE from 2026-01-31: 2.5 USD/h, 400 W\n"
    expected = {"device": "TEST_DEVICE", "effective_from": "2026-01-31", "usd_per_device_hour": 2.5,
                "watts_per_device": 400.0, "source": ""}  # fmt: skip
    assert listed(url) == [expected]


def test_a_listing_can_be_imported_again_and_corrects(url, tmp_path):
    sweepdb("prices set TEST_DEVICE --usd-per-device-hour 2.5 --from 2026-01-31", url)
    file = tmp_path / "prices.csv"
    sweepdb(f"prices --format csv --output {file}", url)
    assert sweepdb(f"prices import {file}", url).code == 0
    assert [row["usd_per_device_hour"] for row in listed(url)] == [2.5]
    file.write_text(file.read_text().replace("2.5", "3.5"))
    assert sweepdb(f"prices import {file}", url).code == 0
    assert [row["usd_per_device_hour"] for row in listed(url)] == [3.5]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("prices set TEST_DEVIC --usd-per-device-hour 1", "Nearest known: TEST_DEVICE"),
        ("prices set TEST_DEVICE", "neither dollars an hour nor watts"),
        ("prices set TEST_DEVICE --usd-per-device-hour -1", "usd_per_device_hour is -1.0"),
        ("prices set TEST_DEVICE --watts-per-device nan", "watts_per_device is nan"),
        ("prices set TEST_DEVICE --watts-per-device 1 --from 2026-02-30", "is no date"),
        ("prices set", "Prices set needs a DEVICE"),
        ("prices nonsense", "not one of: list, set DEVICE, import FILE.csv"),
        ("prices import nowhere.csv", "nowhere.csv: cannot be read"),
    ],
)
def test_what_is_refused(url, arguments, complaint):
    outcome = sweepdb(arguments, url)
    assert (outcome.code, outcome.out) == (2, "")
    assert complaint in outcome.err


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("device,usd_per_device_hour\nTEST_DEVICE,1\n", "effective_from missing"),
        ("device,effective_from,euros\nTEST_DEVICE,2026-01-31,1\n", "unknown column 'euros'"),
        ("device,effective_from,watts_per_device\nTEST_DEVICE,2026-01-31,many\n", "line 2: watts_per_device must be"),
    ],
)
def test_a_bad_file_names_file_and_line_and_stores_nothing(url, tmp_path, text, complaint):
    file = tmp_path / "bad.csv"
    file.write_text(text)
    sweepdb("db init", url)
    outcome = sweepdb(f"prices import {file}", url)
    assert outcome.code == 2
    assert str(file) in outcome.err
    assert complaint in outcome.err
    assert listed(url) == []


def test_the_cost_report_joins_what_was_entered(example_copy):
    sweepdb("prices set TEST_DEVICE --usd-per-device-hour 2 --watts-per-device 500 --from 2020-01-01", example_copy)
    (row,) = json.loads(sweepdb("query cost --tpot-limit 50 --top 1 --format json", example_copy).out)
    # tokens/s x 3600 s over 8 devices x 2 USD; x 3600 s over 8 x 0.5 kW
    assert row["tokens_per_usd"] == pytest.approx(row["output_tokens_per_s"] * 3600 / 16)
    assert row["tokens_per_kwh"] == pytest.approx(row["output_tokens_per_s"] * 3600 / 4)
