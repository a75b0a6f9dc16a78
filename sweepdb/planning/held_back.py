"""Sentences under a plan: what a narrower format saves, what binds, what rests on a data sheet, whether limits hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from queries.errors import kernels_lack
from queries.judging import four_figures
from store.schema import read_label
from store.texts import counted
from sweepdb.planning.labels import described, in_words
from sweepdb.planning.ranking import Row, number_of

if TYPE_CHECKING:
    from queries.asking import Limits
    from sweepdb.planning.deployment_plan import DeploymentPlan
    from sweepdb.planning.formats import Weights

_LITTLE = 0.05  # of a device's memory: with less free, no more requests fit
_COUNTED = {2: "two", 3: "three", 4: "four"}
_GIB = 2**30


def of_formats(plan: DeploymentPlan, best: Row) -> Iterator[str]:
    """The best narrower format beside the best as published."""
    about = plan.looked_at
    if about is None or not about.origins:
        return
    rows = plan.beside(best)
    wide = next((row for row in rows if row["quantization"] == about.published), None)
    narrow = next((row for row in rows if row["quantization"] != about.published), None)
    if narrow is None:
        said = " and ".join(f"{in_words(title)} ({origin})" for title, origin in about.origins.items())
        yield f"Narrower formats satisfy none of the limits: {said}."
        return
    name = f"{in_words(narrow['quantization'])} ({about.origins[str(narrow['quantization'])]})"
    if wide is None:
        yield f"As published, in {in_words(about.published)}, nothing satisfies the limits; this is {name}."
        return
    if narrow["carries_target"] and wide["carries_target"] and plan.ranking == "cost":
        money, before = number_of(narrow["usd_per_hour"]), number_of(wide["usd_per_hour"])
        had = f"{before:,.2f} USD an hour"
        carried = f"costs {money:,.2f} USD an hour, {money / before:.2f} x as much"
    elif narrow["carries_target"] and wide["carries_target"]:
        share = number_of(narrow["devices_used"]) / number_of(wide["devices_used"])
        had = counted(number_of(wide["devices_used"]), "device")
        carried = f"takes {counted(number_of(narrow['devices_used']), 'device')}, {share:.2f} x as many"
    else:
        rate, before = number_of(narrow["system_requests_per_s"]), number_of(wide["system_requests_per_s"])
        carried, had = f"carries {rate / before:.1f} x the requests/s", f"{before:.3g} requests/s"
        if narrow["users"] is not None and wide["users"] is not None:
            users, before = number_of(narrow["users"]), number_of(wide["users"])
            more = f"{users / before:.1f} x as many, and{carried.removeprefix('carries')}"
            carried = f"carries {counted(users, 'user')}, {more}"
            had = f"{counted(before, 'user')}, {had}"
    if wide["rank"] != 1:
        yield f"The best as published is {described(wide)}: {had}."
    yield f"{name} {carried}."


def of_usual_limits(plan: DeploymentPlan, best: Row) -> Iterator[str]:
    """The winner within usual limits, where the best is slow since nobody gave any."""
    if plan.usual is None:
        return
    asked = {one.keyword for one, _ in plan.answer.question.limits.given}
    added = [(one, limit) for one, limit in plan.usual.question.limits.given if one.keyword not in asked]
    times = " and ".join(f"{one.called} {four_figures(number_of(best[str(one.metric)]))} ms" for one, _ in added)
    limits = " ".join(f"`{one.keyword}={limit:g}`" for one, limit in added)
    start = f"No limit on {' or '.join(one.called for one, _ in added)} was given, and it has {times}: with {limits}"
    first = next(iter(plan.usual.dicts()), None)
    if first is None:
        yield f"{start} nothing satisfies the limits."
        return
    rate = number_of(first["system_requests_per_s"])
    yield f"{start} the best is {described(first)}, {rate:.3g} requests/s{_money(first)}."


def of_nodes(plan: DeploymentPlan, best: Row | None) -> Iterator[str]:
    """Where weights as published need several nodes, or a plan crosses them, and what of it was not looked at."""
    about = plan.looked_at
    if about is None:
        return
    for device, weights in about.weights.items():
        rows = [row for row in plan.beside(best) if row["device"] == device] if best is not None else []
        wide = next((row for row in rows if row["quantization"] == about.published), None)
        if weights.nodes > 1:
            yield _needs_nodes(device, weights, wide)
        elif best is not None and wide == best and (how := _crossing(best, weights.node_devices)):
            yield f"An instance on {device} spans more than one node of {weights.node_devices}: {how}."
    if about.without_stages is not None:
        yield f"Pipeline parallelism was not looked at: {about.without_stages}."


def _needs_nodes(device: str, weights: Weights, best: Row | None) -> str:
    how = None if best is None else _crossing(best, weights.node_devices)
    return (
        f"{in_words(weights.title)} weights are {weights.weight_bytes / 1e9:,.0f} GB and need"
        f" {_COUNTED.get(weights.nodes, weights.nodes)} nodes of {weights.node_devices} {device}"
        f" ({weights.node_bytes / 1e9:,.0f} GB each beside the reserve)"
        + (": as published they do not fit here" if best is None else f": {how}" if how else "")
        + "."
    )


def crosses_nodes(plan: DeploymentPlan) -> bool:
    best, about = plan.best, plan.looked_at
    weights = None if best is None or about is None else about.weights.get(str(best["device"]))
    return best is not None and weights is not None and bool(_crossing(best, weights.node_devices))


def _crossing(row: Row, node: int) -> str:
    names = ("plan", "prefill_plan", "decode_plan")
    sizes = [read_label(str(row[name])) for name in names if row[name] is not None]
    if any(one["tp"] > node for one in sizes):
        return "tensor parallelism crosses the network"
    if any(one["tp"] * one["pp"] > node for one in sizes):
        return "pipeline stages cross the network, tensor parallelism does not"
    if any(one["tp"] * one["pp"] * one["dp"] > node for one in sizes):
        return "experts are exchanged over the network"
    return ""


def of_memory(plan: DeploymentPlan, best: Row) -> Iterator[str]:
    """Where no limit is near and no memory is left, requests do not fit."""
    if plan.looked_at is None or plan.near(best):
        return
    weights = plan.looked_at.weights.get(str(best["device"]))
    free = number_of(best["memory_free_bytes"])
    if weights is not None and free < _LITTLE * weights.node_bytes / weights.node_devices:
        yield f"Memory is what binds: {free / _GIB:.1f} GiB a device are left beside the reserve, and no limit is near."


def of_bases(plan: DeploymentPlan, best: Row) -> Iterator[str]:
    lacks = kernels_lack(best.get("basis"))
    if not lacks:
        return
    measured = next((row for row in plan.beside(best) if not kernels_lack(row["basis"])), None)
    beside = (
        "no measured device is in this answer"
        if measured is None
        else f"among measured ones {described(measured)} wins{_money(measured)}"
    )
    yield f"{best['device']}'s kernels were not measured: {lacks}; {beside}."


def of_prices(plan: DeploymentPlan, best: Row) -> Iterator[str]:
    priced = [row for row in plan.beside(best) if row["usd_per_million_output_tokens"] is not None]
    cheapest = min(priced, key=lambda row: number_of(row["usd_per_million_output_tokens"]), default=None)
    if cheapest is not None and cheapest["rank"] != best["rank"]:
        tokens = four_figures(number_of(cheapest["usd_per_million_output_tokens"]))
        yield (
            f"Cheapest per token is {described(cheapest)}, {tokens} USD per million output tokens"
            + ("." if best["carries_target"] else ": `rank_by=cost` ranks by that.")
        )


def _money(row: Row) -> str:
    if row["carries_target"] and row["usd_per_hour"] is not None:
        return f", {number_of(row['usd_per_hour']):,.2f} USD an hour"
    cost = row["usd_per_million_output_tokens"]
    return "" if cost is None else f", {four_figures(number_of(cost))} USD per million output tokens"


def of_confidence(plan: DeploymentPlan, best: Row) -> Iterator[str]:
    said = holds_of(best, plan.answer.question.limits)
    if said != "no":
        return
    start = "Its limits may be missed (holds: no), since predictions err by more than is left to them"
    surely = plan.surely
    if surely is None:
        yield f"{start}."
    elif not surely.rows:
        yield f"{start}; with `confidence=0.8` nothing satisfies them: loosen a limit or take more devices."
    else:
        (first, *_) = surely.dicts()
        brought = f"{number_of(first['system_requests_per_s']):.3g} requests/s"
        devices = counted(number_of(first["devices_used"]), "device")
        if first["carries_target"]:
            brought = f"{devices}{_money(first)}"
        elif first["carries_target"] is not None:
            users = "" if first["users"] is None else f"{counted(number_of(first['users']), 'user')}, "
            brought = f"{users}{brought} on {devices}, less than asked for"
        yield f"{start}; `confidence=0.8` gives {described(first)}: {brought}."


def holds_of(row: Row, limits: Limits) -> str | None:
    """Whether the limits of a deployment hold: of two sides as of that which holds less; None where nobody knows."""
    phases = {phase for one, _ in limits.on_times for phase in one.phases}
    sides = {"aggregated": "holds"} if row["mode"] != "pd" else {"prefill": "prefill_holds", "decode": "decode_holds"}
    said = [row.get(name) for phase, name in sides.items() if phase in phases]
    return None if not said or None in said else min(map(str, said), key=("no", "likely", "yes").index)
