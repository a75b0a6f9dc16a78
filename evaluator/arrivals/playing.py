"""Continuous batching of arriving requests, exact for its rules.

Compiled where possible (`play.c`), else in Python, with the same bits."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from math import inf

import numpy as np
from numpy.typing import NDArray

from evaluator.arithmetic import FloatArray, Integers
from evaluator.arrivals.play_rules import AskedRequests, PlayedRequests, PlayRules, StepPrices
from evaluator.arrivals.play_state import PlayState
from evaluator.arrivals.replicas import Replica
from evaluator.compiled import built_library, may_compile
from store.light_dataclass import dataclass

_INT, _DOUBLE, _POINTER = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p
_SERVING = ctypes.CFUNCTYPE(_INT, _INT, _INT, _INT)

_Array = FloatArray | Integers | NDArray[np.int8]


# Rules and prices as `play.c` reads them, in its order.
_WHOLE_RULES = (
    "token_budget", "seats", "poll_steps", "ahead_steps", "whole_prompts", "tokens_per_decode", "replicas",
)  # fmt: skip
_OTHER_RULES = ("tokens_per_step", "kv_tokens", "reject_s", "reject_tbt_s", "images_a_step")
_OTHER_PRICES = ("step_s", "prompt_step_s", "per_prompt_s", "per_decode_s", "prefill_factor", "decode_factor")


class _Shared(ctypes.Structure):
    _fields_ = [
        *((name, _INT) for name in ("mixed", "prefilled", "least", "reserved_rule", *_WHOLE_RULES)),
        *((name, _DOUBLE) for name in (*_OTHER_RULES, *_OTHER_PRICES)),
        *((name, _INT) for name in ("spacing", "linear_last", "stretches", "bins", "encoder_last")),
        *((name, _POINTER) for name in ("linear", "attention", "own", "own_key", "decode", "decode_key", "edges")),
        ("encoder", _POINTER),
        ("count", _INT),
        *((name, _POINTER) for name in ("arrive", "stretch", "service", "images", "image_tokens")),
        *((name, _POINTER) for name in ("cached", "node", "replica", "prompt", "steps")),
        *((name, _POINTER) for name in ("begun", "before", "after", "following", "ended", "seen")),
        ("ready", _POINTER),
        *((name, _POINTER) for name in ("first", "end", "gaps")),
        *((name, _POINTER) for name in ("worst", "opening", "since", "lost", "preemptions")),
        ("preempted", _INT),
        ("busy_s", _DOUBLE),
        ("out_of_memory", _INT),
    ]


def compiled_play() -> ctypes.CDLL | None:
    return built_library("arrivals/play.c")


def has_compiled_play() -> bool:
    return not may_compile() or compiled_play() is not None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stretches:
    """Periods with other numbers of serving instances, at most `most`.

    `serving` decides from the period, requests waiting, and all there. `came` counts requests until each ends; one
    goes to the instance at its `share`."""

    seconds: float
    came: Integers
    share: FloatArray
    most: int
    serving: Callable[[int, int, int], int]


def play_compiled(
    library: ctypes.CDLL,
    rules: PlayRules,
    prices: StepPrices,
    asked: AskedRequests,
    edges: FloatArray,
    *,
    each: bool,
    stretches: Stretches | None = None,
) -> PlayedRequests:
    count = asked.count
    first, end = np.full(count, -1.0), np.full(count, -1.0)
    gaps = np.zeros(edges.size - 1, dtype=np.int64)
    arrays = _arrays(rules, prices, asked) | {"edges": _floats(edges), "first": first, "end": end, "gaps": gaps}
    kept: dict[str, FloatArray] = {}
    if each:
        kept = {"worst": np.zeros(count), **{name: np.full(count, -1.0) for name in ("opening", "since", "lost")}}
        arrays |= {**kept, "preemptions": np.zeros(count, dtype=np.int64)}
    shared = _Shared(
        mixed=rules.admission == "mixed",
        least=rules.dispatch == "least",
        reserved_rule=rules.kv_admission == "reserved",
        **{name: getattr(rules, name) for name in ("prefilled", *_WHOLE_RULES, *_OTHER_RULES)},
        **{name: getattr(prices, name) for name in (*_OTHER_PRICES, "spacing", "stretches")},
        linear_last=prices.linear.size - 1,
        bins=edges.size - 1,
        encoder_last=prices.encoder_s.size - 1,
        count=count,
        **{name: array.ctypes.data for name, array in arrays.items()},
    )
    if _run(library, shared, stretches) != 0:
        raise MemoryError("no memory for the simulation")
    return PlayedRequests(
        first_s=first,
        end_s=end,
        gaps=gaps,
        busy_s=shared.busy_s,
        preempted=shared.preempted,
        worst_gap_s=kept.get("worst"),
        preemptions=arrays["preemptions"].astype(np.int64) if each else None,
    )


def _run(library: ctypes.CDLL, shared: _Shared, stretches: Stretches | None) -> int:
    if stretches is None:
        return int(library.sweepdb_play(ctypes.byref(shared)))
    came, share = _integers(stretches.came), _floats(stretches.share)
    return int(
        library.sweepdb_play_scaled(
            ctypes.byref(shared), _DOUBLE(stretches.seconds), _INT(came.size), _POINTER(came.ctypes.data),
            _POINTER(share.ctypes.data), _INT(stretches.most), _SERVING(stretches.serving),
        )
    )  # fmt: skip


def _arrays(rules: PlayRules, prices: StepPrices, asked: AskedRequests) -> dict[str, _Array]:
    none = np.zeros(asked.count)
    return {
        "linear": _floats(prices.linear),
        "attention": _floats(prices.attention),
        "own": _floats(prices.own_s),
        "own_key": _floats(prices.own_key_s),
        "decode": _floats(prices.decode_s),
        "decode_key": _floats(prices.decode_key_s),
        "encoder": _floats(prices.encoder_s),
        "images": _floats(none if asked.images is None else asked.images),
        "image_tokens": _floats(none if asked.image_tokens is None else asked.image_tokens),
        "arrive": _floats(asked.arrive_s),
        "stretch": _floats(asked.stretch),
        "service": _floats(asked.service_s),
        "cached": _integers(asked.cached),
        "node": _integers(asked.node),
        "replica": _integers(asked.replica),
        "prompt": _integers(asked.new_tokens).copy(),
        "steps": _integers(asked.steps).copy(),
        **{
            name: np.full(asked.count, -1, dtype=np.int64)
            for name in ("begun", "before", "after", "following", "ended", "seen")
        },
        "ready": np.full(asked.count, rules.prefilled, dtype=np.int8),
    }


def _floats(values: FloatArray) -> FloatArray:
    return np.ascontiguousarray(values, dtype=np.float64)


def _integers(values: Integers) -> Integers:
    return np.ascontiguousarray(values, dtype=np.int64)


def play(
    rules: PlayRules,
    prices: StepPrices,
    asked: AskedRequests,
    edges: FloatArray,
    *,
    each: bool = False,
    stretches: Stretches | None = None,
) -> PlayedRequests:
    """`edges` bin times between tokens; `each` keeps every request's longest and its preemptions."""
    library = compiled_play()
    if library is None:
        return play_in_python(rules, prices, asked, edges, each=each, stretches=stretches)
    return play_compiled(library, rules, prices, asked, edges, each=each, stretches=stretches)


