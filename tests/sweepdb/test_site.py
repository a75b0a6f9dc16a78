"""A site's statements, run by a bare DuckDB over its files, and what publishing one refuses."""

from __future__ import annotations

import json

import duckdb
import pytest
from conftest_cli import sweepdb as run
from generator import DEVICES, MODELS, PLANS
from queries_stores import mission_records, write_sweep
from quick import quick

from queries.asking import question_of
from queries.scope_list import stored_scopes
from store.errors import InputError
from store.location import parse_url
from store.texts import plain
from sweepdb.sessions import open_session
from sweepdb.site import find_engine, packed, publish_site
from sweepdb.site.scopes import USUAL, beside_limits
from sweepdb.site.site_folder import write_data

LIMITS = (
    {"num_devices": 4, "tpot_limit": 20.0},
    {},
    {"tpot_limit": 40.0, "ttft_limit": 900.0},
    {"reserved_memory_gb": 30.0},
    {"tpot_limit": 1e-3},  # nothing is left
)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The data of a site, and the store that it is of: a model on two devices, in every phase."""
    folder = tmp_path_factory.mktemp("site")
    url = f"sqlite:///{folder}/store.sqlite"
    write_sweep(url, mission_records(models=(MODELS[6],), devices=DEVICES[:2], plans=PLANS[:4]), key="a", sizes=24)
    probes = write_data(parse_url(url), stored_scopes(parse_url(url)), folder / "data")
    return folder / "data", url, probes


def read(folder, name):
    return json.loads((folder / name).read_text(encoding="utf-8"))


def replayed(folder, place, scope, report, limits):
    """The rows of a report as the page asks for them: everything made ready, limits in `asked`, the statement."""
    site, known = read(folder, "site.json"), scope["answers"][report]
    path = folder / str(place) / f"{known['setup']}.duckdb"
    with duckdb.connect(str(path), read_only=True) as engine:
        held = {site["variables"][name]: value for name, value in limits.items() if name in site["variables"]}
        moved = ", ".join(f"{name} = {value}" for name, value in {"reserved_gib": 10.0, **held}.items())
        budget = f"SET VARIABLE num_devices = {limits.get('num_devices', 'NULL')}::BIGINT"
        ready = read(folder, "setups.json")[known["setup"]]
        for statement in (
            site["asked"],
            f"UPDATE asked SET {moved}",
            known["scope"],
            *known["variables"],
            budget,
            *ready["statements"],
        ):
            engine.execute(statement)
        if "num_devices" in limits:
            engine.execute(f"DELETE FROM lots WHERE num_devices > {limits['num_devices']}")
            engine.execute("DELETE FROM scope WHERE scenario_id NOT IN (SELECT scenario_id FROM lots)")
        cursor = engine.execute(ready["sql"])
        columns = [item[0] for item in cursor.description]
        return columns, cursor.fetchall()


@pytest.mark.parametrize("limits", quick(LIMITS), ids=str)
def test_statements_of_a_site_give_the_rows_of_the_store(data, limits):
    """Every scope that a page can choose, each report of it: a bare DuckDB has the rows that a session answers with."""
    folder, url, _ = data
    compared = 0
    with open_session(url) as session:
        for place, choice in enumerate(read(folder, "site.json")["choices"]):
            for scope in read(folder, f"{place}/scopes.json")["scopes"][:2]:
                chosen = {name: scope[name] for name in ("device", "family") if scope[name] is not None}
                for report, more in beside_limits(1 if scope["device"] else 2).items():
                    if scope["answers"][report].get("refused"):
                        continue
                    answer = session.ask(question_of(report, {**choice, **chosen, **more, **limits}))
                    columns, rows = replayed(folder, place, scope, report, limits)
                    kept = [answer.columns.index(name) for name in columns]
                    assert rows == [tuple(row[at] for at in kept) for row in answer.rows]
                    compared += len(rows)
    assert compared or limits == LIMITS[-1]


def test_rows_under_the_usual_limits_are_written_for_a_page_that_is_opened_without_any(data):
    folder, _, _ = data
    site = read(folder, "site.json")
    assert site["usual"] == USUAL == {"ttft_limit": 2000, "tpot_limit": 50}  # where the page's sliders begin
    scope = read(folder, "0/scopes.json")["scopes"][0]
    for report in beside_limits(2):
        columns, rows = replayed(folder, 0, scope, report, USUAL)
        places = [columns.index(one["name"]) for one in site["reports"][report]["columns"]]
        assert scope["answers"][report]["first"] == [[plain(row[place]) for place in places] for row in rows] != []


def test_a_file_has_only_what_its_report_reads(data):
    """Rows that cannot win are in the file of nearest misses alone, and functions that nobody calls in none."""
    folder, _, _ = data
    known = read(folder, "0/scopes.json")["scopes"][0]["answers"]
    made = read(folder, "setups.json")
    tables = {report: made[one["setup"]]["tables"] for report, one in known.items()}
    assert {report: sorted(names) for report, names in tables.items()} == {
        "best": ["named", "narrow_winners", "winners"], "pareto": ["named", "narrow_winners"],
    }  # fmt: skip
    assert made[known["best"]["nearest"]["setup"]]["tables"] == ["narrow_kept", "named"]


def test_a_document_refuses_what_the_report_refuses(data):
    """Formulas have no end-to-end time of pairs, and the page is told so as a server tells it."""
    folder, url, _ = data
    site = read(folder, "site.json")
    place = next(at for at, one in enumerate(site["choices"]) if one["model"] == MODELS[6][0])
    (told,) = read(folder, f"{place}/scopes.json")["scopes"][0]["answers"]["pareto"]["refuses"].values()
    with open_session(url) as session, pytest.raises(InputError) as refused:
        session.ask(question_of("pareto", {**site["choices"][place], "e2e_limit": 1000.0}))
    assert told == {"refused": 400, "error": refused.value.message, "hint": refused.value.hint}


def test_rows_lie_beside_as_parquet(data):
    folder, url, probes = data
    (stored,) = json.loads(run(["sql", "SELECT count(*) AS n FROM probe", "--format", "json"], url).out)
    assert duckdb.execute(f"SELECT count(*) FROM '{folder}/probes.parquet'").fetchall() == [(stored["n"],)]
    assert probes == stored["n"]


def test_an_engine_that_is_not_there_is_named_with_what_fetches_it(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"has no duckdb-duckdb-wasm-1\.32\.0\.tgz") as missing:
        find_engine(tmp_path)
    assert (
        missing.value.hint == f"fetch it with: cd {tmp_path} && npm pack @duckdb/duckdb-wasm@1.32.0 apache-arrow@17.0.0"
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="no npm to fetch it"):
        find_engine(None)


def test_an_archive_that_is_not_npms_is_refused(tmp_path):
    for name in ("duckdb-duckdb-wasm-1.32.0.tgz", "apache-arrow-17.0.0.tgz"):
        (tmp_path / name).write_bytes(b"another program")
    with pytest.raises(InputError, match="as npm has it"):
        packed(find_engine(tmp_path), tmp_path / "engine")


def test_what_publish_did_not_write_is_never_replaced(data, tmp_path):
    _, url, _ = data
    (tmp_path / "mine.site").mkdir()
    (tmp_path / "mine.site" / "thesis.txt").write_text("irreplaceable")
    told = run(["publish", "--to", str(tmp_path / "mine.site")], url)
    assert told.code == 2
    assert "never replaced" in told.err
    assert (tmp_path / "mine.site" / "thesis.txt").read_text() == "irreplaceable"
    told = run(["publish", "--to", str(tmp_path / "rows.duckdb"), "--engine", str(tmp_path)], url)
    assert (told.code, "--engine" in told.err) == (2, True)


def test_a_store_without_rows_makes_no_site(tmp_path):
    url = f"sqlite:///{tmp_path}/empty.sqlite"
    run(["db", "init"], url)
    for name in ("duckdb-duckdb-wasm-1.32.0.tgz", "apache-arrow-17.0.0.tgz"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(InputError, match="has no rows to show"):
        publish_site(parse_url(url), tmp_path / "pages.site", engine=tmp_path)
    assert not (tmp_path / "pages.site").exists()
