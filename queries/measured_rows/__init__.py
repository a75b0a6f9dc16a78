"""Measured settings as rows that reports ask of: alone, or beside what was predicted (`rows` of a question).

`MeasuredRows` is the door."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from queries.measured_rows.asked import (
        MEASURED,
        PREDICTED,
        brought_in,
        check_rows,
        no_shell,
        predicted_scope,
        unread,
        words_of_settings,
    )
    from queries.measured_rows.placing import MeasuredRows
    from queries.measured_rows.relation import met, runs_meet
    from queries.measured_rows.servers import AS_STATED, NamedServer, ServerNamer, StatedServer, as_stated
    from queries.measured_rows.sides import side_of
    from queries.measured_rows.sweep_side import (
        MeasuredSetting,
        StoredSweep,
        Values,
        predicted_at,
        predicted_otherwise,
        predicted_settings,
        sweep_named,
    )
    from queries.measured_rows.words import with_measured_words

__getattr__, __dir__ = lazy_face(__name__)
