"""One head, up and down and up, no drift, and an upgrade of what each release wrote; on both databases."""

import re
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from alembic import command
from alembic.script import ScriptDirectory
from generator import fill, sweep_record
from measured_points import point
from sqlalchemy import inspect, text
from stored import STORES, load_postgresql, load_sqlite

import store.migrating
import store.reading
import store.revision
from queries.asking.options import Limits, PairOptions, ReportOptions, Scope
from queries.asking.question import Question
from queries.session import Session
from store.errors import RevisionError, StoreError
from store.location import parse_url
from store.migrating import (
    alembic_config,
    create_store,
    current_revision,
    make_engine,
    migrate,
    schema_drift,
    upgrade_store,
)
from store.opening import open_store
from store.records import RunRecord
from store.revision import HEAD_REVISION, REVISIONS
from store.schema.raw_relations import store_views
from store.schema.sql_tables import METADATA
from store.upkeep import check_store
from store.writing import begin_sweep, get_measurements, put_measurements
from store.writing.point_rows import SELECT_POINTS
from sweepdb import stores as everything


def test_there_is_one_history_and_the_program_knows_it():
    scripts = ScriptDirectory.from_config(alembic_config(None)).walk_revisions()
    assert tuple(one.revision for one in scripts) == REVISIONS[::-1]
    assert REVISIONS[-1] == HEAD_REVISION
    directory = Path(store.migrating.migrations_directory())
    for path in directory.glob("versions/[0-9]*.py"):
        assert path.name[:4] in REVISIONS
        first_line = path.read_text().splitlines()[0]
        assert re.fullmatch(r'"""[A-Z].{20,}', first_line), f"{path.name} must say why in its first line"


def test_every_column_has_a_comment_that_ends_in_its_unit():
    for table in METADATA.sorted_tables:
        assert table.comment
        for column in table.columns:
            assert re.search(r"\S \[[^\]]+\]$", column.comment or ""), f"{table.name}.{column.name}"


def described(url):
    """What a database has of each table, view, index and trigger, whichever way a constraint is written."""
    location = parse_url(url)
    engine = make_engine(location)
    try:
        with engine.connect() as connection:
            inspector = inspect(connection)
            found = {}
            for name in (*inspector.get_table_names(), *inspector.get_view_names()):
                found[name] = [
                    sorted(f"{column} {column.get('comment')}" for column in inspector.get_columns(name)),
                    sorted(map(str, inspector.get_indexes(name))),
                ]
            for name in inspector.get_table_names():
                found[name] += [
                    str(inspector.get_pk_constraint(name)["constrained_columns"]),
                    sorted(map(str, inspector.get_foreign_keys(name))),
                    sorted(map(str, inspector.get_unique_constraints(name))),
                    sorted(_plain(one["sqltext"]) for one in inspector.get_check_constraints(name)),
                    "" if location.kind == "sqlite" else inspector.get_table_comment(name)["text"],
                    str(inspector.get_table_options(name)),  # without row ids
                ]
            more = {
                "sqlite": "SELECT name, sql FROM sqlite_master WHERE type IN ('trigger', 'view')",
                "postgresql": "SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal"
                " UNION ALL SELECT viewname, definition FROM pg_views WHERE schemaname = 'public'"
                " UNION ALL SELECT proname, prosrc FROM pg_proc WHERE proname = 'refuse_change'"
                " UNION ALL SELECT relname, relkind::text FROM pg_class WHERE relkind = 'S'",
            }[location.kind]
            return found, sorted(tuple(row) for row in connection.execute(text(more)))
    finally:
        engine.dispose()


def _plain(condition):
    """A condition without the casts that a server adds, one way or another."""
    return re.sub(r"::[a-z ]+(\[\])?|[()\s]", "", condition)


KEPT = sorted(path.name for path in STORES.glob("*.sql"))


@pytest.fixture(params=KEPT)
def stored_url(request, tmp_path):
    """A store as a release wrote it, or the program of revision 0017 before there was one."""
    sql = (STORES / request.param).read_text()
    if ".sqlite." in request.param:
        load_sqlite(sql, tmp_path / "stored.sqlite")
        return f"sqlite:///{tmp_path}/stored.sqlite"
    url = request.getfixturevalue("postgresql_url")
    load_postgresql(sql, url)
    return url


def test_the_first_revision_is_kept_for_each_database():
    assert {f"{REVISIONS[0]}.{kind}.sql" for kind in ("sqlite", "postgresql")} <= set(KEPT)
    assert {name[:4] for name in KEPT} <= set(REVISIONS)


