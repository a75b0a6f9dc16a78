-- name: goodput
-- summary: the highest rate of requests that arrive at which the wanted share meets the limits, for each plan that was played
-- modes: aggregated, prefill, decode, pd
-- answered by: goodput-pairs | split
-- reads: loads | promising(getvariable('wanted_phase'), getvariable('marginal'), getvariable('attainment'))
-- nearest: none
-- verdict: separation
-- shows: rank, device, plan, instances if num_devices, goodput, goodput_low, goodput_high, goodput_slower, goodput_faster, goodput_per_device, system_goodput if num_devices, binding_limit, ttft_p90_ms, tpot_p90_ms, said, num_devices, load
-- column: question_group | none | results are ranked within a group of model, workload, precision and convention
-- column: rank | none | 1 has the highest goodput a device, or of the budget; ties go to the content key
-- column: device | none | device by name
-- column: plan | none | label of the split
-- column: phase | none | aggregated, prefill or decode
-- column: goodput | requests/s | of one instance: highest rate before the first at which the share is too small, between neighbours on a line in the logit of the share; NULL where the lowest played has too small a share
-- column: goodput_low | requests/s | lower end of the 95 % interval from sampling: five batches of requests
-- column: goodput_high | requests/s | its upper end
-- column: goodput_slower | requests/s | goodput if every step takes longer by the expected error; NULL where nobody measured near
-- column: goodput_faster | requests/s | goodput if every step is shorter by as much
-- column: step_error | ratio | expected error of step times: median of the nearest measurements
-- column: goodput_per_device | requests/s | goodput / devices of the instance
-- column: instances | instances | copies that the device budget holds; NULL without one
-- column: system_goodput | requests/s | of all copies
-- column: attainment | ratio | share of requests that is wanted
-- column: binding_limit | none | limit that fewer requests meet at the first rate with too small a share: ttft, tpot, or tbt
-- column: ttft_p50_ms | ms | median at the highest rate played that is not above goodput
-- column: ttft_p90_ms | ms | 90th percentile there
-- column: ttft_p99_ms | ms | 99th percentile there
-- column: tpot_p50_ms | ms | median after the first token, there
-- column: tpot_p90_ms | ms | 90th percentile there
-- column: tpot_p99_ms | ms | 99th percentile there
-- column: said | none | >= X: the highest rate played, goodput may be higher; saturated at the lowest rate, or below it: it is lower; not monotone: a higher rate meets the share again
-- column: num_devices | devices | of one instance
-- column: arrivals | none | process, requests and seed
-- column: seats | requests | most that a replica serves at once
-- column: kv_admission | none | current or reserved
-- column: dispatch | none | random or least
-- column: load | none | load that the percentiles are of
-- column: scenario | none | content key of the scenario
WITH read AS (
    SELECT
        ladder, any_value(at_least) FILTER (WHERE reading = 'predicted') AS at_least,
        any_value(recrosses) FILTER (WHERE reading = 'predicted') AS recrosses,
        any_value(binding_limit) FILTER (WHERE reading = 'predicted') AS binding_limit,
        max(goodput) FILTER (WHERE reading = 'predicted') AS goodput,
        max(goodput) FILTER (WHERE reading = 'low') AS goodput_low,
        max(goodput) FILTER (WHERE reading = 'high') AS goodput_high,
        max(goodput) FILTER (WHERE reading = 'slower') AS goodput_slower,
        max(goodput) FILTER (WHERE reading = 'faster') AS goodput_faster
    FROM goodputs(getvariable('wanted_phase'), getvariable('marginal'), getvariable('attainment'))
    GROUP BY ladder
),
ranked AS (
    SELECT
        read.*, row_number() OVER (
            PARTITION BY question_group ORDER BY ladder_worth(goodput, num_devices) DESC NULLS LAST, ladder
        ) AS rank
    FROM read
    JOIN ladder USING (ladder)
    QUALIFY rank <= getvariable('top')
),
placed AS MATERIALIZED (
    -- The load at or below goodput, else the lowest.
    SELECT
        ranked.*, coalesce(
            max_by(load_id, arrivals_per_s) FILTER (WHERE arrivals_per_s <= goodput), min_by(load_id, arrivals_per_s)
        ) AS load_id
    FROM ranked
    JOIN played USING (ladder)
    GROUP BY ALL
)
SELECT
    question_group, rank, device, plan, phase,
    floor(getvariable('num_devices') / num_devices)::INTEGER AS instances, goodput, goodput_low, goodput_high,
    goodput_slower, goodput_faster, step_error, goodput / num_devices AS goodput_per_device,
    floor(getvariable('num_devices') / num_devices) * goodput AS system_goodput, getvariable('attainment') AS attainment,
    binding_limit, ttft_p50_ms, ttft_p90_ms, ttft_p99_ms, tpot_p50_ms, tpot_p90_ms, tpot_p99_ms,
    CASE
        WHEN binding_limit = 'ttft' AND goodput IS NULL AND ttft_p50_ms > getvariable('ttft_limit_ms')
            THEN format('saturated at the lowest rate: a lone request takes {:.3g} ms to its first token', ttft_p50_ms)
        WHEN binding_limit = 'tpot' AND goodput IS NULL AND tpot_p50_ms > getvariable('tpot_limit_ms')
            THEN format('saturated at the lowest rate: a lone request takes {:.3g} ms a token', tpot_p50_ms)
        WHEN goodput IS NULL THEN 'below the lowest rate played'
        WHEN at_least THEN format('>= {:.4g}, the highest rate played', goodput)
        WHEN recrosses THEN 'not monotone'
    END AS said,
    num_devices, arrivals, seats, ladder.kv_admission, ladder.dispatch, load, scenario
FROM placed
JOIN ladder USING (ladder)
JOIN (SELECT DISTINCT load_id, load FROM played) AS named USING (load_id)
LEFT JOIN load_percentiles((SELECT list(load_id) FROM placed)) AS percentiles ON percentiles.load_id = placed.load_id
ORDER BY question_group, rank;
