-- name: goodput-compare
-- summary: the best deployment of plans that do both against the best split one, by goodput, on the same devices and limits
-- needs: aggregated, prefill, decode
-- allocates: instances
-- reads: loads | best_of_sizes(getvariable('marginal'), getvariable('attainment'))
-- nearest: none
-- requires: num_devices | report goodput-compare needs a device budget | add `num_devices=N`
-- verdict: goodputs
-- layout: turned
-- column: question_group | none | group of model, workload, precision and convention
-- column: mode | none | aggregated or pd
-- column: system_goodput | requests/s | of the whole deployment
-- column: gain | ratio | system_goodput over the aggregated deployment's; NULL where only one of them carries any
-- column: devices_used | devices | by the instances
-- column: devices_idle | devices | of the budget
-- column: goodput_per_device | requests/s | system_goodput / devices_used
-- column: goodput_slower | requests/s | of the whole deployment, if every step takes longer by the expected error; NULL where nobody measured near
-- column: goodput_faster | requests/s | if every step is shorter by as much
-- column: attainment | ratio | share of requests that is wanted
-- column: instances | instances | aggregated ones
-- column: device | none | of the aggregated plan
-- column: plan | none | its split
-- column: prefill_instances | instances | NULL unless pd
-- column: prefill_device | none | NULL unless pd
-- column: prefill_plan | none | NULL unless pd
-- column: decode_instances | instances | NULL unless pd
-- column: decode_device | none | NULL unless pd
-- column: decode_plan | none | NULL unless pd
-- column: kv_transfer_ms | ms | pd: part of each TTFT; NULL of aggregated ones
-- column: kv_transfer_gb_per_s | GB/s | between instances, as it was given; NULL: the outermost link of the devices that hold a prompt
-- column: arrivals | none | process, requests and seed
-- column: scenario | none | content key of the aggregated plan
-- column: prefill_scenario | none | NULL unless pd
-- column: decode_scenario | none | NULL unless pd
WITH carried AS (
    SELECT
        ladder, max(goodput) FILTER (WHERE reading = 'predicted') AS goodput,
        max(goodput) FILTER (WHERE reading = 'slower') AS goodput_slower,
        max(goodput) FILTER (WHERE reading = 'faster') AS goodput_faster
    FROM goodputs('aggregated', getvariable('marginal'), getvariable('attainment'))
    GROUP BY ladder
),
together AS (
    SELECT
        question_group, ladder, floor(getvariable('num_devices') / num_devices)::INTEGER AS instances,
        instances * num_devices AS devices_used, instances * goodput AS system_goodput,
        instances * goodput_slower AS goodput_slower, instances * goodput_faster AS goodput_faster
    FROM carried
    JOIN ladder USING (ladder)
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
