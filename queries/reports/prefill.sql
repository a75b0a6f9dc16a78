-- name: prefill
-- summary: the best batch size of each prefill plan under the limits, ranked by prompt tokens/s
-- parameter: reserved_gib | DOUBLE | GiB | never NULL
-- parameter: kv_charge | VARCHAR | none | never NULL: full or mean
-- parameter: tpot_rule | VARCHAR | none | never NULL: inclusive or exclusive
-- parameter: prefill_qps_rule | VARCHAR | none | never NULL: capacity or ttft
-- parameter: decode_qps_rule | VARCHAR | none | never NULL: minus-one or full
-- parameter: throughput_rule | VARCHAR | none | never NULL: once or twice
-- parameter: ttft_limit_ms | DOUBLE | ms | no limit
-- parameter: tpot_limit_ms | DOUBLE | ms | no limit
-- parameter: e2e_limit_ms | DOUBLE | ms | no limit
-- parameter: min_user_rate | DOUBLE | tokens/s | no limit
-- parameter: objective | VARCHAR | none | never NULL: rate, qps, rate_per_device, ttft, tpot, e2e, batch_size, concurrency, tokens_per_s_per_user
-- parameter: top | BIGINT | rows | never NULL: rows a group
-- column: question_group | none | results are ranked within a group of model, workload, precision and convention
-- column: rank | none | 1 is best; ties go to lower latency, smaller batch, then content key
-- column: rate | tokens/s | what the phase is ranked by: generated tokens/s, prompt tokens/s for prefill
-- column: qps | requests/s | requests a second by the named rule
-- column: tpot_ms | ms | time per output token by the named definition
-- column: memory_free_bytes | bytes | memory left on the fullest device after the reserve
WITH winners AS (
    SELECT *
    FROM picked(
        'prefill', $reserved_gib, $kv_charge, $tpot_rule, $prefill_qps_rule, $decode_qps_rule, $throughput_rule,
        $ttft_limit_ms, $tpot_limit_ms, $e2e_limit_ms, $min_user_rate, $objective
    )
),
ranked AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY question_group ORDER BY objective DESC, latency_ms, batch_size, scenario
        ) AS rank
    FROM winners
)
SELECT
    question_group, rank, rate, qps, tpot_ms, memory_free_bytes,
    probe, subject, scenario, first_sweep, stored_at, formula_version, family, model, architecture, device,
    device_key, vendor, tp, pp, dp, ep, moe_tp, moe_dp, num_devices, plan, linear_quantization,
    experts_quantization, attention_quantization, mxfp4_group_size, compile, convention, serving_model,
    serving_cost_ms, workload, workload_key, input_length, input_length_mean, output_length,
    prefix_cache_hit_rate, max_batched_tokens, mtp_tokens, phase, batch_size, concurrency, ttft_ms,
    prefill_step_ms, prefill_chunks, makespan_ms, decode_step_ms, tokens_per_step, tpot_inclusive_ms,
    tpot_exclusive_ms, e2e_ms, prefill_capacity_qps, prefill_ttft_qps, decode_minus_one_qps, decode_full_qps,
    requests_per_s, input_tokens_per_s, output_tokens_per_s, output_tokens_per_s_twice,
    output_tokens_per_s_per_device, tokens_per_s_per_user, device_memory_bytes, weight_bytes, kv_cache_bytes,
    kv_cache_mean_bytes, activation_bytes, kv_bytes_per_request, prefill_step_matrix_ms, prefill_step_vector_ms,
    prefill_step_memory_ms, prefill_step_communication_ms, prefill_step_overhead_ms, decode_step_matrix_ms,
    decode_step_vector_ms, decode_step_memory_ms, decode_step_communication_ms, decode_step_overhead_ms,
    realised_input_length_mean, decode_step_p50_ms, decode_step_p90_ms, decode_step_p99_ms
FROM ranked
WHERE rank <= $top
ORDER BY question_group, rank;
