"""Checks a whole store: its rows and files, and that scenarios are what their specs say."""

from __future__ import annotations

from dataclasses import replace

from store.location import StoreLocation
from store.upkeep import CheckReport
from store.upkeep import check_store as check_rows
from sweepdb.identities import identity_faults

_MOST_FAULTS = 20


def check_store(location: StoreLocation) -> CheckReport:
    """Check a store, its snapshots included; without faults it is whole and what was evaluated."""
    report = check_rows(location)
    forged = list(identity_faults(location))
    if more := len(forged[_MOST_FAULTS:]):
        forged = [*forged[:_MOST_FAULTS], f"{more:,} more scenarios are not what their specs say."]
    return replace(report, faults=(*report.faults, *forged))
