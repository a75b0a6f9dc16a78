"""Servers of a deployment file as options of `evaluate`, one set each. Not here: reading files (sweepdb.launching)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from store.errors import InputError
from sweepdb.evaluating.option_values import options_by_keyword, read_value
from sweepdb.evaluating.sweep_options import SweepOptions
from sweepdb.launching.reading import FoundServer, read_deployment

_REFUSED_SHOWN = 5


def deployed_options(options: SweepOptions, named: str) -> tuple[list[SweepOptions], tuple[str, ...]]:
    """A set of options for each server, and notes of what the file says that nobody maps. What was given beside the
    file fills in what it does not say; a model that was given takes the place of the file's."""
    file, _, only = named.partition("::")
    found = read_deployment(Path(file), only=only or None)
    if not found.servers:
        reasons = "; ".join(found.refused[:_REFUSED_SHOWN])
        raise InputError(f"{named}: no server of it can be evaluated: {reasons}")
    notes = dict.fromkeys(
        f"note: {server.where}: not mapped: {', '.join(server.not_mapped)}"
        for server in found.servers
        if server.not_mapped
    )
    refused = [f"note: left out: {reason}" for reason in found.refused[:_REFUSED_SHOWN]]
    if len(found.refused) > _REFUSED_SHOWN:
        refused.append(f"note: left out: {len(found.refused) - _REFUSED_SHOWN} more configurations")
    for server in found.servers:
        for tier in server.tiers:
            if not getattr(options, f"{tier}_hit_rate") and f"{tier}_hit_rate" not in server.hit_rates:
                notes[f"note: {server.where}: keys of prompts lie in the {tier}, too: `{tier}_hit_rate` says how many,"
                      " and none are assumed"] = None  # fmt: skip
    sets = dict.fromkeys(_options_of(options, server) for server in found.servers)
    return list(sets), (*notes, *refused)


def _options_of(options: SweepOptions, server: FoundServer) -> SweepOptions:
    if options.models:
        server = replace(server, model=options.models[0])
    given = {}
    said = server.options()
    if options.images is not None:
        if server.most_images is not None and options.images > server.most_images:
            raise InputError(
                f"`images={options.images}`: {server.where} takes {server.most_images} a request",
                hint="fewer `images`, or another file",
            )
        if server.encoder_split is not None and options.encoder_split is None:
            said["encoder_split"] = server.encoder_split
        if server.encoder_devices and options.encoder_devices is None:
            said["encoder_devices"] = server.encoder_devices
    for keyword, value in said.items():
        item = options_by_keyword()[keyword]
        given[item.field] = read_value(item, value, f"{server.where}: {keyword}")
    return replace(options, **given)  # type: ignore[arg-type]
