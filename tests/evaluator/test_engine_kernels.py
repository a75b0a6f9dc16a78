"""Kernels by engine: where they were measured inside it they price its scenarios, and answers say whose kernels count."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from shared_data import shared_data

from evaluator.calibration.device_fit import fit_kernel
from evaluator.calibration.forms.base import figures_of
from evaluator.calibration.kernels import KernelSet, kernel_sets
from evaluator.calibration.lookup import expert_kernels, kernel_format
from evaluator.inputs.devices.calibration_record import calibration_from_json, calibration_to_json
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.devices.shipped_calibrations import (
    PARTLY_MEASURED,
    shipped_calibration,
    stands_in,
    with_kernels_of,
)
from evaluator.pricing.calibrated import calibrated_cost
from tools.engine_kernels import DEVICES, HOST_BOUND, fitted_sets
from tools.engine_report import ENGINES, MARKS, as_table, engine_figures, with_table
from tools.engine_tables import engine_tables, newest_tables, read_table

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "calibration.md"
# Held-out medians over each family's kernels, in percent: the device's own tables are 2 to 12 % off.
LARGEST = {"gemm": 13.0, "moe": 17.0, "prefill_attention": 17.0, "decode_attention": 7.0}
# Their caches of 96 and 128 MB answer half of the rows, which bytes alone do not tell of windows.
CACHED = {"gemm": 15.5, "moe": 12.0, "prefill_attention": 18.0, "decode_attention": 18.0}
WINDOWED = {"decode_attention.gqa.kv_bf16.d64.window": 25.0}


def under(device, engine):
    return calibration_from_json(with_kernels_of(load_device(device), engine).calibration)


@pytest.mark.parametrize("device", DEVICES)
def test_kernels_of_an_engine_take_the_place_of_the_devices_own(device):
    shipped, vllm = shipped_calibration(device), under(device, "vllm@1a2b3c4d")
    assert (vllm.engine, vllm.carried_from) == ("vllm 0.24.0", None)
    assert set(vllm.kernels) == set(shipped.kernels) | set(vllm.own)
    for name, values in vllm.kernels.items():
        assert (name in vllm.own) == (values != shipped.kernels.get(name)), name
    assert vllm.hash != shipped.hash
    for engine in ("trtllm", "trtllm_v0", "vllm_v0", "vllm_sync", "eager", "waves", "ours"):
        assert with_kernels_of(load_device(device), engine) == load_device(device)


@pytest.mark.parametrize("device", DEVICES)
def test_their_held_out_errors_are_those_of_other_kernels(device):
    accuracy = under(device, "vllm").accuracy
    exceptions = WINDOWED if device in PARTLY_MEASURED else {}
    for family, largest in (CACHED if device in PARTLY_MEASURED else LARGEST).items():
        medians = {
            name: accuracy[name].median_ape for name in under(device, "vllm").own if name.startswith(f"{family}.")
        }
        assert medians
        for name, median in medians.items():
            assert median <= exceptions.get(name, largest), name


@pytest.mark.parametrize("device", DEVICES)
def test_sglang_has_its_own_but_for_block_scaled_products_and_experts(device):
    shipped, own = shipped_calibration(device), under(device, "sglang_locked")
    assert own.engine == "sglang 0.5.14"
    assert own == under(device, "sglang")
    assert not [name for name in own.own if "fp8_block" in name]
    kept = [name for name in shipped.kernels if name.startswith(("gemm.fp8_block", "moe.fp8_block", "collective."))]
    assert all(own.kernels[name] == shipped.kernels[name] for name in kept)
    assert {"gemm.bf16", "gemm.fp8", "prefill_attention.bf16.kv_bf16.d128"} <= set(own.own)
    # Attention writes keys and values and rotates nothing; quantisation stays where the step has it.
    assert own.includes == ("kv_write", "moe_routing", "quantise")
    assert own.apart == ()
    largest = 28.5 if device in PARTLY_MEASURED else 17.5
    assert max(own.accuracy[name].median_ape for name in own.own) <= largest


def test_of_two_implementations_the_one_that_sglang_runs_is_fitted():
    """Of experts on B200 it runs FlashInfer's where both were measured, on H100 Triton's; Marlin's stand beside them."""
    folder = shared_data("kernels_by_engine")
    for device, ran in (("b200_sxm", {"sglang_flashinfer_trtllm_moe"}), ("h100_sxm", {"sglang_fused_moe_triton"})):
        words = read_table(folder / device / "moe_perf--sglang--0.5.14.parquet").words
        assert {name for name in words["kernel"].tolist() if "marlin" not in name} == ran
        assert any("marlin" in name for name in words["kernel"].tolist()) == (device == "h100_sxm")


