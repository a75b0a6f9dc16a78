"""Begin the history: nothing is released of earlier revisions, and a new store is laid down as it is declared.

A store of this revision, whichever program wrote it, goes on from here."""

from __future__ import annotations

revision = "0017"
down_revision = None


def upgrade() -> None:
    """Refuse: there is nothing to come from."""
    raise RuntimeError("Stores begin at revision 0017: `sweepdb db init` lays a new one down.")


def downgrade() -> None:
    """Refuse: there is nothing to go back to."""
    raise RuntimeError("Stores begin at revision 0017.")
