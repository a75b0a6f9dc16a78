-- summary: the best aggregated deployment against the best split one on the same devices and limits, with the gain
-- needs: aggregated, prefill, decode
-- allocates: instances
-- requires: num_devices | report compare needs a device budget | add `num_devices=N`
-- reads: winners, measured
-- verdict: deployments
-- layout: turned
-- column: question_group, mode
-- column: system_requests_per_s | requests/s | carried by the whole deployment
-- column: gain | ratio | system_requests_per_s over the aggregated deployment's; NULL where only one of them fits
-- column: devices_used, devices_idle, requests_per_s_per_device, output_tokens_per_s
-- column: ttft_ms | ms | time to first token; of pd under an engine with every wait and the KV transfer, under formulas without
-- column: prefill_wait_ms | ms | pd under an engine: wait for a prefill server, part of ttft_ms
-- column: kv_transfer_ms | ms | pd: time to move one prompt's KV cache; NULL under formulas without a bandwidth
-- column: slot_wait_ms | ms | pd under an engine: wait for the decode step to end, part of ttft_ms
-- column: e2e_ms
-- column: prefill_utilisation
-- column: decode_utilisation
-- column: tpot_ms
-- column: instances | instances | aggregated ones
-- column: prefill_instances
-- column: decode_instances
-- column: probe | none | the aggregated configuration
-- column: device, plan, prefill_probe, prefill_device, prefill_plan, decode_probe, decode_device, decode_plan
WITH winners AS (
    SELECT *
    FROM deployments(NULL, NULL, FALSE, NULL::BIGINT[], FALSE)
    QUALIFY row_number() OVER (
        PARTITION BY question_group, mode
        ORDER BY system_requests_per_s DESC, devices, prefill_instances, first_key, second_key
    ) = 1
)
SELECT
    question_group, mode, system_requests_per_s,
    system_requests_per_s / first_value(system_requests_per_s) OVER (PARTITION BY question_group ORDER BY mode)
        * CASE WHEN count(*) OVER (PARTITION BY question_group) = 2 THEN 1 END AS gain,
    devices AS devices_used, getvariable('num_devices') - devices AS devices_idle,
    system_requests_per_s / devices AS requests_per_s_per_device, system_requests_per_s * answer_tokens AS output_tokens_per_s, ttft_ms, prefill_wait_ms, kv_transfer_ms, slot_wait_ms, tpot_ms,
    e2e_ms, prefill_utilisation, decode_utilisation, instances, prefill_instances, decode_instances, probe, device, plan,
    prefill_probe, prefill_device, prefill_plan, decode_probe, decode_device, decode_plan
FROM winners
ORDER BY question_group, mode;

-- when: by | compare by goodput
-- summary: the best deployment of plans that do both against the best split one, by goodput, on the same devices and limits
-- needs: aggregated, prefill, decode
-- allocates: instances
-- reads: loads | best_of_sizes(getvariable('marginal'), getvariable('attainment'))
-- requires: num_devices | report goodput-compare needs a device budget | add `num_devices=N`
-- verdict: goodputs
-- layout: turned
-- column: question_group, mode
-- column: system_goodput | requests/s | of the whole deployment
-- column: gain | ratio | system_goodput over the aggregated deployment's; NULL where only one of them carries any
-- column: devices_used, devices_idle
-- column: goodput_per_device | requests/s | system_goodput / devices_used
-- column: goodput_slower
-- column: goodput_faster
-- column: attainment
-- column: instances | instances | aggregated ones
-- column: device | none | of the aggregated plan
-- column: plan, prefill_instances, prefill_device, prefill_plan, decode_instances, decode_device, decode_plan
-- column: kv_transfer_ms | ms | pd: part of each TTFT; NULL of aggregated ones
-- column: kv_transfer_gb_per_s, arrivals
-- column: scenario | none | content key of the aggregated plan
-- column: prefill_scenario, decode_scenario
WITH together AS (
    SELECT
        question_group, ladder, floor(getvariable('num_devices') / num_devices)::INTEGER AS instances,
        instances * num_devices AS devices_used, instances * goodput AS system_goodput,
        instances * goodput_slower AS goodput_slower, instances * goodput_faster AS goodput_faster
    FROM carried('aggregated')
    WHERE goodput > 0 AND num_devices <= getvariable('num_devices')
    QUALIFY row_number() OVER (PARTITION BY question_group ORDER BY system_goodput DESC, devices_used, ladder) = 1
),
apart AS (
    SELECT *
    FROM goodput_pairs(getvariable('marginal'), getvariable('attainment'), 1)
    WHERE goodput > 0
),
winners AS (
    SELECT
        question_group, 'aggregated' AS mode, system_goodput, devices_used, goodput_slower, goodput_faster, instances, ladder,
        NULL AS prefill_instances, NULL AS prefill_ladder, NULL AS decode_instances
    FROM together
    UNION ALL
    SELECT
        question_group, 'pd', goodput, devices_used, goodput_slower, goodput_faster, NULL, decode_ladder, prefill_instances,
        prefill_ladder, decode_instances
    FROM apart
)
SELECT
    winners.question_group, mode, system_goodput,
    system_goodput / first_value(system_goodput) OVER (PARTITION BY winners.question_group ORDER BY mode)
        * CASE WHEN count(*) OVER (PARTITION BY winners.question_group) = 2 THEN 1 END AS gain,
    devices_used, getvariable('num_devices') - devices_used AS devices_idle,
    system_goodput / devices_used AS goodput_per_device, goodput_slower, goodput_faster,
    getvariable('attainment') AS attainment, instances, CASE WHEN mode = 'aggregated' THEN one.device END AS device,
    CASE WHEN mode = 'aggregated' THEN one.plan END AS plan, prefill_instances, p.device AS prefill_device,
    p.plan AS prefill_plan, decode_instances, CASE WHEN mode = 'pd' THEN one.device END AS decode_device,
    CASE WHEN mode = 'pd' THEN one.plan END AS decode_plan, moved.beside_ms AS kv_transfer_ms,
    getvariable('kv_transfer_bytes_per_s') / 1e9 AS kv_transfer_gb_per_s, one.arrivals,
    CASE WHEN mode = 'aggregated' THEN one.scenario END AS scenario, p.scenario AS prefill_scenario,
    CASE WHEN mode = 'pd' THEN one.scenario END AS decode_scenario
FROM winners
JOIN ladder AS one ON one.ladder = winners.ladder
LEFT JOIN ladder AS p ON p.ladder = winners.prefill_ladder
LEFT JOIN (SELECT ladder, any_value(beside_ms) AS beside_ms FROM played GROUP BY ladder) AS moved
    ON moved.ladder = winners.prefill_ladder
ORDER BY winners.question_group, mode;