def test_a_device_measured_in_part_has_its_own_kernels_of_the_engine_not_its_donors():
    for device, donor in (("l40s", "h100_sxm"), ("rtx_pro_6000_server", "b200_sxm")):
        own, theirs = under(device, "vllm"), under(donor, "vllm")
        assert (own.engine, own.donor) == ("vllm 0.24.0", donor)
        assert not set(own.carried) & set(own.own)
        assert all(own.kernels[name] != theirs.kernels.get(name) for name in own.own)
        assert set(own.kernels) >= {name for name in theirs.kernels if not name.endswith((".low_latency", ".marlin"))}


def test_kernels_measured_under_one_engine_alone_say_so():
    said = calibrated_cost(load_device("b60")).assumptions
    (line,) = [line for line in said if line.startswith("kernels as vllm 0.20.0 runs them")]
    assert line.endswith("where measured")
    assert "no all_to_all, mla_decode.kv_bf16, mla_prefill.kv_bf16 was measured" in " ".join(said)
    assert with_kernels_of(load_device("b60"), "vllm") == load_device("b60")
    stand_ins = {engine: stands_in(load_device("b60"), engine) for engine in ("vllm", "sglang", "trtllm")}
    assert stand_ins == {"vllm": None, "sglang": "vllm 0.20.0", "trtllm": "vllm 0.20.0"}
    assert stands_in(load_device("l40s"), "eager") == "TensorRT-LLM"
    assert stands_in(with_kernels_of(load_device("l40s"), "sglang"), "sglang") is None


def test_devices_nobody_measured_carry_them_and_others_keep_their_own():
    assert under("b300_sxm", "vllm").carried_from == "b200_sxm"
    assert under("b300_sxm", "vllm").own == under("b200_sxm", "vllm").own
    assert set(under("b300_sxm", "vllm").accuracy) == set()
    assert with_kernels_of(load_device("a100_sxm"), "vllm") == load_device("a100_sxm")
    mine = replace(
        load_device("h100_sxm"),
        calibration=calibration_to_json(replace(shipped_calibration("h100_sxm"), source="mine")),
    )
    assert with_kernels_of(mine, "vllm") == mine


def test_an_answer_names_the_engine_whose_kernels_count():
    said = calibrated_cost(with_kernels_of(load_device("h100_sxm"), "vllm")).assumptions
    assert any(line.startswith("kernels as vllm 0.24.0 runs them: decode_attention, gemm, moe") for line in said)
    assert not any("runs them" in line for line in calibrated_cost(load_device("h100_sxm")).assumptions)
    for device in ("h100_sxm", "gh200", "l40s", "l4"):
        said = calibrated_cost(with_kernels_of(load_device(device), "sglang")).assumptions
        (line,) = [line for line in said if line.startswith("kernels as sglang 0.5.14 runs them")]
        assert line.endswith("where measured; others as TensorRT-LLM does")


def test_a_narrow_product_holds_its_quantisation_where_the_engine_launches_it_apart():
    whole = calibration_from_json(load_device("h100_sxm").calibration)
    apart = replace(whole, apart=("quantise",))
    before, after = (
        calibrated_cost(replace(load_device("h100_sxm"), calibration=calibration_to_json(one)))
        for one in (whole, apart)
    )
    # The 16-bit product's fixed time is a fifth of that of the FP8 one, whose launches it holds.
    assert before._own_launch("gemm.fp8") == pytest.approx(
        whole.kernels["gemm.bf16"]["fixed_us"] / whole.kernels["gemm.fp8"]["fixed_us"]
    )
    assert after._own_launch("gemm.fp8") == 1.0
    assert before._format_inputs(kernel_format("FP8"))["quantises"] == 0.0
    assert after._format_inputs(kernel_format("FP8"))["quantises"] == 1.0
    assert whole.hash != apart.hash


