"""People's deployment files as servers to evaluate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from sweepdb.launching.reading.command_lines import changed_line
    from sweepdb.launching.reading.deployment_files import read_deployment
    from sweepdb.launching.reading.found_server import FoundServer

__getattr__, __dir__ = lazy_face(__name__)
