"""The contents of every step of a closed loop, in whole numbers: played once, then priced under any table and engine.

Requests arrive when others end and are looked for between steps, so the schedule never depends on how long a step
takes. Every mean that is asked for is a sum over steps of their time, each step weighted by the requests that wait or
decode in it. Not here: step times (evaluator.serving.engine.step_tables) and the pricing
(evaluator.serving.engine.closed_loop).

The play is compiled (`loop.c`, called without copies of its requests); without it its twin does the same."""

from __future__ import annotations

import ctypes
from functools import lru_cache

import numpy as np

from evaluator.arithmetic import FloatArray, Integers, dot
from evaluator.compiled import built_library
from evaluator.serving.engine.loop_twin import Rules, loop_in_python
from evaluator.serving.engine.request_kinds import Requests, requests_of
from store.light_dataclass import dataclass

_INT, _POINTER = ctypes.c_int64, ctypes.c_void_p


class _Loop(ctypes.Structure):
    _fields_ = [
        *((name, _INT) for name in ("prefill_first", "budget", "poll", "users", "requests", "each", "ahead", "whole")),
        *((name, _INT) for name in ("count", "longest")),
        *((name, _POINTER) for name in ("ends", "outputs")),
        ("steps", ctypes.POINTER(_INT)),
        ("size", _INT),
    ]


def compiled_loop() -> ctypes.CDLL | None:
    return built_library("serving/engine/loop.c")


def loop_compiled(library: ctypes.CDLL, rules: Rules, ends: Integers, outputs: Integers) -> Integers:
    """Rows of (equal steps, decodes in each, position after, step number after)."""
    after = np.concatenate(([0], ends)).astype(np.int64)  # the first n prompts
    steps = np.ascontiguousarray(outputs, dtype=np.int64)
    loop = _Loop(
        prefill_first=rules.admission == "prefill_first",
        budget=rules.token_budget,
        poll=rules.poll_steps,
        users=rules.served,
        requests=rules.requests,
        each=rules.tokens_per_decode,
        ahead=rules.ahead_steps,
        whole=rules.whole_prompts,
        count=steps.size,
        longest=int(steps.max()),
        ends=after.ctypes.data,
        outputs=steps.ctypes.data,
    )
    failed = library.sweepdb_loop(ctypes.byref(loop))
    try:
        if failed:
            raise MemoryError("no memory for the loop")
        return np.ctypeslib.as_array(loop.steps, (loop.size,)).reshape(-1, 4).copy()
    finally:
        library.sweepdb_free(loop.steps)