def play_in_python(
    rules: PlayRules,
    prices: StepPrices,
    asked: AskedRequests,
    edges: FloatArray,
    *,
    each: bool = False,
    stretches: Stretches | None = None,
) -> PlayedRequests:
    play = PlayState(rules, prices, asked, edges, each=each)
    replicas = [Replica(play) for _ in range(rules.replicas * (1 if stretches is None else stretches.most))]
    if stretches is not None:
        _expect_scaled(rules, replicas, asked.replica.tolist(), stretches)
    elif rules.dispatch == "least" and rules.replicas > 1:
        for number, arrived in enumerate(play.arrive):
            for replica in replicas:
                replica.advance(arrived)
            min(replicas, key=lambda one: one.present(arrived)).expect(number)
    else:
        for number, place in enumerate(asked.replica.tolist()):
            replicas[place].expect(number)
    for replica in replicas:
        replica.advance(inf)
    return PlayedRequests(
        first_s=np.asarray(play.first),
        end_s=np.asarray(play.end),
        gaps=np.asarray(play.gaps, dtype=np.int64),
        busy_s=sum((replica.busy for replica in replicas), 0.0),
        preempted=play.preempted,
        worst_gap_s=np.asarray(play.worst) if each else None,
        preemptions=np.asarray(play.preemptions, dtype=np.int64) if each else None,
    )


def _expect_scaled(rules: PlayRules, replicas: list[Replica], inner: list[int], stretches: Stretches) -> None:
    request = 0
    for stretch, came in enumerate(stretches.came.tolist()):
        for replica in replicas:
            replica.advance(stretches.seconds * stretch)
        waiting, there = sum(one.queued for one in replicas), sum(one.in_flight for one in replicas)
        instances = stretches.serving(stretch, waiting, there)
        for number in range(request, came):
            place = int(stretches.share[number] * instances) * rules.replicas + inner[number]
            replicas[place].expect(number)
        request = came
