"""Arrival process, rates and admission, from options of `evaluate`."""

from __future__ import annotations

import math
from pathlib import Path

from evaluator import arrivals, inputs
from evaluator.inputs import TIERS
from evaluator.request import SweepRequest
from store import schema
from store.errors import InputError
from sweepdb.evaluating.sweep_options import SweepOptions

FEWEST, MOST = 100, 1_000_000
FEW = 1_000  # below, intervals are wide
LARGEST_CV = 20.0
_KNOWN = "poisson, constant, gamma:CV such as gamma:3, or trace:FILE"
_ONLY_WITH = ("rates", "requests", "seed", "kv_admission", "dispatch", "reject_ttft", "reject_tbt", "prefill_policy",
              "keep_requests", "trace_caches")  # fmt: skip


def arrivals_of(options: SweepOptions) -> arrivals.ArrivalRequest | None:
    if options.arrivals is None:
        given = [name for name in _ONLY_WITH if getattr(options, name) != getattr(SweepOptions(), name)]
        if given:
            raise InputError(f"`{given[0]}` is about requests that arrive", hint="add `arrivals=poisson`")
        return None
    if not FEWEST <= options.requests <= MOST:
        raise InputError(f"`requests` must lie between {FEWEST} and {MOST:,}, not {options.requests}")
    name, _, file = options.arrivals.partition(":")
    trace = None
    if name == "trace" and file:
        trace = _trace(Path(file), options)
        process = arrivals.ArrivalProcess(
            kind="trace", requests=trace.times.size, seed=_seed(options.seed), trace_sha256=trace.sha256
        )
    else:
        kind, cv = _process(options.arrivals)
        process = arrivals.ArrivalProcess(kind=kind, requests=options.requests, seed=_seed(options.seed), cv=cv)
    for name in ("reject_ttft", "reject_tbt"):
        reject = getattr(options, name)
        if reject is not None and not (math.isfinite(reject) and reject > 0):
            raise InputError(f"`{name}` must be a number of ms above 0, not {reject:g}")
    if options.reject_tbt is not None and options.prefill_policy is not None:
        raise InputError("instances of a pool generate one token, so none is late", hint="leave `reject_tbt` out")
    return arrivals.ArrivalRequest(
        settings=arrivals.PlaySettings(
            process=process,
            kv_admission=options.kv_admission,
            dispatch=options.dispatch,
            reject_ms=options.reject_ttft,
            reject_tbt_ms=options.reject_tbt,
            pool=_pool(options, trace),
            caches=_caches(options, trace),
        ),
        rates=_rates(options.rates),
        keep_requests=options.keep_requests,
        trace=trace,
    )


def _pool(options: SweepOptions, trace: inputs.TracedArrivals | None) -> arrivals.PoolSettings | None:
    if options.prefill_policy is None:
        return None
    if trace is None or trace.blocks is None:
        raise InputError(
            "`prefill_policy` needs a trace with hashes of prompt blocks",
            hint="`arrivals=trace:FILE` with `hash_ids`, one for 512 tokens of every prompt",
        )
    if not (math.isfinite(options.balance_threshold) and options.balance_threshold >= 1.0):
        raise InputError(f"`balance_threshold` must be at least 1, not {options.balance_threshold:g}")
    return arrivals.PoolSettings(
        policy=options.prefill_policy,
        instances=options.prefill_instances,
        cache_blocks=options.cache_blocks,
        balance_threshold=options.balance_threshold,
    )


def _caches(options: SweepOptions, trace: inputs.TracedArrivals | None) -> tuple[arrivals.CacheRoom, ...] | None:
    if options.trace_caches is None:
        return None
    if options.prefill_policy is not None:
        raise InputError("a pool has caches of its own", hint="leave `trace_caches` or `prefill_policy` out")
    if trace is None or trace.blocks is None:
        raise InputError(
            "`trace_caches` needs a log with hashes of prompt blocks",
            hint="`arrivals=trace:FILE` with `hash_ids`, one for 512 tokens of every prompt; or state `host_hit_rate`",
        )
    rates = {name: getattr(options, f"{name}_gb_per_s") or 0.0 for name in TIERS}
    return tuple(
        arrivals.CacheRoom(name=name, room_bytes=1e9 * size, bytes_per_s=1e9 * rates[name])
        for name, size in rooms_of(options.trace_caches).items()
    )


