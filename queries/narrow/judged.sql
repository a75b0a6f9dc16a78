-- `judged_rows` of scoped.sql over the table of narrow.sql: the same rows, and of their columns those that reports read
-- whose header says `narrow`. Each more takes DuckDB 0.1 ms to plan.
CREATE OR REPLACE TEMP VIEW judged_rows AS
SELECT
    scenario, workload_key, device, device_key, plan, tp, pp, dp, ep, moe_tp, moe_dp, num_devices, shortest_length,
    prompts_per_user, input_length, input_length_mean, prefix_cache_hit_rate, host_hit_rate, ssd_hit_rate, remote_hit_rate,
    output_length, device_memory_bytes, serving_model, narrow.* EXCLUDE (lot, memory_unreserved_bytes), {reference} AS probe,
    memory_unreserved_bytes - (getvariable('reserved_gib') * 1073741824)::BIGINT AS memory_free_bytes, each_bound,
    by_engine(serving_model, formula_version) AS by_engine
FROM narrow
JOIN lots ON lots.lot = narrow.lot
with_factors_of_lots;
