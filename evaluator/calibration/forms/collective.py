"""Collectives: the faster of three protocols (one-shot or low latency, intermediate, bandwidth), each a latency and a
rate."""

from __future__ import annotations

import numpy as np

from evaluator.arithmetic import power
from evaluator.calibration.figures import DeviceFigures
from evaluator.calibration.forms.base import Form, Inputs, Parameter, Parts, Values


def _parts(values: Values, x: Inputs, figures: DeviceFigures) -> Parts:
    message, group = np.asarray(x["message_bytes"], float), np.asarray(x["group"], float)
    sent = np.asarray(x["passes"], float) * (group - 1) / group * message  # what one device sends
    if values["multicast"]:  # an all-reduce in the switch sends the message once and a shard of the result: (g + 1) / g
        bulk = np.where(np.asarray(x["passes"]) > 1, np.minimum(sent, message * (group + 1) / group), sent)
    else:
        bulk = sent
    first = np.where(np.asarray(x["one_shot"]) > 0, (group - 1) * message, sent)
    link = figures.link_bytes_per_s
    steps = (group - 1) * 1e-6
    low = values["low_step_us"] * steps, first / (link * values["low_efficiency"])
    middle = values["middle_us"] * 1e-6 + values["step_us"] * steps, sent / (link * values["middle_efficiency"])
    high = values["high_us"] * 1e-6 + values["step_us"] * steps, bulk / (link * values["high_efficiency"])
    sharp = values["sharpness"]
    times = np.stack(
        np.broadcast_arrays(*(np.maximum(latency + moving, 1e-12) for latency, moving in (low, middle, high)))
    )
    weights = power(times, -sharp)
    total = weights[0] + weights[1] + weights[2]
    body = power(total, -1 / sharp)  # a smooth minimum of the three
    latency = sum(
        weight * np.minimum(pair[0] / np.maximum(pair[0] + pair[1], 1e-12), 1.0)
        for weight, pair in zip(weights, (low, middle, high), strict=True)
    )
    waiting = body * latency / total
    return Parts(overhead=values["fixed_us"] * 1e-6 + waiting, compute=np.zeros(np.shape(body)), memory=body - waiting)


COLLECTIVE = Form(
    name="collective",
    inputs=("message_bytes", "group", "passes", "one_shot"),
    parameters=(
        Parameter(name="fixed_us", unit="us", starts=(5.0, 3.0), low=0.5, high=60.0),
        Parameter(name="low_step_us", unit="us a step", starts=(0.5, 2.0), low=0.01, high=20.0),
        Parameter(name="low_efficiency", unit="1", starts=(0.1, 0.2), low=0.005, high=1.0),
        Parameter(name="middle_us", unit="us", starts=(2.0, 6.0), low=0.05, high=60.0),
        Parameter(name="middle_efficiency", unit="1", starts=(0.4, 0.5), low=0.05, high=1.0),
        Parameter(name="high_us", unit="us", starts=(10.0, 30.0), low=0.1, high=150.0),
        Parameter(name="high_efficiency", unit="1", starts=(0.8, 0.7), low=0.1, high=1.0),
        Parameter(name="step_us", unit="us a step", starts=(0.5, 2.0), low=0.01, high=20.0),
        Parameter(name="multicast", unit="0 or 1", choices=(0.0, 1.0)),
        Parameter(name="sharpness", unit="1", starts=(4.0, 2.0), low=0.7, high=20.0),
    ),
    parts=_parts,
)


def _exchange(values: Values, x: Inputs, figures: DeviceFigures) -> Parts:
    sent = np.asarray(x["sent_bytes"], float)
    moving = sent / (figures.link_bytes_per_s * values["link_efficiency"])
    ramp = values["ramp_us"] * 1e-6 * sent / (sent + values["ramp_mb"] * 1e6)
    return Parts(overhead=values["fixed_us"] * 1e-6 + ramp, compute=np.zeros(np.shape(sent)), memory=moving)


EXPERT_EXCHANGE = Form(
    name="expert_exchange",
    inputs=("sent_bytes",),
    parameters=(
        Parameter(name="fixed_us", unit="us", starts=(30.0, 60.0), low=1.0, high=400.0),
        Parameter(name="link_efficiency", unit="1", starts=(0.5, 0.8), low=0.01, high=1.5),
        Parameter(name="ramp_us", unit="us at saturation", starts=(10.0, 40.0), low=0.01, high=500.0),
        Parameter(name="ramp_mb", unit="MB", starts=(1.0, 5.0), low=0.01, high=500.0),
    ),
    parts=_exchange,
)
