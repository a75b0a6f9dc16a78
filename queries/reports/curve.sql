-- summary: throughput against concurrency and latency for every plan: no latency limits, without rows that do not fit
-- modes: aggregated, prefill, decode
-- layout: long
-- ignores: each_limit_keyword
-- reads: narrow, measured
-- column: question_group, device, plan, batch_size, concurrency, output_tokens_per_s, ttft_ms, tpot_ms, tokens_per_s_per_user, probe
SELECT question_group, device, plan, batch_size, concurrency, rate AS output_tokens_per_s, ttft_ms, tpot_ms, tokens_per_s_per_user, probe
FROM judged(getvariable('wanted_phase'))
WHERE memory_free_bytes >= 0
ORDER BY question_group, device, plan, batch_size, probe;
