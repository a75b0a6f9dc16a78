"""Starts Debian's PostgreSQL for tests: its own data directory, an unprivileged user, loopback only.

Not here: fixtures (conftest). `why_not()` says in one sentence why a server cannot be had, or None."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_SERVER_USERS = ("postgres", "nobody")  # initdb refuses to run as root
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",  # the data directory is thrown away
    "shared_buffers": "64MB",
    "max_connections": "120",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    port: int
    password: str

    def url(self, database: str) -> str:
        return f"postgresql://sweepdb:{self.password}@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        import psycopg

        name = f"test_{secrets.token_hex(6)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def drop(self, url: str) -> None:
        import psycopg

        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {url.rpartition('/')[2]} WITH (FORCE)")


def binaries() -> Path | None:
    """Return the folder of initdb and postgres, the newest version first."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parent.name, reverse=True)
    for folder in folders:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    found = shutil.which("initdb")
    return Path(found).resolve().parent if found else None


def why_not() -> str | None:
    """Say why no server can be started here."""
    if binaries() is None:
        return "the PostgreSQL server is not installed (Debian: apt-get install postgresql)"
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return "psycopg is not installed (pip install 'sweepdb[postgres]')"
    if os.geteuid() == 0 and _unprivileged_user() is None:
        return "PostgreSQL refuses to run as root and there is no unprivileged user"
    return None


def _unprivileged_user() -> str | None:
    names = {entry.pw_name for entry in pwd.getpwall()}
    return next((name for name in _SERVER_USERS if name in names), None)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def running_server() -> Iterator[Server]:
    folder = binaries()
    user = _unprivileged_user() if os.geteuid() == 0 else None
    server = Server(port=_free_port(), password=secrets.token_hex(8))
    with tempfile.TemporaryDirectory(prefix="sweepdb-postgresql-", ignore_cleanup_errors=True) as name:
        home = Path(name)
        password_file = home / "password"
        password_file.write_text(server.password)
        if user:
            for path in (home, password_file):
                shutil.chown(path, user)
        data = home / "data"
        arguments = ["--username=sweepdb", f"--pwfile={password_file}", "--auth=scram-sha-256", "--encoding=UTF8"]
        subprocess.run(
            [folder / "initdb", f"--pgdata={data}", "--no-locale", "--no-sync", *arguments],
            user=user, cwd=home, check=True, capture_output=True,
        )  # fmt: skip
        settings = [part for key, value in _SETTINGS.items() for part in ("-c", f"{key}={value}")]
        with (home / "log").open("wb") as log:
            process = subprocess.Popen(
                [folder / "postgres", "-D", data, "-p", str(server.port), *settings],
                user=user, cwd=home, stdout=log, stderr=log,
            )  # fmt: skip
            try:
                _wait(server, process, home / "log")
                yield server
            finally:
                process.send_signal(2)  # fast shutdown: open connections are cut
                process.wait(timeout=30)


def _wait(server: Server, process: subprocess.Popen, log: Path) -> None:
    import psycopg

    deadline = time.monotonic() + 60
    while True:
        try:
            psycopg.connect(server.url("postgres"), connect_timeout=5).close()
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start:\n{log.read_text()}") from None
            time.sleep(0.1)
        else:
            return