def nodes_compiled(
    library: ctypes.CDLL, weights: FloatArray, column: Integers, places: FloatArray, nodes: int
) -> FloatArray:
    rows, columns = weights.shape
    below, above = np.zeros((rows, nodes)), np.zeros((rows, nodes + 1))
    arrays = [np.ascontiguousarray(array) for array in (weights, column, places)]
    pointers = [_POINTER(array.ctypes.data) for array in (*arrays, below, above)]
    given, at, where, *made = pointers
    library.sweepdb_on_nodes(_INT(rows), _INT(columns), given, _INT(column.size), at, where, _INT(nodes), *made)
    return np.asarray(below + above[:, :nodes])


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How often each price of a table and of an engine counts in [mean TTFT, mean TPOT, makespan, mean decode].

    Rows are those four: TPOT is the mean over requests that have one, the last row the mean over all decodes of all
    requests; it is left out where all requests ask for as much. Host times count by step, step with
    prompts, decoding sequence and prompt; kernels by the node of their table: linear ones of steps with prompts apart
    for prefill and decode tokens."""

    steps: FloatArray
    prompt_steps: FloatArray
    decodes: FloatArray
    prompts: FloatArray
    linear_prefill: FloatArray
    linear_decode: FloatArray
    attention: FloatArray
    decode_linear: FloatArray
    own_decode: FloatArray
    own_prefill: FloatArray
    output_tokens: int


@lru_cache(maxsize=2048)
def schedule_of(rules: Rules) -> Schedule:
    asked = requests_of(rules.kinds, rules.shortest, rules.requests * rules.repeats)
    ends = np.cumsum(asked.new_tokens)
    return _counted(rules, asked, ends, played_steps(rules, ends, asked.output_length))


def played_steps(rules: Rules, ends: Integers, outputs: Integers) -> Integers:
    """Rows of (equal steps, decodes in each, position after, step number after): compiled where the machine can, and in
    Python elsewhere. Requests are numbered as they arrive, and their prompts are one line of tokens."""
    library = compiled_loop()
    if library is None:
        return loop_in_python(rules, ends, outputs)
    return loop_compiled(library, rules, ends, outputs)


def _counted(rules: Rules, asked: Requests, ends: Integers, steps: Integers) -> Schedule:
    repeats, decodes, positions, numbers = np.ascontiguousarray(steps.T)
    used = np.diff(positions, prepend=0)
    with_prompts = used > 0
    tail = ~with_prompts
    pieces, last_step = _pieces(positions[with_prompts], asked.new_tokens, ends)
    weights = _weights(rules, asked.output_length, np.flatnonzero(with_prompts)[last_step], numbers)
    prompts = np.zeros(used.size)
    prompts[with_prompts] = np.bincount(pieces.step, minlength=int(with_prompts.sum()))
    host = weights * repeats
    together = np.maximum(used + rules.tokens_per_decode * decodes, 1)
    mixed, share = weights[:, with_prompts], (used / together)[with_prompts]
    nodes = np.asarray(together[with_prompts] / rules.spacing)
    every = np.arange(nodes.size)
    largest = int(decodes.max(initial=0)) + 1
    return Schedule(
        steps=host.sum(axis=1),
        prompt_steps=mixed.sum(axis=1),
        decodes=dot(host, decodes),
        prompts=dot(weights, prompts),
        linear_prefill=on_nodes(mixed * share, every, nodes),
        linear_decode=on_nodes(mixed * (1.0 - share), every, nodes),
        attention=_attention(rules, asked.kind, pieces, mixed),
        decode_linear=_by_number(host[:, tail], decodes[tail], largest),
        own_decode=_by_number(host * (decodes > 0), decodes, largest),
        own_prefill=(weights * (decodes == 0)).sum(axis=1),
        output_tokens=round(int(asked.output_length.sum()) / rules.repeats),
    )


def _attention(rules: Rules, kind: Integers, pieces: _Pieces, weights: FloatArray) -> FloatArray:
    nodes = rules.stretches + 1
    lengths = np.asarray([one.new_tokens for one in rules.kinds], dtype=np.float64)
    kinds = kind[pieces.request]
    base, stretch = nodes * kinds, (rules.stretches / lengths)[kinds]
    grown = pieces.start > 0
    until, since = base + pieces.end * stretch, (base + pieces.start * stretch)[grown]
    attention = on_nodes(weights, pieces.step, until, nodes * lengths.size)
    attention -= on_nodes(weights, pieces.step[grown], since, nodes * lengths.size)
    return attention


def _weights(rules: Rules, outputs: Integers, begun: Integers, numbers: Integers) -> FloatArray:
    """[TTFT, TPOT, makespan, decode] x step: requests that wait in it; that decode in it, each one over its O - 1; 1;
    and all that decode over all decodes."""
    count, users, steps = outputs.size, min(rules.users, rules.requests), numbers.size
    ended = np.maximum(begun, np.searchsorted(numbers, numbers[begun] + outputs - 1))
    runs = np.sort(ended.reshape(rules.repeats, rules.requests), axis=1)
    arrived = np.full(runs.shape, -1, dtype=np.int64)
    arrived[1:, :users] = runs[:-1, -1:]  # a run begins when the one before it has ended
    arrived[:, users:] = runs[:, : rules.requests - users]
    # 4 requests of 11 tokens: each of the 10 decodes of each counts 1/4 x 1/10 in the mean TPOT.
    later = outputs - 1
    rows = [
        _during(arrived.ravel(), begun, np.full(count, 1.0 / count), steps),
        _during(begun, ended, (later > 0) / (max(int((later > 0).sum()), 1) * np.maximum(later, 1)), steps),
        np.full(steps, 1.0 / rules.repeats),
    ]
    if not rules.alike:
        rows.append(_during(begun, ended, np.full(count, 1.0 / max(int(later.sum()), 1)), steps))
    return np.stack(rows)


def _during(after: Integers, until: Integers, counts: FloatArray, steps: int) -> FloatArray:
    changes = np.bincount(after + 1, counts, steps + 1) - np.bincount(until + 1, counts, steps + 1)
    return np.asarray(np.cumsum(changes)[:steps])


@dataclass(frozen=True, slots=True)
class _Pieces:
    """Parts of prompts that one step prefills: tokens of the prompt before and after, the step, and whose prompt."""

    start: Integers
    end: Integers
    step: Integers
    request: Integers


def _pieces(positions: Integers, tokens: Integers, ends: Integers) -> tuple[_Pieces, Integers]:
    """Cut the line of prompt tokens where a step ends or a prompt does. With it, the step that ends each prompt.

    Both are in order, so that sorting them is merging them: what stands before an edge counts steps and prompts."""
    edges = np.concatenate((ends, positions))
    order = np.argsort(edges, kind="stable")
    until, of_prompt = edges[order], order < ends.size
    first = np.flatnonzero(np.diff(until, prepend=0) > 0)
    request: Integers = (np.cumsum(of_prompt) - of_prompt)[first]  # prompts that end before
    until = until[first]
    since = np.concatenate(([0], until[:-1]))
    before = ends[request] - tokens[request]
    last_step = np.flatnonzero(of_prompt) - np.arange(ends.size)
    return _Pieces(since - before, until - before, first - request, request), last_step


def on_nodes(weights: FloatArray, column: Integers, places: FloatArray, size: int | None = None) -> FloatArray:
    """Linear interpolation turned round: how much every node of a table gets of the weights in some columns."""
    nodes = size or int(places.max(initial=0)) + 2
    library = compiled_loop()
    if library is not None:
        return nodes_compiled(library, weights, column, places, nodes)
    # Weight 1 at place 2.25: 0.75 for node 2, 0.25 for node 3.
    low = places.astype(np.int64)
    high, high_share = low + 1, places - low
    low_share = 1.0 - high_share
    return np.stack([
        np.bincount(low, row * low_share, nodes) + np.bincount(high, row * high_share, nodes + 1)[:nodes]
        for row in weights[:, column]
    ])  # fmt: skip


def _by_number(weights: FloatArray, numbers: Integers, size: int) -> FloatArray:
    return np.stack([np.bincount(numbers, row, size) for row in weights])
