-- summary: the share of requests of each load within limits of TTFT and TPOT in ms (NULL: no limit), and of each limit alone
-- column: load_id | none | integer key of the load
-- column: share | ratio | requests within both limits / requests that count; a rejected request is a miss
-- column: share_ttft | ratio | within the limit of TTFT
-- column: share_tpot | ratio | within the limit of TPOT
-- column: share_sd | ratio | standard deviation of the share over five batches of requests
CREATE OR REPLACE MACRO attainment(ttft_limit_ms, tpot_limit_ms) AS TABLE
WITH reached AS (
    -- Places of the limits on the scale of bins.
    SELECT
        load.load_id, load.counted_requests,
        CASE WHEN ttft_limit_ms IS NULL THEN 1e9
            ELSE 32 * log10(greatest(ttft_limit_ms - load.outside_ms, 1e-9) / 0.01) END AS ttft_place,
        CASE WHEN tpot_limit_ms IS NULL THEN 1e9
            ELSE 32 * log10(greatest(tpot_limit_ms, 1e-9) / 0.01) END AS tpot_place
    FROM load
),
parted AS (
    -- How the requests of the bin of each limit lie in its 16 parts: NULL where they lie evenly in the logarithm.
    SELECT
        reached.*, x.below AS ttft_below, y.below AS tpot_below,
        least(floor(16 * (ttft_place - floor(ttft_place))), 15)::INTEGER AS ttft_part,
        least(floor(16 * (tpot_place - floor(tpot_place))), 15)::INTEGER AS tpot_part
    FROM reached
    LEFT JOIN raw.load_uneven AS x ON x.metric = 0 AND x.bin = floor(ttft_place)::INTEGER AND x.load_id = reached.load_id
    LEFT JOIN raw.load_uneven AS y ON y.metric = 1 AND y.bin = floor(tpot_place)::INTEGER AND y.load_id = reached.load_id
),
evened AS (
    -- Places at which bins that hold requests evenly would have as many below.
    SELECT
        * REPLACE (
            CASE WHEN ttft_below IS NULL THEN ttft_place ELSE floor(ttft_place) + (ttft_below[ttft_part + 1]
                + (16 * (ttft_place - floor(ttft_place)) - ttft_part) * (ttft_below[ttft_part + 2] - ttft_below[ttft_part + 1])
            ) / ttft_below[17] END AS ttft_place,
            CASE WHEN tpot_below IS NULL THEN tpot_place ELSE floor(tpot_place) + (tpot_below[tpot_part + 1]
                + (16 * (tpot_place - floor(tpot_place)) - tpot_part) * (tpot_below[tpot_part + 2] - tpot_below[tpot_part + 1])
            ) / tpot_below[17] END AS tpot_place
        )
    FROM parted
),
weighed AS (
    -- Shares of a bin in units of 2^-32: sums of requests by them are exact, in whatever order threads add.
    SELECT
        evened.load_id, evened.counted_requests,
        round(greatest(least(ttft_place - ttft_bin, 1), 0) * 4294967296) / 4294967296 AS in_ttft,
        round(greatest(least(tpot_place - tpot_bin, 1), 0) * 4294967296) / 4294967296 AS in_tpot,
        round(in_ttft * in_tpot * 4294967296) / 4294967296 AS in_both, requests_1, requests_2, requests_3, requests_4, requests_5
    FROM evened
    LEFT JOIN raw.load_cell ON raw.load_cell.load_id = evened.load_id
),
counted AS (
    SELECT
        load_id, any_value(counted_requests) AS counted,
        coalesce(sum(in_ttft * (requests_1 + requests_2 + requests_3 + requests_4 + requests_5)), 0) AS of_ttft,
        coalesce(sum(in_tpot * (requests_1 + requests_2 + requests_3 + requests_4 + requests_5)), 0) AS of_tpot,
        list_value(
            coalesce(sum(in_both * requests_1), 0), coalesce(sum(in_both * requests_2), 0),
            coalesce(sum(in_both * requests_3), 0), coalesce(sum(in_both * requests_4), 0),
            coalesce(sum(in_both * requests_5), 0)
        ) AS of_batches
    FROM weighed
    GROUP BY load_id
)
SELECT
    load_id, list_sum(of_batches) / counted AS share, of_ttft / counted AS share_ttft, of_tpot / counted AS share_tpot,
    5 * list_stddev_samp(of_batches) / counted AS share_sd
FROM counted;
