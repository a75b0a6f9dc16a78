"""AIBrix's profile: requests/s of a replica within limits, by output and input length.

`put.sh` brings it into Redis under the key that optimizer and gateway look for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from shlex import quote

from store.errors import InputError
from sweepdb.planning.profiles import planner

_FILE = "profile.json"
_NO_PRICE = 1.0
_Pair = tuple[int, int]  # output and input length


def _profile(source: planner.ProfileSource) -> planner.Profile:
    rows = source.of_instances
    cells = {pair: mine for pair, mine in _cells(rows).items() if all(map(_is_power, pair))}
    outputs, inputs = _axes(cells, rows)
    best = {pair: _best(mine) for pair, mine in cells.items()}
    price = source.usd_per_replica_hour
    document = {
        "gpu": source.deployment,
        "cost": _NO_PRICE if price is None else price,
        "tputs": _table(outputs, inputs, best, lambda row: row.requests_per_s),
        "indexes": [outputs, inputs],
        "created": source.created_s,
        "e2e": _table(outputs, inputs, best, lambda row: 1e-3 * planner.number_kept(row.e2e_ms, "e2e_ms")),
        "ttft": _table(outputs, inputs, best, lambda row: 1e-3 * planner.number_kept(row.ttft_ms, "ttft_ms")),
        "tpot": _table(outputs, inputs, best, lambda row: 1e-3 * planner.number_kept(row.itl_ms, "itl_ms")),
        "slos": {"percentile": 0, **{name: 1e-3 * value for name, value in source.limits_ms.items()}},
    }
    key = f"aibrix:profile_{planner.served_name(rows[0].model)}_{source.deployment}"
    files = {_FILE: (json.dumps(document, indent=1) + "\n").encode(), "put.sh": _script(key).encode()}
    return planner.Profile(files=files, unsaid=tuple(_unsaid(source, cells, best)))


def _script(key: str) -> str:
    return (
        f'#!/bin/sh\n# Sets {key}; REDIS="-h HOST" names the server.\n'
        f'redis-cli ${{REDIS:-}} -x SET {quote(key)} < "$(dirname "$0")/{_FILE}"\n'
    )


def _cells(rows: Iterable[planner.ProfileRow]) -> dict[_Pair, list[planner.ProfileRow]]:
    found: dict[_Pair, list[planner.ProfileRow]] = {}
    for row in rows:
        found.setdefault((int(row.output_length), row.input_length or 0), []).append(row)
    return found


def _is_power(length: int) -> bool:
    return length > 0 and length & (length - 1) == 0


def _axes(
    cells: Mapping[_Pair, Sequence[planner.ProfileRow]], rows: Sequence[planner.ProfileRow]
) -> tuple[list[int], list[int]]:
    if not cells:
        raise InputError(
            "AIBrix's table has lengths that are powers of two, and no stored pair of lengths is",
            hint=planner.evaluate_command(rows[0], "aggregated", input_length=1024, output_length=128),
        )
    outputs, inputs = (sorted({pair[place] for pair in cells}) for place in (0, 1))
    missing = [(output, prompt) for output in outputs for prompt in inputs if (output, prompt) not in cells]
    if missing:
        output, prompt = missing[0]
        raise InputError(
            f"AIBrix's table wants every input length with every output length, and {len(missing)} of"
            f" {len(outputs) * len(inputs)} pairs are not stored of {rows[0].where}, {prompt}/{output} first",
            hint=planner.evaluate_command(rows[0], "aggregated", input_length=prompt, output_length=output),
        )
    return outputs, inputs


def _best(rows: Iterable[planner.ProfileRow]) -> planner.ProfileRow | None:
    kept = [row for row in rows if row.within_limits]
    return max(kept, key=lambda row: (row.requests_per_s, -row.concurrency)) if kept else None


def _table(
    outputs: Sequence[int],
    inputs: Sequence[int],
    best: Mapping[_Pair, planner.ProfileRow | None],
    value: Callable[[planner.ProfileRow], float],
) -> list[list[float]]:
    """By output, then input; 0 where no batch keeps the limits, as AIBrix writes it."""
    rows = ((best[output, prompt] for prompt in inputs) for output in outputs)
    return [[0.0 if row is None else value(row) for row in one] for one in rows]


def _unsaid(
    source: planner.ProfileSource,
    cells: Mapping[_Pair, Sequence[planner.ProfileRow]],
    best: Mapping[_Pair, planner.ProfileRow | None],
) -> Iterable[str]:
    left = len(_cells(source.of_instances)) - len(cells)
    if left:
        yield f"{left} stored pairs of lengths are left out: AIBrix takes powers of two."
    none = sum(row is None for row in best.values())
    if none:
        yield f"{none} of {len(best)} pairs of lengths keep the limits at no batch: their rate is 0."
    if source.usd_per_replica_hour is None:
        yield f"No price is stored, so cost is {_NO_PRICE:g}. {planner.price_command(source)}"
    yield "Limits hold for means (percentile 0), and every deployment of a model needs the same lengths."


PLANNERS = {
    "aibrix": planner.Planner(
        title="AIBrix's GPU optimizer", phases=("aggregated",), make=_profile, limits=True, takes=("deployment",)
    ),
}
