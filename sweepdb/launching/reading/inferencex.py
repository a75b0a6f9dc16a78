"""InferenceX's configurations as servers: what people serve today.

Keys: github.com/SemiAnalysisAI/InferenceX (configs of 2026-08-22)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import yaml

from evaluator.inputs import list_models, load_device, load_model
from store.errors import InputError, SweepdbError
from sweepdb.launching.reading.found_server import FoundServer, ReadDeployment, mapping
from sweepdb.launching.server_command import Engine, Role

_NAMES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
_ENGINES: Mapping[str, Engine] = _NAMES["engines"]
_DEVICES: Mapping[str, str] = _NAMES["devices"]
_AGAIN: Mapping[str, Sequence[str]] = _NAMES["again"]
_DRAFTS = 3  # where an entry says that it drafts and not how many: the recipes' usual number
_RECIPE_DRAFTS = re.compile(r"mtp(\d)(?!\d)")
_ROW = ("tp", "ep", "pp", "dp-attn", "dcp-size", "pcp-size", "conc-list", "conc-start", "conc-end", "spec-decoding",
        "prefill", "decode", "router", "kv-p2p-transfer", "kv-offloading", "kv-offload-backend")  # fmt: skip
_SIDE = ("num-worker", "tp", "ep", "pp", "dp-attn", "dcp-size", "pcp-size", "additional-settings")
Entry = Mapping[str, object]


def is_inferencex(document: Entry) -> bool:
    first = next(iter(document.values()), None)
    return isinstance(first, dict) and {"runner", "framework", "scenarios", "model"} <= first.keys()


def read_inferencex(document: Entry, where: str, only: str | None) -> ReadDeployment:
    if only is not None and only not in document:
        raise InputError(f"{where} has no configuration {only}", hint=f"it has {', '.join(list(document)[:5])} ...")
    servers: list[FoundServer] = []
    refused: list[str] = []
    for name, entry in document.items():
        if only in {None, name} and isinstance(entry, dict):
            try:
                servers += _servers(entry, f"{where}, {name}")
            except SweepdbError as error:
                refused.append(f"{name}: {error.message}")
    return ReadDeployment(servers=tuple(servers), refused=tuple(refused))


def _servers(entry: Entry, where: str) -> list[FoundServer]:
    engine, device = _engine(entry), _device(entry)
    named = str(entry["model"])
    model, linear, experts = _AGAIN.get(named, (named, None, None))
    if (unknown := _unknown(model, device)) is not None:
        raise InputError(unknown)
    base = FoundServer(where=where, engine=engine, model=model, device=device, linear=linear, experts=experts)
    if experts is not None:
        base.not_mapped.append(f"{named}, as {model} with linears in {linear} and experts in {experts}")
    scenarios = entry["scenarios"]
    assert isinstance(scenarios, dict)
    return [server for kind, blocks in scenarios.items() for block in blocks for server in _of_block(base, kind, block)]


@cache
def _unknown(model: str, device: str) -> str | None:
    """Looked up once, as many entries name the same."""
    if model not in list_models():  # nothing is fetched for a list of many
        return f"of {model}, which the catalogue does not have"
    try:
        load_model(model)
        load_device(device, family="auto")
    except SweepdbError as error:
        return error.message
    return None


def _engine(entry: Entry) -> Engine:
    framework = str(entry["framework"])
    found = next((engine for part, engine in _ENGINES.items() if part in framework), None)
    if found is None:
        raise InputError(f"served by {framework}, an engine that is not modelled")
    return found


def _device(entry: Entry) -> str:
    runner = str(entry["runner"]).removeprefix("cluster:")
    found = next((name for part, name in _DEVICES.items() if runner.startswith(part)), None)
    if found is None:
        raise InputError(f"runs on {runner}, a device without a profile")
    return found


def _of_block(base: FoundServer, kind: str, block: Entry) -> Iterator[FoundServer]:
    rows = block["search-space"]
    assert isinstance(rows, list)
    for row in rows:
        users = _users(row)
        said = replace(
            base,
            where=f"{base.where} ({kind})",
            input_length=_int(block.get("isl")),
            output_length=_int(block.get("osl")),
            tiers=("host",) if row.get("kv-offloading") == "dram" else (),
            mtp_tokens=_drafts(row) if row.get("spec-decoding") == "mtp" else 0,
            not_mapped=[*base.not_mapped, *sorted(set(row) - set(_ROW))],
        )
        said.measured_drafts()
        if "prefill" in row and row["decode"].get("num-worker") == 0:  # several hosts of one server
            yield _side(said, "server", row["prefill"], users)
        elif "prefill" in row:
            for role in ("prefill", "decode"):
                yield _side(said, "prefill" if role == "prefill" else "decode", row[role], users)
        else:
            yield _side(said, "server", {**row, "num-worker": 1}, users)


def _drafts(row: Entry) -> int:
    """By the recipe's name, such as ..._mtp5.yaml."""
    sides = (row, mapping(row.get("prefill")), mapping(row.get("decode")))
    said = [side.get("additional-settings") for side in sides]
    settings = [str(one) for listed in said if isinstance(listed, list) for one in listed]
    named = [int(found) for one in settings for found in _RECIPE_DRAFTS.findall(one.rpartition("/")[2])]
    return max(named, default=_DRAFTS)


