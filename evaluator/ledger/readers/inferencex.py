"""Aggregates of InferenceX (InferenceMAX before), as its utils/process_result.py makes them of vLLM's client: seconds,
and rates for each device."""

from __future__ import annotations

from evaluator.ledger.readers.building import Document, Item, number, rest, text, whole
from evaluator.ledger.readers.vllm import client_metrics, latency_fields
from store.records import SideRecord

INFERENCEX = "inferencex"


def is_inferencex(document: Document) -> bool:
    """Whether a result is such an aggregate."""
    return "hw" in document and "tput_per_gpu" in document


def read_inferencex(document: Document) -> list[tuple[str, Item]]:
    """One point. A disaggregated one has sizes of both sides; `intvty` is 1000 / TPOT and stays uninterpreted."""
    metrics, definitions = client_metrics(document, 1000.0, "s")
    disaggregated = _true(document, "disagg")
    split = disaggregated or _true(document, "is_multinode")
    prefill, decode = (_side(document, "prefill_"), _side(document, "decode_")) if split else (_side(document, ""),) * 2
    devices = _devices(document, decode if not split else None)
    _rates(document, devices, metrics, definitions)
    used = {"hw", "model", "framework", "precision", "tput_per_gpu", "output_tput_per_gpu", "conc", "isl", "osl"}
    extra = rest(document, latency_fields(document) | used)
    extra["spec_decode"] = _drafting(document)
    item = Item(
        model=text(document, "model"),
        device=text(document, "hw"),
        engine=text(document, "framework"),
        mode="disaggregated" if disaggregated else "aggregated",
        precision=text(document, "precision"),
        num_devices=devices,
        input_length=number(document, "isl"),
        output_length=number(document, "osl"),
        concurrency=number(document, "conc"),
        prefill=prefill,
        decode=decode,
        metrics=metrics,
        definitions=definitions,
        extra={name: value for name, value in extra.items() if value is not None},
    )
    return [("", item)]


def _devices(document: Document, only: SideRecord | None) -> int | None:
    stated = whole(document, "num_gpus")
    if stated is not None:
        return stated
    if only is None:
        both = [number(document, f"num_{side}_gpu") for side in ("prefill", "decode")]
        return None if None in both else int(sum(value or 0.0 for value in both))
    return None if only.tp is None else only.tp * (only.dp or 1)


def _rates(
    document: Document, devices: int | None, metrics: dict[str, float | None], definitions: dict[str, str]
) -> None:
    """Rates of the whole deployment. Output rates of disaggregated points are for each decode device."""
    total = number(document, "tput_per_gpu")
    if total is not None and devices is not None:
        metrics["total_tokens_per_s"] = total * devices
        definitions["total_tokens_per_s"] = f"prompt and generated tokens a second; converted from one of {devices}"
    output, among = number(document, "output_tput_per_gpu"), devices
    if _true(document, "is_multinode") or _true(document, "disagg"):
        decoding = number(document, "num_decode_gpu")
        per_decode = number(document, "output_tput_per_decode_gpu")
        # Older aggregates divide by decode devices under the plain name, newer ones by all, and name the other apart.
        if per_decode is None and decoding:
            among = int(decoding)
    if output is not None and among is not None:
        metrics["output_tokens_per_s"] = output * among
        definitions["output_tokens_per_s"] = f"generated tokens a second; converted from one device of {among}"


def _side(document: Document, prefix: str) -> SideRecord:
    """Sizes of a side. With attention data parallelism `tp` devices hold as many replicas of attention."""
    tp, ep = whole(document, f"{prefix}tp"), whole(document, f"{prefix}ep")
    attention = _true(document, f"{prefix}dp_attention")
    groups = whole(document, f"{prefix}dp") or 1
    return SideRecord(
        instances=whole(document, f"{prefix}num_workers") if prefix else None,
        tp=1 if attention else tp,
        dp=(tp if attention else groups) if tp is not None else None,
        ep=ep,
        moe_tp=None if tp is None or ep is None else max(1, tp // ep),
    )


def _drafting(document: Document) -> str | None:
    """The drafting method; None where there is none. Its name moved from `mtp` to `spec_decoding`."""
    stated = text(document, "spec_decoding", "mtp")
    return None if stated is not None and stated.lower() in {"off", "false", "0"} else stated


def _true(document: Document, name: str) -> bool:
    return str(document.get(name, "")).lower() == "true"
