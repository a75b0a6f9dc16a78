-- name: goodput
-- summary: the highest rate of requests that arrive at which the wanted share meets the limits, for each plan that was played
-- modes: aggregated, prefill, decode, pd
-- answered by: goodput-pairs | split
-- nearest: none
-- shows: rank, device, plan, instances if num_devices, goodput, goodput_low, goodput_high, goodput_slower, goodput_faster, goodput_per_device, system_goodput if num_devices, binding_limit, ttft_p90_ms, tpot_p90_ms, said, num_devices, load
-- column: question_group | none | results are ranked within a group of model, workload, precision and convention
-- column: rank | none | 1 has the highest goodput a device, or of the budget; ties go to the content key
-- column: device | none | device by name
-- column: plan | none | label of the split
-- column: phase | none | aggregated, prefill or decode
-- column: goodput | requests/s | of one instance: highest rate before the first at which the share is too small, on the line between neighbours; NULL where the lowest played has too small a share
-- column: goodput_low | requests/s | lower end of the 95 % interval from sampling: five batches of requests
-- column: goodput_high | requests/s | its upper end
-- column: goodput_slower | requests/s | goodput if every step takes longer by the expected error; NULL where nobody measured near
-- column: goodput_faster | requests/s | goodput if every step is shorter by as much
-- column: step_error | ratio | expected error of step times: median of the nearest measurements
-- column: goodput_per_device | requests/s | goodput / devices of the instance
-- column: instances | instances | copies that the device budget holds; NULL without one
-- column: system_goodput | requests/s | of all copies
-- column: attainment | ratio | share of requests that is wanted
-- column: binding_limit | none | limit that fewer requests meet at the first rate with too small a share: ttft or tpot
-- column: ttft_p50_ms | ms | median at the highest rate played that is not above goodput
-- column: ttft_p90_ms | ms | 90th percentile there
-- column: ttft_p99_ms | ms | 99th percentile there
-- column: tpot_p50_ms | ms | median after the first token, there
-- column: tpot_p90_ms | ms | 90th percentile there
-- column: tpot_p99_ms | ms | 99th percentile there
-- column: said | none | highest rate played: goodput may be higher; lowest rate played: it is lower; not monotone: a higher rate meets the share again
-- column: num_devices | devices | of one instance
-- column: arrivals | none | process, requests and seed
-- column: seats | requests | most that a replica serves at once
-- column: kv_admission | none | current or reserved
-- column: dispatch | none | random or least
-- column: load | none | load that the percentiles are of
-- column: scenario | none | content key of the scenario
WITH goodput AS MATERIALIZED (
    SELECT *
    FROM goodputs(getvariable('wanted_phase'), getvariable('marginal'), getvariable('attainment'))
),
ladders AS (
    SELECT
        question_group, settings_key, any_value(at_least) FILTER (WHERE reading = 'predicted') AS at_least,
        any_value(recrosses) FILTER (WHERE reading = 'predicted') AS recrosses,
        any_value(binding_limit) FILTER (WHERE reading = 'predicted') AS binding_limit,
        max(goodput) FILTER (WHERE reading = 'predicted') AS goodput,
        max(goodput) FILTER (WHERE reading = 'low') AS goodput_low,
        max(goodput) FILTER (WHERE reading = 'high') AS goodput_high,
        max(goodput) FILTER (WHERE reading = 'slower') AS goodput_slower,
        max(goodput) FILTER (WHERE reading = 'faster') AS goodput_faster
    FROM goodput
    GROUP BY question_group, settings_key
),
placed AS (
    -- The load at or below goodput, else the lowest.
    SELECT
        ladders.*, played.*EXCLUDE (question_group, settings_key),
        concat(process, CASE WHEN process = 'gamma' THEN concat(':', cv) END, ', ', arrival_requests, ' requests, seed ', seed)
            AS arrivals
    FROM ladders
    JOIN played(getvariable('wanted_phase')) AS played
        ON played.question_group = ladders.question_group AND played.settings_key = ladders.settings_key
    QUALIFY row_number() OVER (
        PARTITION BY ladders.question_group, ladders.settings_key
        ORDER BY arrivals_per_s <= coalesce(goodput, 0) DESC,
            CASE WHEN arrivals_per_s <= coalesce(goodput, 0) THEN -arrivals_per_s ELSE arrivals_per_s END
    ) = 1
),
ranked AS MATERIALIZED (
    SELECT
        placed.*, goodput / num_devices AS goodput_per_device,
        floor(getvariable('num_devices') / num_devices)::INTEGER AS instances,
        floor(getvariable('num_devices') / num_devices) * goodput AS system_goodput,
        row_number() OVER (
            PARTITION BY placed.question_group
            ORDER BY coalesce(system_goodput, goodput_per_device) DESC NULLS LAST, placed.settings_key
        ) AS rank
    FROM placed
    QUALIFY rank <= getvariable('top')
)
SELECT
    ranked.question_group, rank, device, plan, phase, instances, goodput, goodput_low, goodput_high, goodput_slower, goodput_faster, step_error,
    goodput_per_device, system_goodput, getvariable('attainment') AS attainment, binding_limit, ttft_p50_ms, ttft_p90_ms,
    ttft_p99_ms, tpot_p50_ms, tpot_p90_ms, tpot_p99_ms,
    CASE
        WHEN goodput IS NULL THEN 'below the lowest rate played'
        WHEN at_least THEN 'the highest rate played'
        WHEN recrosses THEN 'not monotone'
    END AS said,
    num_devices, arrivals, play_seats AS seats, kv_admission, dispatch, load, scenario
FROM ranked
LEFT JOIN load_percentiles((SELECT list(load_id) FROM ranked)) AS percentiles ON percentiles.load_id = ranked.load_id
ORDER BY ranked.question_group, rank;
