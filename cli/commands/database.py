"""db: create, upgrade, check, seal and compact a store; export, import and publish its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.derived import as_typed, with_parameters
from cli.output import check_format, say, tell, write_rows, write_text
from cli.shared_options import OUTPUT_SHAPE, FormatOption, OutputOption, StoreOption, output_path
from store.errors import InputError, StoreError
from store.texts import counted
from sweepdb import measuring, planning, sharing, stores
from sweepdb.planning import profile_options
from sweepdb.stores import is_standard_output, is_stream


def register(app: typer.Typer, told: str) -> None:
    group = typer.Typer(help=told, no_args_is_help=True, rich_markup_mode=None)
    for function in (init, current, check, vacuum):
        group.command(function.__name__)(function)
    group.command("upgrade", short_help="Bring an old store to this program's revision.")(upgrade)
    group.command("compact", short_help="Sort and merge parts that workers wrote.")(compact)
    group.command("adopt-parts", short_help="Make parts that lie elsewhere this database's own.")(adopt)
    group.command("seal", short_help="Lay new blocks down as Parquet.")(seal_store)
    app.add_typer(group, name="db")


def init(store: StoreOption = None) -> None:
    """Create an empty store."""
    created = stores.create_store(store)
    say(f"{stores.parse_url(store).display}: {'created' if created else 'already there'}")


def upgrade(store: StoreOption = None) -> None:
    """Bring an old store to this program's revision; a file is backed up first."""
    done = stores.upgrade_store(store)
    if done.before == done.after:
        say(f"already at revision {done.after}" + (f"; laid down anew: {', '.join(done.views)}" if done.views else ""))
    else:
        say(
            f"upgraded from revision {done.before} to {done.after}"
            + (f"; backup: {done.backup}" if done.backup else "")
        )


def current(store: StoreOption = None) -> None:
    """Print the store's revision."""
    write_text((f"{stores.current_revision(store)}\n",))


def check(
    repair: Annotated[bool, typer.Option("--repair", help="Mend what can be proven right, then check.")] = False,
    format_: FormatOption = "table",
    output: OutputOption = None,
    store: StoreOption = None,
) -> None:
    """Check that every row is what was committed, in snapshots too."""
    check_format(format_, output)
    if repair:
        _repair(store)
    report = stores.check_store(stores.parse_url(store))
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
            f"{counted(len(faults), 'fault')} found in {stores.parse_url(store).display}",
            hint="what can be mended is mended by: sweepdb db check --repair; what is lost needs a backup",
        )


