-- What limits and ranks read of the probes of a phase, by one choice of rules: memory without any reserve; the rows of a
-- scenario from the highest rate down, ties as reports break them.
CREATE OR REPLACE TEMP MACRO narrow_rows(wanted_phase) AS TABLE
SELECT
    lot, stored.phase::ENUM ('prefill', 'decode', 'aggregated') AS phase_kind, batch_size, concurrency,
    memory_free_bytes + (getvariable('reserved_gib') * 1073741824)::BIGINT AS memory_unreserved_bytes, each_metric,
    tpot_exclusive_ms, qps, rate, latency_ms, makespan_ms, prompt_service_ms,
    decode_step_ms, tokens_per_step, kv_bytes_per_request, kept_row
FROM judged(wanted_phase) AS stored
JOIN lots ON lots.scenario_id = stored.scenario_id AND lots.question_group = stored.question_group
ORDER BY lot, rate DESC, latency_ms, batch_size;
