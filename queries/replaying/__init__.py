"""Reports as statements for another DuckDB, such as a browser's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from queries.replaying.parting import STORED_TABLES, parted
    from queries.replaying.recording import Recorded, RecordingSession, asked_sql, limit_variables

__getattr__, __dir__ = lazy_face(__name__)
