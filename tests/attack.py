"""Kills commands at a random write, flush or rename, and looks at what they leave: `python tests/attack.py ROUNDS`.

Each round takes a fresh copy of a store, counts the calls of one command, then runs it again and kills it at one of them.
Afterwards the store must be whole, hold every row of before, and take the same command again. Kinds that are about parts
work on a copy of a store whose parts lie in a shared place: the original must be whole as well. Prints a JSON line a kind
of command and database."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from conftest_cli import words
from postgresql_server import Server, running_server, why_not
from stored import STORES, load_postgresql, load_sqlite

from migrations.views import differing_views
from store.location import parse_url
from store.migrating import current_revision
from store.reading import read_transaction
from store.revision import HEAD_REVISION, REVISIONS
from store.upkeep import check_store

HERE = Path(__file__).parent
EXAMPLE = (
    "evaluate Qwen/Qwen3-32B --device TEST_DEVICE --num-devices 4 --input-length 350 --output-length 150"
    " --quantization W8A8_DYNAMIC --batch-range {}"
)
OF_ROWS = ("evaluate", "seal", "compact", "import", "export", "vacuum", "migrate")
OF_PARTS = {  # the command that is killed, and those that came before
    "adopt": ("db adopt-parts", ()),
    "take over": ("db adopt-parts --move", ()),
    "merge": ("db compact", ("db adopt-parts",)),
    "remove": ("db compact", ("db adopt-parts", "db compact")),
}
KILLED = -9


@dataclass(slots=True)
class Counts:
    """What rounds of one kind found. `calls` is how many writes, flushes and renames the command makes."""

    kind: str
    database: str
    rounds: int = 0
    killed: int = 0
    lost: int = 0
    calls: int = 0
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What every round starts from: two stores as files or SQL, a bundle, and the shim that kills."""

    folder: Path
    shim: Path
    server: Server | None


def command(arguments: str, url: str, ground: Ground, *, kill_at: int = 0) -> tuple[int, int, str]:
    """Run a command of the program in a process of its own: exit code, calls counted, stderr."""
    calls = ground.folder / "calls"
    calls.unlink(missing_ok=True)
    environment = {
        **os.environ,
        "PYTHONPATH": str(HERE.parent),
        "LD_PRELOAD": str(ground.shim),
        "SWEEPDB_KILL_AT": str(kill_at),
        "SWEEPDB_CALLS": str(calls),
        "XDG_CACHE_HOME": str(ground.folder / "cache"),
        "SWEEPDB_PARTS": str(ground.folder / "shared"),
        "SWEEPDB_SHARD_PROBES": "9",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", *words(arguments), "--store", url],
        env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    return done.returncode, int(calls.read_text()) if calls.exists() else 0, done.stderr


@contextmanager
def prepared(folder: Path) -> Iterator[Ground]:
    shim = folder / "kill_at.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", shim, HERE / "kill_at.c", "-ldl"], check=True)
    small, large = (f"sqlite:///{folder}/{name}.sqlite" for name in ("small", "large"))
    with running_server() if not why_not() else _nothing() as server:
        ground = Ground(folder=folder, shim=shim, server=server)
        for url, sizes in ((small, (8,)), (large, (8, 24))):
            for size in sizes:
                code, _, said = command(EXAMPLE.format(size), url, ground)
                assert code == 0, said
        assert command(f"export {folder}/bundle", large, ground)[0] == 0
        assert command(EXAMPLE.format(12) + " --workers shard:1/1", original(ground), ground)[0] == 0
        yield ground


def original(ground: Ground) -> str:
    """The store whose parts lie in the shared place."""
    return f"sqlite:///{ground.folder}/original.sqlite"


@contextmanager
def _nothing() -> Iterator[None]:
    yield None


def rows(url: str) -> set[tuple[object, ...]]:
    probes = "SELECT s.key, p.batch_size, p.weight_bytes, p.e2e_ms FROM probe p JOIN scenario s ON s.id = p.scenario_id"
    blocks = "SELECT s.key, b.first_batch_size, b.digest FROM block b JOIN scenario s ON s.id = b.scenario_id"
    with read_transaction(parse_url(url)) as transaction:
        return {*transaction.cells(probes), *transaction.cells(blocks)}


def _fresh(ground: Ground, kind: str, database: str, number: int) -> str:
    """A store of its own for a round, filled as its kind needs."""
    if database == "postgresql":
        assert ground.server is not None
        url = ground.server.new_database()
        if kind == "migrate":
            load_postgresql(_kept(database), url)
        elif kind != "import":
            assert command(f"import {ground.folder}/bundle", url, ground)[0] == 0
        return url
    path = ground.folder / f"{kind.replace(' ', '-')}-{number}.sqlite"
    if kind in OF_PARTS:
        shutil.copy(parse_url(original(ground)).path or "", path)
        for before in OF_PARTS[kind][1]:
            assert command(before, f"sqlite:///{path}", ground)[0] == 0
        with closing(sqlite3.connect(path)) as connection, connection:  # as if readers were long gone
            connection.execute("UPDATE part SET retired_at = '2020-01-01 00:00:00' WHERE retired_at IS NOT NULL")
    elif kind == "migrate":
        load_sqlite(_kept(database), path)
    elif kind == "import":
        pass
    else:
        shutil.copy(ground.folder / "small.sqlite", path)
    return f"sqlite:///{path}"


