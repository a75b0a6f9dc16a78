"""The worked examples of the how-to on questions over time run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from generator import DEVICES, MODELS, PLANS, PRECISIONS, WORKLOADS, scenario
from queries_stores import mission_records, write_sweep

from queries.connect import connect
from store.opening import open_store
from store.records import PriceRecord
from store.writing.beside import put_prices

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = re.findall(
    r"```sql\n(.*?)```",
    (DOCS / "howto" / "ask-a-store.md").read_text().partition("### Over time")[2].partition("\n## ")[0],
    re.DOTALL,
)


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A store with two formula versions and a price."""
    address = f"sqlite:///{tmp_path_factory.mktemp('examples')}/store.sqlite"
    write_sweep(address, mission_records(models=MODELS[4:5], plans=PLANS[:3]), key="1", sizes=4)
    older = {"precision": PRECISIONS[0], "phase": "decode", "version": 1}
    records = [scenario(MODELS[4], WORKLOADS[0], DEVICES[0], plan=plan, **older) for plan in PLANS[:3]]
    write_sweep(address, records, key="2", sizes=4)
    price = PriceRecord(
        device_name="H100_SXM", effective_from="2026-01-01", usd_per_device_hour=2.0, watts_per_device=700
    )
    with open_store(address) as store:
        put_prices(store, [price])
    return address


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_of_the_how_to_answers(url, number):
    with connect(url) as connection:
        assert connection.execute(EXAMPLES[number]).fetchall()


def test_the_examples_answer_what_they_say(url):
    month, moved, cost = EXAMPLES
    with connect(url) as connection:
        assert len(connection.execute(month).fetchall()) == 1
        (row,) = connection.execute(moved).fetchall()
        # the older formula of the generator takes 1.03 times as long
        assert row[3:6] == (1, 2, 12)
        assert row[6] == pytest.approx(1 / 1.03 - 1)
        (model, device, _, usd) = connection.execute(cost).fetchone()
        assert (model, device) == (MODELS[4][0], "H100_SXM")
        assert usd > 0
