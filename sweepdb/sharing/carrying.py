"""Carrying rows between stores, and publishing."""

from __future__ import annotations

import os
from pathlib import Path

from queries.bundles import Bundle, BundleFormat, BundleSummary
from queries.bundles import export_bundle as write_bundle
from queries.publishing import Publication
from queries.publishing import publish as published
from store.errors import InputError
from store.location import parse_url
from store.migrating import create_if_missing
from store.opening import open_store
from sweepdb import site
from sweepdb.sharing.adding import add_bundle
from sweepdb.sharing.believable import refuse_unbelievable
from sweepdb.sharing.identities import engines_of, refuse_forged, refuse_misnamed


def export_bundle(
    folder: str | os.PathLike[str],
    *,
    sweep: str | None = None,
    format: str = "parquet",  # noqa: A002  the option's name
    store: str | None = None,
) -> BundleSummary:
    """Write a store, or one sweep of it, to a new folder as Parquet or CSV, with its data dictionary."""
    if format not in {"parquet", "csv"}:
        raise InputError(f"`format={format}` is not one of parquet, csv")
    kind: BundleFormat = "csv" if format == "csv" else "parquet"
    return write_bundle(parse_url(store), Path(folder), sweep=sweep, format_=kind)


def import_bundle(folder: str | os.PathLike[str], *, store: str | None = None) -> BundleSummary:
    """Add what a bundle holds and the store lacks, or nothing; a store that is missing is created. The summary counts
    the new."""
    bundle = Bundle(Path(folder))  # checked before a store is made for it
    scenarios = bundle.scenarios().values()
    refuse_forged(scenarios, engines_of(bundle.calibrations()))
    refuse_misnamed(scenarios, bundle.names())
    create_if_missing(parse_url(store))
    with open_store(store) as opened:
        return add_bundle(opened, bundle, refuse_unbelievable)


def publish(
    to: str | os.PathLike[str], *, engine: str | os.PathLike[str] | None = None, store: str | None = None
) -> Publication:
    """Lay the public views of a store down at `to`, or bring what lies there up to date.

    `to` is FILE.duckdb, FILE.sqlite, FOLDER.parquet or postgresql://...; blocks that lie there stay. FOLDER.site is a
    page that any host of files serves, always written anew; `engine` is the folder of its DuckDB for browsers."""
    target = os.fspath(to)
    if not target.endswith(".site"):
        if engine is not None:
            raise InputError(f"`engine` is of a page, and {target} is none", hint="name a folder: `to=pages.site`")
        return published(parse_url(store), target)
    folder = None if engine is None else Path(engine)
    return site.publish_site(parse_url(store), Path(target).expanduser(), engine=folder)
