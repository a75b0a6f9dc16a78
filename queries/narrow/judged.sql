-- `judged_rows` of scoped.sql over the table of narrow.sql: the same rows, and of their columns those that the reports read
-- whose header says `narrow`.
CREATE OR REPLACE TEMP VIEW judged_rows AS
SELECT
    narrow.scenario_id, narrow.question_group, scenario, workload_key, narrow.phase, device, device_key, plan, tp, pp, dp, ep, moe_tp,
    moe_dp, num_devices, shortest_length, prompts_per_user, input_length, input_length_mean, prefix_cache_hit_rate,
    host_hit_rate, ssd_hit_rate, remote_hit_rate, output_length, device_memory_bytes, serving_model,
    concat(left(scenario, 8), ':', batch_size) AS probe, batch_size, concurrency,
    memory_unreserved_bytes - (getvariable('reserved_gib') * 1073741824)::BIGINT AS memory_free_bytes, tpot_exclusive_ms,
    ttft_ms AS pair_ttft_bound_ms, tpot_exclusive_ms AS tpot_exclusive_ms_bound,
    each_metric, each_bound, qps, rate, latency_ms, makespan_ms, prompt_service_ms,
    decode_step_ms, tokens_per_step, kv_bytes_per_request, by_engine(serving_model, formula_version) AS by_engine
FROM narrow
JOIN lots ON lots.lot = narrow.lot;
