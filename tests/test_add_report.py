"""A report is one file, and an option one line: the command line, Python, REST and the reference page follow.

Each test adds one to a copy of the program, and touches nothing else."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest_cli import EXAMPLE, sweepdb

ROOT = Path(__file__).parents[1]
REPORT = """-- summary: the fullest stored batch of each plan that fits memory
-- modes: aggregated, decode
-- shows: rank, plan, batch_size, concurrency, probe
-- column: question_group
-- column: rank | none | 1 is the largest batch
-- column: plan, batch_size, concurrency, probe
SELECT question_group, row_number() OVER (PARTITION BY question_group ORDER BY max(batch_size) DESC, plan) AS rank,
    plan, max(batch_size) AS batch_size, max(concurrency) AS concurrency, arg_max(probe, batch_size) AS probe
FROM scoped
WHERE phase = getvariable('wanted_phase')
GROUP BY question_group, plan
QUALIFY rank <= getvariable('top')
ORDER BY question_group, rank;
"""
OPTION = """    most_batch: int | None = option(
        None, "most requests of a batch", variable="most_batch", unit="requests", without="no limit",
        check=positive_whole(1000),
    )
    mode: str"""


# What a browser asks, of a server in the same process.
OVER_REST = """
import asyncio, json, sys
sys.path.append({tests!r})
from web_client import send
from store.location import parse_url
from sweepdb.web.app import build_web
from sweepdb.web.pool import SessionPool

sessions = SessionPool(parse_url({store!r}))
app = build_web(sessions, names=frozenset(("localhost", "127.0.0.1")), sql=False)
answer = asyncio.run(send(app, "/api/v1/answer/crowded", [("mode", "decode"), ("top", "2")])).json()
print(json.dumps([[one["name"] for one in answer["columns"] if one["meaning"]], answer["rows"]]))
sessions.close()
"""


@pytest.fixture(scope="module")
def example_store(tmp_path_factory):
    """One model on eight of a made-up device."""
    url = f"sqlite:///{tmp_path_factory.mktemp('example')}/sweepdb.sqlite"
    outcome = sweepdb(EXAMPLE, url)
    assert outcome.code == 0, outcome.err
    return url


@pytest.fixture
def copy(tmp_path):
    shutil.copytree(
        ROOT, tmp_path / "copy", ignore=lambda _, names: [name for name in names if name.startswith(".") or name in
                                                          {"build", "docs", "tests", "sweepdb.egg-info"}],
    )  # fmt: skip
    return tmp_path / "copy"


def run(copy, *arguments):
    done = subprocess.run([sys.executable, "-m", "cli.main", *arguments], cwd=copy, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def edited(copy):
    """The files of a copy that are not those of the program: how many a contributor edits."""
    return {
        path.relative_to(copy)
        for path in copy.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
        and not ((ROOT / path.relative_to(copy)).is_file()
                 and (ROOT / path.relative_to(copy)).read_bytes() == path.read_bytes())
    }  # fmt: skip


@pytest.fixture
def with_report(copy):
    (copy / "queries/reports/crowded.sql").write_text(REPORT)
    return copy


def test_a_report_is_one_file(with_report, example_store):
    assert "crowded" in run(with_report, "query", "reports")[1]
    _, text, _ = run(with_report, "query", "crowded", "--mode", "decode", "--top", "2", "--format", "json",
                     "--store", example_store)  # fmt: skip
    rows = [json.loads(line) for line in text.splitlines()] if text.startswith("{") else json.loads(text)
    assert [row["rank"] for row in rows] == [1, 2]
    assert rows[0]["batch_size"] >= rows[1]["batch_size"]
    table = run(with_report, "query", "crowded", "--store", example_store)[1]
    assert next(line for line in table.splitlines() if "batch_size" in line).split() == [
        "rank", "plan", "batch_size", "concurrency", "probe",
    ]  # fmt: skip
    code, _, said = run(with_report, "query", "crowded", "--mode", "pd", "--store", example_store)
    assert (code, said.splitlines()[1]) == (2, "hint: --mode aggregated or decode.")
    program = f"import queries; print(queries.open({example_store!r}).crowded(top=1).rows[0][1])"
    asked = subprocess.run([sys.executable, "-c", program], cwd=with_report, capture_output=True, text=True, check=True)
    assert asked.stdout.strip() == "1"
    program = OVER_REST.format(tests=str(ROOT / "tests"), store=example_store)
    asked = subprocess.run([sys.executable, "-c", program], cwd=with_report, capture_output=True, text=True)
    assert asked.returncode == 0, asked.stderr
    explained, over_rest = json.loads(asked.stdout)
    assert explained == ["question_group", "rank", "plan", "batch_size", "concurrency", "probe"]
    assert [row[1] for row in over_rest] == [1, 2]
    assert [row[3] for row in over_rest] == [row["batch_size"] for row in rows]
    assert edited(with_report) == {Path("queries/reports/crowded.sql")}
    printing = "from tools.report_reference import reference_page; print(reference_page())"
    page = subprocess.run([sys.executable, "-c", printing], cwd=with_report, check=True, capture_output=True, text=True)
    page_of_it = page.stdout.partition("## crowded")[2].partition("\n## ")[0]
    assert "| `top` | BIGINT | rows | never NULL |" in page_of_it


def test_an_option_is_its_declaration_and_the_sql_that_reads_it(with_report, example_store):
    options, report = with_report / "queries/asking/options.py", with_report / "queries/reports/crowded.sql"
    options.write_text(options.read_text().replace("    mode: str", OPTION, 1))
    report.write_text(
        report.read_text().replace(
            "WHERE", "WHERE (getvariable('most_batch') IS NULL OR batch_size <= getvariable('most_batch')) AND"
        )
    )
    assert "most requests of a batch" in run(with_report, "query", "--help-all")[1]
    limited = run(with_report, "query", "crowded", "--most-batch", "3", "--store", example_store)
    assert limited[0] == 0, limited[2]
    assert " 3 " in limited[1].partition("\n\nrules")[0].splitlines()[-1]
    for value, said in (("0", "--most-batch must be a positive whole number, not 0"), ("x", "--most-batch")):
        code, _, error = run(with_report, "query", "crowded", "--most-batch", value, "--store", example_store)
        assert code == 2
        assert said in error
    code, _, error = run(with_report, "query", "best", "--most-batch", "3", "--store", example_store)
    assert (code, error.splitlines()[0]) == (2, "error: Report best makes no use of --most-batch")
    program = f"import queries; print(queries.open({example_store!r}).report('crowded', most_batch=3).rows[0][3])"
    asked = subprocess.run([sys.executable, "-c", program], cwd=with_report, capture_output=True, text=True, check=True)
    assert asked.stdout.strip() == "3"
