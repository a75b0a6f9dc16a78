"""`launch`: files that start stored rows, and people's files as scenarios."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from sweepdb.launching.benchmark_script import CLIENTS, one_script
    from sweepdb.launching.expectations import RESULTS, deployed, launched_as, results_of
    from sweepdb.launching.flags_of_rows import EAGER, cache_room, changed_flags, holding
    from sweepdb.launching.folder import launch_files, write_launch
    from sweepdb.launching.server_command import HEALTH
    from sweepdb.launching.shell_target import START

__getattr__, __dir__ = lazy_face(__name__)
