-- summary: TTFT and TPOT at a rate of requests that arrive, for each plan that was played: median, 90th and 99th percentile
-- modes: aggregated, prefill, decode
-- reads: loads | ladder
-- requires: rate | percentiles are of a rate of requests | `rate=3` requests a second of one instance
-- shows: rank, device, plan, arrivals_per_s, ttft_p50_ms, ttft_p90_ms, ttft_p99_ms, tpot_p50_ms, tpot_p90_ms, tpot_p99_ms, said, num_devices, load
-- column: question_group
-- column: rank | none | 1 has the lowest 90th percentile of TTFT, of TPOT for decode
-- column: device, plan
-- column: arrivals_per_s | requests/s | asked for: percentiles lie on the line between the rates played below and above it
-- column: ttft_p50_ms | ms | median time to the first token
-- column: ttft_p90_ms | ms | its 90th percentile
-- column: ttft_p99_ms | ms | its 99th percentile
-- column: tpot_p50_ms | ms | median time per output token after the first
-- column: tpot_p90_ms | ms | its 90th percentile
-- column: tpot_p99_ms | ms | its 99th percentile
-- column: said | none | below the lowest rate played, whose percentiles these are; above the highest: none
-- column: num_devices, process
-- column: load | none | load at or below the rate
WITH placed AS (
    SELECT
        question_group, ladder, played.load_id, played.arrivals_per_s, ttft_p50_ms, ttft_p90_ms,
        ttft_p99_ms, tpot_p50_ms, tpot_p90_ms, tpot_p99_ms, device, plan, num_devices, process, left(raw.load.key, 8) AS load,
        lead(played.arrivals_per_s) OVER rates AS next_rate,
        played.arrivals_per_s = min(played.arrivals_per_s) OVER whole AS is_lowest,
        lead(ttft_p50_ms) OVER rates AS ttft_p50_next, lead(ttft_p90_ms) OVER rates AS ttft_p90_next,
        lead(ttft_p99_ms) OVER rates AS ttft_p99_next, lead(tpot_p50_ms) OVER rates AS tpot_p50_next,
        lead(tpot_p90_ms) OVER rates AS tpot_p90_next, lead(tpot_p99_ms) OVER rates AS tpot_p99_next
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
        *,
        CASE
            WHEN arrivals_per_s > getvariable('rate') THEN 0
            WHEN next_rate IS NULL THEN CASE WHEN arrivals_per_s = getvariable('rate') THEN 0 END
            ELSE (getvariable('rate') - arrivals_per_s) / (next_rate - arrivals_per_s)
        END AS way
    FROM placed
    WHERE (arrivals_per_s <= getvariable('rate') AND coalesce(next_rate > getvariable('rate'), TRUE))
        OR (is_lowest AND arrivals_per_s > getvariable('rate'))
),
read AS (
    SELECT
        question_group, ladder, device, plan, num_devices, process, load, way,
        is_lowest AND arrivals_per_s > getvariable('rate') AS is_below,
        ttft_p50_ms + CASE WHEN way > 0 THEN way * (ttft_p50_next - ttft_p50_ms) ELSE way END AS ttft_p50_ms,
        ttft_p90_ms + CASE WHEN way > 0 THEN way * (ttft_p90_next - ttft_p90_ms) ELSE way END AS ttft_p90_ms,
        ttft_p99_ms + CASE WHEN way > 0 THEN way * (ttft_p99_next - ttft_p99_ms) ELSE way END AS ttft_p99_ms,
        tpot_p50_ms + CASE WHEN way > 0 THEN way * (tpot_p50_next - tpot_p50_ms) ELSE way END AS tpot_p50_ms,
        tpot_p90_ms + CASE WHEN way > 0 THEN way * (tpot_p90_next - tpot_p90_ms) ELSE way END AS tpot_p90_ms,
        tpot_p99_ms + CASE WHEN way > 0 THEN way * (tpot_p99_next - tpot_p99_ms) ELSE way END AS tpot_p99_ms
    FROM chosen
)
SELECT
    question_group,
    row_number() OVER (
        PARTITION BY question_group
        ORDER BY CASE WHEN getvariable('wanted_phase') = 'decode' THEN tpot_p90_ms ELSE ttft_p90_ms END NULLS LAST,
            ladder
    ) AS rank,
    device, plan, getvariable('rate') AS arrivals_per_s, ttft_p50_ms, ttft_p90_ms, ttft_p99_ms, tpot_p50_ms,
    tpot_p90_ms, tpot_p99_ms,
    CASE
        WHEN is_below THEN 'at the lowest rate played'
        WHEN way IS NULL THEN 'above the highest rate played'
    END AS said,
    num_devices, process, load
FROM read
QUALIFY rank <= getvariable('top')
ORDER BY question_group, rank;
