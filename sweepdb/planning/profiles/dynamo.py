"""Profiles of SLA planners that interpolate: prefill by prompt length, decode over a cache that is filled.

Dynamo reads two folders of raw_data.npz, or the same numbers as two JSON files; its points of decode are stored rows,
since it turns a share of the cache back into a number of requests. Infera reads one JSON file with decode on a full
grid of context and cache."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from sweepdb.planning.profiles.interpolated import prompt_curve, room_notes, step_surface, stored_points, usage
from sweepdb.planning.profiles.planner import Planner, Profile, ProfileSource, number_kept

_LEAST_PROMPTS = 4  # Dynamo's first interpolation is cubic


def _of_dynamo(source: ProfileSource) -> Profile:
    curve = prompt_curve(source.rows["prefill"], least=_LEAST_PROMPTS)
    points, room = stored_points(source.rows["decode"])
    prefill: dict[str, list[float]] = {
        "prefill_isl": list(curve.lengths),
        "prefill_ttft": list(curve.ttft_ms),
        "prefill_thpt_per_gpu": list(curve.tokens_per_s_per_device),
    }
    decode = {
        "x_kv_usage": [usage(row, room.tokens) for row in points],
        "y_context_length": [row.context_length for row in points],
        "z_itl": [number_kept(row.itl_ms, "itl_ms") for row in points],
        "z_thpt_per_gpu": [row.tokens_per_s_per_device for row in points],
    }
    files = {
        "selected_prefill_interpolation/raw_data.npz": _npz(prefill),
        "selected_decode_interpolation/raw_data.npz": _npz({**decode, "max_kv_tokens": [room.tokens]}),
        "prefill_raw_data.json": _json(prefill),
        "decode_raw_data.json": _json({**decode, "max_kv_tokens": room.tokens}),
    }
    return Profile(files=files, unsaid=(_unsaid(source), *room_notes(room)))


def _unsaid(source: ProfileSource) -> str:
    prefill, decode = (source.rows[phase][0].num_devices for phase in ("prefill", "decode"))
    return (
        f"Dynamo's profile names no plan: set prefill_engine_num_gpu to {prefill} and decode_engine_num_gpu to {decode}"
        " in the planner's configuration."
    )


def _npz(arrays: Mapping[str, list[float]]) -> bytes:
    """The same arrays give the same bytes: NumPy dates members 1980."""
    held = io.BytesIO()
    members: dict[str, Any] = {name: np.array(values) for name, values in arrays.items()}
    np.savez(held, **members)
    return held.getvalue()


def _json(document: object) -> bytes:
    return (json.dumps(document, indent=1) + "\n").encode()


def _of_infera(source: ProfileSource) -> Profile:
    curve, surface = prompt_curve(source.rows["prefill"], least=2), step_surface(source.rows["decode"])
    document = {
        "prefill": {
            "isl": curve.lengths,
            "ttft_ms": curve.ttft_ms,
            "thpt_per_gpu": curve.tokens_per_s_per_device,
        },
        "decode": {
            "kv_usage": surface.kv_usage,
            "context_length": surface.context_length,
            "itl_ms": surface.itl_ms,
            "thpt_per_gpu": surface.tokens_per_s_per_device,
            "max_kv_tokens": surface.room.tokens,
        },
        "prefill_engine_num_gpu": source.rows["prefill"][0].num_devices,
        "decode_engine_num_gpu": source.rows["decode"][0].num_devices,
    }
    return Profile(files={"profile.json": _json(document)}, unsaid=room_notes(surface.room))


PLANNERS = {
    "dynamo": Planner(title="Dynamo's SLA planner", phases=("prefill", "decode"), make=_of_dynamo),
    "infera": Planner(title="Infera's SLA planner", phases=("prefill", "decode"), make=_of_infera),
}
