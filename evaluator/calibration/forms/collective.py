"""The fastest of three protocols, each a latency and a rate; through PCIe two, changed at a size.

NCCL's LL sends a flag beside every four bytes, so half of the rate is left; Simple sends buffers between fences
(github.com/NVIDIA/nccl/issues/281); LL128 is for NVLink; the change at a size is NCCL's
(github.com/NVIDIA/nccl/issues/754). A ring is as fast as its slowest hop: switch or root port, host bridge, or the bus
between processors. Left out: trees, and other host traffic."""

from __future__ import annotations

import numpy as np

from evaluator.arithmetic import exp, log, log2, power
from evaluator.calibration.forms.base import Array, DeviceFigures, Inputs, Parts, Values


def collective_parts(values: Values, x: Inputs, figures: DeviceFigures) -> Parts:
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


def exchange_parts(values: Values, x: Inputs, figures: DeviceFigures) -> Parts:
    sent = np.asarray(x["sent_bytes"], float)
    moving = sent / (figures.link_bytes_per_s * values["link_efficiency"])
    ramp = values["ramp_us"] * 1e-6 * sent / (sent + values["ramp_mb"] * 1e6)
    return Parts(overhead=values["fixed_us"] * 1e-6 + ramp, compute=np.zeros(np.shape(sent)), memory=moving)


CHANGE = 8.0  # of a size, the exponent by which a change is spread: nine tenths of it lie within a factor of 1.3
MB = 1e6


def _beyond(message: Array, size_mb: float) -> Array:
    """How far beyond a size, 0 to 1."""
    return np.asarray(1.0 / (1.0 + power(size_mb * MB / message, CHANGE)), dtype=np.float64)


def _between(first: Array, second: Array, share: Array) -> Array:
    return np.asarray(exp(log(first) + share * (log(second) - log(first))), dtype=np.float64)


def host_collective_parts(values: Values, x: Inputs, figures: DeviceFigures) -> Parts:
    message, group = (np.asarray(x[name], float) for name in ("message_bytes", "group"))
    message, group = np.broadcast_arrays(np.maximum(message, 1.0), np.maximum(group, 2.0))
    sent = np.asarray(x["passes"], float) * (group - 1) / group * message  # what one device sends
    doublings = log2(np.minimum(group, 8.0)) - 1.0  # beyond a pair; more devices than eight have the hops of eight
    first, second = np.minimum(doublings, 1.0), np.maximum(doublings - 1.0, 0.0)

    def rate(protocol: str) -> Array:
        hops = first * log(values[f"{protocol}_at_4"]) + second * log(values[f"{protocol}_at_8"])
        return np.asarray(exp(hops) * (figures.link_bytes_per_s * values[f"{protocol}_efficiency"]), dtype=np.float64)

    steps = values["step_us"] * 1e-6 * (group - 1)
    high = values["high_us"] * 1e-6 + steps
    slower = exp(-doublings * log(values["staged_share"]))
    staged = _between(
        high + sent / rate("high"), high + sent / rate("high") * slower, _beyond(message, values["staged_mb"])
    )
    body = _between(steps + sent / rate("low"), staged, _beyond(message, values["change_mb"]))
    return Parts(
        overhead=np.full(np.shape(body), values["fixed_us"] * 1e-6), compute=np.zeros(np.shape(body)), memory=body
    )
