from pathlib import Path

import pytest

from store.errors import InputError
from store.location import parse_url


def test_default_is_a_file_in_the_working_directory(monkeypatch, tmp_path):
    monkeypatch.delenv("SWEEPDB_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    location = parse_url()
    assert location.kind == "sqlite"
    assert location.path == tmp_path / "sweepdb.sqlite"
    assert location.argument == ""


def test_the_environment_variable_replaces_the_default_and_the_argument_replaces_both(monkeypatch, tmp_path):
    monkeypatch.setenv("SWEEPDB_STORE", "postgresql://ada:secret@db.example/sweeps")
    assert parse_url().kind == "postgresql"
    assert parse_url(f"sqlite:///{tmp_path}/a.sqlite").path == tmp_path / "a.sqlite"


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:////data/a.sqlite", "/data/a.sqlite"),
        ("/data/with space & 100%.sqlite", "/data/with space & 100%.sqlite"),
        ("sqlite:////data/with space & 100%.sqlite", "/data/with space & 100%.sqlite"),
    ],
)
def test_sqlite_paths(url, path):
    assert parse_url(url).path == Path(path)


def test_postgresql_drivers_are_named_alike_and_the_password_is_not_shown():
    for scheme in ("postgres", "postgresql", "postgresql+psycopg"):
        location = parse_url(f"{scheme}://ada:secret@db.example:5433/sweeps?sslmode=require")
        assert location.url == "postgresql+psycopg://ada:secret@db.example:5433/sweeps?sslmode=require"
        assert location.driver_url == "postgresql://ada:secret@db.example:5433/sweeps?sslmode=require"
        assert location.display == "postgresql://ada@db.example:5433/sweeps"
        assert "secret" not in location.argument


@pytest.mark.parametrize(
    "url",
    ["sqlite://", "sqlite:///", "sqlite:///:memory:", "mysql://a/b", "postgresql://db.example", "sqlite:///a?mode=ro"],
)
def test_what_is_no_store_address_is_refused_with_examples(url):
    with pytest.raises(InputError) as caught:
        parse_url(url)
    assert "sqlite:///relative.sqlite" in str(caught.value)


def test_a_hint_names_a_store_unless_it_is_the_one_used_anyway(monkeypatch):
    monkeypatch.delenv("SWEEPDB_STORE", raising=False)
    assert parse_url("sqlite:///other.sqlite").argument == " `store=sqlite:///other.sqlite`"
    assert parse_url("sqlite:///my store.sqlite").argument == " `store='sqlite:///my store.sqlite'`"
    monkeypatch.setenv("SWEEPDB_STORE", "postgresql://ada:secret@db.example/sweeps")
    assert parse_url().argument == ""
    assert parse_url("sweepdb.sqlite").argument == " `store=sqlite:///sweepdb.sqlite`"
    monkeypatch.setenv("SWEEPDB_STORE", "nonsense://")
    assert parse_url("sweepdb.sqlite").argument == " `store=sqlite:///sweepdb.sqlite`"
