-- summary: the best aggregated deployment against the best split one on the same devices and limits, with the gain
-- needs: aggregated, prefill, decode
-- allocates: instances
-- requires: num_devices | report compare needs a device budget | add `num_devices=N`
-- reads: winners, measured
-- verdict: deployments
-- layout: turned
-- column: question_group, mode, system_requests_per_s, devices_used, devices_idle, requests_per_s_per_device, output_tokens_per_s, ttft_ms
-- column: prefill_wait_ms, kv_transfer_ms, slot_wait_ms, e2e_ms, prefill_utilisation, decode_utilisation, tpot_ms, instances, prefill_instances
-- column: decode_instances, probe, device, plan, prefill_probe, prefill_device, prefill_plan, decode_probe, decode_device, decode_plan
-- column: gain | ratio | system_requests_per_s over the aggregated deployment's; NULL where only one of them fits
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
-- column: question_group, mode, devices_used, devices_idle, goodput_slower, goodput_faster, attainment, instances, device, plan, prefill_instances
-- column: prefill_device, prefill_plan, decode_instances, decode_device, decode_plan, kv_transfer_gb_per_s, arrivals, scenario, prefill_scenario
-- column: decode_scenario
-- column: system_goodput | requests/s | of the whole deployment
-- column: gain | ratio | system_goodput over the aggregated deployment's; NULL where only one of them carries any
-- column: goodput_per_device | requests/s | system_goodput / devices_used
-- column: kv_transfer_ms | ms | pd: part of each TTFT; NULL of aggregated ones
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
        question_group, 'aggregated' AS mode, system_goodput, devices_used, goodput_slower, goodput_faster, instances, ladder
    FROM together
    UNION ALL BY NAME
    SELECT
        question_group, 'pd' AS mode, goodput AS system_goodput, devices_used, goodput_slower, goodput_faster,
        decode_ladder AS ladder, prefill_instances, prefill_ladder, decode_instances
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
