-- What engines make of a scope where none serves anything in it: the columns that are read of them.
CREATE OR REPLACE TEMP MACRO engine_pairs(allocation_rule, budget, same_device, kept, wanted_objective) AS TABLE
SELECT unnest(NULL::STRUCT(
    question_group INTEGER, workload_key VARCHAR, prefill_rank BIGINT, decode_rank BIGINT, prefill_requests_per_s DOUBLE, decode_requests_per_s DOUBLE,
    balanced_requests_per_s DOUBLE, pd_ratio DOUBLE, requests_per_s_per_device_bound DOUBLE, prefill_instances BIGINT, decode_instances BIGINT,
    devices_used BIGINT, system_requests_per_s DOUBLE, requests_per_s_per_device DOUBLE, transfer_ms DOUBLE, ttft_ms DOUBLE, alone_ms DOUBLE,
    wait_ms DOUBLE, burst_ms DOUBLE, handover_ms DOUBLE, slot_wait_ms DOUBLE, e2e_ms DOUBLE, users DOUBLE,
    prefill_utilisation DOUBLE, decode_utilisation DOUBLE, tpot_ms DOUBLE, answer_tokens DOUBLE, prefill_scenario_id BIGINT,
    prefill_probe VARCHAR, prefill_device VARCHAR, prefill_plan VARCHAR, prefill_size BIGINT,
    prefill_memory_free_bytes BIGINT, decode_scenario_id BIGINT, decode_scenario VARCHAR, decode_probe VARCHAR,
    decode_device VARCHAR, decode_plan VARCHAR, decode_size BIGINT, decode_batch_size INTEGER, decode_memory_free_bytes BIGINT
))
WHERE FALSE;
CREATE OR REPLACE TEMP MACRO engine_frontier() AS TABLE
SELECT unnest(NULL::STRUCT(
    question_group INTEGER, output_tokens_per_s_per_device DOUBLE, ttft_ms DOUBLE, tpot_exclusive_ms DOUBLE, prefill_instances BIGINT,
    decode_instances BIGINT, pd_ratio DOUBLE, decode_concurrency BIGINT, decode_probe VARCHAR, decode_device VARCHAR,
    decode_plan VARCHAR, prefill_probe VARCHAR, prefill_device VARCHAR, prefill_plan VARCHAR
))
WHERE FALSE;
CREATE OR REPLACE TEMP MACRO engine_enough(target_qps, target_users) AS TABLE
SELECT unnest(NULL::STRUCT(question_group INTEGER, devices BIGINT)) WHERE FALSE;
CREATE OR REPLACE TEMP MACRO engine_deployments(target_qps, target_users, looked_at) AS TABLE
SELECT unnest(NULL::STRUCT(question_group INTEGER, e2e_ms DOUBLE, prefill_wait_ms DOUBLE, slot_wait_ms DOUBLE, users DOUBLE)) WHERE FALSE;