def test_no_other_engines_low_latency_experts_stand_beside_measured_ones():
    routings = ("power_law_1.2",)
    for quantisation, kernel in (("FP8_BLOCK", "moe.fp8_block"), ("NVFP4", "moe.nvfp4")):
        own = f"{kernel}.gated.power_law_1.2"
        wanted = kernel_format(quantisation)
        assert expert_kernels(under("b200_sxm", "vllm"), wanted, routings) == (own,)
        shipped = expert_kernels(shipped_calibration("b200_sxm"), wanted, routings)
        assert shipped == (own, "moe.nvfp4.gated.power_law_1.2.low_latency")
    widened = expert_kernels(
        under("h100_sxm", "vllm"), kernel_format("MXFP4", figures_of(load_device("h100_sxm"))), routings
    )
    assert widened == (
        "moe.w4a16_mxfp4.gated.power_law_1.2",
        "moe.w4a16_mxfp4.gated.power_law_1.2.marlin",
        "moe.bf16.gated.power_law_1.2",
    )


def test_kernels_that_waited_for_their_launches_are_left_out():
    sizes = {name: np.array([1.0, 16.0, 128.0]) for name in ("m", "n", "k")}

    def product(name, times):
        return KernelSet(name=name, form="matmul", inputs=sizes, latency_s=np.array([5e-6, 6e-6, 9e-6]) * times)

    sets = [product("gemm.bf16", 1.0), product("gemm.fp8", 1.9), product("gemm.fp8_block", HOST_BOUND + 0.1)]
    assert [rows.name for rows in fitted_sets(sets)] == ["gemm.bf16", "gemm.fp8"]
    assert [rows.name for rows in fitted_sets(sets[2:])] == ["gemm.fp8_block"]  # nothing to hold it against


def test_the_command_yields_the_shipped_coefficients():
    version, tables = engine_tables(shared_data("kernels_by_engine", "h100_sxm"), "vllm")
    figures = figures_of(load_device("h100_sxm", family="theoretical"))
    name = "moe.w4a16_mxfp4.gated.power_law_1.2.marlin"
    (rows,) = (one for one in fitted_sets(kernel_sets(tables, figures)) if one.name == name)
    assert version == "0.24.0"
    assert fit_kernel(rows, figures).values == pytest.approx(under("h100_sxm", "vllm").kernels[name], rel=2e-3)


def test_tables_of_other_versions_stand_in_for_those_that_a_device_lacks(tmp_path):
    """Latent attention of L40S was measured under an older TensorRT-LLM, its products under the newest too."""
    folder = shared_data("kernels_by_engine", "l40s")
    found = {one.kind: one.source for one in newest_tables(folder, ("trtllm",), ("moe_perf", "custom_allreduce_perf"))}
    assert found["gemm"] == "gemm_perf--trtllm--1.3.0rc20"
    assert found["mla"] == "generation_mla_perf--trtllm--1.0.0"
    assert "moe" not in found
    assert newest_tables(tmp_path, ("trtllm",)) == ()


def test_the_report_holds_an_engines_kernels_against_the_devices_table():
    (figure,) = [
        one
        for one in engine_figures(shared_data("kernels_by_engine"), "h100_sxm", "vllm")
        if one.group == "decode attention"
    ]
    own = under("h100_sxm", "vllm")
    held = [entry for name, entry in own.accuracy.items() if name in own.own and name.startswith("decode_attention")]
    assert (figure.kernels, figure.own.rows) == (len(held), sum(entry.rows for entry in held))
    assert min(entry.median_ape for entry in held) < figure.own.median_ape < max(entry.median_ape for entry in held)
    assert figure.one_table.median_ape > 3 * figure.own.median_ape
    page = f"before\n{MARKS[0]}\nold\n{MARKS[1]}\nafter\n"
    assert with_table(page, as_table([figure])) == page.replace("old\n", as_table([figure]))
    assert with_table(with_table(page, as_table([figure])), "old\n") == page


@pytest.mark.survival
def test_the_page_holds_what_the_command_prints():
    folder = shared_data("kernels_by_engine")
    found = [one for engine in ENGINES for device in DEVICES for one in engine_figures(folder, device, engine)]
    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page, as_table(found)) == page
    # What the page says of them: an engine's own kernels are nearer to its rows than the one table, in each group.
    shares = [one.own.median_ape / one.one_table.median_ape for one in found]
    assert max(shares) < 0.85
