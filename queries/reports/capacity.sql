-- summary: the most requests/s each number of devices carries, aggregated or split, and the fewest that carry a target
-- needs: prefill, decode
-- needs: aggregated
-- allocates: instances
-- shows: devices, system_qps, qps_per_device, carries_target, mode, instances, plan, probe, prefill_instances, prefill_plan, decode_instances, decode_plan, prefill_probe, decode_probe
-- reads: narrow, winners
-- column: question_group
-- column: devices | devices | from this number on, to the next row's, nothing carries more; up to the budget, else to what the target needs, else to 64; every number up to 1,024, beyond that 64 to each doubling
-- column: system_qps | requests/s | carried by that number of devices
-- column: qps_per_device | requests/s | system_qps / devices
-- column: carries_target | none | whether system_qps reaches the target; NULL without one
-- column: mode
-- column: instances | instances | aggregated ones; NULL for pd
-- column: prefill_instances, decode_instances, prefill_utilisation, decode_utilisation, ttft_ms, tpot_ms
-- column: probe | none | the aggregated configuration; NULL for pd
-- column: prefill_probe, decode_probe
-- column: plan | none | split of an aggregated instance
-- column: prefill_plan | none | split of a prefill instance
-- column: decode_plan | none | split of a decode instance
WITH most AS (
    SELECT *
    FROM deployments(getvariable('target_qps'), NULL, FALSE, NULL::BIGINT[], TRUE)
    QUALIFY row_number() OVER (
        PARTITION BY question_group, devices
        ORDER BY system_qps DESC, mode, prefill_instances, first_key, second_key
    ) = 1
),
frontier AS (
    SELECT *
    FROM most
    QUALIFY system_qps > coalesce(
        max(system_qps) OVER (
            PARTITION BY question_group ORDER BY devices ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ),
        0
    )
)
SELECT
    question_group, devices, system_qps, system_qps / devices AS qps_per_device,
    system_qps >= getvariable('target_qps') AS carries_target, mode, instances, prefill_instances, decode_instances,
    prefill_utilisation, decode_utilisation, ttft_ms, tpot_ms, probe, prefill_probe, decode_probe, plan,
    prefill_plan, decode_plan
FROM frontier
ORDER BY question_group, devices;

-- when: by, rate | capacity by goodput
-- summary: the fewest devices that carry a rate of requests that arrive at the limits: copies of a plan that does both, or prefill and decode instances
-- needs: prefill, decode
-- needs: aggregated
-- allocates: instances
-- reads: loads | fewest_devices(getvariable('marginal'), getvariable('attainment'), getvariable('rate'))
-- requires: rate | devices are counted for a rate of requests | `rate=40` requests a second of all instances together
-- shows: rank, mode, devices, device, plan, instances, prefill_plan, prefill_instances, decode_plan, decode_instances, goodput, headroom, devices_slower, load_share
-- column: question_group
-- column: rank | none | 1 needs the fewest devices; ties go to what carries more, then to the content keys
-- column: mode
-- column: devices | devices | of all instances together
-- column: device | none | device of the plan; of pd of its decode side
-- column: plan | none | label of the split of an instance that does both; NULL for pd
-- column: instances | instances | copies of it; NULL for pd
-- column: prefill_plan, prefill_instances, decode_plan, decode_instances
-- column: rate | requests/s | that is asked for, of all instances together
-- column: goodput | requests/s | that these instances carry at the limits
-- column: headroom | ratio | goodput / rate - 1
-- column: devices_slower | devices | needed if every step takes longer by the expected error; NULL where nobody measured near, or no number is enough
-- column: attainment
-- column: load_share | ratio | rate of one instance over its saturation; NULL for pd
-- column: num_devices | devices | of one instance; NULL for pd
-- column: kv_transfer_gb_per_s, arrivals
-- column: scenario | none | content key of the plan that does both; NULL for pd
-- column: prefill_scenario, decode_scenario
WITH together AS (
    SELECT
        question_group, ladder, instances_for(getvariable('rate'), goodput) AS instances, instances * num_devices AS devices,
        instances * goodput AS goodput, instances_for(getvariable('rate'), goodput_slower) * num_devices AS devices_slower
    FROM carried('aggregated')
    WHERE goodput > 0
),
pairs AS MATERIALIZED (
    SELECT * FROM carrying_pairs(getvariable('marginal'), getvariable('attainment'), getvariable('rate'))
),
apart AS (
    SELECT predicted.*, slower.devices AS devices_slower
    FROM pairs AS predicted
    LEFT JOIN pairs AS slower ON slower.reading = 'slower' AND slower.question_group = predicted.question_group
        AND slower.prefill_ladder = predicted.prefill_ladder AND slower.decode_ladder = predicted.decode_ladder
    WHERE predicted.reading = 'predicted'
),
carrying AS (
    SELECT
        question_group, 'aggregated' AS mode, devices, goodput, devices_slower, ladder, NULL AS prefill_ladder, instances,
        NULL AS prefill_instances, NULL AS decode_instances
    FROM together
    UNION ALL
    SELECT
        question_group, 'pd', devices, goodput, devices_slower, decode_ladder, prefill_ladder, NULL, prefill_instances,
        decode_instances
    FROM apart
),
ranked AS (
    SELECT
        *, row_number() OVER (
            PARTITION BY question_group ORDER BY devices, goodput DESC, mode, ladder, prefill_ladder
        ) AS rank
    FROM carrying
    WHERE getvariable('num_devices') IS NULL OR devices <= getvariable('num_devices')
    QUALIFY rank <= getvariable('top')
),
saturated AS (
    SELECT played.ladder, any_value(raw.load.saturation_per_s) AS saturation_per_s
    FROM played JOIN raw.load ON raw.load.id = played.load_id
    WHERE phase = 'aggregated'
    GROUP BY played.ladder
)
SELECT
    ranked.question_group, rank, mode, devices, one.device, CASE WHEN mode = 'aggregated' THEN one.plan END AS plan,
    instances, p.plan AS prefill_plan, prefill_instances, CASE WHEN mode = 'pd' THEN one.plan END AS decode_plan,
    decode_instances, getvariable('rate') AS rate, goodput, goodput / getvariable('rate') - 1 AS headroom, devices_slower,
    getvariable('attainment') AS attainment, getvariable('rate') / instances / saturation_per_s AS load_share,
    CASE WHEN mode = 'aggregated' THEN one.num_devices END AS num_devices,
    getvariable('kv_transfer_bytes_per_s') / 1e9 AS kv_transfer_gb_per_s, one.arrivals,
    CASE WHEN mode = 'aggregated' THEN one.scenario END AS scenario, p.scenario AS prefill_scenario,
    CASE WHEN mode = 'pd' THEN one.scenario END AS decode_scenario
FROM ranked
JOIN ladder AS one ON one.ladder = ranked.ladder
LEFT JOIN ladder AS p ON p.ladder = ranked.prefill_ladder
LEFT JOIN saturated ON saturated.ladder = ranked.ladder
ORDER BY ranked.question_group, rank;
