"""One head, up and down and up, no drift, and an upgrade of what each release wrote; on both databases."""

import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from alembic import command
from generator import fill, sweep_record
from sqlalchemy import inspect, text
from stored import STORES, load_postgresql, load_sqlite

import store.migrating
import store.reading
import store.revision
from queries.asking.options import Limits, PairOptions, ReportOptions, Scope
from queries.asking.question import Question
from queries.session import Session
from store.engines import make_engine
from store.errors import RevisionError, StoreError
from store.location import parse_url
from store.migrating import (
    alembic_config,
    create_store,
    current_revision,
    migrate,
    revision_history,
    schema_drift,
    upgrade_store,
)
from store.opening import open_store
from store.revision import HEAD_REVISION, REVISIONS
from store.schema.sql_tables import METADATA
from store.upkeep import check_store
from store.writing import begin_sweep


def test_there_is_one_history_and_the_program_knows_it():
    assert revision_history() == REVISIONS
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


def describe(url):
    """Describe every table of a database: columns, keys, checks, indexes and triggers."""
    location = parse_url(url)
    engine = make_engine(location)
    try:
        with engine.connect() as connection:
            if location.kind == "sqlite":
                rows = connection.execute(text("SELECT name, sql FROM sqlite_master ORDER BY name"))
                return [tuple(row) for row in rows if "alembic_version" not in row.name]
            inspector = inspect(connection)
            tables = sorted(set(inspector.get_table_names()) - {"alembic_version"})
            triggers = connection.execute(text("SELECT tgname FROM pg_trigger WHERE NOT tgisinternal ORDER BY tgname"))
            return [
                [
                    (
                        name, str(inspector.get_columns(name)), str(inspector.get_foreign_keys(name)),
                        str(inspector.get_check_constraints(name)), str(sorted(map(str, inspector.get_indexes(name)))),
                    )
                    for name in tables
                ],
                [row[0] for row in triggers] if tables else [],
            ]  # fmt: skip
    finally:
        engine.dispose()


def test_up_down_up_leaves_the_same_and_no_drift(store_url):
    create_store(store_url)
    location = parse_url(store_url)
    first = describe(store_url)
    migrate(location, lambda config: command.downgrade(config, "base"))
    assert not any(describe(store_url))
    migrate(location, lambda config: command.upgrade(config, "head"))
    assert describe(store_url) == first
    with make_engine(location).connect() as connection:
        assert schema_drift(connection) == []
    connection.engine.dispose()


RELEASED = [path.name for path in sorted(STORES.glob("*.sql"))]
_FIRST_AND_LAST = {name[:4] for name in (RELEASED[0], RELEASED[-1])}


@pytest.fixture(
    params=[
        pytest.param(name, marks=[] if ".sqlite." in name or name[:4] in _FIRST_AND_LAST else pytest.mark.long)
        for name in RELEASED
    ]
)
def stored_url(request, tmp_path):
    """A store as a release wrote it."""
    sql = (STORES / request.param).read_text()
    if ".sqlite." in request.param:
        load_sqlite(sql, tmp_path / "stored.sqlite")
        return f"sqlite:///{tmp_path}/stored.sqlite"
    url = request.getfixturevalue("postgresql_url")
    load_postgresql(sql, url)
    return url


def test_every_revision_has_a_stored_file_for_each_database():
    assert {path.name for path in STORES.glob("*.sql")} == {
        f"{revision}.{kind}.sql" for revision in REVISIONS for kind in ("sqlite", "postgresql")
    }


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
        assert one("SELECT device, metrics FROM measurement") == ("H100_SXM", '{"tpot_ms_mean": 20.5}')
        # (16.4 - 20.5) / 20.5
        assert one("SELECT signed_error FROM validation")[0] == pytest.approx(-0.2)
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
ADDED = {  # what a release wrote of the columns of revision 0002: kinds, the prefill subject, launchers, service times
    "0001": ([("request",)] * 3, (None,) * 7, None, 0),
    "0002": (
        [("request",), ("import",), ("validation",)],
        (0.8, 10, 2, 256, 40, "power_law_1.2", "shortest_length,seats"),
        "vllm,sglang",
        6,  # batch sizes of the prefill scenario
    ),
}
ADDED |= dict.fromkeys(REVISIONS[2:], ADDED["0002"])


def test_what_a_release_did_not_know_is_absent_and_what_it_knew_is_kept(stored_url):
    before = current_revision(stored_url)
    upgrade_store(stored_url)
    kinds, client, launchers, served = ADDED[before]
    with open_store(stored_url) as opened, opened.reading() as connection:
        rows = lambda query: [tuple(row) for row in connection.execute(text(query))]  # noqa: E731
        assert rows("SELECT kind FROM sweep ORDER BY id") == kinds
        of_phase = "FROM scenario c JOIN subject s ON s.id = c.subject_id WHERE c.status = 'ok' AND s.phase"
        assert rows(f"SELECT {CLIENT}, c.launchable_by {of_phase} = 'prefill'") == [(*client, launchers)]
        assert rows(f"SELECT DISTINCT {CLIENT}, c.launchable_by {of_phase} = 'decode'") == [(None,) * 8]
        (service,) = rows("SELECT COUNT(prompt_service_ms), SUM(prompt_service_ms) / SUM(prefill_step_ms) FROM probe"
                          " WHERE decode_step_ms IS NULL")  # fmt: skip
        assert service == (served, 0.5 if served else None)  # the writer stored half of each step


