"""Checks that a store is whole, mends it, gives back space."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from store.upkeep.checking import CheckReport, check_store
    from store.upkeep.repairing import repair_store
    from store.upkeep.vacuuming import vacuum_store

__getattr__, __dir__ = lazy_face(__name__)