def test_what_a_release_wrote_becomes_what_a_new_store_is(stored_url, request, tmp_path):
    """Also down to its revision and up again, which leaves the same."""
    revision = current_revision(stored_url)
    fresh = f"sqlite:///{tmp_path}/fresh.sqlite"
    if stored_url.startswith("postgresql"):
        fresh = request.getfixturevalue("postgresql_server").new_database()
    create_store(fresh)
    location = parse_url(stored_url)
    upgrade_store(stored_url)
    assert described(stored_url) == described(fresh)
    migrate(location, lambda config: command.downgrade(config, revision))
    assert current_revision(stored_url) == revision
    upgrade_store(stored_url)
    assert described(stored_url) == described(fresh)
    with make_engine(location).connect() as connection:
        assert schema_drift(connection) == []
    connection.engine.dispose()


def test_what_a_release_wrote_upgrades_with_its_values(stored_url):
    report = upgrade_store(stored_url)
    assert report.after == HEAD_REVISION == current_revision(stored_url)
    assert check_store(parse_url(stored_url)).faults == ()
    with open_store(stored_url) as opened, opened.reading() as connection:
        one = lambda query: tuple(connection.execute(text(query)).one())  # noqa: E731
        # prefill 1..6, decode 1..4, aggregated distribution 1..4, decode of the voided sweep 1..2
        assert one("SELECT COUNT(*), SUM(batch_size) FROM probe") == (16, 21 + 10 + 10 + 3)
        assert one("SELECT COUNT(*), MIN(first_batch_size), MAX(last_batch_size) FROM block") == (5, 1, 6)
        assert one("SELECT COUNT(*), SUM(samples) FROM composition")[1] == 1 + 2 + 3 + 4
        assert one("SELECT status, reason FROM scenario WHERE status <> 'ok' ORDER BY id LIMIT 1")[0] in {
            "illegal",
            "unsupported",
        }
        assert one("SELECT label, probes_stored, probes_known, status FROM sweep WHERE id = 2") == (
            "wider",
            2,
            2,
            "interrupted",
        )
        assert one("SELECT COUNT(*), COUNT(lifted_at) FROM tombstone") == (2, 1)
        assert one("SELECT payload FROM operator_set") == ('["matmul"]',)
        assert one("SELECT device, metrics FROM measurements") == ("H100_SXM", '{"tpot_ms_mean": 20.5}')
        # (16.4 - 20.5) / 20.5
        assert one("SELECT signed_error FROM validation")[0] == pytest.approx(-0.2)
        assert one("SELECT device, kind, engine, length_region FROM validation") == ("h100", "dense", None, None)
        assert bytes(one("SELECT kernels FROM calibration")[0]) == b"\x00\xff"
        assert one("SELECT usd_per_device_hour, watts_per_device FROM price") == (2.5, 700)
        # H100 reads 32.8e9 weights x 2 bytes and 262,144 bytes of KV for each of 4,250 tokens of one request,
        # over 8 devices at 3.35e12 x 0.8 bytes/s.
        memory_ms = (32.8e9 * 2 + 262_144 * 4250) / (3.35e12 * 0.8 * 8) * 1e3
        step, ttft = one(
            "SELECT p.decode_step_memory_ms, p.ttft_ms FROM probe p JOIN scenario c ON c.id = p.scenario_id"
            " JOIN subject s ON s.id = c.subject_id JOIN workload w ON w.id = s.workload_id"
            " WHERE s.phase = 'decode' AND w.label = '3500/1500' AND p.batch_size = 1"
        )
        assert step == pytest.approx(memory_ms, rel=1e-12)
        assert ttft is None


CLIENT = "shortest_length, prompts_per_user, poll_steps, seats, wait_steps, routing, unusual_service"


