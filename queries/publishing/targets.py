"""Abilities of every target, and names of its tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from store.errors import InputError

if TYPE_CHECKING:
    import duckdb

    from queries.publishing.public_tables import PublishedRelation

Block = tuple[int, int]  # scenario and block
BLOCK_COLUMNS = (("scenario_id", "BIGINT"), ("block_id", "BIGINT"))
Blocks = Mapping[Block, tuple[int, ...]]  # with figures that change when a row is hidden or shown again
Typed = Sequence[tuple[str, str]]
STAMP = "publication"
STAMP_COLUMNS = (("store_id", "VARCHAR"), ("layout", "VARCHAR"), ("published_at", "VARCHAR"), ("probes", "BIGINT"))
BLOCKS = (
    "SELECT scenario_id, block_id, count(*), CAST(min(batch_size) AS BIGINT), CAST(max(batch_size) AS BIGINT),"
    " CAST(sum(batch_size) AS BIGINT) FROM {probes} GROUP BY scenario_id, block_id"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The store published, and the layout."""

    store_id: str
    layout: str


class Target(ABC):
    """Everything within `opened` comes at once or not at all."""

    display: str

    @contextmanager
    @abstractmethod
    def opened(self, duckdb: duckdb.DuckDBPyConnection) -> Iterator[None]:
        """`duckdb` has the views, and keeps them while it is open."""
        yield

    @abstractmethod
    def published_of(self) -> Published | None:
        """None: empty. Refuses anything else."""

    @abstractmethod
    def begin_anew(self, probes: PublishedRelation) -> None:
        """With an empty table of probes."""

    @abstractmethod
    def blocks(self) -> Blocks: ...

    @abstractmethod
    def remove(self, blocks: Sequence[Block]) -> None: ...

    @abstractmethod
    def append(self, columns: Typed, select: str) -> None: ...

    @abstractmethod
    def replace(self, name: str, columns: Typed, select: str) -> None: ...

    @abstractmethod
    def stamp(self, store_id: str, layout: str, moment: str, probes: int) -> None:
        """Whose tables, and of when."""

    @abstractmethod
    def comment(self, relations: Sequence[PublishedRelation]) -> None:
        """Meanings of columns, where a database keeps comments."""


def not_ours(display: str) -> InputError:
    return InputError(
        f"{display} holds something that `sweepdb publish` did not write, which is never replaced",
        hint="name a place that is not there yet",
    )
