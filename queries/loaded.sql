-- What reports about requests that arrive are built on: loads of the question's scope, each with the share of its requests
-- that meets the question's limits. `step_error` is a temporary table of (scenario_id, error, beside_ms): how far off the
-- times of steps are expected to be, NULL where nobody knows; and what a pair adds to the TTFT of a prefill side: moving its
-- prompt, and receiving the request once more. With every step c times as long, requests at rate r meet limits x and
-- y as often as those at rate r c meet x / c and y / c now: a longer step is another reading of the same rows.
CREATE OR REPLACE TEMP MACRO played(wanted_phase) AS TABLE
SELECT load.*, asked.question_group, step_error.error AS step_error, coalesce(step_error.beside_ms, 0) AS beside_ms
FROM load
JOIN (SELECT DISTINCT scenario_id, question_group FROM scope) AS asked ON asked.scenario_id = load.scenario_id
LEFT JOIN step_error ON step_error.scenario_id = load.scenario_id
WHERE load.phase = wanted_phase;

-- The place of a limit on the scale of bins, 32 to a decade from 0.01 ms on; without a limit beyond all of them.
CREATE OR REPLACE TEMP MACRO bin_place(limit_ms) AS
    CASE WHEN limit_ms IS NULL THEN 1e9 ELSE 32 * log10(greatest(limit_ms, 1e-9) / 0.01) END;

-- The share of a bin below a place: requests lie evenly in the logarithm.
CREATE OR REPLACE TEMP MACRO bin_share(place, bin) AS greatest(least(place - bin, 1), 0);

-- Loads as they were predicted, and with steps as much longer and shorter as they are expected to be off. `share` is joint,
-- or the smaller of both limits' own; `half_width` is that of its 95 % interval over five batches (t of 4 degrees: 2.776).
CREATE OR REPLACE TEMP MACRO load_shares(wanted_phase, marginal) AS TABLE
WITH ladders AS MATERIALIZED (
    SELECT
        played.question_group, played.scenario_id, played.settings_key, played.load_id, played.counted_requests,
        played.arrivals_per_s, played.phase, played.step_error,
        getvariable('ttft_limit_ms') - played.outside_ms - played.beside_ms AS ttft_ms,
        1 + coalesce(played.step_error, 0) AS slower, 1 - coalesce(played.step_error, 0) AS faster
    FROM played(wanted_phase) AS played
),
placed AS (
    SELECT DISTINCT
        load_id, bin_place(getvariable('tpot_limit_ms')) AS tpot_place,
        bin_place(getvariable('tpot_limit_ms') / slower) AS tpot_slower,
        bin_place(getvariable('tpot_limit_ms') / faster) AS tpot_faster,
        CASE WHEN phase = 'decode' THEN 1e9 ELSE bin_place(ttft_ms) END AS ttft_place,
        CASE WHEN phase = 'decode' THEN 1e9 ELSE bin_place(ttft_ms / slower) END AS ttft_slower,
        CASE WHEN phase = 'decode' THEN 1e9 ELSE bin_place(ttft_ms / faster) END AS ttft_faster
    FROM ladders
),
weighed AS (
    SELECT
        placed.load_id, bin_share(ttft_place, ttft_bin) AS in_ttft, bin_share(tpot_place, tpot_bin) AS in_tpot,
        bin_share(ttft_slower, ttft_bin) AS slower_ttft, bin_share(tpot_slower, tpot_bin) AS slower_tpot,
        bin_share(ttft_faster, ttft_bin) AS faster_ttft, bin_share(tpot_faster, tpot_bin) AS faster_tpot,
        requests_1, requests_2, requests_3, requests_4, requests_5,
        requests_1 + requests_2 + requests_3 + requests_4 + requests_5 AS requests
    FROM placed
    JOIN load_cell ON load_cell.load_id = placed.load_id
),
counted AS (
    SELECT
        load_id, sum(in_ttft * requests) AS of_ttft, sum(in_tpot * requests) AS of_tpot,
        sum(in_ttft * in_tpot * requests) AS of_both, sum(slower_ttft * requests) AS slower_of_ttft,
        sum(slower_tpot * requests) AS slower_of_tpot, sum(slower_ttft * slower_tpot * requests) AS slower_of_both,
        sum(faster_ttft * requests) AS faster_of_ttft, sum(faster_tpot * requests) AS faster_of_tpot,
        sum(faster_ttft * faster_tpot * requests) AS faster_of_both,
        list_stddev_samp(list_value(
            sum(in_ttft * in_tpot * requests_1), sum(in_ttft * in_tpot * requests_2),
            sum(in_ttft * in_tpot * requests_3), sum(in_ttft * in_tpot * requests_4),
            sum(in_ttft * in_tpot * requests_5)
        )) AS batch_sd
    FROM weighed
    GROUP BY load_id
),
readings AS (
    SELECT *, 'predicted' AS reading, 1.0 AS c, of_ttft AS met_ttft, of_tpot AS met_tpot, of_both AS met
    FROM ladders LEFT JOIN counted USING (load_id)
    UNION ALL
    SELECT *, 'slower', slower, slower_of_ttft, slower_of_tpot, slower_of_both
    FROM ladders LEFT JOIN counted USING (load_id) WHERE step_error IS NOT NULL
    UNION ALL
    SELECT *, 'faster', faster, faster_of_ttft, faster_of_tpot, faster_of_both
    FROM ladders LEFT JOIN counted USING (load_id) WHERE step_error IS NOT NULL
)
SELECT
    question_group, scenario_id, settings_key, load_id, arrivals_per_s, reading, c,
    coalesce(met_ttft, 0) / counted_requests AS share_ttft, coalesce(met_tpot, 0) / counted_requests AS share_tpot,
    coalesce(CASE WHEN marginal THEN least(met_ttft, met_tpot) ELSE met END, 0) / counted_requests AS share,
    coalesce(2.776 * sqrt(5) * batch_sd, 0) / counted_requests AS half_width
