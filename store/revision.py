"""The schema revisions this program knows, and the check every opening makes. Light: no Alembic.

A test compares REVISIONS with the revision files."""

from __future__ import annotations

from store.errors import RevisionError
from store.location import StoreLocation

# Oldest first; the last is the one that this program reads and writes.
REVISIONS = (
    "0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0009", "0010",
    "0011", "0012", "0013", "0014", "0015", "0016", "0017", "0018")  # fmt: skip
HEAD_REVISION = REVISIONS[-1]
VERSION_TABLE = "alembic_version"


def check_revision(location: StoreLocation, found: str) -> None:
    """Raise unless the store has the revision this program reads and writes; never migrate."""
    if found != HEAD_REVISION:
        raise revision_error(location, found)


def revision_error(location: StoreLocation, found: str) -> RevisionError:
    """Say which revision the store has, which is needed, and what to run."""
    if found < HEAD_REVISION:  # ids count up and have one length
        return RevisionError(
            f"The store {location.display} is at revision {found}; this program reads and writes {HEAD_REVISION}.",
            hint=f"Run: sweepdb db upgrade{location.argument}   (a file store is backed up first)",
        )
    return RevisionError(
        f"The store {location.display} is at revision {found}, which is newer than this program's {HEAD_REVISION}.",
        hint="Upgrade the program (pip install -U sweepdb), then run: "
        f"sweepdb db upgrade{location.argument}   (it changes nothing when the revisions already agree)",
    )


def unknown_revision_error(location: StoreLocation, found: str) -> RevisionError:
    """Say that there is no way from a revision to this program's."""
    return RevisionError(
        f"The store {location.display} is at revision {found}, from which there is no way to {HEAD_REVISION}:"
        f" this program knows {', '.join(REVISIONS)}.",
        hint="Open it with the release that wrote it, or restore a backup.",
    )
