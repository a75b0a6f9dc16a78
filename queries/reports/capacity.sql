-- summary: the most requests/s each number of devices carries, aggregated or split, and the fewest that carry a target
-- needs: prefill, decode
-- needs: aggregated
-- allocates: instances
-- shows: devices, system_requests_per_s, requests_per_s_per_device, carries_target, mode, instances, plan, probe, prefill_instances, prefill_plan, decode_instances, decode_plan, prefill_probe, decode_probe
-- reads: narrow, winners
-- column: question_group, system_requests_per_s, requests_per_s_per_device, carries_target, mode, instances, prefill_instances, decode_instances
-- column: prefill_utilisation, decode_utilisation, ttft_ms, tpot_ms, probe, prefill_probe, decode_probe, plan, prefill_plan, decode_plan
-- column: devices | devices | from this number on, to the next row's, nothing carries more; up to the budget, else to what the target needs, else to 64; every number up to 1,024, beyond that 64 to each doubling
WITH most AS (
    SELECT *
    FROM deployments(getvariable('target_qps'), NULL, FALSE, NULL::BIGINT[], TRUE)
    QUALIFY row_number() OVER (
        PARTITION BY question_group, devices
        ORDER BY system_requests_per_s DESC, mode, prefill_instances, first_key, second_key
    ) = 1
),
frontier AS (
    SELECT *
    FROM most
    QUALIFY system_requests_per_s > coalesce(
        max(system_requests_per_s) OVER (
            PARTITION BY question_group ORDER BY devices ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ),
        0
    )
)
SELECT
    question_group, devices, system_requests_per_s, system_requests_per_s / devices AS requests_per_s_per_device,
    system_requests_per_s >= getvariable('target_qps') AS carries_target, mode, instances, prefill_instances, decode_instances,
    prefill_utilisation, decode_utilisation, ttft_ms, tpot_ms, probe, prefill_probe, decode_probe, plan,
    prefill_plan, decode_plan
FROM frontier
ORDER BY question_group, devices;

