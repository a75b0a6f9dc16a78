"""Tables of measured kernels to inputs of forms, named as their coefficients.

Names: gemm.<format>; prefill_attention.<dtype>.kv_<dtype>.d<head size>[.window];
decode_attention.<mha|gqa|gqa32|wide>.kv_<dtype>.d<head size>[.window];
mla_prefill.kv_<dtype>; mla_decode.kv_<dtype>; mla_bmm.<format>; collective.<operation>; elementwise;
moe.<format>.<gated|plain>.<routing>[.low_latency|.marlin]; expert_exchange.<ht|ll>.<phase>.<format>."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from evaluator.calibration.forms import Array
from evaluator.calibration.forms.base import DeviceFigures
from evaluator.calibration.lookup import FORMATS, format_name
from evaluator.calibration.tables import KernelTable
from store.light_dataclass import dataclass

LEAST_ROWS = 8  # a kernel with fewer measurements is not fitted
NARROW_GROUP, WIDE_GROUP = 16, 32  # query heads per KV head; beyond the second, decode kernels share nothing
LATENT_DIM, ROPE_DIM, NOPE_DIM, VALUE_DIM = 512, 64, 128, 128  # of the latent attention measured (DeepSeek-V2/V3)
Words = npt.NDArray[np.str_]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSet:
    """Rows that share coefficients."""

    name: str
    form: str
    inputs: Mapping[str, Array]
    latency_s: Array


def kernel_sets(
    tables: Iterable[KernelTable], figures: DeviceFigures, *, quantising: bool = True
) -> tuple[KernelSet, ...]:
    """Joined by name over all tables.

    `quantising`: narrow kernels were measured with quantisation of their activations."""
    readers = {
        "gemm": _gemm,
        "attn_prefill": _prefill,
        "attn_decode": _decode,
        "mla": _latent,
        "mla_module": _none,
        "mla_bmm": _latent_products,
        "moe": _experts,
        "comm": _collectives,
        "moe_a2a": _exchange,
        "elementwise": _elementwise,
    }
    found: dict[str, list[KernelSet]] = {}
    for table in tables:
        for kernels in readers[table.kind](table, figures):
            if not quantising and "quantises" in kernels.inputs:
                kernels.inputs["quantises"][:] = 0.0
            found.setdefault(kernels.name, []).append(kernels)
    return tuple(_ordered(_joined(found[name])) for name in sorted(found))


# Forms of kernels that tables time in a loop over the same operands.
REPEATED = frozenset({"matmul", "decode_attention", "experts", "roofline", "summed_roofline"})


def _joined(parts: list[KernelSet]) -> KernelSet:
    inputs = {name: np.concatenate([part.inputs[name] for part in parts]) for name in parts[0].inputs}
    latency = np.concatenate([part.latency_s for part in parts])
    if parts[0].form in REPEATED:
        inputs["repeated"] = np.ones(latency.size)
    return KernelSet(name=parts[0].name, form=parts[0].form, inputs=inputs, latency_s=latency)


def _ordered(kernels: KernelSet) -> KernelSet:
    """Ordered by content, so that a random half does not depend on the file."""
    order = np.lexsort((kernels.latency_s, *(kernels.inputs[name] for name in sorted(kernels.inputs))))
    inputs = {name: column[order] for name, column in kernels.inputs.items()}
    return KernelSet(name=kernels.name, form=kernels.form, inputs=inputs, latency_s=kernels.latency_s[order])


def _subset(name: str, form: str, keep: npt.NDArray[np.bool_], latency: Array, **inputs: Array | float) -> KernelSet:
    rows = int(keep.sum())
    picked = {
        key: np.broadcast_to(np.asarray(value, dtype=np.float64), keep.shape)[keep].copy()
        for key, value in inputs.items()
    }
    return (
        KernelSet(name=name, form=form, inputs=picked, latency_s=latency[keep])
        if rows
        else KernelSet(name=name, form=form, inputs={}, latency_s=latency[:0])
    )


def _groups(*columns: Words) -> Iterator[tuple[tuple[str, ...], npt.NDArray[np.bool_]]]:
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    keys = np.array(["\x1f".join(row) for row in rows])
    for key in np.unique(keys).tolist():
        yield tuple(key.split("\x1f")), keys == key


def _none(_table: KernelTable, _figures: DeviceFigures) -> Iterator[KernelSet]:
    yield from ()


def _product_inputs(format_key: str, figures: DeviceFigures) -> dict[str, float]:
    kernel_format = FORMATS[format_key]
    return {
        "weight_bytes": kernel_format.weight_bytes,
        "activation_bytes": kernel_format.activation_bytes,
        "peak_flops_per_s": figures.peak(kernel_format.compute),
        "quantises": float(kernel_format.quantises),
    }


def _gemm(table: KernelTable, figures: DeviceFigures) -> Iterator[KernelSet]:
    x = table.numbers
    for (dtype,), keep in _groups(table.words["dtype"]):
        key = format_name(dtype)
        yield _subset(
            f"gemm.{key}",
            "matmul",
            keep,
            table.latency_s,
            m=x["m"],
            n=x["n"],
            k=x["k"],
            **_product_inputs(key, figures),
        )


def _prefill(table: KernelTable, figures: DeviceFigures) -> Iterator[KernelSet]:
    x = table.numbers
    tokens, prefix, window = x["batch"] * x["isl"], x["prefix"], x["window_size"]
    span = x["isl"] + prefix
    pairs = x["batch"] * _causal_pairs(x["isl"], prefix, window)
    keys = x["batch"] * np.where(window > 0, np.minimum(span, x["isl"] + window), span)
    head = x["head_dim"]
    sizes = np.array([f"d{int(size)}{'.window' if wide else ''}" for size, wide in zip(head, window > 0, strict=True)])
    for (dtype, kv, size), keep in _groups(table.words["dtype"], table.words["kv_dtype"], sizes):
        compute, stored = format_name(dtype), format_name(kv)
        yield _subset(
            f"prefill_attention.{compute}.kv_{stored}.{size}",
            "prefill_attention",
            keep,
            table.latency_s,
            tokens=tokens,
            sequences=x["batch"],
            pairs=pairs,
            keys=keys,
            heads=x["heads"],
            kv_heads=x["kv_heads"],
            key_dim=head,
            value_dim=head,
            kv_bytes=FORMATS[stored].weight_bytes,
            peak_flops_per_s=figures.peak(FORMATS[compute].compute),
        )


def _causal_pairs(new: Array, prefix: Array, window: Array) -> Array:
    """The sum over i = 1..q of min(prefix + i, window)."""
    full = new * prefix + new * (new + 1) / 2
    reach = np.where(window > 0, window, np.inf)
    below = np.clip(reach - prefix, 0, new)  # tokens that still see everything
    seen = below * prefix + below * (below + 1) / 2
    return np.where(np.isinf(reach), full, seen + (new - below) * np.where(np.isinf(reach), 0, reach))


def sharing_of(heads: float, kv_heads: float) -> str:
    """mha: one query head a KV head; gqa: up to 16; gqa32: up to 32; wide: more."""
    if heads <= kv_heads:
        return "mha"
    if heads <= NARROW_GROUP * kv_heads:
        return "gqa"
    return "gqa32" if heads <= WIDE_GROUP * kv_heads else "wide"


def _decode(table: KernelTable, figures: DeviceFigures) -> Iterator[KernelSet]:
    x = table.numbers
    window, head = x["window_size"], x["head_dim"]
    keys = x["batch"] * np.where(window > 0, np.minimum(x["kv_len"], window), x["kv_len"])
    shape = np.array([sharing_of(heads, kv_heads) for heads, kv_heads in zip(x["heads"], x["kv_heads"], strict=True)])
    sizes = np.array([f"d{int(size)}{'.window' if wide else ''}" for size, wide in zip(head, window > 0, strict=True)])
    for (sharing, kv, size), keep in _groups(shape, table.words["kv_dtype"], sizes):
        stored = format_name(kv)
        yield _subset(
            f"decode_attention.{sharing}.kv_{stored}.{size}",
            "decode_attention",
            keep,
            table.latency_s,
            sequences=x["batch"],
            keys=keys,
            heads=x["heads"],
            kv_heads=x["heads"] if sharing == "wide" else x["kv_heads"],
            key_dim=head,
            value_dim=head,
            stored_dim=2 * head,
            kv_bytes=FORMATS[stored].weight_bytes,
            peak_flops_per_s=figures.peak("bf16"),
        )


def _latent(table: KernelTable, figures: DeviceFigures) -> Iterator[KernelSet]:
    x = table.numbers
    tokens = x["batch"] * x["len"]
    for (phase, kv), keep in _groups(table.words["phase"], table.words["kv_dtype"]):
        stored = format_name(kv)
        kv_bytes, peak = FORMATS[stored].weight_bytes, figures.peak("bf16")
        if phase == "prefill":
            yield _subset(
                f"mla_prefill.kv_{stored}",
                "prefill_attention",
                keep,
                table.latency_s,
                tokens=tokens,
                sequences=x["batch"],
                pairs=x["batch"] * x["len"] * (x["len"] + 1) / 2,
                keys=tokens,
                heads=x["heads"],
                kv_heads=x["heads"],
                key_dim=float(NOPE_DIM + ROPE_DIM),
                value_dim=float(VALUE_DIM),
                kv_bytes=kv_bytes,
                peak_flops_per_s=peak,
            )
        else:
            yield _subset(
                f"mla_decode.kv_{stored}",
                "decode_attention",
                keep,
                table.latency_s,
                sequences=x["batch"],
                keys=tokens,
                heads=x["heads"],
                kv_heads=1.0,
                key_dim=float(LATENT_DIM + ROPE_DIM),
                value_dim=float(LATENT_DIM),
                stored_dim=float(LATENT_DIM + ROPE_DIM),
                kv_bytes=kv_bytes,
                peak_flops_per_s=peak,
            )


def _latent_products(table: KernelTable, figures: DeviceFigures) -> Iterator[KernelSet]:
    x = table.numbers
    pre = table.words["op_name"] == "mla_gen_pre"
    for (dtype,), keep in _groups(table.words["dtype"]):
        key = format_name(dtype)
        yield _subset(
            f"mla_bmm.{key}",
            "matmul",
            keep,
            table.latency_s,
            m=x["tokens"],
            n=np.where(pre, LATENT_DIM, VALUE_DIM),
            k=np.where(pre, NOPE_DIM, LATENT_DIM),
            count=x["heads"],
            **_product_inputs(key, figures),
        )


def _experts(table: KernelTable, figures: DeviceFigures) -> Iterator[KernelSet]:
    x, words = table.numbers, table.words
    local = x["experts"] / x["ep"]
    rows = x["tokens"] * x["topk"] / x["ep"]
    balanced = words["distribution"] == "balanced"
    drawn = local * (1 - (1 - x["topk"] / x["experts"]) ** x["tokens"])  # distinct experts touched by independent draws
    touched = np.where(balanced, np.minimum(np.ceil(rows), local), drawn)
    style = np.where(np.char.find(words["kernel"], "nongated") >= 0, "plain", "gated")
    pace = np.where(np.char.find(words["kernel"], "min_latency") >= 0, ".low_latency", "")
    pace = np.where(np.char.find(words["kernel"], "marlin") >= 0, ".marlin", pace)
    for (dtype, gate, routing, fast), keep in _groups(words["dtype"], style, words["distribution"], pace):
        key = format_name(dtype)
        product = _product_inputs(key, figures)
        yield _subset(
            f"moe.{key}.{gate}.{routing}{fast}",
            "experts",
            keep,
            table.latency_s,
            tokens=x["tokens"],
            rows=rows,
            most_rows=x["tokens"] * np.minimum(x["topk"], local),
            touched=touched,
            local_experts=local,
            expert_ranks=x["ep"],
            hidden=x["hidden"],
            inner=x["inter"] / x["tp"],
            up_matrices=2.0 if gate == "gated" else 1.0,
            weight_bytes=product["weight_bytes"],
            peak_flops_per_s=product["peak_flops_per_s"],
            skewed=float(routing != "balanced"),
        )


OPERATIONS = {
    "custom_allreduce": "all_reduce_custom",
    "nccl_all_reduce": "all_reduce",
    "nccl_all_gather": "all_gather",
    "nccl_reduce_scatter": "reduce_scatter",
    "nccl_alltoall": "all_to_all",
}


def _collectives(table: KernelTable, figures: DeviceFigures) -> Iterator[KernelSet]:
    x = table.numbers
    for (operation,), keep in _groups(table.words["op"]):
        name = OPERATIONS.get(operation, operation)
        yield _subset(
            f"collective.{name}",
            "host_collective" if figures.through_host else "collective",
            keep,
            table.latency_s,
            message_bytes=x["message_bytes"],
            group=x["ngpus"],
            passes=2.0 if name.startswith("all_reduce") else 1.0,
            one_shot=float(name == "all_reduce_custom"),
        )


def sent_by_expert_exchange(
    tokens: Array,
    hidden: Array | float,
    bytes_each: float,
    topk: Array | float,
    ranks: Array | float,
    *,
    low_latency: bool,
) -> Array:
    """A copy a token and expert (low latency), or a token and distinct rank."""
    peers = np.asarray(ranks, dtype=np.float64)
    copies = topk * (peers - 1) / peers if low_latency else (peers - 1) * (1 - (1 - 1 / peers) ** topk)
    return np.asarray(tokens * hidden * bytes_each * copies, dtype=np.float64)


def _exchange(table: KernelTable, _figures: DeviceFigures) -> Iterator[KernelSet]:
    x = table.numbers
    for (backend, phase, dtype), keep in _groups(
        table.words["comm_backend"], table.words["phase"], table.words["dtype"]
    ):
        key, low = format_name(dtype), backend.endswith("ll")
        sent = sent_by_expert_exchange(
            x["tokens"], x["hidden"], FORMATS[key].activation_bytes, x["topk"], x["ep_size"], low_latency=low
        )
        yield _subset(
            f"expert_exchange.{'ll' if low else 'ht'}.{phase}.{key}",
            "expert_exchange",
            keep,
            table.latency_s,
            sent_bytes=sent,
        )


def _elementwise(table: KernelTable, _figures: DeviceFigures) -> Iterator[KernelSet]:
    moved = table.numbers["moved_bytes"]
    for (operation,), keep in _groups(table.words["operation"]):
        yield _subset(f"elementwise.{operation}", "elementwise", keep, table.latency_s, moved_bytes=moved, launches=1.0)
    yield _subset(
        "elementwise", "elementwise", np.ones(moved.shape, np.bool_), table.latency_s, moved_bytes=moved, launches=1.0
    )
