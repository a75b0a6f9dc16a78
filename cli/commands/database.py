"""db: create, upgrade, check, seal and compact a store; export, import and publish: rows for other stores and programs.

Not here: formats (queries.bundles, queries.publishing)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.derived import as_typed
from cli.output import check_format, counted, say, tell, write_rows, write_text
from cli.shared_options import FormatOption, OutputOption, StoreOption
from store.errors import StoreError

if TYPE_CHECKING:
    from sweepdb.stores import CheckReport


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(
        help="Create, upgrade, check, seal and compact a store.", no_args_is_help=True, rich_markup_mode=None
    )
    for function in (init, current, check, vacuum):
        group.command(function.__name__)(function)
    group.command("upgrade", short_help="Bring an old store to this program's revision.")(upgrade)
    group.command("compact", short_help="Sort and merge parts that workers wrote.")(compact)
    group.command("adopt-parts", short_help="Make parts that lie elsewhere this database's own.")(adopt)
    group.command("seal", short_help="Lay new blocks down as Parquet.")(seal_store)
    app.add_typer(group, name="db")


def init(store: StoreOption = None) -> int:
    """Create an empty store."""
    from sweepdb.stores import create_store, parse_url

    created = create_store(store)
    say(f"{parse_url(store).display}: {'created' if created else 'already there'}")
    return 0


def upgrade(store: StoreOption = None) -> int:
    """Bring an old store to this program's revision; a file is backed up first."""
    from sweepdb.stores import upgrade_store

    done = upgrade_store(store)
    if done.before == done.after:
        say(f"already at revision {done.after}" + (f"; laid down anew: {', '.join(done.views)}" if done.views else ""))
    else:
        say(
            f"upgraded from revision {done.before} to {done.after}"
            + (f"; backup: {done.backup}" if done.backup else "")
        )
    return 0


def current(store: StoreOption = None) -> int:
    """Print the store's revision."""
    from sweepdb.stores import current_revision

    write_text((f"{current_revision(store)}\n",))
    return 0


def check(
    repair: Annotated[bool, typer.Option("--repair", help="Mend what can be proven right, then check.")] = False,
    format_: FormatOption = "table",
    output: OutputOption = None,
    store: StoreOption = None,
) -> int:
    """Check that every row is what was committed, in snapshots too."""
    check_format(format_, output)
    from sweepdb.stores import check_store, parse_url

    if repair:
        _repair(store)
    report = check_store(parse_url(store))
    faults = [as_typed(fault) for fault in report.faults]
    columns = ("store", "revision", "sweeps", "scenarios", "blocks", "probes", "snapshot_probes", "faults")
    values = [getattr(report, name) for name in columns[:-1]]
    write_rows(columns, [[*values, faults if format_ != "table" else len(faults)]], format_, output)
    for fault in faults:
        tell(f"fault: {fault}")
    for line in _beside(report):
        tell(as_typed(line))
    if not report.whole:
        raise StoreError(
            f"{counted(len(faults), 'fault')} found in {parse_url(store).display}",
            hint="what can be mended is mended by: sweepdb db check --repair; what is lost needs a backup",
        )
    return 0


def _beside(report: CheckReport) -> Iterator[str]:
    """Sentences on files and folders that are no fault."""
    if report.orphans:
        yield (
            f"{len(report.orphans)} files of workers that were stopped, {report.orphans[0]} first: nothing reads"
            " them, and `sweepdb db compact` removes them after a day"
        )
    if report.unknown:
        yield (
            f"{len(report.unknown)} files that this database does not name, {report.unknown[0]} first. A later state"
            " of it or a copy may name them, so they stay."
        )
    for one in report.elsewhere:
        yield (
            f"{one.parts:,} parts lie in {one.address}, which belongs to {one.owner}. They are read there, and nothing"
            " there is rewritten or deleted until `sweepdb db adopt-parts`."
        )


def _repair(store: str | None) -> None:
    from sweepdb.stores import parse_url, repair_store

    report = repair_store(parse_url(store))
    say(f"{report.parts_rebuilt} parts laid down again, {len(report.restored)} blocks restored from a part")
    for block in report.lost:
        tell(f"lost: block {block.block_id} of scenario {block.scenario_key[:12]}: no part has its numbers")
    for loads in report.lost_loads:
        tell(f"lost: loads of block {loads.block_id} of scenario {loads.scenario[:12]}: restore a backup")


def vacuum(store: StoreOption = None) -> int:
    """Compact the store. Requests kept by loads of voided sweeps are removed."""
    from sweepdb.stores import parse_url, vacuum_store

    done = vacuum_store(parse_url(store))
    say(f"{done.bytes_before:,} bytes before, {done.bytes_after:,} after")
    if done.requests_removed:
        say(f"every request of {done.requests_removed:,} voided loads removed; their distributions stay")
    return 0


