"""Bundles: a store, or one sweep, as a folder of plain files for any tool and other stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from queries.bundles.format import BundleFormat, BundleSummary
    from queries.bundles.reading import Bundle, BundledBlock, BundledSweep, scenario_of
    from queries.bundles.writing import export_bundle, scenario_lines

__getattr__, __dir__ = lazy_face(__name__)
