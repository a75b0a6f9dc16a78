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
WITH readings AS (
    SELECT
        played.question_group, played.scenario_id, played.settings_key, played.load_id, played.counted_requests,
        read.reading, 1 + read.sign * coalesce(played.step_error, 0) AS c, played.arrivals_per_s, played.phase,
        played.outside_ms + played.beside_ms AS outside_ms
    FROM played(wanted_phase) AS played
    CROSS JOIN (VALUES ('predicted', 0), ('slower', 1), ('faster', -1)) AS read (reading, sign)
    WHERE read.sign = 0 OR played.step_error IS NOT NULL
),
placed AS (
    SELECT
        *,
        CASE WHEN phase = 'decode' THEN 1e9 ELSE bin_place((getvariable('ttft_limit_ms') - outside_ms) / c) END
            AS ttft_place,
        bin_place(getvariable('tpot_limit_ms') / c) AS tpot_place
    FROM readings
),
weighed AS (
    SELECT
        placed.question_group, placed.load_id, placed.reading, bin_share(ttft_place, ttft_bin) AS in_ttft,
        bin_share(tpot_place, tpot_bin) AS in_tpot, requests_1, requests_2, requests_3, requests_4, requests_5,
        requests_1 + requests_2 + requests_3 + requests_4 + requests_5 AS requests
    FROM placed
    LEFT JOIN load_cell ON load_cell.load_id = placed.load_id
),
counted AS (
    SELECT
        question_group, load_id, reading, coalesce(sum(in_ttft * requests), 0) AS of_ttft,
        coalesce(sum(in_tpot * requests), 0) AS of_tpot, coalesce(sum(in_ttft * in_tpot * requests), 0) AS of_both,
        list_stddev_samp(list_value(
            coalesce(sum(in_ttft * in_tpot * requests_1), 0), coalesce(sum(in_ttft * in_tpot * requests_2), 0),
            coalesce(sum(in_ttft * in_tpot * requests_3), 0), coalesce(sum(in_ttft * in_tpot * requests_4), 0),
            coalesce(sum(in_ttft * in_tpot * requests_5), 0)
        )) AS batch_sd
    FROM weighed
    GROUP BY question_group, load_id, reading
)
SELECT
    placed.*, of_ttft / counted_requests AS share_ttft, of_tpot / counted_requests AS share_tpot,
    CASE WHEN marginal THEN least(of_ttft, of_tpot) ELSE of_both END / counted_requests AS share,
    2.776 * sqrt(5) * batch_sd / counted_requests AS half_width
FROM placed
JOIN counted ON counted.question_group = placed.question_group AND counted.load_id = placed.load_id
    AND counted.reading = placed.reading;

-- The highest rate before the first at which the share is below the wanted one, on the line between neighbours: of each
-- ladder, as predicted, at both ends of the sampling interval, and with longer and shorter steps. NULL where the lowest rate
-- has too small a share already; `at_least` where the highest still has enough; `recrosses` where a higher rate has again.
CREATE OR REPLACE TEMP MACRO goodputs(wanted_phase, marginal, wanted_share) AS TABLE
WITH shares AS (
    SELECT * FROM load_shares(wanted_phase, marginal)
),
curves AS (
    SELECT question_group, settings_key, reading, c, arrivals_per_s, share FROM shares
    UNION ALL
    SELECT question_group, settings_key, 'low', c, arrivals_per_s, share - half_width FROM shares WHERE reading = 'predicted'
    UNION ALL
    SELECT question_group, settings_key, 'high', c, arrivals_per_s, share + half_width FROM shares WHERE reading = 'predicted'
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
    crossed IS NULL AS at_least, coalesce(last_enough > crossed, FALSE) AS recrosses, before_rate
FROM crossings
LEFT JOIN neighbours ON neighbours.question_group = crossings.question_group
    AND neighbours.settings_key = crossings.settings_key AND neighbours.reading = crossings.reading
    AND neighbours.arrivals_per_s = crossings.crossed;

-- Percentiles of TTFT and TPOT of loads, each alone: requests lie evenly in the logarithm of a bin. Rejected ones have none.
CREATE OR REPLACE TEMP MACRO load_percentiles(wanted_phase) AS TABLE
WITH marginals AS (
    SELECT load_id, 'ttft' AS metric, ttft_bin AS bin,
        sum(requests_1 + requests_2 + requests_3 + requests_4 + requests_5) AS requests
    FROM load_cell GROUP BY load_id, ttft_bin
    UNION ALL
    SELECT load_id, 'tpot', tpot_bin, sum(requests_1 + requests_2 + requests_3 + requests_4 + requests_5)
    FROM load_cell GROUP BY load_id, tpot_bin
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
    played.question_group, played.load_id,
    max(found_ms + outside_ms) FILTER (WHERE metric = 'ttft' AND q = 0.5) AS ttft_p50_ms,
    max(found_ms + outside_ms) FILTER (WHERE metric = 'ttft' AND q = 0.9) AS ttft_p90_ms,
    max(found_ms + outside_ms) FILTER (WHERE metric = 'ttft' AND q = 0.99) AS ttft_p99_ms,
    max(found_ms) FILTER (WHERE metric = 'tpot' AND q = 0.5) AS tpot_p50_ms,
    max(found_ms) FILTER (WHERE metric = 'tpot' AND q = 0.9) AS tpot_p90_ms,
    max(found_ms) FILTER (WHERE metric = 'tpot' AND q = 0.99) AS tpot_p99_ms
FROM played(wanted_phase) AS played
JOIN found ON found.load_id = played.load_id
GROUP BY played.question_group, played.load_id;

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