FROM readings;

-- The highest rate before the first at which the share is below the wanted one, on the line between neighbours: of each
-- ladder, as predicted, at both ends of the sampling interval, and with longer and shorter steps. NULL where the lowest rate
-- has too small a share already; `at_least` where the highest still has enough; `recrosses` where a higher rate has again.
CREATE OR REPLACE TEMP MACRO goodputs(wanted_phase, marginal, wanted_share) AS TABLE
WITH shares AS MATERIALIZED (
    SELECT * FROM load_shares(wanted_phase, marginal)
),
curves AS (
    SELECT question_group, settings_key, reading, c, arrivals_per_s, share, share_ttft, share_tpot FROM shares
    UNION ALL
    SELECT question_group, settings_key, 'low', c, arrivals_per_s, share - half_width, NULL, NULL
    FROM shares WHERE reading = 'predicted'
    UNION ALL
    SELECT question_group, settings_key, 'high', c, arrivals_per_s, share + half_width, NULL, NULL
    FROM shares WHERE reading = 'predicted'
),
neighbours AS (
    SELECT
        *, lag(arrivals_per_s) OVER steps AS before_rate, lag(share) OVER steps AS before_share
    FROM curves
    WINDOW steps AS (PARTITION BY question_group, settings_key, reading ORDER BY arrivals_per_s)
),
crossings AS (
    SELECT
        question_group, settings_key, reading, any_value(c) AS c, max(arrivals_per_s) AS highest,
        min(arrivals_per_s) FILTER (WHERE share < wanted_share) AS crossed,
        max(arrivals_per_s) FILTER (WHERE share >= wanted_share) AS last_enough
    FROM neighbours
    GROUP BY question_group, settings_key, reading
)
SELECT
    crossings.question_group, crossings.settings_key, crossings.reading,
    CASE
        WHEN crossed IS NULL THEN highest
        ELSE before_rate + (before_share - wanted_share) / (before_share - share) * (crossed - before_rate)
    END / crossings.c AS goodput,
    crossed IS NULL AS at_least, coalesce(last_enough > crossed, FALSE) AS recrosses,
    CASE WHEN crossed IS NOT NULL THEN CASE WHEN share_ttft <= share_tpot THEN 'ttft' ELSE 'tpot' END END AS binding_limit