def test_what_a_release_knew_is_kept(stored_url):
    upgrade_store(stored_url)
    with open_store(stored_url) as opened, opened.reading() as connection:
        rows = lambda query: [tuple(row) for row in connection.execute(text(query))]  # noqa: E731
        assert rows("SELECT kind FROM sweep ORDER BY id") == [("request",), ("import",), ("validation",)]
        of_phase = "FROM scenario c JOIN subject s ON s.id = c.subject_id WHERE c.status = 'ok' AND s.phase"
        client = (0.8, 10, 2, 256, 40, "power_law_1.2", "shortest_length,seats")
        assert rows(f"SELECT {CLIENT}, c.launchable_by {of_phase} = 'prefill'") == [(*client, "vllm,sglang")]
        assert rows(f"SELECT DISTINCT {CLIENT}, c.launchable_by {of_phase} = 'decode'") == [(None,) * 8]
        # the writer stored half of each prefill step, of six, and twice the first tokens of the four aggregated ones
        assert rows(
            "SELECT COUNT(prompt_service_ms), SUM(prompt_service_ms) / SUM(prefill_step_ms) FROM probe"
            " WHERE decode_step_ms IS NULL"
        ) == [(6, 0.5)]
        assert rows(
            "SELECT COUNT(*), MIN(ttft_in_step_ms / ttft_ms) FROM probes WHERE ttft_in_step_ms IS NOT NULL"
        ) == [(4, 2.0)]
        wanted = "images, image_width, image_height, image_patches, image_tokens, encoder_split"
        assert rows(f"SELECT {wanted} FROM workload WHERE images IS NOT NULL") == [(2, 1024, 768, 3072, 768, "data")]
        # one load of three kept its requests, and another names the caches of its log
        assert rows("SELECT arrivals_per_s, trace_caches, host_prefix_share FROM load ORDER BY id") == [
            (0.5, None, None), (1.0, "device,host:400", 0.25), (1.5, None, None)
        ]  # fmt: skip
        assert rows("SELECT load_id, kept_requests FROM load_request") == [(3, 20)]
        assert rows("SELECT state, reason FROM shard") == [("failed", "no space left")]
        assert rows("SELECT name, rules FROM part_thinned") == [("shard-thin-1.parquet", 1)]


JUDGE_NO_NUMBER = {"coverage", "device-profiles"}  # and refuse a limit
QUESTIONS = {
    "best": ("chat-mix", {}),
    "prefill": ("3500/1500", {}),
    "decode": ("3500/1500", {}),
    "pd-ratio": ("3500/1500", {}),
    "pareto": ("3500/1500", {}),
    "curve": ("3500/1500", {"options": ReportOptions(mode="decode")}),
    "nearest": ("3500/1500", {"limits": Limits(tpot_ms=1e-6), "options": ReportOptions(mode="decode")}),
    "sensitivity": ("chat-mix", {"options": ReportOptions(vary=("tpot",))}),
    "capacity": ("3500/1500", {"pairs": PairOptions(num_devices=64)}),
    "devices": ("chat-mix", {}),
    "device-profiles": ("chat-mix", {}),
    "coverage": (None, {}),
}


def test_every_report_still_answers_on_what_a_release_wrote(stored_url):
    upgrade_store(stored_url)
    with Session(parse_url(stored_url)) as session:
        for name, (workload, options) in QUESTIONS.items():
            asked = {"limits": Limits(reserved_gib=0), **options} if name not in JUDGE_NO_NUMBER else options
            answer = session.ask(Question(report=name, scope=Scope(workload=workload), **asked))
            assert answer.rows, name


NEXT = f"{int(HEAD_REVISION) + 1:04d}"
NEXT_REVISION = f'''"""Say how noisy a measurement is, as the next release might."""
import sqlalchemy as sa
from alembic import op

revision = "{NEXT}"
down_revision = "{HEAD_REVISION}"


def upgrade():
    with op.batch_alter_table("price") as table:
        table.add_column(sa.Column("noise", sa.Double(), nullable=False, server_default="0.5"))
        table.alter_column("source", existing_type=sa.Text(), nullable=True)
    FAIL


def downgrade():
    with op.batch_alter_table("price") as table:
        table.drop_column("noise")
        table.alter_column("source", existing_type=sa.Text(), nullable=False)
'''


@pytest.fixture
def next_release(tmp_path, monkeypatch):
    """A program that knows one more revision; called with the text that ends its upgrade."""

    def install(ending: str) -> None:
        directory = tmp_path / "next_migrations"
        shutil.copytree(store.migrating.migrations_directory(), directory, ignore=shutil.ignore_patterns("__pycache__"))
        (directory / "versions" / f"{NEXT}_noise.py").write_text(NEXT_REVISION.replace("FAIL", ending))
        monkeypatch.setattr(store.migrating, "migrations_directory", lambda: directory)
        for module in (store.migrating, store.revision):
            monkeypatch.setattr(module, "REVISIONS", (*REVISIONS, NEXT))
            monkeypatch.setattr(module, "HEAD_REVISION", NEXT)

    return install


