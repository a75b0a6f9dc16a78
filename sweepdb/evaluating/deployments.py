"""Servers of a deployment file or command line as options of `evaluate`."""

from __future__ import annotations

import math
from dataclasses import replace

from evaluator.inputs import load_device
from store.errors import InputError
from sweepdb.evaluating.option_values import options_by_keyword, read_value
from sweepdb.evaluating.sweep_options import BatchRange, SweepOptions
from sweepdb.launching.reading import FoundServer, read_deployment

_REFUSED_SHOWN = 5


# What is asked about a server, and not how it was started: what is given beside a file takes the place of the file's.
_ASKED = {
    "model", "device", "input_length", "output_length", "prefix_cache_hit_rate", "host_hit_rate", "ssd_hit_rate",
    "remote_hit_rate", "host_gb_per_s", "ssd_gb_per_s", "remote_gb_per_s", "serving_model", "encoder_split",
    "encoder_devices",
}  # fmt: skip
# vLLM's tokens a step where `vllm serve` names none, by the least memory of a device; A100 takes the last, whatever it
# has (github.com/vllm-project/vllm, vllm/engine/arg_utils.py, `get_batch_defaults`; the first since v0.28.0, there in
# lines 2582 to 2591. Earlier versions have 8192 there, and flags of these are not written any more).
_VLLM_BUDGETS = ((160 * 2**30, 16384), (70 * 2**30, 8192), (0, 2048))


def deployed_options(options: SweepOptions, named: str) -> tuple[list[SweepOptions], tuple[str, ...]]:
    servers, notes = deployed_servers(options, named)
    sets = dict.fromkeys(options_of_server(options, server) for server in servers)
    return list(sets), notes


def deployed_servers(options: SweepOptions, named: str) -> tuple[tuple[FoundServer, ...], tuple[str, ...]]:
    """FILE, FILE::NAME, a command line or standard input (-); with notes for readers."""
    file, _, only = named.partition("::")
    found = read_deployment(file, only=only or None)
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
        if budget := _usual_budget(options, server):
            notes[f"assumed: `max_num_batched_tokens={budget}`, vLLM's own since 0.28 where nothing is said"] = None
    return found.servers, (*notes, *refused)


def options_of_server(options: SweepOptions, server: FoundServer) -> SweepOptions:
    """At every concurrency up to its max-num-seqs."""
    if options.models:
        server = replace(server, model=options.models[0])
    given: dict[str, object] = {}
    usual = SweepOptions()
    for keyword, value in _said(options, server).items():
        item = options_by_keyword()[keyword]
        read, own = read_value(item, value, f"{server.where}: {keyword}"), getattr(options, item.field)
        if own == getattr(usual, item.field):
            given[item.field] = read
        elif keyword == "batch_range":
            given[item.field] = _within(own, read, server)
        elif keyword not in _ASKED and own != read:
            raise InputError(
                f"`{keyword}` has no effect beside {server.where}, which says {_shown(read)}",
                hint=f"leave out `{keyword}`, or change what starts the server",
            )
    stated = replace(options, **given)  # type: ignore[arg-type]
    _check_longest(stated, server)
    return stated


def _check_longest(stated: SweepOptions, server: FoundServer) -> None:
    lengths = str(stated.input_length)
    if server.longest is None or not lengths.isdecimal() or stated.output_length is None:
        return
    if (tokens := int(lengths) + math.ceil(stated.output_length)) > server.longest:
        raise InputError(
            f"{server.where} lets in requests of {server.longest:,} tokens, and these have {tokens:,}",
            hint="shorter lengths, or a server that takes longer requests",
        )


def _said(options: SweepOptions, server: FoundServer) -> dict[str, object]:
    said = server.options()
    if options.images is not None:
        if server.most_images is not None and options.images > server.most_images:
            raise InputError(
                f"`images={options.images}`: {server.where} takes {server.most_images} a request",
                hint="fewer `images`, or another file",
            )
        if server.encoder_split is not None:
            said["encoder_split"] = server.encoder_split
        if server.encoder_devices:
            said["encoder_devices"] = server.encoder_devices
    if budget := _usual_budget(options, server):
        said["max_num_batched_tokens"] = budget
    return said


def _within(asked: BatchRange, most: object, server: FoundServer) -> BatchRange:
    first, last = asked
    if server.most_requests is not None and max(first, last or 0) > server.most_requests:
        raise InputError(
            f"`batch_range` asks for {max(first, last or 0)} requests, and {server.where} takes"
            f" {server.most_requests} of a replica at once"
        )
    return first, last or (most[1] if isinstance(most, tuple) else None)


def _shown(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _usual_budget(options: SweepOptions, server: FoundServer) -> int | None:
    """Of `vllm serve` on the device asked about; None where something says it."""
    known = server.token_budget or options.max_batched_tokens or not server.words or server.engine != "vllm"
    if known or len(options.devices) != 1:
        return None
    device = load_device(options.devices[0])
    memory = 0 if device.name.startswith("a100") else device.memory_bytes
    return next(budget for least, budget in _VLLM_BUDGETS if memory >= least)
