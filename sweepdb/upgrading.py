"""Brings a store to this program, the views that its database shows included, and says where they are another's.

Not here: revisions (store.migrating), and laying views down (migrations.views)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from migrations.views import differing_views, renew_views
from store.location import StoreLocation, parse_url
from store.migrating import UpgradeReport
from store.migrating import upgrade_store as run_revisions


def upgrade_store(url: str | None) -> UpgradeReport:
    """Bring a store to the current revision; at it already, lay views of another program down anew."""
    report = run_revisions(url)
    return report if report.before != report.after else replace(report, views=renew_views(parse_url(url)))


def view_faults(location: StoreLocation) -> Iterator[str]:
    """Views that are missing or of another program, a sentence each."""
    for name in differing_views(location):
        yield f"The view {name} is not what this program lays down: run `sweepdb db upgrade{location.argument}`."