-- when: by, rate | capacity by goodput
-- summary: the fewest devices that carry a rate of requests that arrive at the limits, and how many leave room for the expected error: copies of a plan that does both, or prefill and decode instances
-- needs: prefill, decode
-- needs: aggregated
-- allocates: instances
-- reads: loads | fewest_devices(getvariable('marginal'), getvariable('attainment'), getvariable('rate'))
-- requires: rate | devices are counted for a rate of requests | `rate=40` requests a second of all instances together
-- shows: rank, mode, device, devices_with_margin, devices, plan, instances, prefill_plan, prefill_instances, decode_plan, decode_instances, goodput, attained, carries_target if num_devices, load_share
-- column: question_group, mode, plan, instances, prefill_device, prefill_plan, prefill_instances, decode_plan, decode_instances, attainment
-- column: load_share, num_devices, kv_transfer_gb_per_s, arrivals, scenario, prefill_scenario, decode_scenario
-- column: rank | none | 1 needs the fewest devices; ties go to what carries more, then to the content keys
-- column: devices_with_margin | devices | the number to buy: needed if every step takes longer by the expected error; NULL where nobody measured near, or no number is enough
-- column: devices | devices | needed if predictions hold exactly: of all instances together
-- column: device | none | device of the plan; of pd of its decode side
-- column: instances_with_margin | instances | copies of devices_with_margin; NULL for pd
-- column: prefill_instances_with_margin | instances | prefill instances of devices_with_margin; NULL unless pd
-- column: decode_instances_with_margin | instances | decode instances of devices_with_margin; NULL unless pd
-- column: rate | requests/s | that is asked for, of all instances together
-- column: goodput | requests/s | that `devices` carry at the limits
-- column: goodput_per_instance | requests/s | of one copy; NULL for pd
-- column: headroom | ratio | goodput / rate - 1
-- column: step_error | ratio | that the margin is for: expected error of step times, of pd of its worse side; NULL where nobody measured near
-- column: attained | ratio | share of the requests within the limits at the rate if predictions hold: on devices_with_margin, where there are none on `devices`
-- column: carries_target | none | whether num_devices are enough if predictions hold; TRUE without them
-- column: usd_per_hour | USD/h | of devices_with_margin, where there are none of `devices`; NULL where a price is missing
-- column: devices_slower | devices | old name of devices_with_margin, for one release
WITH together AS (
    SELECT
        question_group, 'aggregated' AS mode, ladder, goodput AS goodput_per_instance,
        instances_for(getvariable('rate'), goodput) AS instances,
        instances_for(getvariable('rate'), goodput_slower) AS instances_with_margin, instances * num_devices AS devices,
        instances_with_margin * num_devices AS devices_with_margin, instances * goodput AS goodput
    FROM carried('aggregated')
    WHERE goodput > 0
),
pairs AS MATERIALIZED (
    SELECT * FROM carrying_pairs(getvariable('marginal'), getvariable('attainment'), getvariable('rate'))
),
apart AS (
    SELECT
        predicted.question_group, 'pd' AS mode, predicted.decode_ladder AS ladder, predicted.prefill_ladder,
        predicted.prefill_instances, predicted.decode_instances, slower.prefill_instances AS prefill_instances_with_margin,
        slower.decode_instances AS decode_instances_with_margin, predicted.devices,
        slower.devices AS devices_with_margin, predicted.goodput
    FROM pairs AS predicted
    LEFT JOIN pairs AS slower ON slower.reading = 'slower' AND slower.question_group = predicted.question_group
        AND slower.prefill_ladder = predicted.prefill_ladder AND slower.decode_ladder = predicted.decode_ladder
    WHERE predicted.reading = 'predicted'
),
ranked AS MATERIALIZED (
    SELECT
        *, row_number() OVER (
            PARTITION BY question_group ORDER BY devices, goodput DESC, mode, ladder, prefill_ladder
        ) AS rank
    FROM (SELECT * FROM together UNION ALL BY NAME SELECT * FROM apart)
    QUALIFY rank <= getvariable('top')
),
-- What each instance gets of the rate, and the share of requests within the limits there: of pd that of both sides.
parts AS (
    SELECT question_group, rank, unnest([
            {'side': 'aggregated', 'ladder': ladder, 'copies': coalesce(instances_with_margin, instances)},
            {'side': 'prefill', 'ladder': prefill_ladder,
                'copies': coalesce(prefill_instances_with_margin, prefill_instances)},
            {'side': 'decode', 'ladder': ladder, 'copies': coalesce(decode_instances_with_margin, decode_instances)}
        ], recursive := TRUE)
    FROM ranked
),
shares AS (
    SELECT 'aggregated' AS side, ladder, place, arrivals_per_s, share
    FROM load_shares('aggregated', getvariable('marginal')) WHERE reading = 'predicted'
    UNION ALL
    SELECT 'prefill', ladder, place, arrivals_per_s, least(share_ttft, share_tpot) FROM limit_shares('prefill', FALSE)
    UNION ALL
    SELECT 'decode', ladder, place, arrivals_per_s, least(share_ttft, share_tpot) FROM limit_shares('decode', FALSE)
),
neighbours AS (
    SELECT *, lag(arrivals_per_s) OVER upwards AS before_rate, lag(share) OVER upwards AS before_share
    FROM shares
    WINDOW upwards AS (PARTITION BY side, ladder ORDER BY place)
),
of_parts AS (
    SELECT
        question_group, rank, side,
        min_by(
            CASE
                WHEN before_rate IS NULL THEN share
                ELSE share_between(getvariable('rate') / copies, before_rate, before_share, arrivals_per_s, share)
            END, arrivals_per_s
        ) FILTER (WHERE arrivals_per_s >= getvariable('rate') / copies * (1 - 1e-9)) AS share
    FROM parts JOIN neighbours USING (side, ladder)
    WHERE copies IS NOT NULL
    GROUP BY question_group, rank, side
),
attained AS (
    SELECT
        question_group, rank, CASE WHEN getvariable('marginal') THEN min(share) ELSE product(share) END AS attained
    FROM of_parts
    GROUP BY question_group, rank
),
saturated AS (
    SELECT played.ladder, any_value(raw.load.saturation_per_s / step_factor) AS saturation_per_s
    FROM played JOIN raw.load ON raw.load.id = played.load_id
    WHERE phase = 'aggregated'
    GROUP BY played.ladder
)
SELECT
    ranked.question_group, ranked.rank, mode, devices_with_margin, devices, one.device,
    CASE WHEN mode = 'aggregated' THEN one.plan END AS plan, instances, p.device AS prefill_device,
    p.plan AS prefill_plan, prefill_instances, CASE WHEN mode = 'pd' THEN one.plan END AS decode_plan, decode_instances, instances_with_margin,
    prefill_instances_with_margin, decode_instances_with_margin, getvariable('rate') AS rate, goodput,
    goodput_per_instance, goodput / getvariable('rate') - 1 AS headroom,
    CASE
        WHEN mode = 'aggregated' THEN one.step_error
        WHEN one.step_error IS NOT NULL AND p.step_error IS NOT NULL THEN greatest(one.step_error, p.step_error)
    END AS step_error,
    getvariable('attainment') AS attainment, attained,
    coalesce(devices <= getvariable('num_devices'), TRUE) AS carries_target,
    getvariable('rate') / instances / saturation_per_s AS load_share,
    CASE WHEN mode = 'aggregated' THEN one.num_devices END AS num_devices,
    CASE mode
        WHEN 'aggregated' THEN coalesce(devices_with_margin, devices) * paid.usd_per_device_hour
        ELSE coalesce(decode_instances_with_margin, decode_instances) * one.num_devices * paid.usd_per_device_hour
            + coalesce(prefill_instances_with_margin, prefill_instances) * p.num_devices * also_paid.usd_per_device_hour
    END AS usd_per_hour,
    getvariable('kv_transfer_bytes_per_s') / 1e9 AS kv_transfer_gb_per_s, one.arrivals,
    CASE WHEN mode = 'aggregated' THEN one.scenario END AS scenario, p.scenario AS prefill_scenario,
    CASE WHEN mode = 'pd' THEN one.scenario END AS decode_scenario, devices_with_margin AS devices_slower
FROM ranked
JOIN ladder AS one ON one.ladder = ranked.ladder
LEFT JOIN ladder AS p ON p.ladder = ranked.prefill_ladder
LEFT JOIN saturated ON saturated.ladder = ranked.ladder
LEFT JOIN attained ON attained.question_group = ranked.question_group AND attained.rank = ranked.rank
LEFT JOIN valid_prices() AS paid ON paid.device_name = one.device
LEFT JOIN valid_prices() AS also_paid ON also_paid.device_name = p.device
ORDER BY ranked.question_group, ranked.rank;