def _beside(report: stores.CheckReport) -> Iterator[str]:
    if report.orphans:
        yield (
            f"{counted(len(report.orphans), 'file')} of workers that were stopped, {report.orphans[0]} first: nothing"
            " reads them, and `sweepdb db compact` removes them after a day"
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
    report = stores.repair_store(stores.parse_url(store))
    say(f"{report.parts_rebuilt} parts laid down again, {len(report.restored)} blocks restored from a part")
    for block in report.lost:
        tell(f"lost: block {block.block_id} of scenario {block.scenario_key[:12]}: no part has its numbers")
    for loads in report.lost_loads:
        tell(f"lost: loads of block {loads.block_id} of scenario {loads.scenario[:12]}: restore a backup")


def vacuum(store: StoreOption = None) -> None:
    """Compact the store. Requests kept by loads of voided sweeps are removed."""
    done = stores.vacuum_store(stores.parse_url(store))
    say(f"{done.bytes_before:,} bytes before, {done.bytes_after:,} after")
    if done.requests_removed:
        say(f"every request of {done.requests_removed:,} voided loads removed; their distributions stay")


def compact(
    store: StoreOption = None,
    thin: Annotated[
        bool,
        typer.Option("--thin", help="Also write the rows of each part that can win beside it, for wide questions."),
    ] = False,
) -> None:
    """Sort the parts that workers wrote by model, workload and phase, and merge small ones; remove what is replaced."""
    location = stores.parse_url(store)
    done = stores.compact_parts(location)
    if not done.parts and not done.files_removed:
        say("nothing to compact: no worker wrote parts to this store, which keeps its rows itself")
        return
    say(
        f"{done.parts_before:,} parts before, {done.parts:,} after; {counted(done.probes_rewritten, 'probe')} written"
        f" anew, {counted(done.files_removed, 'file')} removed"
    )
    if thin:
        thinned = stores.thin_parts(location)
        say(
            f"{thinned.winners:,} of {thinned.probes:,} probes can win; {thinned.written:,} thinned files written,"
            f" {thinned.bytes:,} bytes of them in all"
        )


def adopt(
    store: StoreOption = None,
    move: Annotated[
        bool,
        typer.Option("--move", help="Take their folder over in place of copying: no other database keeps these parts."),
    ] = False,
) -> None:
    """Make parts that lie elsewhere this database's own: for a copy of a database, and for one that has moved.

    Without `--move` each is copied into a folder of this database. Nothing is deleted either way."""
    location = stores.parse_url(store)
    done = stores.adopt_parts(location, move=move)
    if done.noted:
        say(f"{done.noted:,} files have other times than were known; each is what was registered")
    if done.copied:
        say(f"{counted(done.copied, 'file')} copied, {done.bytes:,} bytes")
    for folder in done.taken:
        say(f"{folder} belongs to {location.display} now")
    if not (done.copied or done.taken):
        say("every part lies in a folder of this database already")


def seal_store(store: StoreOption = None) -> None:
    """Lay new blocks down as Parquet, so that questions are fast; rebuild what is missing or wrong."""
    location = stores.parse_url(store)
    report = stores.seal_location(location)
    for part in report.rejected:
        say(f"not used, written anew: {part.path.name}: {part.reason}")
    say(
        f"{counted(report.probes_sealed, 'probe')} sealed in {counted(report.parts_written, 'new part')};"
        f" {report.probes:,} in {report.parts} parts, {report.bytes:,} bytes, in {report.directory}"
    )


# What a command line writes otherwise than Python: a number or the file of a distribution.
_WRITTEN = {"input_length": str | None}


@with_parameters(profile_options(), _WRITTEN, after="decode_plan")
def export(
    folder: Annotated[Path, typer.Argument(help="a new folder for the bundle; with --for, the word profile")],
    *,
    format_: Annotated[str, typer.Option("--format", help="parquet or csv")] = "parquet",
    for_: Annotated[
        str | None, typer.Option("--for", help="a planner to feed: dynamo, infera, aibrix, ray, keda or wva")
    ] = None,
    plan: Annotated[str | None, typer.Option(help="split of an instance that does both [default: the best]")] = None,
    prefill_plan: Annotated[str | None, typer.Option(help="split of prefill instances [default: the best]")] = None,
    decode_plan: Annotated[str | None, typer.Option(help="split of decode instances [default: the best]")] = None,
    attainment: Annotated[float | None, typer.Option(help="share of arrivals within limits [default: 0.95]")] = None,
    deployment: Annotated[str | None, typer.Option(help="its name in the cluster [default: the model's]")] = None,
    namespace: Annotated[str | None, typer.Option(help="namespace of the deployment [default: default]")] = None,
    min_replicas: Annotated[int | None, typer.Option(help="fewest replicas [default: 1]")] = None,
    max_replicas: Annotated[int | None, typer.Option(help="most replicas [default: 10]")] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            parser=output_path,
            metavar=OUTPUT_SHAPE,
            help="of a profile: the folder to write [default: profile]; a pipe, or standard output (-), gets it as tar",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="write into a folder that is not empty")] = False,
    store: StoreOption = None,
    **options: Any,  # noqa: ANN401  filters and limits of a question
) -> None:
    """Write a store, or one sweep, as a bundle with its data dictionary; or the profile that a planner reads."""
    own = {"plan": plan, "prefill_plan": prefill_plan, "decode_plan": decode_plan, "attainment": attainment,
           "deployment": deployment, "namespace": namespace, "min_replicas": min_replicas,
           "max_replicas": max_replicas}  # fmt: skip
    given = {name: value for name, value in {**options, **own}.items() if value is not None and value is not False}
    if for_ is not None:
        _export_profile(for_, folder, output, given, force=force, store=store)
        return
    extra = [*sorted(given.keys() - {"sweep"}), *(["output"] if output else []), *(["force"] if force else [])]
    if extra:
        raise InputError(f"a bundle makes no use of `{extra[0]}`", hint="`for=dynamo` writes a planner's profile")
    done = sharing.export_bundle(folder, sweep=given.get("sweep"), format=format_, store=store)
    scenarios, probes = counted(done.scenarios, "scenario"), counted(done.probes, "probe")
    say(f"{folder}: {counted(done.sweeps, 'sweep')}, {scenarios}, {probes}")


