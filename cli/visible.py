"""Text as a terminal may be given it: what would move its cursor, clear it or turn its letters round is shown escaped.

Every writer of `cli` to the standard streams goes through here; tests/cli/test_visible.py finds those that do not."""

from __future__ import annotations

from sweepdb.stores import escaped as visible

__all__ = ["visible"]
