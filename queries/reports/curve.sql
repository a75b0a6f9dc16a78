-- name: curve
-- summary: throughput against concurrency and latency for every plan: no latency limits, without rows that do not fit
-- modes: aggregated, prefill, decode
-- layout: long
-- ignores: ttft_limits, tpot_limits, e2e_limits, min_tokens_per_s_per_user
-- parameter: wanted_phase | VARCHAR | none | never NULL: prefill, decode or aggregated
-- parameter: reserved_gib | DOUBLE | GiB | never NULL
-- parameter: kv_charge | VARCHAR | none | never NULL: full or mean
-- parameter: tpot_rule | VARCHAR | none | each serving model's own: exclusive under engines, else inclusive
-- parameter: prefill_qps_rule | VARCHAR | none | never NULL: capacity or ttft
-- parameter: decode_qps_rule | VARCHAR | none | never NULL: minus-one or full
-- parameter: throughput_rule | VARCHAR | none | never NULL: once or twice
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
FROM judged(
    $wanted_phase, $reserved_gib, $kv_charge, $tpot_rule, $prefill_qps_rule, $decode_qps_rule, $throughput_rule
)
WHERE memory_free_bytes >= 0
ORDER BY question_group, device, plan, batch_size, probe;
