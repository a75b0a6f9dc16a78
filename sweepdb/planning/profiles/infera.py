"""Infera's profile: one JSON file with prefill by prompt length and decode on a full grid of context and cache."""

from __future__ import annotations

import json

from sweepdb.planning.profiles.interpolated import prompt_curve, room_notes, step_surface
from sweepdb.planning.profiles.planner import Planner, Profile, ProfileSource


def _profile(source: ProfileSource) -> Profile:
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
    written = (json.dumps(document, indent=1) + "\n").encode()
    return Profile(files={"profile.json": written}, unsaid=room_notes(surface.room))


PLANNERS = {"infera": Planner(title="Infera's SLA planner", phases=("prefill", "decode"), make=_profile)}
