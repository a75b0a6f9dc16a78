-- What formulas make of a scope where engines serve everything: the columns that are read of them.
CREATE OR REPLACE TEMP MACRO formula_enough(target_qps) AS TABLE
SELECT unnest(NULL::STRUCT(question_group INTEGER, devices BIGINT)) WHERE FALSE;
CREATE OR REPLACE TEMP MACRO formula_deployments(looked_at) AS TABLE
SELECT unnest(NULL::STRUCT(
    question_group INTEGER, devices BIGINT, system_requests_per_s DOUBLE, prefill_instances BIGINT, decode_instances BIGINT, ttft_ms DOUBLE,
    tpot_ms DOUBLE, answer_tokens DOUBLE, prompt_tokens DOUBLE, prefix_cache_hit_rate DOUBLE, memory_free_bytes BIGINT,
    kv_transfer_ms DOUBLE, prefill_utilisation DOUBLE, decode_utilisation DOUBLE, prefill_probe VARCHAR, prefill_device VARCHAR,
    prefill_plan VARCHAR, decode_probe VARCHAR, decode_device VARCHAR, decode_plan VARCHAR, prefill_scenario VARCHAR,
    decode_scenario VARCHAR
))
WHERE FALSE;
