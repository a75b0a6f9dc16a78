-- What limits and ranks read of the rows that are looked at, by one choice of rules: memory without any reserve.
SELECT
    lot, judged.scenario_id, judged.question_group, judged.phase, batch_size, concurrency,
    memory_free_bytes + (getvariable('reserved_gib') * 1073741824)::BIGINT AS memory_unreserved_bytes, each_metric,
    tpot_exclusive_ms, qps, rate, latency_ms, makespan_ms, prompt_service_ms,
    decode_step_ms, tokens_per_step, kv_bytes_per_request
FROM judged_rows AS judged
JOIN lots ON lots.scenario_id = judged.scenario_id AND lots.question_group = judged.question_group
ORDER BY lot, batch_size;
