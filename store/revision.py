"""Known schema revisions, and every opening's check. Without Alembic."""

from __future__ import annotations

from pathlib import Path

from store.errors import RevisionError
from store.location import StoreLocation

_FILES = (Path(__file__).parents[1] / "migrations" / "versions").glob("[0-9]*.py")
# Oldest first; the last is the one that this program reads and writes.
REVISIONS = tuple(sorted(path.name[:4] for path in _FILES))
HEAD_REVISION = REVISIONS[-1]
VERSION_TABLE = "alembic_version"
# The last commit that upgrades stores of revisions before the first; no release had them.
LAST_UPGRADER = "97b1e07581225c16dec297c510edd99b6f61c350"


def check_revision(location: StoreLocation, found: str) -> None:
    """Raises, never migrates."""
    if found != HEAD_REVISION:
        raise revision_error(location, found)


def revision_error(location: StoreLocation, found: str) -> RevisionError:
    if found > HEAD_REVISION:  # ids count up and have one length
        return RevisionError(
            f"The store {location.display} is at revision {found}, which is newer than this program's {HEAD_REVISION}.",
            hint="Upgrade the program (pip install -U sweepdb), then run: "
            f"sweepdb db upgrade{location.argument}   (it changes nothing when the revisions already agree)",
        )
    if found in REVISIONS:
        return RevisionError(
            f"The store {location.display} is at revision {found}; this program reads and writes {HEAD_REVISION}.",
            hint=f"Run: sweepdb db upgrade{location.argument}   (a file store is backed up first)",
        )
    return RevisionError(
        f"The store {location.display} is at revision {found}; this program reads and writes {HEAD_REVISION},"
        f" and upgrades stores from {REVISIONS[0]} on.",
        hint=f"Install this program as it was at commit {LAST_UPGRADER}, the last that upgrades this store, and run"
        f" there: sweepdb db upgrade{location.argument}   (a file store is backed up first)",
    )
