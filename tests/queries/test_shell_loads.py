"""The printed statements of answers about loads yield their rows in a DuckDB that knows nothing but an export."""

from __future__ import annotations

import duckdb
import pytest
from conftest_loads import evaluate_loads
from queries_stores import of_arrivals
from shell_answers import check

from queries.asking.library import reports
from queries.asking.question import question_of
from queries.bundles import export_bundle
from store.location import parse_url
from store.opening import open_store
from store.records import PriceRecord
from store.writing.beside import put_prices

LIMITS = {"ttft_limit": 700.0, "tpot_limit": 5.0}
PAIRS = {**LIMITS, "mode": "pd", "kv_transfer_gb_per_s": 40.0}
ASKED = {
    "best by goodput": [LIMITS, {**LIMITS, "tbt_limit": 6.0, "mode": "decode"} | {"ttft_limit": None}, PAIRS],
    "capacity by goodput": [{**LIMITS, "rate": 50.0}],
    "compare by goodput": [{**LIMITS, "num_devices": 4}],
    "cost by goodput": [LIMITS, PAIRS],
    "sensitivity by goodput": [{"vary": "tpot", "ttft_limit": 700.0}],
    "attainment-scale": [{**LIMITS, "scale": True, "rate": 20.0}],
    "percentiles": [{"rate": 20.0}],
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A store of bursts that keep every request, one scenario voided; and the folder of its export."""
    folder = tmp_path_factory.mktemp("loads")
    url = f"sqlite:///{folder}/store.sqlite"
    evaluate_loads(url, requests=1_000, rates=(2.0, 20.0, 60.0), arrivals="gamma:2", keep_requests=True)
    with open_store(url) as store:
        day = {"effective_from": "2026-01-01", "usd_per_device_hour": 2.0, "watts_per_device": 700}
        put_prices(store, [PriceRecord(device_name="a100_sxm", **day)])
    export_bundle(parse_url(url), folder / "bundle")
    return url, folder / "bundle"


@pytest.mark.parametrize(
    ("name", "options"),
    [
        (name, options)
        for name in sorted(of_arrivals())
        if name.endswith("by goodput") or reports()[name].part_of is None
        for options in ASKED.get(name, [LIMITS])
    ],
)
def test_printed_statements_yield_the_rows_of_the_answer(exported, name, options) -> None:
    given = {key: value for key, value in options.items() if value is not None}
    assert check(question_of(name, given), *exported, rounding=1e-9)


def test_files_of_loads_hold_the_loads_of_the_export(exported) -> None:
    with duckdb.connect() as connection:
        counted = {
            path.stem: connection.execute(f"SELECT count(*) FROM '{path}'").fetchone()[0]
            for path in exported[1].glob("load*.parquet")
        }
    assert (counted["load"], counted["load_span"]) == (9, 9)
    assert counted["load_request"] == 9 * 950
