"""A store's address, from a URL or path, the environment, or the default."""

from __future__ import annotations

import os
from dataclasses import field
from pathlib import Path
from shlex import quote
from typing import Literal
from urllib.parse import unquote, urlsplit, urlunsplit

from store.errors import InputError
from store.light_dataclass import dataclass

DEFAULT_URL = "sqlite:///sweepdb.sqlite"
ENVIRONMENT_VARIABLE = "SWEEPDB_STORE"
_EXAMPLES = "Write sqlite:///relative.sqlite, sqlite:////absolute/path.sqlite or postgresql://user@host/database."


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The newest number of each table that only grows."""

    sweep: int
    scenario: int
    block: int
    load: int
    load_block: int

    @property
    def conditions(self) -> dict[str, str]:
        newest = {name: f"id <= {getattr(self, name):d}" for name in self.__slots__}
        return {**newest, "sweep_interval": f"sweep_id <= {self.sweep:d}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreLocation:
    """`path` is a SQLite store's absolute file, None for PostgreSQL.

    With a `moment`, later rows are not seen; voiding counts as today."""

    url: str = field(repr=False)  # what SQLAlchemy is given; it may hold a password
    kind: Literal["sqlite", "postgresql"]
    path: Path | None
    display: str  # for messages: no password
    moment: Moment | None = None

    @property
    def is_to_be_made(self) -> bool:
        """Whether it is a file that is not there yet."""
        return self.path is not None and not self.path.exists()

    @property
    def driver_url(self) -> str:
        """libpq knows no `+psycopg`."""
        return self.url.replace("postgresql+psycopg://", "postgresql://", 1)

    @property
    def argument(self) -> str:
        """Empty where none is needed; without a password."""
        try:
            needed = parse_url().url != self.url
        except InputError:
            needed = True
        return f" `store={quote(self.display)}`" if needed else ""


def parse_url(url: str | os.PathLike[str] | None = None) -> StoreLocation:
    """The argument, else SWEEPDB_STORE, else sweepdb.sqlite here."""
    if url is not None and not isinstance(url, str | os.PathLike):
        raise InputError(f"`store` is an address or a path, not {url!r}", hint=_EXAMPLES)
    text = (url and os.fspath(url)) or os.environ.get(ENVIRONMENT_VARIABLE) or DEFAULT_URL
    scheme, separator, rest = text.partition("://")
    if not separator:
        return _sqlite(text, text)
    match scheme.lower():
        case "sqlite" | "sqlite+pysqlite":
            return _sqlite(rest.removeprefix("/") if rest.startswith("/") else "", text)
        case "postgres" | "postgresql" | "postgresql+psycopg":
            return _postgresql(rest)
    raise InputError(f"{text!r} is not a store this program knows: {scheme!r} is no kind of store.", hint=_EXAMPLES)


def _sqlite(path_text: str, text: str) -> StoreLocation:
    if path_text.strip() in {"", ":memory:"}:
        raise InputError(f"{text!r} names no file; a store is kept, so it cannot live in memory.", hint=_EXAMPLES)
    if "?" in path_text or "\0" in path_text:
        raise InputError(f"{text!r}: a store's path takes no options.", hint=_EXAMPLES)
    path = Path(path_text).expanduser().absolute()
    return StoreLocation(url=f"sqlite:///{path}", kind="sqlite", path=path, display=f"sqlite:///{path_text}")


def _postgresql(rest: str) -> StoreLocation:
    parts = urlsplit(f"postgresql+psycopg://{rest}")
    if not unquote(parts.path.strip("/")):
        raise InputError("The PostgreSQL address names no database.", hint=_EXAMPLES)
    user, _, host = parts.netloc.rpartition("@")
    shown_user = f"{user.partition(':')[0]}@" if user else ""
    display = urlunsplit(("postgresql", f"{shown_user}{host}", parts.path, "", ""))
    return StoreLocation(url=parts.geturl(), kind="postgresql", path=None, display=display)
