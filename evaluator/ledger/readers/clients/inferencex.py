"""InferenceX rows (InferenceMAX before) by utils/process_result.py: seconds, rates a device.

vLLM's perf-eval writes them with `device` for `hw`."""

from __future__ import annotations

from evaluator.ledger.readers.building import Document, number, text, whole
from evaluator.ledger.readers.clients.vllm import LATENCIES
from evaluator.ledger.readers.declared import Reading, ResultFormat


def _told(document: Document) -> bool:
    return "tput_per_gpu" in document and ("hw" in document or "device" in document)


def _settle(reading: Reading) -> None:
    """`intvty` is 1000 / TPOT and stays uninterpreted."""
    facts, document = reading.facts, reading.document
    disaggregated = _true(document, "disagg")
    split = disaggregated or _true(document, "is_multinode")
    facts["mode"] = "disaggregated" if disaggregated else "aggregated"
    for side in ("prefill_", "decode_") if split else ("",):
        facts |= _sizes(document, side)
    devices = facts["num_devices"] = _devices(reading, split=split)
    drafting = _drafting(document)
    if drafting is not None:
        reading.extra["spec_decode"] = drafting
    _rates(reading, devices, split=split)


def _devices(reading: Reading, *, split: bool) -> int | None:
    facts, document = reading.facts, reading.document
    if facts.get("num_devices") is not None:
        return int(facts["num_devices"])
    if split:
        both = [number(document, f"num_{side}_gpu") for side in ("prefill", "decode")]
        return None if None in both else int(sum(value or 0.0 for value in both))
    return None if facts.get("tp") is None else int(facts["tp"]) * int(facts.get("dp") or 1)


def _rates(reading: Reading, devices: int | None, *, split: bool) -> None:
    """Of the deployment. Disaggregated output rates are for each decode device."""
    document = reading.document
    total, output, among = number(document, "tput_per_gpu"), number(document, "output_tput_per_gpu"), devices
    if total is not None and devices is not None:
        meaning = f"prompt and generated tokens a second; converted from one of {devices}"
        reading.measured("total_tokens_per_s", total * devices, meaning)
    decoding = number(document, "num_decode_gpu") if split else None
    # Older rows divide by decode devices under the plain name, newer ones by all, and name the other apart.
    if decoding and number(document, "output_tput_per_decode_gpu") is None:
        among = int(decoding)
    if output is not None and among is not None:
        meaning = f"generated tokens a second; converted from one device of {among}"
        reading.measured("output_tokens_per_s", output * among, meaning)


def _sizes(document: Document, side: str) -> dict[str, int | None]:
    """With attention data parallelism `tp` devices hold as many attention replicas."""
    tp, ep = whole(document, f"{side}tp"), whole(document, f"{side}ep")
    attention = _true(document, f"{side}dp_attention")
    sizes = {
        "instances": whole(document, f"{side}num_workers") if side else None,
        "tp": 1 if attention else tp,
        "dp": (tp if attention else whole(document, f"{side}dp") or 1) if tp is not None else None,
        "ep": ep,
        "moe_tp": None if tp is None or ep is None else max(1, tp // ep),
    }
    return {side + name: size for name, size in sizes.items()}


def _drafting(document: Document) -> str | None:
    stated = text(document, "spec_decoding", "mtp")
    return None if stated is not None and stated.lower() in {"off", "false", "0"} else stated


def _true(document: Document, name: str) -> bool:
    return str(document.get(name, "")).lower() == "true"


INFERENCEX = ResultFormat(
    name="inferencex",
    told=_told,
    facts={
        "model": "model",
        "device": "hw | device",
        "engine": "framework",
        "engine_version": "framework_version | engine_version | vllm_version",
        "engine_commit": "vllm_commit | engine_commit",
        "precision": "precision",
        "num_devices": "num_gpus",
        "input_length": "isl",
        "output_length": "osl",
        "concurrency": "conc",
        "image": "image",
        "measured_at": "date | timestamp",
    },
    latencies=LATENCIES,
    rates={},
    unit="s",
    settle=_settle,
    unread=("tput_per_gpu", "output_tput_per_gpu"),
)
