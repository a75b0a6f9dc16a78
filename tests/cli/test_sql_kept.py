"""Parameters of statements, statements kept by name, rows as a page, and completion at the prompt."""

from __future__ import annotations

import json
import webbrowser

import pytest
from conftest_cli import sweepdb
from generator import MODELS, PLANS
from queries_stores import mission_records, write_sweep

import sweepdb as program
from cli.commands.sql import completer
from store.errors import InputError

STATEMENT = "SELECT device, count(*) AS number FROM probe WHERE ttft_ms <= $ttft AND phase = $phase GROUP BY device"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A store of one model on two devices."""
    address = f"sqlite:///{tmp_path_factory.mktemp('kept')}/store.sqlite"
    write_sweep(address, mission_records(models=MODELS[4:5], plans=PLANS[:1]), key="a", sizes=5)
    return address


@pytest.fixture(autouse=True)
def own_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def rows(outcome):
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


def test_parameters_are_values_and_never_text_of_the_statement(url):
    typed = ["sql", STATEMENT, "--param", "ttft=1e9", "--param", "phase=prefill", "--format", "json"]
    assert [row["number"] for row in rows(sweepdb(typed, url))] == [5, 5]
    typed[5] = "phase=prefill' OR 'a' = 'a"
    assert rows(sweepdb(typed, url)) == []
    with program.open(url) as store:
        assert len(store.sql(STATEMENT, param={"ttft": 1e9, "phase": "prefill"}).rows) == 2
        with pytest.raises(InputError, match=r"needs a value of \$phase"):
            store.sql(STATEMENT, param={"ttft": 1})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", r"needs a value of $phase, $ttft"),
        ("--param ttft=1 --param phase=x --param more=2", "no parameter $more"),
        ("--param ttft", "a name and its value are expected"),
    ],
)
def test_what_is_wrong_with_parameters_is_told(url, given, said):
    outcome = sweepdb(["sql", STATEMENT, *given.split()], url)
    assert outcome.code == 2
    assert said in outcome.err


def test_a_kept_statement_runs_again_with_other_values(url, tmp_path):
    first = sweepdb(["sql", STATEMENT, "--param", "ttft=1e9", "--param", "phase=decode", "--save", "fast"], url)
    assert first.code == 0, first.err
    assert (tmp_path / "config/sweepdb/statements/fast.sql").read_text().strip() == STATEMENT
    again = ["sql", "--saved", "fast", "--param", "ttft=1e9", "--param", "phase=prefill"]
    assert len(rows(sweepdb([*again, "--format", "json"], url))) == 2
    file = tmp_path / "out.parquet"
    assert sweepdb([*again, "--format", "parquet", "--output", str(file)], url).err == f"2 rows written to {file}\n"
    unknown = sweepdb("sql --saved slow", url)
    assert (unknown.code, "Kept: fast" in unknown.err) == (2, True)
    assert sweepdb("sql --saved ../fast", url).code == 2
    assert sweepdb(["sql", "SELECT 1", "--saved", "fast"], url).code == 2


def test_rows_open_as_a_page(url, tmp_path, monkeypatch):
    shown, there_is_one = [], [True, False]

    def opened(address):
        shown.append(address)
        return there_is_one.pop(0)

    monkeypatch.setattr(webbrowser, "open", opened)
    file = tmp_path / "rows.html"
    statement = "SELECT '<b>' AS name, ttft_ms FROM probe WHERE ttft_ms < $most ORDER BY ttft_ms LIMIT 1"
    asked = ["sql", statement, "--param", "most=1e9", "--open", "--output", str(file)]
    assert sweepdb(asked, url).err == f"opened {file}\n"
    nowhere = sweepdb(asked, url)
    assert (nowhere.code, nowhere.err) == (
        0, f"no browser can be started here; this is what it would show: {file.as_uri()}\n",
    )  # fmt: skip
    assert shown == [file.as_uri()] * 2
    text = file.read_text()
    assert "&lt;b&gt;</td>" in text
    assert "ttft_ms [ms]" in text
    assert "$most = 1000000000.0" in text
    assert "script-src 'none'" in text
    assert "<script" not in text


def test_the_prompt_completes_views_and_columns():
    complete = completer()
    assert complete("output_tokens_per_s_per_d", 0) == "output_tokens_per_s_per_device"
    assert complete("sel", 0) == "SELECT"
    assert complete("feasi", 0) == "feasible"
    assert complete("nothing_like_it", 0) is None