FROM crossings
LEFT JOIN neighbours ON neighbours.question_group = crossings.question_group
    AND neighbours.settings_key = crossings.settings_key AND neighbours.reading = crossings.reading
    AND neighbours.arrivals_per_s = crossings.crossed;

-- Percentiles of TTFT and TPOT of loads, each alone: requests lie evenly in the logarithm of a bin. Rejected ones have none.
CREATE OR REPLACE TEMP MACRO load_percentiles(load_ids) AS TABLE
WITH marginals AS (
    SELECT load_id, 'ttft' AS metric, ttft_bin AS bin,
        sum(requests_1 + requests_2 + requests_3 + requests_4 + requests_5) AS requests
    FROM load_cell WHERE load_id IN (SELECT unnest(load_ids)) GROUP BY load_id, ttft_bin
    UNION ALL
    SELECT load_id, 'tpot', tpot_bin, sum(requests_1 + requests_2 + requests_3 + requests_4 + requests_5)
    FROM load_cell WHERE load_id IN (SELECT unnest(load_ids)) GROUP BY load_id, tpot_bin
),
summed AS (
    SELECT
        load_id, metric, bin, requests, sum(requests) OVER (PARTITION BY load_id, metric ORDER BY bin) AS upto,
        sum(requests) OVER (PARTITION BY load_id, metric) AS total
    FROM marginals
),
found AS (
    SELECT
        load_id, metric, q,
        0.01 * power(10, min_by(bin + (q * total - (upto - requests)) / requests, bin) / 32) AS found_ms
    FROM summed
    CROSS JOIN (VALUES (0.5), (0.9), (0.99)) AS wanted (q)
    WHERE upto >= q * total
    GROUP BY load_id, metric, q
)
SELECT
    found.load_id,
    max(found_ms + outside_ms) FILTER (WHERE metric = 'ttft' AND q = 0.5) AS ttft_p50_ms,
    max(found_ms + outside_ms) FILTER (WHERE metric = 'ttft' AND q = 0.9) AS ttft_p90_ms,
    max(found_ms + outside_ms) FILTER (WHERE metric = 'ttft' AND q = 0.99) AS ttft_p99_ms,
    max(found_ms) FILTER (WHERE metric = 'tpot' AND q = 0.5) AS tpot_p50_ms,
    max(found_ms) FILTER (WHERE metric = 'tpot' AND q = 0.9) AS tpot_p90_ms,
    max(found_ms) FILTER (WHERE metric = 'tpot' AND q = 0.99) AS tpot_p99_ms
FROM found
JOIN load ON load.load_id = found.load_id
GROUP BY found.load_id;

-- Rates of one instance of a side at which its share is wanted_share^(level / 16), and 1 - (1 - wanted_share) level / 16 under
-- `bracket`: of levels that add up to 16 a prefill and a decode side have together at least the wanted share, as the product
-- of independent sides, and however they depend on each other. 0 where even the lowest rate has too small a share.
CREATE OR REPLACE TEMP MACRO side_rates(wanted_phase, wanted_share) AS TABLE
WITH steps AS (
    SELECT
        question_group, scenario_id, settings_key, reading, c, arrivals_per_s, share,
        lag(arrivals_per_s) OVER ladder AS before_rate, lag(share) OVER ladder AS before_share
    FROM load_shares(wanted_phase, FALSE)
    WINDOW ladder AS (PARTITION BY question_group, settings_key, reading ORDER BY arrivals_per_s)
),
levels AS (
    SELECT 'product' AS rule, range AS level, power(wanted_share, range / 16) AS least FROM range(17)
    UNION ALL
    SELECT 'bracket', range, 1 - (1 - wanted_share) * range / 16 FROM range(17)
)
SELECT
    question_group, scenario_id, settings_key, reading, rule, level,
    coalesce(
        min_by(
            coalesce(before_rate + (before_share - least) / (before_share - share) * (arrivals_per_s - before_rate), 0),
            arrivals_per_s
        ) FILTER (WHERE share < least - 1e-12),
        max(arrivals_per_s)
    ) / any_value(c) AS side_rate
FROM steps
JOIN levels ON rule = 'product' OR reading = 'predicted'
GROUP BY question_group, scenario_id, settings_key, reading, rule, level;