def test_the_next_revision_goes_up_down_and_up(store_url, next_release):
    fill(store_url, probes=400)
    location, before = parse_url(store_url), described(store_url)
    next_release("pass")
    upgrade_store(store_url)
    after = described(store_url)
    assert after != before
    assert after[1] == before[1]  # its views are laid down again
    migrate(location, lambda config: command.downgrade(config, HEAD_REVISION))
    down = described(store_url)
    assert down[0] == {name: found for name, found in before[0].items() if name not in store_views()}
    migrate(location, lambda config: command.upgrade(config, "head"))
    assert described(store_url) == after
    assert [fault for fault in check_store(location).faults if "schema differs" not in fault] == []


def test_points_get_one_row_for_what_they_share_and_lose_nothing_up_or_down(store_url):
    """Two of three agree in all but their values, their users and their time."""
    create_store(store_url)
    shared = point(1, device="H100_SXM", tp=2, users=4, ttft_ms_mean=80.0)
    points = [
        shared,
        replace(point(2, device="H100_SXM", tp=2, users=8, ttft_ms_mean=90.0), measured_at=None),
        replace(point(3, device="H100_SXM", tp=2, users=4, ttft_ms_mean=85.0), run=RunRecord(host="node-2")),
    ]
    with open_store(store_url) as opened:
        put_measurements(opened, points)
    location, counts = parse_url(store_url), "SELECT count(*) FROM measurement_facts"

    def stored(query):
        with open_store(store_url) as opened, opened.reading() as connection:
            return [tuple(row) for row in connection.execute(query)]

    before = stored(SELECT_POINTS.order_by(text("measurement.id")))
    assert stored(text(counts)) == [(2,)]
    migrate(location, lambda config: command.downgrade(config, "0020"))
    engine = make_engine(location)
    with engine.connect() as connection:
        told = connection.execute(
            text("SELECT source, device, host, decode_tp, imported_at FROM measurement ORDER BY source")
        )
        assert [row[:4] for row in told if row[4] is not None] == [
            ("file:1", "H100_SXM", None, 2), ("file:2", "H100_SXM", None, 2), ("file:3", "H100_SXM", "node-2", 2),
        ]  # fmt: skip
    engine.dispose()
    upgrade_store(store_url)
    assert stored(SELECT_POINTS.order_by(text("measurement.id"))) == before
    assert stored(text(counts)) == [(2,)]
    with open_store(store_url) as opened:
        assert sorted(get_measurements(opened), key=lambda one: one.source) == points
        assert put_measurements(opened, [point(4, device="H200_SXM", tp=2, users=4, ttft_ms_mean=80.0)]) == 1


def test_a_newer_program_upgrades_on_request_only_and_keeps_a_backup(store_url, next_release):
    filled = fill(store_url, probes=400)
    with open_store(store_url) as opened, opened.writing() as connection:
        connection.execute(
            text("INSERT INTO price (device_name, effective_from, source) VALUES ('L40S', '2026-01-01', 'x')")
        )
    next_release("pass")
    with pytest.raises(RevisionError, match="sweepdb db upgrade"):
        open_store(store_url)
    report = upgrade_store(store_url)
    assert (report.before, report.after) == (HEAD_REVISION, NEXT)
    with open_store(store_url) as opened, opened.reading() as connection:
        assert connection.execute(text("SELECT noise, source FROM price")).one() == (0.5, "x")
        assert connection.execute(text("SELECT COUNT(*) FROM probe")).scalar() == filled.probes
    if store_url.startswith("sqlite"):
        with closing(sqlite3.connect(report.backup)) as backup:
            assert backup.execute("SELECT version_num FROM alembic_version").fetchall() == [(HEAD_REVISION,)]
            assert backup.execute("SELECT COUNT(*) FROM probe").fetchone() == (filled.probes,)
            assert backup.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    else:
        assert report.backup is None
    assert upgrade_store(store_url).backup is None  # nothing left to do


def test_an_upgrade_that_fails_changes_nothing(store_url, next_release):
    filled = fill(store_url, probes=400)
    before = described(store_url)
    next_release("raise ValueError('half way')")
    for _ in range(2):
        with pytest.raises(ValueError, match="half way"):
            upgrade_store(store_url)
    path = parse_url(store_url).path
    assert path is None or len(list(path.parent.glob(f"{path.name}.backup-*"))) == 1  # the second is the same
    assert current_revision(store_url) == HEAD_REVISION
    assert described(store_url) == before
    with make_engine(parse_url(store_url)).connect() as connection:
        assert connection.execute(text("SELECT COUNT(*) FROM probe")).scalar() == filled.probes
    connection.engine.dispose()


