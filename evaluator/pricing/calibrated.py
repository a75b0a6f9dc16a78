"""Prices operators by a device's fitted kernels (fitted in evaluator.calibration)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from evaluator.arithmetic import FloatArray
from evaluator.calibration import lookup
from evaluator.calibration.carrying import carried_families, form_of
from evaluator.calibration.forms import FORMS, HOST_COLLECTIVE, Inputs, Parts
from evaluator.calibration.forms.base import DeviceFigures, figures_of
from evaluator.calibration.kernels import sharing_of
from evaluator.calibration.mixer_kernels import MIXER_KINDS, PARTS, UNMEASURED, mixer_device, mixer_values, sheet_values
from evaluator.graph.operators import COLLECTIVE_KINDS, ExpertExtents, Operator
from evaluator.graph.sums import BatchSums
from evaluator.inputs.devices.calibration_record import Calibration, calibration_from_json
from evaluator.inputs.devices.device import DeviceProfile
from evaluator.pricing.cost_model import KindSeconds
from evaluator.pricing.mixer_work import chained, padding_of
from evaluator.pricing.theoretical import reach
from store.errors import InputError
from store.light_dataclass import dataclass
from store.schema import Convention

HOPPER = frozenset({"h100_sxm", "h200_sxm"})  # whose kernels its devices have
TILE = 128  # rows and columns that one block of DeepGEMM's kernel computes
# From the second-level cache into one compute unit: 5.5e12 (114 units of an H100 PCIe, chipsandcheese.com, 2 July 2023)
# to 7e12 bytes/s are measured for a whole Hopper; the middle of it on 132 units.
CACHE_BYTES_PER_S = 4.7e10
ROUTINGS = ("balanced", "power_law_1.01", "power_law_1.2")
PLAIN_KINDS = frozenset(
    {"norm", "rope", "activation", "elementwise", "quantise", "embedding", "kv_write", "moe_routing"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedCost:
    """`routing`: the measured distribution over experts to price."""

    profile: DeviceProfile
    calibration: Calibration
    figures: DeviceFigures
    routing: str = "balanced"
    load: float = 1.0  # tokens of experts on the busiest device over the mean
    expert_rows: int = 0  # that the engine pads each expert to, where its kernel is DeepGEMM's of Hopper

    @property
    def convention(self) -> Convention:
        return "physical"

    @property
    def assumptions(self) -> tuple[str, ...]:
        calibration = self.calibration
        said = [f"kernel coefficients {calibration.hash} of {calibration.device}"]
        if calibration.carried_from:
            donor = calibration.carried_from
            said.append(
                f"dimensionless kernel parameters carried over from {donor}: no kernel of this device was measured"
            )
        if calibration.engine:
            families = sorted({name.partition(".")[0] for name in calibration.own})
            others = "" if calibration.one_engine else "; others as TensorRT-LLM does"
            said.append(f"kernels as {calibration.engine} runs them: {', '.join(families)} where measured{others}")
        if calibration.includes:
            inside = ", ".join(kind for kind in calibration.includes if kind != "quantise")
            said.append(
                f"inside the measured kernels, so not priced apart: {inside}, activation and quantise of experts"
            )
        said += [f"coefficients of {name} are stated, not fitted" for name in calibration.assumed]
        if calibration.carried and calibration.donor is None:
            said.append(
                f"no {', '.join(sorted(map(_plainly, calibration.carried)))} was measured: the nearest kernels of this"
                " device stand in"
            )
        elif calibration.carried:
            said.append(
                f"{len(calibration.carried)} kernels that were not measured are the shipped ones of"
                f" {calibration.donor}, scaled: {carried_families(calibration.carried)}"
            )
        return tuple(said)

    def operator_seconds(self, operator: Operator, sums: BatchSums) -> KindSeconds:
        if self._inside_another(operator):
            return KindSeconds()
        if operator.kind in PLAIN_KINDS:
            return self._plain(operator, sums)
        if operator.kind in MIXER_KINDS:
            return self._mixer(operator, sums)
        if operator.kind in COLLECTIVE_KINDS:
            return self._collective(operator, sums)
        return {
            "gemm": self._product,
            "batched_gemm": self._product,
            "moe_grouped_gemm": self._experts,
            "attention_prefill": self._prefill,
            "mla_prefill": self._prefill,
            "attention_decode": self._decode,
            "mla_decode": self._decode,
        }[operator.kind](operator, sums)

    def _inside_another(self, operator: Operator) -> bool:
        """A measured kernel of another operator already does this work.

        The experts' kernel includes quantisation and activation. Products' quantisation is taken out, since the step
        fuses most of it into norms; an engine that does not has it `apart`."""
        inside = self.calibration.includes
        if operator.kind in {"quantise", "activation"}:
            of_experts = "experts" in operator.label and "shared" not in operator.label and not operator.per_expert
            by_itself = operator.kind == "quantise" and "quantise" in self.calibration.apart
            return by_itself or ("moe_routing" in inside and of_experts)
        return operator.kind in inside

    def _price(self, name: str, form: str, inputs: Inputs) -> Parts:
        return FORMS[form].parts(self.calibration.values(name), inputs, self.figures)

    def _plain(self, operator: Operator, sums: BatchSums) -> KindSeconds:
        moved = operator.bytes_read.at(sums) + operator.bytes_written.at(sums)
        parts = self._price(
            lookup.elementwise_kernel(self.calibration, operator.kind),
            "elementwise",
            {"moved_bytes": moved, "launches": float(operator.launches)},
        )
        return KindSeconds(memory=parts.memory, overhead=parts.overhead)

    def _mixer(self, operator: Operator, sums: BatchSums) -> KindSeconds:
        inputs: dict[str, FloatArray | float] = {
            "matrix_flops": operator.matrix_flops.at(sums) * padding_of(operator),
            "moved_bytes": operator.bytes_read.at(sums) + operator.bytes_written.at(sums),
            "chain": chained(operator, sums, self.figures.compute_units),
            "peak_flops_per_s": self.figures.peak(operator.matrix_dtype),
        }
        measured = mixer_device(self.profile, self.calibration, operator.kind)
        values = sheet_values(self.profile) if measured is None else mixer_values(measured, operator.kind)
        parts = FORMS["roofline"].parts(values, inputs, self.figures)
        own = 0 if operator.kind in PARTS else operator.launches
        return KindSeconds(matrix=parts.compute, memory=parts.memory, overhead=parts.overhead * own)

    def said(self, operators: Iterable[Operator]) -> Iterable[str]:
        by_device: dict[str | None, list[str]] = {}
        for kind in sorted({one.kind for one in operators} & MIXER_KINDS):
            by_device.setdefault(mixer_device(self.profile, self.calibration, kind), []).append(kind)
        return ["; ".join(_said_of_mixers(measured, own) for measured, own in by_device.items())]

    def _product(self, operator: Operator, sums: BatchSums) -> KindSeconds:
        gemm = operator.gemm
        if gemm is None:
            return self._plain(operator, sums)
        wanted = lookup.kernel_format(operator.weight_format, self.figures)
        batched = operator.kind == "batched_gemm" and any(
            name.startswith("mla_bmm.") for name in self.calibration.kernels
        )
        name = lookup.product_kernel(self.calibration, "mla_bmm" if batched else "gemm", wanted.name)
        rows = np.maximum(gemm.m.at(sums), 1e-9)
        inputs: dict[str, FloatArray | float] = {"m": rows, "n": float(gemm.n), "k": float(gemm.k)}
        inputs |= {"count": float(gemm.batch), **self._format_inputs(wanted)}
        parts = self._price(name, "matmul", inputs)
        idle = rows > 1e-6  # no rows of logits: no product
        return KindSeconds(
            matrix=parts.compute * idle,
            memory=parts.memory * idle,
            overhead=parts.overhead * (self._own_launch(name) * idle),
        )

    def _own_launch(self, name: str) -> float:
        """A product's own share of its fixed time.

        Narrow products were measured with their quantisation's launches, which the step has elsewhere; 16-bit ones
        were not."""
        plain = f"{name.partition('.')[0]}.bf16"
        whole = "quantise" not in self.calibration.includes or "quantise" in self.calibration.apart
        if whole or plain not in self.calibration.kernels:
            return 1.0
        return min(1.0, self.calibration.values(plain)["fixed_us"] / self.calibration.values(name)["fixed_us"])

    def _format_inputs(self, wanted: lookup.KernelFormat) -> dict[str, float]:
        return {
            "weight_bytes": wanted.weight_bytes,
            "activation_bytes": wanted.activation_bytes,
            "peak_flops_per_s": self.figures.peak(wanted.compute),
            # Priced where the step quantises, unless every product of the engine does so by itself.
            "quantises": float(wanted.quantises and "quantise" in self.calibration.apart),
        }

    def _experts(self, operator: Operator, sums: BatchSums) -> KindSeconds:
        experts = operator.experts
        if experts is None or operator.per_expert:
            return self._product(operator, sums)
        wanted = lookup.kernel_format(operator.weight_format, self.figures)
        names = lookup.expert_kernels(self.calibration, wanted, (self.routing, *ROUTINGS))
        tokens = np.maximum(experts.tokens.at(sums), 1e-9)
        local, total, topk = float(experts.local_experts), float(experts.experts), float(experts.experts_per_token)
        inputs: dict[str, FloatArray | float] = {
            "tokens": tokens,
            "rows": tokens * topk * local / total,
            "most_rows": tokens * min(topk, local),
            "touched": local * (1 - (1 - topk / total) ** tokens),
            "local_experts": local,
            "expert_ranks": total / local,
            "hidden": float(experts.hidden_size),
            "inner": float(experts.intermediate_size),
            "up_matrices": 2.0 if experts.gated else 1.0,
            "weight_bytes": wanted.weight_bytes,
            "peak_flops_per_s": self.figures.peak(wanted.compute),
            "skewed": float(self.routing != "balanced"),
        }
        parts = _faster([self._price(name, "experts", inputs) for name in names])
        padded_s = self._padded_experts_s(experts) if wanted.name == "fp8_block" else 0.0
        memory = np.maximum(parts.memory, padded_s - parts.compute)
        # One measured kernel does both products; apart, gate and up are two thirds of its matrices, down one third. An
        # expert without a gate has one matrix each.
        down = 1 / 3 if experts.gated else 1 / 2
        share = {"gate_up": 1 - down if not experts.gated else 2 / 3, "down": down, "routing": 0.0}.get(
            experts.role, 1.0
        )
        return KindSeconds(matrix=parts.compute * share, memory=memory * share, overhead=parts.overhead * share)

    def _padded_experts_s(self, experts: ExpertExtents) -> float:
        """Tiles of padded rows pass through the on-chip cache, however few tokens there are.

        vLLM 0.11.1 to 0.13 runs DeepGEMM's contiguous kernel over rows for every local expert, and loads uncomputed
        tiles (vLLM's pull requests 26197, 29346, 39331)."""
        if self.expert_rows == 0 or (self.calibration.carried_from or self.calibration.device) not in HOPPER:
            return 0.0
        # 128 experts of 4,096 x 768, gate, up and down: 128 x 2 x 3 x 4,096 x 768 = 2.4e9 bytes, 0.39 ms on 132 units.
        matrices = 3 if experts.gated else 2
        columns = matrices * experts.hidden_size * experts.intermediate_size / TILE
        moved = experts.local_experts * self.expert_rows / TILE * columns * 2 * TILE
        return moved / (self.figures.compute_units * CACHE_BYTES_PER_S)

    def _prefill(self, operator: Operator, sums: BatchSums) -> KindSeconds:
        extents = operator.attention
        if extents is None:
            return self._plain(operator, sums)
        latent = operator.kind == "mla_prefill"
        compute, stored = self._attention_formats(operator, extents.kv_bits)
        family = "mla_prefill" if latent else f"prefill_attention.{compute}"
        name = lookup.attention_kernel(self.calibration, family, stored, extents.head_dim, extents.window)
        tokens = np.maximum(sums.tokens, 1e-9)
        inputs: dict[str, FloatArray | float] = {
            "tokens": tokens,
            "sequences": np.clip(sums.sequences, 1.0, None),
            "pairs": sums.pairs,
            "keys": np.maximum(sums.keys, tokens),
            "heads": float(extents.query_heads),
            "kv_heads": float(extents.kv_heads),
            "key_dim": float(extents.head_dim),
            "value_dim": float(extents.value_head_dim),
            "kv_bytes": extents.kv_bits / 8,
            "peak_flops_per_s": self.figures.peak(compute),
        }
        parts = self._price(name, "prefill_attention", inputs)
        return KindSeconds(matrix=parts.compute, memory=parts.memory, overhead=parts.overhead)

    def _decode(self, operator: Operator, sums: BatchSums) -> KindSeconds:
        extents = operator.attention
        if extents is None:
            return self._plain(operator, sums)
        latent = operator.kind == "mla_decode"
        _, stored = self._attention_formats(operator, extents.kv_bits)
        sharing = sharing_of(extents.query_heads, extents.kv_heads)
        family = "mla_decode" if latent else f"decode_attention.{sharing}"
        name = lookup.attention_kernel(self.calibration, family, stored, extents.head_dim, extents.window)
        shared = extents.query_heads if sharing == "wide" and not latent else extents.kv_heads
        blocks = latent and name.endswith(lookup.IN_BLOCKS)
        if blocks:
            shared = -(-extents.query_heads // lookup.BLOCK_HEADS)
        inputs: dict[str, FloatArray | float] = {
            "sequences": np.maximum(sums.sequences, 1e-9),
            "keys": sums.keys,
            "heads": float(extents.query_heads),
            "kv_heads": float(shared),
            "key_dim": float(extents.head_dim),
            "value_dim": float(extents.value_head_dim),
            "stored_dim": float(extents.head_dim + (0 if latent and not blocks else extents.value_head_dim)),
            "kv_bytes": extents.kv_bits / 8,
            "peak_flops_per_s": self.figures.peak("bf16"),
        }
        parts = self._price(name, "decode_attention", inputs)
        return KindSeconds(matrix=parts.compute, memory=parts.memory, overhead=parts.overhead)

    def _attention_formats(self, operator: Operator, kv_bits: int) -> tuple[str, str]:
        compute = "fp8" if operator.matrix_dtype == "fp8" and self.figures.native("fp8") == "fp8" else "bf16"
        return compute, "fp8" if kv_bits <= 8 else "bf16"

    def _collective(self, operator: Operator, sums: BatchSums) -> KindSeconds:
        extents = operator.collective
        if extents is None or extents.group_size <= 1:
            return KindSeconds()
        link, levels = reach(self.profile, extents.group_size, extents.stride)
        figures = replace(self.figures, link_bytes_per_s=link.bandwidth_bytes_per_s)
        within = replace(figures, link_bytes_per_s=min(link.bandwidth_bytes_per_s, self.figures.link_bytes_per_s))
        names: tuple[str, ...] = (operator.kind,)
        group, payload = float(extents.group_size), np.maximum(extents.payload_bytes.at(sums), 1e-9)
        if operator.kind == "send_receive":  # one neighbour: an all-gather of two devices moves the same bytes
            names, group, payload = ("all_gather",), 2.0, 2.0 * payload
        elif operator.kind == "all_reduce":  # one-shot kernels stay inside one link level
            names = ("all_reduce_custom", "all_reduce") if levels == 1 else ("all_reduce",)
        elif operator.kind == "all_gather":
            payload = payload * group
        fitted = [f"collective.{name}" for name in names if f"collective.{name}" in self.calibration.kernels]
        if not fitted:
            raise InputError(
                f"the calibration of {self.calibration.device} has no kernel for {operator.kind}",
                hint="calibrate with a table that holds collectives",
            )
        seconds = []
        for name in fitted:  # a ring through hosts is no faster between them than inside one
            values = self.calibration.values(name)
            form = form_of(name, values)
            rates = within if form is HOST_COLLECTIVE else figures
            seconds.append(form.seconds(values, _message(name, payload, group), rates))
        hops = link.latency_s * np.log2(group) if levels > 1 else 0.0
        return KindSeconds(communication=np.minimum.reduce(seconds) + hops)


def _said_of_mixers(measured: str | None, kinds: Sequence[str]) -> str:
    if measured is None:
        return f"{', '.join(kinds)}: by the device's data sheet, apart from the calibration"
    said = f"{', '.join(kinds)}: rooflines fitted to kernels of {measured}, apart from the calibration"
    carried = ", ".join(f"{kind} as {UNMEASURED[kind]}" for kind in kinds if kind in UNMEASURED)
    return f"{said} ({carried}: no kernel of it was measured)" if carried else said


def _plainly(kernel: str) -> str:
    return kernel.removeprefix("collective.")


def _faster(choices: Sequence[Parts]) -> Parts:
    """By batch: engines choose by size, too."""
    best = choices[0]
    for other in choices[1:]:
        slower = other.total() >= best.total()
        best = Parts(
            overhead=np.where(slower, best.overhead, other.overhead),
            compute=np.where(slower, best.compute, other.compute),
            memory=np.where(slower, best.memory, other.memory),
        )
    return best


def _message(name: str, payload: FloatArray, group: float) -> Inputs:
    return {
        "message_bytes": payload,
        "group": group,
        "passes": 2.0 if "all_reduce" in name else 1.0,
        "one_shot": float(name.endswith("all_reduce_custom")),
    }


def calibrated_cost(
    profile: DeviceProfile, *, routing: str = "balanced", load: float = 1.0, expert_rows: int = 0
) -> CalibratedCost:
    if profile.calibration is None:
        raise InputError(
            f"device {profile.name} has no calibration",
            hint=f"run sweepdb calibrate {profile.name}, or use its theoretical profile",
        )
    if routing not in ROUTINGS:
        raise InputError(f"unknown routing {routing}", hint=f"one of {', '.join(ROUTINGS)}")
    return CalibratedCost(
        profile=profile,
        calibration=calibration_from_json(profile.calibration),
        figures=figures_of(profile),
        routing=routing,
        load=load,
        expert_rows=expert_rows,
    )