def compact(
    store: StoreOption = None,
    thin: Annotated[
        bool,
        typer.Option("--thin", help="Also write the rows of each part that can win beside it, for wide questions."),
    ] = False,
) -> int:
    """Sort the parts that workers wrote by model, workload and phase, and merge small ones; remove what is replaced."""
    from sweepdb.stores import compact_parts, parse_url, thin_parts

    location = parse_url(store)
    done = compact_parts(location)
    if not done.parts and not done.files_removed:
        say("nothing to compact: no worker wrote parts to this store, which keeps its rows itself")
        return 0
    say(
        f"{done.parts_before:,} parts before, {done.parts:,} after; {done.probes_rewritten:,} probes written anew,"
        f" {done.files_removed:,} files removed"
    )
    if thin:
        thinned = thin_parts(location)
        say(
            f"{thinned.winners:,} of {thinned.probes:,} probes can win; {thinned.written:,} thinned files written,"
            f" {thinned.bytes:,} bytes of them in all"
        )
    return 0


def adopt(
    store: StoreOption = None,
    move: Annotated[
        bool,
        typer.Option("--move", help="Take their folder over in place of copying: no other database keeps these parts."),
    ] = False,
) -> int:
    """Make parts that lie elsewhere this database's own: for a copy of a database, and for one that has moved.

    Without `--move` each is copied into a folder of this database. Nothing is deleted either way."""
    from sweepdb.stores import adopt_parts, parse_url

    location = parse_url(store)
    done = adopt_parts(location, move=move)
    if done.noted:
        say(f"{done.noted:,} files have other times than were known; each is what was registered")
    if done.copied:
        say(f"{done.copied:,} files copied, {done.bytes:,} bytes")
    for folder in done.taken:
        say(f"{folder} belongs to {location.display} now")
    if not (done.copied or done.taken):
        say("every part lies in a folder of this database already")
    return 0


def seal_store(store: StoreOption = None) -> int:
    """Lay new blocks down as Parquet, so that questions are fast; rebuild what is missing or wrong."""
    from sweepdb.stores import parse_url, seal_location

    location = parse_url(store)
    report = seal_location(location)
    for part in report.rejected:
        say(f"not used, written anew: {part.path.name}: {part.reason}")
    say(
        f"{report.probes_sealed:,} probes sealed in {report.parts_written} new parts;"
        f" {report.probes:,} in {report.parts} parts, {report.bytes:,} bytes, in {report.directory}"
    )
    return 0


def export(
    folder: Annotated[Path, typer.Argument(help="a new folder for the bundle")],
    sweep: Annotated[str | None, typer.Option(help="only what this sweep asked for")] = None,
    format_: Annotated[str, typer.Option("--format", help="parquet or csv")] = "parquet",
    store: StoreOption = None,
) -> int:
    """Write a store, or one sweep, as a bundle with its data dictionary."""
    from sweepdb.sharing import export_bundle

    done = export_bundle(folder, sweep=sweep, format=format_, store=store)
    scenarios, probes = counted(done.scenarios, "scenario"), counted(done.probes, "probe")
    say(f"{folder}: {counted(done.sweeps, 'sweep')}, {scenarios}, {probes}")
    return 0


def import_(
    folder: Annotated[Path, typer.Argument(help="a bundle written by export")], store: StoreOption = None
) -> int:
    """Bring a bundle into this store; what is there already is not added again."""
    from sweepdb.sharing import import_bundle

    done = import_bundle(folder, store=store)
    say(f"{counted(done.sweeps, 'sweep')} and {counted(done.probes, 'probe')} added")
    return 0


def publish(
    *,
    to: Annotated[str, typer.Option(help="FILE.duckdb, FILE.sqlite, FOLDER.parquet, FOLDER.site or postgresql://...")],
    engine: Annotated[
        Path | None,
        typer.Option(help="of a FOLDER.site: the folder of its DuckDB for browsers; npm fetches it otherwise"),
    ] = None,
    store: StoreOption = None,
) -> int:
    """Lay the public views down as tables that other programs read; again, only what changed is written.

    FOLDER.site is the page Explore as files, which any host of files serves."""
    from sweepdb.sharing import publish as published

    done = published(to, engine=engine, store=store)
    changed = f"{done.added:,} added" + (f", {done.removed:,} removed" if done.removed else "")
    say(f"{done.target}: {counted(done.probes, 'probe')}, {changed}")
    return 0
