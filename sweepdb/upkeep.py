"""Upgrades a store and checks it whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from migrations.views import differing_views, renew_views
from queries.bundles import scenario_lines, scenario_of
from store.errors import InputError
from store.location import StoreLocation, parse_url
from store.migrating import UpgradeReport
from store.migrating import upgrade_store as run_revisions
from store.opening import open_store
from store.reading import read_transaction
from store.upkeep import CheckReport
from store.upkeep import check_store as check_rows
from store.writing import list_calibrations
from sweepdb.sharing.identities import engines_of, refuse_forged
from sweepdb.thinning import winner_faults

_MOST_FAULTS = 20


def upgrade_store(url: str | None) -> UpgradeReport:
    """At the newest revision, renews another program's views."""
    report = run_revisions(url)
    return report if report.before != report.after else replace(report, views=renew_views(parse_url(url)))


def check_store(location: StoreLocation) -> CheckReport:
    """With snapshots and thinned files; no faults: whole, and as evaluated."""
    report = check_rows(location)
    forged = list(_identity_faults(location))
    if more := len(forged[_MOST_FAULTS:]):
        forged = [*forged[:_MOST_FAULTS], f"{more:,} more scenarios are not what their specs say."]
    return replace(report, faults=(*report.faults, *_view_faults(location), *forged, *winner_faults(location)))


def _identity_faults(location: StoreLocation) -> Iterator[str]:
    with open_store(location.url, read_only=True) as store:
        engines = engines_of(list_calibrations(store))
    with read_transaction(location) as transaction:
        for line in scenario_lines(transaction):
            try:
                refuse_forged([scenario_of(line)], engines)
            except (InputError, ValueError) as error:
                said = error.message if isinstance(error, InputError) else f"scenario {line['key']}: {error}"
                yield f"{said[:1].upper()}{said[1:]}."


def _view_faults(location: StoreLocation) -> Iterator[str]:
    """Missing, or another program's."""
    for name in differing_views(location):
        yield f"The view {name} is not what this program lays down: run `sweepdb db upgrade{location.argument}`."
