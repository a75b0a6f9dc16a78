-- Pairs request by request: both times of a request depend on who came with it, under gamma streams and traces much, under
-- others less, so that shares of sides do not multiply. Where both sides keep every request, the same number is the same request
-- of either. `keeping` names ladders whose loads all keep them, and `kept_request` holds them (queries/judging/ladders.py).

-- The pairs of `multiplied_pairs`. What of them can be joined is joined, and all are ranked anew; `combined` says which way.
-- Between two rates of a side the share lies on a line; below its lowest rate it is that of the lowest.
CREATE OR REPLACE TEMP MACRO goodput_pairs(marginal, wanted_share, kept) AS TABLE
WITH multiplied AS MATERIALIZED (
    SELECT * FROM multiplied_pairs(marginal, wanted_share, kept)
),
bursts AS (
    SELECT question_group, rank, unnest([
            {'side': 'prefill', 'ladder': prefill_ladder, 'copies': prefill_instances},
            {'side': 'decode', 'ladder': decode_ladder, 'copies': decode_instances}
        ], recursive := TRUE)
    FROM multiplied
    WHERE prefill_ladder IN (SELECT ladder FROM keeping) AND decode_ladder IN (SELECT ladder FROM keeping)
        AND NOT marginal AND getvariable('tbt_limit_ms') IS NULL
),
loads AS MATERIALIZED (
    SELECT
        question_group, rank, side, reading, load_id, copies * arrivals_per_s / c AS rate, counted_requests,
        CASE WHEN side = 'prefill' THEN 1000 * ttft_of_steps(outside_ms, beside_ms, step_factor) / c END AS ttft_limit_us,
        CASE WHEN side = 'decode' THEN 1000 * getvariable('tpot_limit_ms') / step_factor / c END AS tpot_limit_us
    FROM bursts
    JOIN read_loads(NULL) USING (ladder)
),
-- Which requests meet the limit of a side: 64 of them in a word.
met AS MATERIALIZED (
    SELECT load_id, side, reading, number // 64 AS word, bit_or(1::UBIGINT << (number % 64)) AS bits
    FROM (SELECT DISTINCT load_id, side, reading, ttft_limit_us, tpot_limit_us FROM loads)
    JOIN kept_request USING (load_id)
    WHERE ttft_us >= 0 AND ttft_us <= coalesce(ttft_limit_us, 1e18) AND tpot_us <= coalesce(tpot_limit_us, 1e18)
    GROUP BY ALL
),
rates AS (
    SELECT DISTINCT question_group, rank, reading, rate AS total FROM loads
),
-- The loads of a side next to a rate: one of them where it was played.
ends AS (
    SELECT
        question_group, rank, reading, side, total, max(rate) FILTER (WHERE rate <= total) AS low_rate,
        arg_max(load_id, rate) FILTER (WHERE rate <= total) AS low_load, min(rate) FILTER (WHERE rate >= total) AS high_rate,
        arg_min(load_id, rate) FILTER (WHERE rate >= total) AS high_load, any_value(counted_requests) AS requests
    FROM rates JOIN loads USING (question_group, rank, reading)
    GROUP BY ALL
),
corners AS (
    SELECT question_group, rank, reading, side, total, requests, unnest([
            {'load_id': coalesce(low_load, high_load),
                'weight': coalesce((high_rate - total) / nullif(high_rate - low_rate, 0), 1)},
            {'load_id': high_load, 'weight': coalesce((total - low_rate) / nullif(high_rate - low_rate, 0), 0)}
        ], recursive := TRUE)
    FROM ends
    WHERE high_load IS NOT NULL
),
both_sides AS (
    SELECT
        p.question_group, p.rank, p.reading, p.total, p.weight * d.weight / p.requests AS weight, p.load_id AS prefill_load,
        d.load_id AS decode_load
    FROM corners AS p
    JOIN corners AS d ON d.question_group = p.question_group AND d.rank = p.rank AND d.reading = p.reading
        AND d.total = p.total AND d.side = 'decode' AND d.weight > 0
    WHERE p.side = 'prefill' AND p.weight > 0
),
together AS (
    SELECT prefill_load, decode_load, wanted.reading, sum(bit_count(p.bits & d.bits)) AS requests
    FROM (SELECT DISTINCT prefill_load, decode_load, reading FROM both_sides) AS wanted
    JOIN met AS p ON p.side = 'prefill' AND p.load_id = prefill_load AND p.reading = wanted.reading
    JOIN met AS d ON d.side = 'decode' AND d.load_id = decode_load AND d.reading = wanted.reading AND d.word = p.word
    GROUP BY ALL
),
shares AS (
    SELECT question_group, rank, reading, total, sum(weight * coalesce(requests, 0)) AS share
    FROM both_sides LEFT JOIN together USING (prefill_load, decode_load, reading)
    GROUP BY ALL
),
neighbours AS (
    SELECT *, lag(total) OVER upwards AS before_rate, lag(share) OVER upwards AS before_share
    FROM shares
    WINDOW upwards AS (PARTITION BY question_group, rank, reading ORDER BY total)
),
crossed AS (
    SELECT question_group, rank, reading, crossed_rate(total, share, before_rate, before_share, wanted_share) AS goodput
    FROM neighbours
    GROUP BY ALL
),
joined AS (
    SELECT
        question_group, rank, max(goodput) FILTER (WHERE reading = 'predicted') AS goodput,
        max(goodput) FILTER (WHERE reading = 'slower') AS slower, max(goodput) FILTER (WHERE reading = 'faster') AS faster
    FROM crossed
    GROUP BY question_group, rank
),
read AS (
    SELECT
        multiplied.* REPLACE (
            coalesce(joined.goodput, multiplied.goodput) AS goodput,
            CASE WHEN joined.rank IS NULL THEN goodput_slower ELSE slower END AS goodput_slower,
            CASE WHEN joined.rank IS NULL THEN goodput_faster ELSE faster END AS goodput_faster
        ),
        CASE WHEN joined.rank IS NULL THEN 'shares multiplied' ELSE 'requests joined' END AS combined
    FROM multiplied
    LEFT JOIN joined ON joined.question_group = multiplied.question_group AND joined.rank = multiplied.rank
)
SELECT
    read.* REPLACE (
        row_number() OVER (
            PARTITION BY question_group ORDER BY goodput / shared_by DESC, devices_used, prefill_ladder, decode_ladder
        ) AS rank
    )
FROM read;
