"""A page, REST and assistants' tools over stored probes; evaluates nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from sweepdb.web.assistant import run_assistant
    from sweepdb.web.serving import Served, bound_socket, serve

__getattr__, __dir__ = lazy_face(__name__)
