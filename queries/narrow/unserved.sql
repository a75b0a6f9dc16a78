-- Pairs and a frontier of an engine where none serves anything in the scope: the columns that are read of them.
CREATE OR REPLACE TEMP VIEW served_pairs AS
SELECT
    NULL::INTEGER AS question_group, NULL::VARCHAR AS prefill_device, NULL::BIGINT AS prefill_rank, NULL::BIGINT AS
    decode_rank, NULL::DOUBLE AS prefill_qps, NULL::DOUBLE AS decode_qps, NULL::DOUBLE AS balanced_qps, NULL::DOUBLE
    AS pd_ratio, NULL::DOUBLE AS qps_per_device_bound, NULL::BIGINT AS prefill_instances, NULL::BIGINT AS
    decode_instances, NULL::BIGINT AS devices_used, NULL::DOUBLE AS system_qps, NULL::DOUBLE AS qps_per_device,
    NULL::DOUBLE AS transfer_ms, NULL::DOUBLE AS ttft_ms, NULL::DOUBLE AS alone_ms, NULL::DOUBLE AS wait_ms,
    NULL::DOUBLE AS burst_ms, NULL::DOUBLE AS handover_ms, NULL::DOUBLE AS slot_wait_ms, NULL::DOUBLE AS e2e_ms,
    NULL::DOUBLE AS users, NULL::DOUBLE AS prefill_utilisation, NULL::DOUBLE AS decode_utilisation, NULL::DOUBLE AS
    tpot_ms, NULL::BIGINT AS prefill_scenario_id, NULL::BIGINT AS prefill_memory_free_bytes, NULL::BIGINT AS
    decode_scenario_id, NULL::INTEGER AS decode_batch_size, NULL::BIGINT AS decode_memory_free_bytes
WHERE FALSE;
CREATE OR REPLACE TEMP VIEW served_frontier AS
SELECT
    NULL::INTEGER AS question_group, NULL::DOUBLE AS tokens_per_s_per_device, NULL::DOUBLE AS ttft_ms, NULL::DOUBLE AS
    tpot_exclusive_ms, NULL::BIGINT AS prefill_instances, NULL::BIGINT AS decode_instances, NULL::DOUBLE AS pd_ratio,
    NULL::BIGINT AS decode_concurrency, NULL::VARCHAR AS decode_probe, NULL::VARCHAR AS decode_device, NULL::VARCHAR
    AS decode_plan, NULL::VARCHAR AS prefill_probe, NULL::VARCHAR AS prefill_device, NULL::VARCHAR AS prefill_plan
WHERE FALSE;
