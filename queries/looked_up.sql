-- Looking limits up without reading cells: what part of requests meets each limit by itself, from margins, and the bounds that
-- this puts on the part that meets both (at least both less 1, at most the smaller of the two). A limit of the time between
-- tokens counts as one of TPOT here. Only ladders that can be
-- among the best by their bounds are then read cell by cell, so that answers are those of the cells.
CREATE OR REPLACE TEMP MACRO limit_shares(wanted_phase, every_reading) AS TABLE
WITH placed AS (
    SELECT
        ladder, place, load_id, counted_requests, arrivals_per_s, reading, c,
        least(greatest(
            CASE WHEN phase = 'decode' THEN 1e9 ELSE bin_place(ttft_of_steps(outside_ms, beside_ms, step_factor) / c) END, ttft_first
        ), ttft_end) AS ttft_place,
        least(greatest(bin_place(getvariable('tpot_limit_ms') / step_factor / c), tpot_first), tpot_end) AS tpot_place
    FROM read_loads(wanted_phase)
    WHERE every_reading OR reading = 'predicted'
)
SELECT
    ladder, place, placed.reading, c, arrivals_per_s,
    coalesce(x.below + x.within * (even_place(ttft_place, x_part.below) - x.bin), 0) / counted_requests AS share_ttft,
    least(
        coalesce(y.below + y.within * (even_place(tpot_place, y_part.below) - y.bin), 0) / counted_requests,
        coalesce(of_tbt, 1)
    ) AS share_tpot
FROM placed
LEFT JOIN token_shares(wanted_phase) AS tokens ON tokens.load_id = placed.load_id AND tokens.reading = placed.reading
LEFT JOIN raw.load_margin AS x ON x.metric = 0 AND x.bin = floor(ttft_place)::INTEGER AND x.load_id = placed.load_id
LEFT JOIN raw.load_margin AS y ON y.metric = 1 AND y.bin = floor(tpot_place)::INTEGER AND y.load_id = placed.load_id
LEFT JOIN raw.load_uneven AS x_part ON x_part.metric = 0 AND x_part.bin = floor(ttft_place)::INTEGER
    AND x_part.load_id = placed.load_id
LEFT JOIN raw.load_uneven AS y_part ON y_part.metric = 1 AND y_part.bin = floor(tpot_place)::INTEGER
    AND y_part.load_id = placed.load_id;

-- The goodput of each ladder, 0 for none, if as few and if as many requests met both limits as can: sums round apart by 1e-12.
CREATE OR REPLACE TEMP MACRO near_goodputs(wanted_phase, marginal, wanted_share) AS TABLE
WITH shares AS MATERIALIZED (
    SELECT
        ladder, place, arrivals_per_s, unnest([
            {'bound': 'most', 'share': least(share_ttft, share_tpot) + 1e-12},
            {'bound': 'least', 'share': CASE
                WHEN getvariable('e2e_limit_ms') IS NOT NULL THEN 0  -- margins do not say how many meet it
                WHEN marginal THEN least(share_ttft, share_tpot)
                ELSE share_ttft + share_tpot - 1
            END - 1e-12}
        ], recursive := TRUE)
    FROM limit_shares(wanted_phase, FALSE)
)
SELECT
    ladder, max(goodput) FILTER (WHERE bound = 'least') AS least_goodput, max(goodput) FILTER (WHERE bound = 'most') AS most_goodput
FROM (
    SELECT ladder, bound, crossed_rate(s.arrivals_per_s, s.share, before.arrivals_per_s, before.share, wanted_share) AS goodput
    FROM shares AS s
    LEFT JOIN (SELECT ladder, bound, place + 1 AS place, arrivals_per_s, share FROM shares) AS before USING (ladder, bound, place)
    GROUP BY ladder, bound
)
GROUP BY ladder;

-- What ranks ladders: requests a second of the copies that a budget holds, without one of a device.
CREATE OR REPLACE TEMP MACRO ladder_worth(goodput, instance_devices) AS
    goodput * coalesce(floor(getvariable('num_devices') / instance_devices), 1.0 / instance_devices);

