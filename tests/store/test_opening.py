import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from generator import fill

from store.errors import NotAStoreError, RevisionError, StoreError
from store.location import parse_url
from store.migrating import create_store, upgrade_store
from store.opening import open_store
from store.reading.connecting import connect_sqlite, read_store_id
from store.revision import HEAD_REVISION


def test_a_missing_store_is_an_error_until_it_is_created(store_url):
    if store_url.startswith("sqlite"):
        with pytest.raises(StoreError, match="sweepdb db init"):
            open_store(store_url)
    else:
        with pytest.raises(NotAStoreError, match="holds no tables"):
            open_store(store_url)
    with open_store(store_url, create=True) as store:
        first = store.store_id
    with open_store(store_url) as store:
        assert store.store_id == first
    assert create_store(store_url) is False


def test_the_light_way_of_opening_sees_the_same_store(store):
    assert read_store_id(store.location) == store.store_id


def test_a_store_opened_for_reading_refuses_to_write(store_url):
    open_store(store_url, create=True).close()
    with open_store(store_url, read_only=True) as store, pytest.raises(StoreError, match="for reading only"):
        with store.writing():
            pass


def test_light_connections_cannot_write(sqlite_url):
    open_store(sqlite_url, create=True).close()
    with closing(connect_sqlite(parse_url(sqlite_url))) as connection:
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            connection.execute("DELETE FROM store_identity")


@pytest.mark.parametrize("revision", ["0000", "9999"])
def test_another_revision_is_an_error_that_names_both_and_the_command(store_url, revision):
    with open_store(store_url, create=True) as store, store.writing() as connection:
        connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{revision}'")
    with pytest.raises(RevisionError) as caught:
        open_store(store_url, create=True)
    message = str(caught.value)
    assert revision in message
    assert HEAD_REVISION in message
    assert "sweepdb db upgrade" in message
    assert ("newer" in message) == (revision == "9999")
    assert caught.value.exit_code == 3
    with pytest.raises(RevisionError, match="newer" if revision == "9999" else "upgrades stores from 0017 on"):
        upgrade_store(store_url)


def test_a_store_that_is_upgraded_while_open_is_not_written_by_the_older_program(store):
    with store.writing() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(RevisionError, match="9999"), store.writing():
        pytest.fail("the transaction began")


CONTENTS = {
    "an empty file": b"",
    "a Parquet file": b"PAR1" + bytes(100) + b"PAR1",
    "text": b"model,device\nqwen,h100\n" * 20,
    "a damaged first page": b"SQLite format 3\0" + b"\xff" * 4096,
}


@pytest.mark.parametrize("name", CONTENTS)
def test_a_file_that_is_no_store_is_said_to_be_none(tmp_path, name):
    path = tmp_path / "other.sqlite"
    path.write_bytes(CONTENTS[name])
    with pytest.raises(NotAStoreError) as caught:
        open_store(f"sqlite:///{path}")
    assert str(path) in str(caught.value)
    assert path.read_bytes() == CONTENTS[name]


def test_another_programs_database_is_left_alone(tmp_path):
    path = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
        connection.execute("CREATE TABLE customer (id INTEGER)")
        connection.commit()
    before = path.read_bytes()
    for action in (
        lambda: open_store(str(path), create=True),
        lambda: create_store(str(path)),
        lambda: upgrade_store(str(path)),
    ):
        with pytest.raises(NotAStoreError):
            action()
    assert path.read_bytes() == before


def test_a_database_of_another_program_on_a_server_is_left_alone(postgresql_url):
    import psycopg

    with psycopg.connect(postgresql_url) as connection:
        connection.execute("CREATE TABLE customer (id INTEGER)")
    with pytest.raises(NotAStoreError, match="customer"):
        open_store(postgresql_url, create=True)


def test_a_damaged_page_is_an_error_not_a_traceback_of_the_driver(tmp_path):
    path = tmp_path / "store.sqlite"
    fill(f"sqlite:///{path}", probes=2000)
    content = bytearray(path.read_bytes())
    content[8192 : len(content) : 3] = b"\xee" * len(range(8192, len(content), 3))
    path.write_bytes(content)
    with pytest.raises(NotAStoreError, match="damaged"):
        with open_store(str(path)) as store, store.reading() as connection:
            connection.exec_driver_sql("SELECT SUM(batch_size) FROM probe").all()


def test_an_empty_file_becomes_a_store_when_one_is_asked_for(tmp_path):
    path = tmp_path / "store.sqlite"
    path.touch()
    with open_store(str(path), create=True) as store:
        assert len(store.store_id) == 32


