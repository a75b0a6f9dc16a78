"""The closed loop compiled: `loop.c`, called without copies of its requests. Without it twins in Python do the same."""

from __future__ import annotations

import ctypes

import numpy as np

from evaluator.arithmetic import FloatArray, Integers
from evaluator.compiled import built_library
from evaluator.serving.engine.loop_twin import Rules

_INT, _POINTER = ctypes.c_int64, ctypes.c_void_p


class _Loop(ctypes.Structure):
    """`struct loop` of loop.c."""

    _fields_ = [
        *((name, _INT) for name in ("prefill_first", "budget", "poll", "users", "requests", "each", "ahead")),
        *((name, _INT) for name in ("count", "longest")),
        *((name, _POINTER) for name in ("ends", "outputs")),
        ("steps", ctypes.POINTER(_INT)),
        ("size", _INT),
    ]


def compiled_loop() -> ctypes.CDLL | None:
    """The library, built if it is not there yet; None where none can be had."""
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
    """How much of the weights in some columns every node of a table gets, a row for each of theirs."""
    rows, columns = weights.shape
    below, above = np.zeros((rows, nodes)), np.zeros((rows, nodes + 1))
    arrays = [np.ascontiguousarray(array) for array in (weights, column, places)]
    pointers = [_POINTER(array.ctypes.data) for array in (*arrays, below, above)]
    given, at, where, *made = pointers
    library.sweepdb_on_nodes(_INT(rows), _INT(columns), given, _INT(column.size), at, where, _INT(nodes), *made)
    return np.asarray(below + above[:, :nodes])