-- The ladders that can be among the best of their group.
CREATE OR REPLACE TEMP MACRO promising(wanted_phase, marginal, wanted_share) AS TABLE
WITH worth AS (
    SELECT
        ladder, question_group, ladder_worth(least_goodput, num_devices) AS least_worth,
        ladder_worth(most_goodput, num_devices) AS most_worth
    FROM near_goodputs(wanted_phase, marginal, wanted_share) AS near
    JOIN ladder USING (ladder)
),
numbered AS (
    SELECT
        *, row_number() OVER (PARTITION BY question_group ORDER BY least_worth DESC) AS place,
        row_number() OVER (PARTITION BY question_group, most_worth > 0 ORDER BY ladder) AS place_alike
    FROM worth
),
bounded AS (
    SELECT
        *, coalesce(min(least_worth) FILTER (WHERE place = getvariable('top')) OVER (PARTITION BY question_group), 0) AS enough
    FROM numbered
)
SELECT ladder
FROM bounded
WHERE (most_worth > 0 AND most_worth >= enough * (1 - 1e-9))
    OR (most_worth <= 0 AND enough <= 0 AND place_alike <= getvariable('top'));

-- The ladders that can be the best of their size of instance, whatever number of copies is asked for.
CREATE OR REPLACE TEMP MACRO best_of_sizes(marginal, wanted_share) AS TABLE
SELECT ladder
FROM near_goodputs('aggregated', marginal, wanted_share)
JOIN ladder USING (ladder)
QUALIFY most_goodput * (1 + 1e-9) >= max(least_goodput) OVER (PARTITION BY question_group, stream, num_devices);

-- The ladders that can be the best of their device, by what a device of an instance carries.
CREATE OR REPLACE TEMP MACRO best_of_devices(marginal, wanted_share) AS TABLE
SELECT ladder
FROM near_goodputs('aggregated', marginal, wanted_share)
JOIN ladder USING (ladder)
QUALIFY most_goodput / num_devices * (1 + 1e-9) >= max(least_goodput / num_devices) OVER (PARTITION BY question_group, device);

-- How many instances of a goodput carry a rate; sums round apart.
CREATE OR REPLACE TEMP MACRO instances_for(wanted_rate, goodput) AS ceil(wanted_rate / goodput - 1e-9)::BIGINT;

-- The ladders that can carry a rate on as few devices as the best of their group.
CREATE OR REPLACE TEMP MACRO fewest_devices(marginal, wanted_share, wanted_rate) AS TABLE
WITH needed AS (
    SELECT
        ladder, question_group, num_devices * instances_for(wanted_rate, nullif(most_goodput, 0)) AS fewest,
        num_devices * instances_for(wanted_rate, nullif(least_goodput, 0)) AS most
    FROM near_goodputs('aggregated', marginal, wanted_share)
    JOIN ladder USING (ladder)
),
numbered AS (
    SELECT *, row_number() OVER (PARTITION BY question_group ORDER BY most NULLS LAST) AS place FROM needed
)
SELECT ladder
FROM numbered
QUALIFY fewest IS NOT NULL
    AND coalesce(fewest <= min(most) FILTER (WHERE place = getvariable('top')) OVER (PARTITION BY question_group), TRUE);

-- Rates of one instance of a side at which its share is wanted_share^(level / 16), and 1 - (1 - wanted_share) level / 16 under
-- `bracket`: of levels that add up to 16 a prefill and a decode side have together at least the wanted share, as the product
-- of independent sides, and however they depend on each other. 0 where even the lowest rate has too small a share.
CREATE OR REPLACE TEMP MACRO side_rates(wanted_phase, wanted_share) AS TABLE
WITH shares AS MATERIALIZED (
    -- Two simulations do not say which requests of theirs are one, so no pair has an end-to-end time.
    SELECT *, least(share_ttft, share_tpot) AS share FROM limit_shares(wanted_phase, TRUE)
    WHERE getvariable('e2e_limit_ms') IS NULL
),
levels AS (
    SELECT 'product' AS rule, range AS level, power(wanted_share, range / 16) AS least FROM range(17)
    UNION ALL
    SELECT 'bracket', range, 1 - (1 - wanted_share) * range / 16 FROM range(17)
)
SELECT
    ladder, reading, rule, level,
    coalesce(
        min_by(coalesce(rate_between(least, before.arrivals_per_s, before.share, s.arrivals_per_s, s.share), 0), s.arrivals_per_s)
            FILTER (WHERE s.share < least - 1e-12),
        max(s.arrivals_per_s)
    ) / any_value(c) AS side_rate
FROM shares AS s
LEFT JOIN (SELECT ladder, reading, place + 1 AS place, arrivals_per_s, share FROM shares) AS before USING (ladder, reading, place)
JOIN levels ON rule = 'product' OR reading = 'predicted'
GROUP BY ladder, reading, rule, level;