def _side(base: FoundServer, role: Role, side: Entry, users: tuple[int, ...]) -> FoundServer:
    pcp = _int(side.get("pcp-size")) or 1
    ep, pp, workers = _int(side.get("ep")) or 1, _int(side.get("pp")) or 1, _int(side.get("num-worker")) or 1
    shared = workers if role == "server" else 1
    tp, dp = _split(_int(side.get("tp")) or 1, ep, shared, apart=side.get("dp-attn") is True)
    if tp > 1 and dp > 1:  # its replicas were counted as workers
        workers = 1
    copies = _copies(base.model, ep)
    said = [f"{copies} copies of experts, the fewest with which ep {ep} divides their slots"] if copies else []
    batches = tuple(dict.fromkeys(max(one // (dp * pp * workers), 1) for one in users))
    known = {*_SIDE, *_ROW}
    return replace(
        base, role=role, instances=workers, tp=tp, dp=dp, pp=pp, ep=ep, moe_tp=max(tp * dp * pcp // ep, 1),
        redundant_experts=copies, pcp=pcp,
        batch_sizes=(1,) if role == "prefill" else batches, dcp=_int(side.get("dcp-size")) or 1,
        not_mapped=sorted({*base.not_mapped, *said, *(key for key in side if key not in known)}),
    )  # fmt: skip


def _split(group: int, ep: int, workers: int, *, apart: bool) -> tuple[int, int]:
    """(tp, dp) of attention, with replicas in a group that `tp` or `ep` counts.

    Workers that split attention and share experts are one server: tp 16, ep 32, 2 workers."""
    if not apart:
        return group, 1
    if 1 < group < ep == group * workers:
        return group, workers
    return 1, max(group, ep)


def _copies(model: str | None, ep: int) -> int:
    """The fewest copies whose slots divide over `ep`."""
    experts = 0 if model is None else _experts_of(model)
    return -experts % ep if ep > 1 else 0


@cache
def _experts_of(model: str) -> int:
    layers = load_model(model)[1].layers
    return max(getattr(group.mlp, "experts", 0) for group in layers)


def _users(row: Entry) -> tuple[int, ...]:
    listed = row.get("conc-list")
    if isinstance(listed, list):
        return tuple(int(one) for one in listed)
    first, last = _int(row.get("conc-start")) or 1, _int(row.get("conc-end")) or 1
    found = []
    while first <= last:
        found.append(first)
        first *= 2
    return tuple(found)


def _int(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
