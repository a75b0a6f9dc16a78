-- name: curve
-- summary: throughput against concurrency and latency for every plan: no latency limits, without rows that do not fit
-- modes: aggregated, prefill, decode
-- layout: long
-- ignores: each_limit_keyword
-- narrow: judged
-- column: question_group | none | group of model, workload, precision and convention
-- column: device | none | device by name
-- column: plan | none | parallel split
-- column: batch_size | requests | per replica and stage
-- column: concurrency | requests | in flight in one instance
-- column: rate | tokens/s | generated tokens/s; prompt tokens/s for prefill
-- column: ttft_ms | ms | NULL for decode
-- column: tpot_ms | ms | by the named definition; NULL for prefill
-- column: tokens_per_s_per_user | tokens/s | of one user; NULL for prefill
-- column: probe | none | reference of the row
SELECT question_group, device, plan, batch_size, concurrency, rate, ttft_ms, tpot_ms, tokens_per_s_per_user, probe
FROM judged(getvariable('wanted_phase'))
WHERE memory_free_bytes >= 0
ORDER BY question_group, device, plan, batch_size, probe;
