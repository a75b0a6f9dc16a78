"""Writes a site: page, engine, rows and documents of each choice."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from queries.connect import StoreConnection
from queries.publishing import Publication
from queries.replaying import asked_sql, limit_variables, parted
from queries.scope_list import ScopeEntry, stored_scopes
from store.errors import InputError
from store.location import StoreLocation
from store.reading import duckdb, read_state
from store.sealing import quoted
from store.whole_files import unwritable
from sweepdb.reporting import vega_script
from sweepdb.site.engine import find_engine, packed
from sweepdb.site.scopes import USUAL, Documents, PageChoice, choices_of, rows_of_choice, short_plans, write_tables
from sweepdb.web.documents import limits_module, table_document
from sweepdb.web.listings import measured_listing

_PAGE = Path(__file__).parents[1] / "web" / "static"
_OWN = Path(__file__).parent / "static"  # in place of what asks a server
_SERVED_ONLY = ("decide.js", "listings.js", "main.js", "report_page.js", "pictures")  # pages that a server answers
_MARK = "site.json"
_RELATIONS = ("probe", "device")  # that reports of the page are built on
_LOADING = (
    "Loading ... A folder opened from a disk stays like this: run <code>python -m http.server</code> in it, and open"
    " http://127.0.0.1:8000."
)
_POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data: blob:;"
    " connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'"
)


def publish_site(location: StoreLocation, folder: Path, *, engine: Path | None = None) -> Publication:
    """Replaces an earlier one once all is written."""
    _refuse_other(folder)
    found = find_engine(engine)
    entries = stored_scopes(location)
    if not entries:
        raise InputError(f"{location.display} has no rows to show", hint="add some with: sweepdb evaluate ...")
    with _whole_folder(folder) as written:
        _write_page(written)
        packed(found, written / "engine")
        probes = write_data(location, entries, written / "data")
    return Publication(target=str(folder), probes=probes, added=probes, removed=0)


def _refuse_other(folder: Path) -> None:
    if (
        folder.exists()
        and not (folder / "data" / _MARK).is_file()
        and not (folder.is_dir() and not any(folder.iterdir()))
    ):
        raise InputError(
            f"{folder} holds something that `sweepdb publish` did not write, which is never replaced",
            hint="name a place that is not there yet",
        )


@contextmanager
def _whole_folder(folder: Path) -> Iterator[Path]:
    """Takes its place at the end."""
    temporary = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.part")
    before = temporary.with_suffix(".before")
    try:
        temporary.mkdir(parents=True)
        yield temporary
        if folder.exists():
            folder.rename(before)
        temporary.rename(folder)
    except (OSError, duckdb.IOException) as error:
        raise unwritable(folder, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(before, ignore_errors=True)


def _write_page(folder: Path) -> None:
    """Only the module that asks differs from the served page."""
    static = folder / "static"
    shutil.copytree(_PAGE, static, ignore=shutil.ignore_patterns(*_SERVED_ONLY, "index.html"))
    shutil.copytree(_OWN, static, dirs_exist_ok=True)
    (static / "limits.js").write_text(limits_module(), encoding="utf-8")
    (folder / "vega.js").write_text(vega_script(), encoding="utf-8", newline="")
    page = (_PAGE / "index.html").read_text(encoding="utf-8")
    policy = f'<meta http-equiv="content-security-policy" content="{_POLICY}">\n'
    page = page.replace('<meta charset="utf-8">\n', f'<meta charset="utf-8">\n{policy}').replace("main.js", "site.js")
    page = page.replace("Loading ...", _LOADING)
    (folder / "index.html").write_text(page, encoding="utf-8")


def write_data(location: StoreLocation, entries: list[ScopeEntry], data: Path) -> int:
    data.mkdir()
    documents = Documents(location=location, state=read_state(location))
    choices = choices_of(entries)
    with StoreConnection(location) as connection:
        connection.provide(_RELATIONS)
        for place, choice in enumerate(choices):
            (data / str(place)).mkdir()
            _write_choice(connection.duckdb, documents, choice, data / str(place))
        probes = _write_parquet(connection.duckdb, data / "probes.parquet")
    measured = measured_listing(location)
    _dump(data / "measured.json", {**table_document(measured.columns, measured.rows), "state": documents.state})
    _dump(data / "setups.json", [parted(one)._asdict() for one in documents.setups])
    _dump(data / _MARK, _described(location, documents, entries, choices))
    return probes


def _described(
    location: StoreLocation, documents: Documents, entries: list[ScopeEntry], choices: list[PageChoice]
) -> dict[str, object]:
    return {
        "version": version("sweepdb"), "state": documents.state, "store": location.path.name if location.path else "",
        "scope": table_document(ScopeEntry._fields, entries), "choices": [dict(one.values) for one in choices],
        "variables": limit_variables(), "asked": asked_sql(), "reports": documents.reports, "usual": USUAL,
    }  # fmt: skip


def _write_choice(
    connection: duckdb.DuckDBPyConnection, documents: Documents, choice: PageChoice, folder: Path
) -> None:
    made = documents.of_choice(choice)
    with rows_of_choice(connection, made.ids) as rows:
        for setup, wanted in made.wanted.items():
            write_tables(rows, documents.setups[setup], wanted, folder / f"{setup}.duckdb")
        plans = rows.execute("SELECT DISTINCT plan FROM probe ORDER BY ALL").fetchall()
    _dump(folder / "scopes.json", {"scopes": made.scopes, "plans": short_plans([str(plan) for (plan,) in plans])})


def _write_parquet(connection: duckdb.DuckDBPyConnection, path: Path) -> int:
    written = connection.execute(
        "COPY (FROM memory.main.probe ORDER BY model, device, scenario_id, batch_size)"
        f" TO {quoted(path)} (FORMAT parquet, COMPRESSION zstd)"
    ).fetchone()
    return int(written[0]) if written else 0


def _dump(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, separators=(",", ":"), default=str), encoding="utf-8")