def test_an_upgrade_that_breaks_a_reference_is_undone(sqlite_url, next_release):
    fill(sqlite_url, probes=400)
    next_release("op.execute('DELETE FROM model')")
    with pytest.raises(StoreError, match="broke a reference"):
        upgrade_store(sqlite_url)
    assert current_revision(sqlite_url) == HEAD_REVISION
    with closing(sqlite3.connect(parse_url(sqlite_url).path)) as connection:
        assert connection.execute("SELECT COUNT(*) FROM model").fetchone()[0] > 0


def test_the_backup_holds_what_is_still_in_the_log(sqlite_url):
    location = parse_url(sqlite_url)
    with open_store(sqlite_url, create=True) as opened:
        begin_sweep(opened, sweep_record(key="a" * 32))
        without_log = location.path.with_name("copy.sqlite")
        shutil.copy(location.path, without_log)
        backup = store.migrating.back_up(location, "backup-test")
    for path, sweeps in ((without_log, 0), (backup, 1)):
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("SELECT COUNT(*) FROM sweep").fetchone() == (sweeps,)
    assert set(backup.parent.glob(".*")) == set()  # no temporary file stays


def test_revisions_run_only_through_the_program():
    with pytest.raises(TypeError, match="sweepdb db upgrade"):
        command.upgrade(alembic_config(None), "head")


@pytest.mark.parametrize("revision", ["0001", "0016"])
def test_a_store_from_before_the_first_revision_is_told_which_commit_upgrades_it(store_url, revision):
    create_store(store_url)
    with make_engine(parse_url(store_url)).begin() as connection:
        connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{revision}'")
    connection.engine.dispose()
    for action in (open_store, upgrade_store, create_store):
        with pytest.raises(RevisionError, match=f"at revision {revision}; .* from {REVISIONS[0]} on") as caught:
            action(store_url)
        assert caught.value.exit_code == 3
        assert "97b1e07581225c16dec297c510edd99b6f61c350" in caught.value.hint
    assert current_revision(store_url) == revision


def view_faults(location):
    return [fault for fault in everything.check_store(location).faults if fault.startswith("The view ")]


def test_views_of_another_program_are_told_and_laid_down_anew(store_url):
    create_store(store_url)
    location = parse_url(store_url)
    before = described(store_url)
    assert list(view_faults(location)) == []
    assert everything.upgrade_store(store_url).views == ()
    with make_engine(location).begin() as connection:
        connection.exec_driver_sql("DROP VIEW models")
        connection.exec_driver_sql("DROP VIEW prices")
        connection.exec_driver_sql("CREATE VIEW prices AS SELECT device_name FROM price")
    connection.engine.dispose()
    said = [fault.partition(":")[0] for fault in view_faults(location)]
    assert said == [f"The view {name} is not what this program lays down" for name in ("models", "prices")]
    done = everything.upgrade_store(store_url)
    assert (done.before, done.views) == (HEAD_REVISION, ("models", "prices"))
    assert described(store_url) == before
    assert list(view_faults(location)) == []


def test_a_view_of_the_users_over_one_of_ours_stops_an_upgrade_of_a_server(postgresql_url):
    create_store(postgresql_url)
    with make_engine(parse_url(postgresql_url)).begin() as connection:
        connection.exec_driver_sql("DROP VIEW prices")
        connection.exec_driver_sql("CREATE VIEW mine AS SELECT name FROM models")
    connection.engine.dispose()
    before = described(postgresql_url)
    with pytest.raises(StoreError, match=r"Something of yours .* view models because other objects") as caught:
        everything.upgrade_store(postgresql_url)
    assert "Drop it" in caught.value.hint
    assert described(postgresql_url) == before


def test_upgrading_a_store_that_is_right_takes_no_lock(sqlite_url):
    create_store(sqlite_url)
    with closing(sqlite3.connect(parse_url(sqlite_url).path)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        assert everything.upgrade_store(sqlite_url).views == ()


def test_who_may_only_read_a_server_checks_all_but_its_views(postgresql_url):
    create_store(postgresql_url)
    with make_engine(parse_url(postgresql_url)).begin() as connection:
        connection.exec_driver_sql(f"ALTER DATABASE {postgresql_url.rpartition('/')[2]}"
                                   " SET default_transaction_read_only = on")  # fmt: skip
    connection.engine.dispose()
    assert everything.check_store(parse_url(postgresql_url)).faults == ()
