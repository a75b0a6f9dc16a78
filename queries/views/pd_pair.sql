-- summary: every prefill probe with every decode probe of the same model, workload and precision: requests/s by the default rules
-- column: prefill_probe | none | the prefill side
-- column: decode_probe | none | the decode side
-- column: prefill_device | none | device of the prefill side
-- column: decode_device | none | device of the decode side
-- column: prefill_plan | none | split of the prefill instance
-- column: decode_plan | none | split of the decode instance
-- column: prefill_num_devices | devices | devices of one prefill instance
-- column: decode_num_devices | devices | devices of one decode instance
-- column: ttft_ms | ms | of the prefill side
-- column: tpot_exclusive_ms | ms | of the decode side
-- column: prefill_requests_per_s | requests/s | prefill_capacity_requests_per_s of the prefill side
-- column: decode_requests_per_s | requests/s | decode_minus_one_requests_per_s of the decode side
-- column: balanced_requests_per_s | requests/s | the smaller of the two
-- column: pd_ratio | ratio | decode_requests_per_s / prefill_requests_per_s: prefill instances for each decode instance
-- column: requests_per_s_per_device_bound | requests/s | 1 / (prefill devices / prefill_requests_per_s + decode devices / decode_requests_per_s)
-- column: prefill_qps | requests/s | old name of prefill_requests_per_s, gone with the next release
-- column: decode_qps | requests/s | old name of decode_requests_per_s, gone with the next release
-- column: balanced_qps | requests/s | old name of balanced_requests_per_s, gone with the next release
-- column: qps_per_device_bound | requests/s | old name of requests_per_s_per_device_bound, gone with the next release
CREATE OR REPLACE MACRO pd_pair(ttft_limit_ms, tpot_limit_ms) AS TABLE
SELECT
    p.probe AS prefill_probe, d.probe AS decode_probe, p.model, p.workload, p.linear_quantization, p.convention,
    p.device AS prefill_device, d.device AS decode_device, p.plan AS prefill_plan, d.plan AS decode_plan,
    p.num_devices AS prefill_num_devices, d.num_devices AS decode_num_devices, p.ttft_ms, d.tpot_exclusive_ms,
    p.prefill_capacity_requests_per_s AS prefill_requests_per_s, d.decode_minus_one_requests_per_s AS decode_requests_per_s,
    least(p.prefill_capacity_requests_per_s, d.decode_minus_one_requests_per_s) AS balanced_requests_per_s,
    d.decode_minus_one_requests_per_s / p.prefill_capacity_requests_per_s AS pd_ratio,
    1 / (p.num_devices / p.prefill_capacity_requests_per_s + d.num_devices / d.decode_minus_one_requests_per_s)
        AS requests_per_s_per_device_bound,
    prefill_requests_per_s AS prefill_qps, decode_requests_per_s AS decode_qps, balanced_requests_per_s AS balanced_qps,
    requests_per_s_per_device_bound AS qps_per_device_bound
FROM feasible AS p
JOIN feasible AS d
    ON p.model = d.model AND p.workload_key = d.workload_key AND p.linear_quantization = d.linear_quantization
    AND p.experts_quantization = d.experts_quantization AND p.attention_quantization = d.attention_quantization
    AND p.mixers_quantization IS NOT DISTINCT FROM d.mixers_quantization
    AND p.head_quantization IS NOT DISTINCT FROM d.head_quantization
    AND p.drafts_quantization IS NOT DISTINCT FROM d.drafts_quantization
    AND p.convention = d.convention AND p.phase = 'prefill' AND d.phase = 'decode'
WHERE (ttft_limit_ms IS NULL OR p.ttft_ms <= ttft_limit_ms)
    AND (tpot_limit_ms IS NULL OR d.tpot_exclusive_ms <= tpot_limit_ms);