def _kept(database: str) -> str:
    """A store of the first revision that lacks a view, so that upgrading it writes even where that is the newest."""
    return (STORES / f"{REVISIONS[0]}.{database}.sql").read_text() + "DROP VIEW probes;\n"


def _arguments(ground: Ground, kind: str, number: int) -> str:
    if kind in OF_PARTS:
        return OF_PARTS[kind][0]
    return {
        "evaluate": EXAMPLE.format(24),
        "seal": "db seal",
        "compact": "db seal",
        "import": f"import {ground.folder}/bundle",
        "export": f"export {ground.folder}/out-{number}",
        "vacuum": "db vacuum",
        "migrate": "db upgrade",
    }[kind]


def one_round(ground: Ground, counts: Counts, chance: random.Random, number: int) -> None:
    """Kill one command once, and note what it left."""
    kind = counts.kind
    url = _fresh(ground, kind, counts.database, number)
    if kind == "compact":  # two small parts, which the next sealing merges
        command("db seal", url, ground)
        command(EXAMPLE.format(12), url, ground)
    if not counts.calls:
        counts.calls = command(_arguments(ground, kind, number), url, ground)[1]
        assert counts.calls > 1, f"no calls of {kind} were counted"
        _forget(ground, url, counts.database, number)
        url = _fresh(ground, kind, counts.database, number)
    before = set() if kind in {"import", "migrate"} else rows(url)
    kill_at = chance.randint(1, counts.calls)
    code, _, said = command(_arguments(ground, kind, number), url, ground, kill_at=kill_at)
    counts.rounds += 1
    counts.killed += code == KILLED
    faults = list(_left(ground, kind, url, before, number)) if code in {KILLED, 0} else [f"exit {code}: {said[-300:]}"]
    counts.lost += bool(faults)
    counts.faults += [f"{kind} on {counts.database}, call {kill_at}: {fault}" for fault in faults]
    _forget(ground, url, counts.database, number)


def _left(ground: Ground, kind: str, url: str, before: set[tuple[object, ...]], number: int) -> Iterator[str]:
    """What is wrong after a kill, and after the same command once more."""
    path, out = parse_url(url).path, ground.folder / f"out-{number}"
    if (
        kind == "export"
        and out.exists()
        and command(f"import {out}", f"sqlite:///{ground.folder}/again-{number}.sqlite", ground)[0] != 0
    ):
        yield "a folder that is no bundle"
    if kind == "import" and (path is None or path.exists()):
        some = len(rows(url)) if path is not None or _has_tables(url) else 0
        if some not in {0, _bundled(ground)}:
            yield f"a part of a bundle: {some} rows"
    if kind == "migrate" and current_revision(url) not in {REVISIONS[0], HEAD_REVISION}:
        yield "a revision between"
    if kind not in {"import", "migrate"}:
        yield from _faults(url)
        if not before <= rows(url):
            yield "rows are gone"
    shutil.rmtree(out, ignore_errors=True)
    code, _, said = command(_arguments(ground, kind, number), url, ground)
    if code != 0:
        yield f"the same command again: exit {code}: {said[-300:]}"
    else:
        yield from _faults(url)
        if kind == "migrate":
            yield from differing_views(parse_url(url))
    if kind in OF_PARTS:
        yield from (f"the original: {fault}" for fault in _faults(original(ground)))
        yield from (f"{one.parts} parts of another" for one in check_store(parse_url(url)).elsewhere)


def _faults(url: str) -> Iterator[str]:
    yield from (fault for fault in check_store(parse_url(url)).faults if not fault.startswith("The snapshot"))


def _has_tables(url: str) -> bool:
    import psycopg

    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT COUNT(*) FROM pg_tables WHERE tablename = 'probe'").fetchone()
    return bool(row and row[0])


def _bundled(ground: Ground) -> int:
    return len(rows(f"sqlite:///{ground.folder}/large.sqlite"))


def _forget(ground: Ground, url: str, database: str, number: int) -> None:
    if database == "postgresql" and ground.server is not None:
        ground.server.drop(url)
    for item in ground.folder.glob(f"*-{number}*"):
        shutil.rmtree(item) if item.is_dir() else item.unlink()


def attack(rounds: int, folder: Path, *, every: int = 1, seed: int = 2026) -> list[Counts]:
    """Run rounds over every kind of command and database in turn, or each third kind; no faults are hoped for."""
    chance = random.Random(seed)
    with prepared(folder) as ground:
        databases = ("sqlite", "postgresql") if ground.server is not None else ("sqlite",)
        found = [Counts(kind, database) for kind in OF_ROWS for database in databases]
        found += [Counts(kind, "sqlite") for kind in OF_PARTS]
        found = found[::every]
        for number in range(rounds):
            one_round(ground, found[number % len(found)], chance, number)
    return found


def main() -> None:
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        found = attack(int(sys.argv[1]), Path(folder))
    for counts in found:
        said = {name: getattr(counts, name) for name in Counts.__slots__}
        sys.stdout.write(json.dumps(said) + "\n")
    total = {name: sum(getattr(one, name) for one in found) for name in ("rounds", "killed", "lost")}
    sys.stdout.write(json.dumps({**total, "seconds": round(time.monotonic() - started)}) + "\n")
    sys.exit(1 if total["lost"] else 0)


if __name__ == "__main__":
    main()