def test_first_tokens_of_users_in_step_are_kept_from_their_revision_on(stored_url):
    before = current_revision(stored_url)
    upgrade_store(stored_url)
    with open_store(stored_url) as opened, opened.reading() as connection:
        kept = connection.execute(text("SELECT COUNT(*), MIN(ttft_in_step_ms / ttft_ms) FROM probes WHERE"
                                       " ttft_in_step_ms IS NOT NULL")).one()  # fmt: skip
    assert tuple(kept) == ((4, 2.0) if before >= "0013" else (0, None))  # the writer stored twice the time of each


def test_images_of_a_workload_are_kept_from_their_revision_on(stored_url):
    before = current_revision(stored_url)
    upgrade_store(stored_url)
    wanted = "images, image_width, image_height, image_patches, image_tokens, encoder_split"
    with open_store(stored_url) as opened, opened.reading() as connection:
        kept = connection.execute(text(f"SELECT {wanted} FROM workload WHERE images IS NOT NULL")).all()
    assert [tuple(row) for row in kept] == ([(2, 1024, 768, 3072, 768, "data")] if before >= "0011" else [])


def test_a_store_with_images_does_not_go_back_to_a_revision_that_takes_them_for_text(sqlite_url):
    load_sqlite((STORES / "0011.sqlite.sql").read_text(), Path(sqlite_url.removeprefix("sqlite:///")))
    with pytest.raises(RuntimeError, match="have images"):
        migrate(parse_url(sqlite_url), lambda config: command.downgrade(config, "0010"))
    assert current_revision(sqlite_url) == "0011"


VALIDATED = "INSERT INTO sweep VALUES ({id}, '{key}', {label}, '{arguments}', '0.1.0', '2026-01-02 00:00:00', '2026-01-02 00:00:00', 'finished', 0, 0, 0)"  # fmt: skip


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_an_upgrade_tells_what_comparisons_and_imports_left_from_what_a_user_asked(tmp_path, request, kind):
    sql = (STORES / f"0001.{kind}.sql").read_text()
    url = f"sqlite:///{tmp_path}/stored.sqlite" if kind == "sqlite" else request.getfixturevalue("postgresql_url")
    asked = (
        ("'validation'", '{"devices": [], "kind": "validation", "models": [], "points": 3}'),
        ("'validation'", '{"devices": ["H100_SXM"]}'),  # a user's own label
    )
    rows = [
        VALIDATED.format(id=90 + place, key=f"f{place:031}", label=label, arguments=arguments)
        for place, (label, arguments) in enumerate(asked)
    ]
    # Its blocks were committed when the file was made: long after it ended elsewhere.
    rows.append("UPDATE sweep SET finished_at = '2020-01-02 00:00:00' WHERE label = 'first'")
    if kind == "sqlite":
        load_sqlite(sql.replace("COMMIT;", ";\n".join([*rows, "COMMIT;"])), tmp_path / "stored.sqlite")
    else:
        load_postgresql(sql, url)
        with make_engine(parse_url(url)).begin() as connection:
            for row in rows:
                connection.exec_driver_sql(row.replace("%", "%%"))
        connection.engine.dispose()
    upgrade_store(url)
    with open_store(url) as opened, opened.reading() as connection:
        found = connection.execute(text("SELECT kind FROM sweep ORDER BY id")).scalars().all()
    assert found == ["import", "request", "request", "validation", "request"]


def test_a_downgrade_keeps_what_the_older_revision_knows(store_url):
    filled = fill(store_url, probes=400)
    location = parse_url(store_url)
    migrate(location, lambda config: command.downgrade(config, "0001"))
    with make_engine(location).begin() as connection:
        assert connection.execute(text("SELECT COUNT(*), COUNT(weight_bytes) FROM probe")).one() == (filled.probes,) * 2
        with pytest.raises(Exception, match="never changes"):  # of the driver: the triggers are still there
            connection.execute(text("UPDATE probe SET ttft_ms = 1"))
        connection.rollback()
    connection.engine.dispose()
    migrate(location, lambda config: command.upgrade(config, "head"))
    assert check_store(location).faults == ()


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
    before = describe(store_url)
    next_release("raise ValueError('half way')")
    for _ in range(2):
        with pytest.raises(ValueError, match="half way"):
            upgrade_store(store_url)
    path = parse_url(store_url).path
    assert path is None or len(list(path.parent.glob(f"{path.name}.backup-*"))) == 1  # the second is the same
    assert current_revision(store_url) == HEAD_REVISION
    assert describe(store_url) == before
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