def test_a_directory_and_a_missing_directory_are_named(tmp_path):
    with pytest.raises(StoreError, match="is a directory"):
        open_store(str(tmp_path), create=True)
    with pytest.raises(StoreError, match="nowhere"):
        open_store(str(tmp_path / "nowhere" / "store.sqlite"), create=True)


def test_nothing_but_the_store_is_left_after_creating(tmp_path):
    open_store(str(tmp_path / "store.sqlite"), create=True).close()
    assert {path.name for path in tmp_path.iterdir()} <= {"store.sqlite", "store.sqlite-wal", "store.sqlite-shm"}


def test_two_processes_creating_one_store_agree_on_it(tmp_path):
    program = (
        "import sys; from store.opening import open_store\n"
        "with open_store(sys.argv[1], create=True) as store: print(store.store_id)"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "store.sqlite")]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    identities = {process.communicate()[0].strip() for process in processes}
    assert len(identities) == 1
    assert all(process.returncode == 0 for process in processes)


def test_a_server_that_is_not_there_is_an_error(postgresql_server):
    with pytest.raises(StoreError, match="No connection"):
        open_store("postgresql://ada@127.0.0.1:1/sweeps")
    with pytest.raises(StoreError, match="No connection"):
        open_store(postgresql_server.url("missing"))
    with pytest.raises(StoreError) as caught:
        open_store(postgresql_server.url("postgres").replace(postgresql_server.password, "wrong"))
    assert "wrong" not in str(caught.value)


def test_opening_for_reading_imports_nothing_heavy(sqlite_url):
    open_store(sqlite_url, create=True).close()
    program = (
        "import sys\nfrom store.location import parse_url\nfrom store.sweep_list import list_sweeps\n"
        "list_sweeps(parse_url(sys.argv[1]))\n"
        "heavy = {'sqlalchemy', 'alembic', 'numpy', 'pandas', 'torch', 'duckdb'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", program, sqlite_url], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user, whom permissions bind, takes root")
def test_a_store_in_a_read_only_directory_is_read_and_refuses_to_be_written(tmp_path):
    path = tmp_path / "shelf" / "store.sqlite"
    path.parent.mkdir()
    filled = fill(f"sqlite:///{path}", probes=1000)
    for parent in [path.parent, *path.parents]:
        if parent != Path("/tmp") and parent.is_relative_to("/tmp"):
            parent.chmod(0o755)
    path.chmod(0o444)
    program = """
import os, sys
sys.path[:0] = sys.argv[3:]
from store.upkeep import check_store
from store.errors import StoreError
from store.location import parse_url
from store.opening import open_store
from store.writing.beside import get_operators
from store.sweep_list import list_sweeps
from store.writing.voiding import void
check_store(parse_url(sys.argv[2]))  # import everything while this user may still read the program's files
os.setgid(65534); os.setuid(65534)
location = parse_url(sys.argv[1])
sweeps = list_sweeps(location)
print(sum(sweep.probes_stored for sweep in sweeps))
print(check_store(location).faults)
with open_store(sys.argv[1], read_only=True) as store:
    print(get_operators(store, ["a"]))
try:
    with open_store(sys.argv[1]) as store:
        void(store, sweeps[0].key[:12], "a test")
except StoreError as error:
    print(error)
"""
    fill(f"sqlite:///{tmp_path}/other.sqlite", probes=1)  # looking at rows imports more than looking at none
    command = [sys.executable, "-c", program, str(path), str(tmp_path / "other.sqlite"), str(Path(__file__).parents[2])]
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    assert lines[0] == str(filled.probes)
    assert lines[1:3] == ["()", "{}"]
    assert "read-only" in lines[3]


def test_looking_at_a_store_ends_no_lock_that_this_process_holds(sqlite_url):
    """Closing any handle of a file ends the locks of the process on it: another would then take the log away."""
    create_store(sqlite_url)
    path = parse_url(sqlite_url).path
    closes_last = f"import sqlite3; c = sqlite3.connect({str(path)!r}); c.execute('SELECT * FROM sweep'); c.close()"
    with closing(sqlite3.connect(path, isolation_level=None)) as held:
        held.execute("INSERT INTO price VALUES ('L40S', '2026-01-01', 1, 1, 'x')")
        read_store_id(parse_url(sqlite_url))
        subprocess.run([sys.executable, "-c", closes_last], check=True)
        assert path.with_name(f"{path.name}-wal").stat().st_size > 0
