"""Files that planners of running clusters read, made from stored rows: one module a planner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from sweepdb.planning.profiles.exporting import ExportedProfile, export_profile, planner_names, profile_options
    from sweepdb.planning.profiles.planner import (
        MaxKvTokens,
        Planner,
        Profile,
        ProfileRow,
        ProfileSource,
    )

__getattr__, __dir__ = lazy_face(__name__)
