-- summary: TTFT and TPOT at a rate of requests that arrive, for each plan that was simulated: mean, median, 90th and 99th percentile
-- modes: aggregated, prefill, decode
-- reads: loads | ladder
-- requires: rate | percentiles are of a rate of requests | `rate=3` requests a second of one instance
-- shows: rank, device, plan, arrivals_per_s, ttft_mean_ms, ttft_p50_ms, ttft_p90_ms, ttft_p99_ms, tpot_mean_ms, tpot_p50_ms, tpot_p90_ms, tpot_p99_ms, said, num_devices, load
-- column: question_group, device, plan, tpot_p50_ms, tpot_p90_ms, tpot_p99_ms, num_devices, process
-- column: rank | none | 1 has the lowest 90th percentile of TTFT, of TPOT for decode
-- column: arrivals_per_s | requests/s | asked for: means and percentiles lie on the line between the rates simulated below and above it
-- column: ttft_mean_ms | ms | mean time to the first token of the requests that a rate counts, as the simulation summed it: exact, where percentiles are read from bins
-- column: ttft_p50_ms | ms | median time to the first token
-- column: ttft_p90_ms | ms | its 90th percentile
-- column: ttft_p99_ms | ms | its 99th percentile
-- column: tpot_mean_ms | ms | mean over requests of the time per output token after the first, likewise; answers of one token have none
-- column: said | none | below the lowest rate simulated, whose percentiles these are; above the highest: none
-- column: load | none | load at or below the rate
WITH placed AS (
    SELECT
        question_group, ladder, played.load_id, played.arrivals_per_s, device, plan, num_devices, process, played.load,
        [
            played.step_factor * raw.load.ttft_mean_ms + raw.load.outside_ms, ttft_p50_ms, ttft_p90_ms, ttft_p99_ms,
            played.step_factor * raw.load.load_tpot_mean_ms, tpot_p50_ms, tpot_p90_ms, tpot_p99_ms
        ] AS times,
        lead(times) OVER rates AS next_times, lead(played.arrivals_per_s) OVER rates AS next_rate,
        played.arrivals_per_s = min(played.arrivals_per_s) OVER whole AS is_lowest
    FROM played
    JOIN ladder USING (ladder)
    JOIN raw.load ON raw.load.id = played.load_id
    JOIN load_percentiles((SELECT list(load_id) FROM played WHERE phase = getvariable('wanted_phase'))) AS percentiles
        ON percentiles.load_id = played.load_id
    WHERE played.phase = getvariable('wanted_phase')
    WINDOW rates AS (PARTITION BY ladder ORDER BY played.arrivals_per_s), whole AS (PARTITION BY ladder)
),
chosen AS (
    SELECT
        *, is_lowest AND arrivals_per_s > getvariable('rate') AS is_below,
        CASE
            WHEN arrivals_per_s > getvariable('rate') THEN 0
            WHEN next_rate IS NULL THEN CASE WHEN arrivals_per_s = getvariable('rate') THEN 0 END
            ELSE (getvariable('rate') - arrivals_per_s) / (next_rate - arrivals_per_s)
        END AS way
    FROM placed
    WHERE is_below OR (arrivals_per_s <= getvariable('rate') AND coalesce(next_rate > getvariable('rate'), TRUE))
),
read AS (
    SELECT
        * REPLACE ([
            one + CASE WHEN way > 0 THEN way * (next_times[place] - one) ELSE way END FOR one, place IN times
        ] AS times)
    FROM chosen
)
SELECT
    question_group,
    row_number() OVER (
        PARTITION BY question_group
        ORDER BY times[CASE WHEN getvariable('wanted_phase') = 'decode' THEN 7 ELSE 3 END] NULLS LAST, ladder
    ) AS rank,
    device, plan, getvariable('rate') AS arrivals_per_s, times[1] AS ttft_mean_ms, times[2] AS ttft_p50_ms,
    times[3] AS ttft_p90_ms, times[4] AS ttft_p99_ms, times[5] AS tpot_mean_ms, times[6] AS tpot_p50_ms,
    times[7] AS tpot_p90_ms, times[8] AS tpot_p99_ms,
    CASE
        WHEN is_below THEN 'at the lowest rate simulated'
        WHEN way IS NULL THEN 'above the highest rate simulated'
    END AS said,
    num_devices, process, load
FROM read
QUALIFY rank <= getvariable('top')
ORDER BY question_group, rank;
