"""The page about other tools: what it shows runs as it stands, where the tool is installed, and finds the same winners."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from generator import MODELS, PLANS
from queries_stores import mission_records, write_sweep

from queries.publishing import publish
from store.location import parse_url

PAGE = Path(__file__).parents[2] / "docs/howto/ask-a-store.md"
BLOCKS = re.findall(
    r"### ([^\n]+)\n(.*?)(?=\n### |\Z)", PAGE.read_text(encoding="utf-8").partition("## Other tools\n")[2], re.DOTALL
)


def blocks(heading, language):
    """The blocks of a language under a heading of the page."""
    (text,) = [text for name, text in BLOCKS if name.startswith(heading)]
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.fixture(scope="module")
def location(tmp_path_factory):
    """A store of one model on two devices."""
    url = f"sqlite:///{tmp_path_factory.mktemp('tools')}/store.sqlite"
    write_sweep(url, mission_records(models=MODELS[4:5], plans=PLANS[:2]), key="a", sizes=8)
    return parse_url(url)


@pytest.fixture(scope="module")
def folder(location, tmp_path_factory):
    """It, published under the names of the page."""
    path = tmp_path_factory.mktemp("read")
    for kind in ("duckdb", "sqlite", "parquet"):
        publish(location, str(path / f"probes.{kind}"))
    return path


@pytest.fixture(scope="module")
def best(folder):
    """The best row of each device and plan, by DuckDB as the page shows it."""
    (statement,) = blocks("DuckDB", "sql")
    with duckdb.connect(str(folder / "probes.duckdb"), read_only=True) as connection:
        return [tuple(row) for row in connection.execute(statement).fetchall()]


def test_duckdb(best):
    assert len(best) == 4
    assert best == sorted(best, key=lambda row: (-row[2], row[0], row[1]))


def program(name):
    """A tool on PATH or beside the interpreter."""
    return shutil.which(name) or shutil.which(name, path=Path(sys.executable).parent)


def test_the_shell_of_duckdb(folder, best):
    shell = program("duckdb")
    if shell is None:
        pytest.skip("the shell of DuckDB is not installed: pip install duckdb-cli")
    (statement,) = blocks("DuckDB", "sql")
    (line,) = re.findall(r'`duckdb (-cmd "[^`]*) -ui`', PAGE.read_text(encoding="utf-8"))
    for opened in (["-readonly", "probes.duckdb"], shlex.split(line)):  # the page is an extension that is downloaded
        ran = subprocess.run(
            [shell, *opened, "-csv", "-c", statement], cwd=folder, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr
        rows = [row.split(",") for row in ran.stdout.splitlines()[1:]]
        assert [(device, plan, float(rate)) for device, plan, rate in rows] == best


def run_python(heading, folder, monkeypatch):
    monkeypatch.chdir(folder)
    (code,) = blocks(heading, "python")
    names = {}
    exec(code, names)
    return names["best"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_polars(folder, best, monkeypatch):
    pytest.importorskip("polars", reason="polars is not installed")
    found = run_python("Polars", folder, monkeypatch)
    shown = found.select("device", "plan", "output_tokens_per_s_per_device").rows()
    assert sorted(shown) == sorted(best)


@pytest.mark.filterwarnings("ignore")
def test_ibis(folder, best, monkeypatch):
    pytest.importorskip("ibis", reason="ibis is not installed")
    found = run_python("Ibis", folder, monkeypatch)
    assert [tuple(row) for row in found[["device", "plan", "rate"]].itertuples(index=False)] == best


@pytest.mark.survival  # dbt takes ten seconds to start
def test_dbt(folder, best, tmp_path):
    """In an environment of its own: dbt pins packages that others want newer."""
    dbt = program("dbt")
    if dbt is None:
        pytest.skip("dbt is not on PATH: pip install 'dbt-core<1.11' dbt-duckdb, into an environment by itself")
    for text in (*blocks("dbt", "yaml"), *blocks("dbt", "sql")):
        (name,) = re.findall(r"^(?:#|--) (\S+)$", text.splitlines()[0])
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    shutil.copy(folder / "probes.duckdb", tmp_path)
    without_ours = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(
        [dbt, "run", "--profiles-dir", "."], cwd=tmp_path, env=without_ours, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout
    with duckdb.connect(str(tmp_path / "serving.duckdb"), read_only=True) as connection:
        assert sorted(connection.execute("SELECT device, plan, rate FROM best_rates").fetchall()) == sorted(best)


@pytest.mark.filterwarnings("ignore")
def test_datasette(folder, best):
    app = pytest.importorskip("datasette.app", reason="datasette is not installed")
    (address,) = re.findall(r"`(/probes/[^`]+)`", PAGE.read_text(encoding="utf-8"))

    async def first():
        served = app.Datasette([str(folder / "probes.sqlite")])
        await served.invoke_startup()
        return (await served.client.get(f"{address}&_shape=array")).json()

    rows = asyncio.run(first())
    assert rows[0]["output_tokens_per_s_per_device"] == pytest.approx(best[0][2])
    assert rows[0]["plan"] == best[0][1]


def test_the_panels_of_grafana(location, best, postgresql_url):
    import psycopg

    publish(location, postgresql_url)
    (panel,) = blocks("Grafana", "sql")
    with psycopg.connect(parse_url(postgresql_url).driver_url) as connection:
        rates = connection.execute(panel).fetchall()
    assert rates[0] == (f"{best[0][0]} {best[0][1]}", pytest.approx(best[0][2]))
