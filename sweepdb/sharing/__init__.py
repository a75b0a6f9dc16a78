"""Bundles between stores, and whether what came with them is what an evaluation stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from queries.publishing import Publication
    from sweepdb.sharing.carrying import export_bundle, import_bundle, publish

__getattr__, __dir__ = lazy_face(__name__)
