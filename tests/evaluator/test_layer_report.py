"""Measured layers beside the sum of their kernels: on rows of the test's own, and on the measured ones."""

import duckdb
import numpy as np
import pytest
from shared_data import shared_data

from evaluator.calibration import accuracy_of
from tools.layer_report import TABLES, Layers, layer_errors

ROWS = """
    SELECT 'deepseek-ai/DeepSeek-V3' AS model, 'bfloat16' AS gemm_type, 'bfloat16' AS kv_cache_dtype, 16 AS num_heads,
        1 AS isl, 4095 AS step, batch_size, 0.2 AS latency
    FROM (VALUES (1), (64)) AS batches (batch_size)
    UNION ALL SELECT 'deepseek-ai/DeepSeek-V3', 'bfloat16', 'bfloat16', 1, 1, 4095, 8, 0.2
    UNION ALL SELECT 'deepseek-ai/DeepSeek-V3', 'mxfp8', 'bfloat16', 16, 1, 4095, 8, 0.2
    UNION ALL SELECT 'deepseek-ai/DeepSeek-V3', 'bfloat16', 'bfloat16', 16, 1, 4095, 8, 0.0
"""


def test_rows_that_no_plan_of_eight_devices_has_or_that_took_no_time_are_left_out(tmp_path):
    (tmp_path / "h200_sxm").mkdir()
    file = tmp_path / "h200_sxm" / "mla_generation_module_perf--vllm--0.24.0.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({ROWS}) TO '{file}' (FORMAT parquet)")
    layers = Layers(said="latent", table="mla_{}_module", engine="vllm")
    one, many = layer_errors(tmp_path, "h200_sxm", layers, "generation")
    assert -100 < one < many  # the same time measured, the more predicted
    assert layer_errors(tmp_path, "h200_sxm", layers, "context").size == 0


@pytest.mark.survival
@pytest.mark.parametrize(
    ("table", "engine", "phase", "most"),
    [
        ("dsv4_csa_{}_module", "vllm", "generation", 20),
        ("dsv4_hca_{}_module", "vllm", "generation", 12),
        ("dsv4_hca_{}_module", "sglang", "generation", 6),
        ("dsv4_hca_{}_module", "sglang", "context", 13),
        ("msa_{}_module", "vllm", "generation", 13),
    ],
)
def test_the_sum_of_a_layers_kernels_is_near_the_measured_layer(table, engine, phase, most):
    (layers,) = (one for one in TABLES if (one.table, one.engine) == (table, engine))
    errors = layer_errors(shared_data("kernels_by_engine"), "h200_sxm", layers, phase)
    assert errors.size > 1000
    assert accuracy_of(1 + errors / 100, np.ones_like(errors)).median_ape < most
