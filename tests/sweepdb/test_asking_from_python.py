"""`import sweepdb`: a store open for questions, reports as methods, answers as tables of other libraries."""

from __future__ import annotations

import inspect
import subprocess
import sys
import types
from dataclasses import replace
from pathlib import Path

import pytest
from generator import MODELS, PLANS
from queries_stores import mission_records, write_sweep

import queries
import sweepdb
from queries.asking.frames import html_table
from queries.asking.library import reports
from queries.asking.options import option_table
from store.errors import InputError, StoreError
from tools.keyword_types import FILES

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A store of one model, two devices and every phase."""
    url = f"sqlite:///{tmp_path_factory.mktemp('face')}/store.sqlite"
    write_sweep(url, mission_records(models=(MODELS[4],), plans=PLANS[:4]), key="a", sizes=20)
    return url


@pytest.fixture(scope="module")
def store(url):
    with sweepdb.open(url) as opened:
        yield opened


def test_the_public_names():
    assert sweepdb.__all__ == [
        "Answer", "DaySchedule", "Decision", "DeploymentPlan", "Evaluation", "EvaluationError", "Explanation", "ExportedProfile", "InputError", "OpenStore",
        "PoolSchedule", "Progress", "RatePlan", "Regression",
        "ServerPlan", "SqlRows", "StoreError", "SweepdbError", "Trends", "Validation", "Watched", "calibrate", "calibrate_serving", "decide", "evaluate",
        "export_bundle", "export_profile", "import_bundle", "open", "plan", "plan_server", "schedule", "schedule_pool", "validate", "watch",
    ]  # fmt: skip
    assert all(inspect.getdoc(getattr(sweepdb, name)) for name in sweepdb.__all__)
    assert set(sweepdb.__all__) <= set(dir(sweepdb))
    with pytest.raises(AttributeError, match="no attribute 'opne'"):
        sweepdb.opne  # noqa: B018


def test_importing_is_light():
    program = "import sys, sweepdb; print(sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    heavy = {"alembic", "duckdb", "evaluator", "numpy", "pandas", "queries", "sqlalchemy", "torch", "typer", "yaml"}
    assert not set(eval(done.stdout)) & heavy


def test_a_store_is_asked(store):
    answer = store.best(tpot_limit=50, top=3)
    assert isinstance(answer, sweepdb.Answer)
    assert (len(answer), repr(answer)) == (
        len(answer.rows), f"<Answer best: {len(answer.rows)} rows of {answer.probes_considered:,} probes looked at>"
    )  # fmt: skip
    assert store.report("best", tpot_limit=50, top=3).rows == answer.rows
    assert set(store.reports()) == set(reports())
    assert queries.open(store._session.location.url).best(tpot_limit=50, top=3).rows == answer.rows


def test_every_report_is_a_method_that_says_what_it_takes(store):
    for name, item in reports().items():
        if item.part_of is None:
            method = getattr(store, name.replace("-", "_"))
            taken = inspect.signature(method).parameters
            assert item.summary[1:30] in inspect.getdoc(method)
            assert {option for told in item.requires for option in told.options} <= set(taken)
            assert not {option for told in item.refuses if told.message for option in told.options} & set(taken)
            assert set(taken) <= {*option_table(), "preset", "probes", "sweeps"}
    assert inspect.signature(store.best).parameters["tpot_limit"].annotation == float | None
    assert "most ms per output token" in inspect.getdoc(store.best)
    assert "mode" not in inspect.signature(store.compare).parameters
    assert "pd" in str(inspect.signature(store.best).parameters["mode"].annotation)  # by goodput
    assert inspect.signature(store.why).parameters["probes"].default is inspect.Parameter.empty


@pytest.mark.parametrize("name", [name for name, item in reports().items() if item.part_of is None])
def test_what_a_signature_says_is_what_a_report_takes(store, name):
    """A keyword of the signature is never refused as one that the report makes no use of, and every other one is."""
    values = {"ttft_limit": 1e9, "tpot_limit": 1e9, "steps": 3, "prefill_degradation": 0.5, "rank_by": "throughput",
              "target_rate": 1.0, "all_pairs": True, "price_date": "2026-01-31", "vary": ("tpot",)}  # fmt: skip
    asked, taken = reports()[name], inspect.signature(getattr(store, name.replace("-", "_"))).parameters
    if asked.requires or asked.names:
        return  # refused for what is missing, before anything else
    for keyword, value in values.items():
        forms = [{}, {"by": "goodput"}] if {"by", keyword} <= {*taken} else [{}]  # a signature is that of every form
        refused = all(refuses(store, name, keyword, {keyword: value, **form}) for form in forms)
        assert refused == (keyword not in taken) or keyword in asked.ignores, keyword


def refuses(store, name, keyword, given):
    try:
        store.report(name, **given)
    except InputError as error:
        return f"makes no use of `{keyword}`" in error.message or f"leave `{keyword}` out" in (error.hint or "")
    return False


@pytest.mark.parametrize("name", FILES)
def test_the_types_for_checkers_are_those_of_the_declarations(name):
    assert (ROOT / name).read_text(encoding="utf-8") == FILES[name](), "python -m tools.keyword_types"


@pytest.mark.survival
def test_a_type_checker_knows_reports_and_keywords(tmp_path):
    program = tmp_path / "asked.py"
    program.write_text(
        "import sweepdb\n"
        "store = sweepdb.open()\n"
        "rows: int = len(store.best(tpot_limit=50, device=['a', 'b']))\n"
        "store.best(tpot_limi=50)\n"
        "store.bset()\n"
        "store.why()\n"
        "store.decode(tpot_limit='50')\n"
        "sweepdb.evaluate('m', devic='a')\n"
        "stored: int = sweepdb.evaluate('m', device='a', mode='decode').probes_stored\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", str(program)],  # what `make check` knows is not found out again
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    lines = [int(line.split(":")[1]) for line in done.stdout.splitlines() if "error:" in line and "asked.py" in line]
    assert lines == [4, 5, 6, 7, 8], done.stdout


def test_a_misspelt_method_names_the_nearest(store):
    with pytest.raises(AttributeError, match="no attribute 'bets'; nearest: best"):
        store.bets()
    with pytest.raises(AttributeError, match=r"no attribute '_nothing'$"):
        store._nothing  # noqa: B018


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tpot_limit": "50"}, "`tpot_limit` is a number, not '50'"),
        ({"tpot_limit": -1}, "`tpot_limit` must be a number above 0, not -1"),
        ({"num_devices": [8]}, r"`num_devices` is a whole number, not \[8\]"),
        ({"num_devices": True}, "`num_devices` is a whole number, not True"),
        ({"prefill_device": ["a", "b"]}, r"`prefill_device` is a text, not \['a', 'b'\]"),
        ({"last": "yes"}, "`last` is True or False, not 'yes'"),
        ({"tpot_limi": 50}, "unknown option 'tpot_limi' of pd-ratio\nnearest: tpot_limit"),
        ({"preset": "mine"}, "`preset` mine is not one of sweepdb"),
    ],
)
def test_a_bad_argument_is_named_by_its_keyword(store, options, message):
    with pytest.raises(InputError, match=message):
        store.pd_ratio(**options)


def test_statements_read_and_nothing_else(store):
    rows = store.sql("SELECT plan, max(batch_size) AS most FROM probe GROUP BY plan ORDER BY plan")
    assert (rows.columns, len(rows), rows.types) == (("plan", "most"), 4, ("VARCHAR", "INTEGER"))
    assert rows.dicts()[0]["most"] == 20
    assert repr(rows) == "<SqlRows: 4 rows of plan, most>"
    assert list(rows.df()["most"]) == [20] * 4
    for statement, said in (("DROP TABLE probe", "Only SELECT"), (7, "`statement` is a text, not 7")):
        with pytest.raises(InputError, match=said):
            store.sql(statement)
    with pytest.raises(InputError, match="`timeout` must be a number of seconds above 0, not 0"):
        store.sql("SELECT 1", timeout=0)
    with pytest.raises(InputError, match="`memory_limit` is a number of GiB, not '1'"):
        store.sql("SELECT 1", memory_limit="1")


def test_sweeps_are_listed(store):
    assert [item.label for item in store.sweeps()] == ["sweep a"]
    with pytest.raises(InputError, match="`limit` must be a positive whole number, not 0"):
        store.sweeps(limit=0)


def test_a_store_is_named_by_an_address_or_a_path(url):
    with sweepdb.open(Path(url.removeprefix("sqlite:///"))) as opened:
        assert opened.coverage().rows
    with pytest.raises(InputError, match="`store` is an address or a path, not 3"):
        sweepdb.open(3)


def test_a_store_that_is_not_there_says_so(sqlite_url):
    with sweepdb.open(sqlite_url) as missing, pytest.raises(StoreError):
        missing.best()


def test_an_answer_in_a_notebook_is_escaped_and_short(store):
    answer = store.best()
    assert "<th" in answer._repr_html_()
    assert answer._repr_html_().count("<th ") < 15 < len(answer.columns)
    bad = replace(answer, rows=(tuple("<script>" if name == "plan" else 1 for name in answer.columns),))
    assert "&lt;script&gt;" in bad._repr_html_()
    assert "<script>" not in bad._repr_html_()
    page = str(html_table(("<b>", "n"), [("x&y", None)] * 25))
    assert "&lt;b&gt;" in page
    assert "x&amp;y" in page
    assert "5 more rows" in page
    nothing = store.best(tpot_limit=0.001)
    assert "Nothing satisfies the limits" in nothing._repr_html_()


def test_other_tables_need_their_library_and_say_so(store, monkeypatch):
    answer = store.best(top=2)
    for name, method in (("pandas", "df"), ("pyarrow", "arrow"), ("polars", "pl")):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(InputError, match=rf"{method}\(\) needs {name}, which is not installed"):
            getattr(answer, method)()


def test_other_tables_get_columns_and_rows(store, monkeypatch):
    answer = store.best(top=2)
    frame = types.SimpleNamespace(DataFrame=lambda rows, *, schema, **_: (rows, schema))
    monkeypatch.setitem(sys.modules, "polars", frame)
    assert answer.pl() == (answer.rows, list(answer.columns))
    table = types.SimpleNamespace(from_arrays=lambda cells, names: dict(zip(names, cells, strict=True)))
    monkeypatch.setitem(sys.modules, "pyarrow", types.SimpleNamespace(array=list, Table=table))
    assert answer.arrow()["rank"] == [row[answer.columns.index("rank")] for row in answer.rows]