def rooms_of(text: str) -> dict[schema.TierName, float]:
    found: dict[schema.TierName, float] = {}
    for part in text.split(","):
        name, _, size = part.strip().partition(":")
        tier = next((one for one in TIERS if one == name), None)
        try:
            room = float(size)
        except ValueError:
            room = math.nan
        if part.strip() == "device":
            continue
        if tier is None or tier in found or not (math.isfinite(room) and room > 0):
            raise InputError(
                f"`trace_caches={text}`: {part.strip()!r} is not device, host:GB, ssd:GB or remote:GB",
                hint="`trace_caches=device,host:400,ssd:2000`",
            )
        found[tier] = room
    return {name: found[name] for name in TIERS if name in found}


def notes_of(asked: arrivals.ArrivalRequest | None, parts: tuple[SweepRequest, ...]) -> tuple[str, ...]:
    if asked is None:
        return ()
    requests = asked.settings.process.requests
    few = f"note: {requests} requests give wide intervals; 20,000 are usual (`requests=20000`)"
    if all(part.engine is None for part in parts):
        raise InputError(
            f"{parts[0].serving_model} simulates no requests that arrive", hint="name an engine: `serving_model=vllm`"
        )
    said = [few] if requests < FEW else []
    stated = asked.trace is not None and asked.trace.images is not None
    if stated and any(part.images is None for part in parts):
        said.append("note: the log states images of its requests; with `images` and `image_size` they are encoded")
    elif stated:
        said.append("note: requests have as many images as the log states, within the prompts that it states")
    if not arrivals.has_compiled_play():
        said.append(
            "note: simulations run in Python here, about 100 times slower, with the same numbers: install a C compiler"
            " (apt-get install gcc; on macOS the command line tools of Xcode)"
        )
    return tuple(said)


def _trace(path: Path, options: SweepOptions) -> inputs.TracedArrivals:
    shares = ("prefix_cache_hit_rate", *(f"{name}_hit_rate" for name in TIERS))
    other = next((name for name in ("prefill_policy", "trace_caches") if getattr(options, name) is not None), None)
    given = next((name for name in shares if getattr(options, name)), None)
    if other is not None and given is not None:
        raise InputError(f"`{other}` says what of a log's prompts is cached", hint=f"leave `{given}` out")
    trace = inputs.read_arrivals(path, most=options.requests)
    if trace.times.size < FEWEST:
        raise InputError(f"{path}: {trace.times.size} requests are too few to simulate; {FEWEST} at least")
    return trace


def _process(text: str) -> tuple[arrivals.ArrivalKind, float]:
    name, _, value = text.partition(":")
    if text == "poisson":
        return "poisson", 1.0
    if text == "constant":
        return "constant", 1.0
    if name == "gamma" and value:
        try:
            cv = float(value)
        except ValueError:
            cv = math.nan
        if not 0.0 < cv <= LARGEST_CV:
            raise InputError(f"`arrivals={text}`: the coefficient of variation must lie in (0, {LARGEST_CV:g}]")
        return "gamma", cv
    raise InputError(f"`arrivals={text}` is not {_KNOWN}")


def _seed(seed: int) -> int:
    if not 0 <= seed < 2**63:
        raise InputError(f"`seed` must lie between 0 and 2^63 - 1, not {seed}")
    return seed


def _rates(rates: tuple[float, ...] | None) -> tuple[float, ...] | None:
    if not rates:
        return None
    for rate in rates:
        if not (math.isfinite(rate) and 0.0 < rate <= 1e9):
            raise InputError(f"`rates` are requests a second above 0, not {rate:g}", hint="`rates=0.5,1,2`")
    return tuple(sorted(set(rates)))