def _export_profile(
    planner: str, what: Path, output: Path | None, given: dict[str, Any], *, force: bool, store: str | None
) -> None:
    if str(what) != "profile":
        raise InputError(
            f"`for={planner}` writes a profile, not {what}",
            hint=f"sweepdb export profile --for {planner} --output {what}",
        )
    length = given.get("input_length")
    if length is not None and length.isdecimal():
        given["input_length"] = int(length)
    target = what if output is None else output
    done = planning.export_profile(planner, target, force=force, store=store, **given)
    if is_standard_output(target):
        say("\n".join(done.files))
    else:
        write_text(f"{name if is_stream(target) else target / name}\n" for name in done.files)
    for line in (*done.made_from, *done.unsaid):
        say(as_typed(line))


def export_points(
    chosen: Mapping[str, Any],
    rows_and_sweep: tuple[str | None, str | None],
    format_: str,
    output: Path | None,
    store: str | None,
) -> int:
    """Write measured points and predictions as other programs have them: an action of `measurements`."""
    if format_ not in sharing.POINT_FORMATS:
        raise InputError(
            f"measurements export --format {format_} is not one of {', '.join(sharing.POINT_FORMATS)}",
            hint=f"sweepdb measurements export --format {sharing.POINT_FORMATS[0]}",
        )
    check_format(format_, output, known=sharing.POINT_FORMATS)
    rows, sweep = rows_and_sweep
    found = sharing.points_to_export(measuring.PointSelection(**chosen), store, rows=rows or "measured", sweep=sweep)
    if output is None or is_standard_output(output):
        write_text(sharing.pieces_of_points(found.records, format_), output, exact=True)
    else:
        files = sharing.write_exported(found.records, format_, output)
        say(f"{counted(len(found.records), 'row')} in {counted(files, 'file')}: {output}")
    if found.without_numbers:
        say(f"{counted(found.without_numbers, 'server')} that failed have no numbers and are left out")
    return 0


def import_(
    folder: Annotated[Path, typer.Argument(help="a bundle written by export")], store: StoreOption = None
) -> None:
    """Bring a bundle into this store; what is there already is not added again."""
    done = sharing.import_bundle(folder, store=store)
    say(f"{counted(done.sweeps, 'sweep')} and {counted(done.probes, 'probe')} added")


def publish(
    *,
    to: Annotated[str, typer.Option(help="FILE.duckdb, FILE.sqlite, FOLDER.parquet, FOLDER.site or postgresql://...")],
    engine: Annotated[
        Path | None,
        typer.Option(help="of a FOLDER.site: the folder of its DuckDB for browsers; npm fetches it otherwise"),
    ] = None,
    store: StoreOption = None,
) -> None:
    """Lay the public views down as tables that other programs read; again, only what changed is written.

    FOLDER.site is the page Explore as files, which any host of files serves."""
    done = sharing.publish(to, engine=engine, store=store)
    changed = f"{done.added:,} added" + (f", {done.removed:,} removed" if done.removed else "")
    say(f"{done.target}: {counted(done.probes, 'probe')}, {changed}")
