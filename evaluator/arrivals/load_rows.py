"""Loads as records. Keys exclude limits, percentiles, shares, device counts and bandwidth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict, cast, get_args

import numpy as np

from evaluator.arithmetic import FloatArray, Integers
from evaluator.arrivals.loads import Load, PlaySettings, RequestTimesMs
from evaluator.arrivals.streams import ArrivalKind, ArrivalProcess
from evaluator.arrivals.trace_caches import told_rooms
from evaluator.canonical import content_key
from evaluator.inputs.workloads.workload import CacheTier
from evaluator.version import IMAGES_VERSION, PLAY_VERSION, SHARES_VERSION
from store.loads import REJECTED, ArrivalRecord, KeptRequests, LoadRecord


def arrival_record(process: ArrivalProcess) -> ArrivalRecord:
    return ArrivalRecord(
        key=content_key(process),
        process=process.kind,
        requests=process.requests,
        seed=process.seed,
        cv={"constant": 0.0, "poisson": 1.0}.get(process.kind, process.cv),
        trace_sha256=process.trace_sha256,
    )


def is_stream(record: ArrivalRecord) -> bool:
    """Its key follows from the rest; streams without a spread may still hold gamma's default."""
    if record.process not in get_args(ArrivalKind):
        return False
    cvs = {record.cv, ArrivalProcess(kind="poisson").cv}
    kind = cast("ArrivalKind", record.process)
    made = (
        ArrivalProcess(kind=kind, requests=record.requests, seed=record.seed, cv=cv, trace_sha256=record.trace_sha256)
        for cv in cvs
    )
    return any(arrival_record(one) == record for one in made)


def settings_key(
    scenario_key: str,
    settings: PlaySettings,
    *,
    images: bool = False,
    shares: bool = False,
    caches: Sequence[CacheTier] | None = None,
) -> str:
    """The common part of a ladder of rates.

    `images`, and logs with stated cached `shares`, have versions of their own. `caches` are tiers of a log's prefixes,
    with reading rates."""
    given = {name: getattr(settings, name) for name in ("pool", "reject_tbt_ms") if getattr(settings, name) is not None}
    if caches is not None:
        given["caches"] = (settings.caches, tuple(caches))
    if images:
        given["images_version"] = IMAGES_VERSION
    if shares:
        given["shares_version"] = SHARES_VERSION
    return content_key({"scenario": scenario_key, "settings": settings, "play_version": PLAY_VERSION, **given})


def load_key(settings: str, rate_per_s: float) -> str:
    return content_key({"settings": settings, "arrivals_per_s": rate_per_s})


def kept_requests(times: RequestTimesMs) -> KeptRequests:
    rejected, none = np.isnan(times.ttft), np.zeros(times.ttft.size)

    def whole_us(times_ms: FloatArray | None) -> Integers:
        rounded = np.rint(1e3 * np.where(rejected, 0.0, none if times_ms is None else times_ms)).astype(np.int64)
        return np.where(rejected, REJECTED, rounded)

    def count(values: Integers | None) -> Integers:
        return none.astype(np.int64) if values is None else values.astype(np.int64)

    return KeptRequests(
        arrival_us=np.rint(1e3 * (none if times.arrival_ms is None else times.arrival_ms)).astype(np.int64),
        prompt=count(times.prompt),
        answer=count(times.answer),
        ttft_us=whole_us(times.ttft),
        tpot_us=whole_us(times.tpot),
        worst_gap_us=whole_us(times.worst_gap),
        preempted=count(times.preempted),
    )


class _PrefixShares(TypedDict, total=False):
    device_prefix_share: float
    host_prefix_share: float
    ssd_prefix_share: float
    remote_prefix_share: float


def _prefix_shares(shares: Mapping[str, float]) -> _PrefixShares:
    return cast("_PrefixShares", {f"{name}_prefix_share": share for name, share in shares.items()})


def load_record(load: Load, settings: PlaySettings, common: str) -> LoadRecord:
    pool = settings.pool
    cells, bins = load.cells, np.flatnonzero(load.token_gaps)
    return LoadRecord(
        key=load_key(common, load.rate_per_s),
        settings_key=common,
        arrivals_per_s=load.rate_per_s,
        saturation_per_s=load.saturation_per_s,
        play_seats=load.seats,
        kv_tokens=int(load.kv_tokens),
        kv_admission=settings.kv_admission,
        dispatch=settings.dispatch,
        reject_ms=settings.reject_ms,
        reject_tbt_ms=settings.reject_tbt_ms,
        counted_requests=load.requests,
        rejected=load.rejected,
        preempted=load.preempted,
        load_status="stable" if load.rate_per_s < load.saturation_per_s else "saturated",
        in_flight=load.in_flight,
        busy_share=load.busy_share,
        generated_per_s=load.output_tokens_per_s,
        ttft_mean_ms=load.ttft_mean_ms,
        load_tpot_mean_ms=load.tpot_mean_ms,
        outside_ms=load.outside_ms,
        cells=np.column_stack((cells.ttft_bin, cells.tpot_bin, cells.requests)),
        parts=load.parts,
        gaps=np.column_stack((bins, load.token_gaps[bins])),
        requests=None if load.request_times is None else kept_requests(load.request_times),
        hit_rate=load.hit_rate,
        rejected_prompt_share=load.rejected_prompt_share,
        prefill_policy=None if pool is None else pool.policy,
        pool_instances=None if pool is None else pool.instances,
        cache_blocks=None if pool is None else pool.cache_blocks,
        balance_threshold=None if pool is None else pool.balance_threshold,
        trace_caches=None if settings.caches is None else told_rooms(settings.caches),
        **_prefix_shares(load.prefix_shares),
    )
