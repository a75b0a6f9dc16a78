-- What is another thing where measured settings are among the rows.
-- A server that ran had memory enough: what is not known counts as none left.
CREATE OR REPLACE TEMP MACRO memory_left(scenario_id, predicted_bytes) AS
    CASE WHEN scenario_id < 0 THEN 0 ELSE predicted_bytes END;

-- Measured settings have a frontier of their own, beside the predicted.
CREATE OR REPLACE TEMP MACRO frontier_of_point(device, point) AS
    concat(frontier_of(device), CASE WHEN NOT contains(point, ':') THEN ', measured' END);

-- Pairs of an engine, and beside them deployments with prefill and decode apart that were measured as one: rows of phase `pd`.
-- What is predicted of pairs has the names of macros with `predicted_` before them (queries/narrow/inlining.py).
CREATE OR REPLACE TEMP MACRO engine_pairs(allocation_rule, budget, same_device, kept, wanted_objective) AS TABLE
SELECT * FROM predicted_engine_pairs(allocation_rule, budget, same_device, kept, wanted_objective);

-- Measured pairs that keep the limits, with the counts and sizes of their sides.
CREATE OR REPLACE TEMP MACRO measured_pairs() AS TABLE
SELECT
    judged.*, measured_row.prefill_instances, measured_row.decode_instances,
    coalesce('tp' || measured_row.prefill_tp, 'not stated') AS prefill_plan
FROM admitted('pd') AS judged
JOIN measured_row ON measured_row.probe = judged.probe AND measured_row.scenario_id = judged.scenario_id;

CREATE OR REPLACE TEMP MACRO engine_pairs(allocation_rule, budget, same_device, kept, wanted_objective) AS TABLE
SELECT * FROM predicted_engine_pairs(allocation_rule, budget, same_device, kept, wanted_objective)
UNION ALL BY NAME
SELECT
    question_group, scenario_id AS prefill_rank, scenario_id AS decode_rank, scenario AS prefill_scenario,
    scenario AS decode_scenario, probe AS prefill_probe, probe AS decode_probe, device AS prefill_device,
    device AS decode_device, prefill_plan, plan AS decode_plan, prefill_instances, decode_instances,
    batch_size AS decode_batch_size, num_devices AS devices_used, qps AS system_requests_per_s, qps / num_devices AS requests_per_s_per_device,
    output_length AS answer_tokens, ttft_ms, tpot_ms, e2e_ms
FROM measured_pairs();

CREATE OR REPLACE TEMP MACRO engine_frontier() AS TABLE
SELECT
    question_group, output_tokens_per_s_per_device, ttft_ms, tpot_exclusive_ms, prefill_instances, decode_instances, pd_ratio,
    decode_concurrency, decode_probe, decode_device, decode_plan, prefill_probe, prefill_device, prefill_plan
FROM predicted_engine_frontier()
UNION ALL
SELECT
    question_group, rate / num_devices, ttft_ms, tpot_exclusive_ms, prefill_instances, decode_instances,
    prefill_instances / decode_instances, concurrency, probe, device, plan, probe, device, prefill_plan
FROM measured_pairs()
WHERE tpot_exclusive_ms > 0 AND rate > 0;

CREATE OR REPLACE TEMP MACRO engine_enough(target_qps, target_users) AS TABLE
SELECT question_group, devices FROM predicted_engine_enough(target_qps, target_users)
UNION ALL
SELECT
    question_group, min(greatest(least_count(qps, target_qps), ceil(target_users / concurrency)::BIGINT) * num_devices)
FROM measured_pairs()
GROUP BY question_group;

-- As many copies of each measured pair as the devices hold, each as good as the one that was measured.
CREATE OR REPLACE TEMP MACRO engine_deployments(target_qps, target_users, looked_at) AS TABLE
SELECT * FROM predicted_engine_deployments(target_qps, target_users, looked_at)
UNION ALL BY NAME
SELECT
    pairs.question_group, copies * num_devices AS devices, copies * qps AS system_requests_per_s,
    copies * prefill_instances AS prefill_instances, copies * decode_instances AS decode_instances, ttft_ms, tpot_ms,
    e2e_ms, output_length AS answer_tokens, input_length_mean AS prompt_tokens, NULL::DOUBLE AS prefix_cache_hit_rate,
    memory_free_bytes, NULL::DOUBLE AS prefill_wait_ms, NULL::DOUBLE AS kv_transfer_ms, NULL::DOUBLE AS slot_wait_ms,
    NULL::DOUBLE AS prefill_utilisation, NULL::DOUBLE AS decode_utilisation, probe AS prefill_probe,
    device AS prefill_device, prefill_plan, probe AS decode_probe, device AS decode_device, plan AS decode_plan,
    copies * concurrency AS users, scenario AS prefill_scenario, scenario AS decode_scenario
FROM measured_pairs() AS pairs
JOIN (SELECT DISTINCT * FROM (SELECT unnest(looked_at, recursive := TRUE))) AS stops
    ON stops.question_group = pairs.question_group
CROSS JOIN LATERAL (SELECT stops.devices // num_devices AS copies)
WHERE copies > 0;
