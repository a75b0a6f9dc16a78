-- What reports about requests that arrive are built on: loads of the question's scope, each with the share of its requests
-- that meets the question's limits. `played` and `ladder` are temporary tables, a row a load and a row for all rates of a
-- scenario (queries/judging/ladders.sql), and `chosen` of the ladders whose cells are read. With every step c times as long, requests at rate r meet limits x and
-- y as often as those at rate r c meet x / c and y / c now: a longer step is another reading of the same rows.

-- The place of a limit on the scale of bins, 32 to a decade from 0.01 ms on; without a limit beyond all of them.
CREATE OR REPLACE TEMP MACRO bin_place(limit_ms) AS
    CASE WHEN limit_ms IS NULL THEN 1e9 ELSE 32 * log10(greatest(limit_ms, 1e-9) / 0.01) END;

-- The share of a bin below a place: requests lie evenly in the logarithm. Written so, a cell takes a third of the time that
-- the smaller of 1 and the larger of 0 takes.
CREATE OR REPLACE TEMP MACRO bin_share(place, bin) AS
    (bin < floor(place))::TINYINT + (bin = floor(place))::TINYINT * (place - floor(place));

-- Shares of a bin in units of 2^-32: sums of requests by them are exact, in whatever order threads add.
CREATE OR REPLACE TEMP MACRO exact_share(share) AS round(share * 4294967296) / 4294967296;

-- Where a place would be if its bin held requests evenly: `below` says how many lie below each of its 16 parts, and in all,
-- NULL where they do lie evenly. Requests that nobody else was beside take the same time, to the digit.
CREATE OR REPLACE TEMP MACRO part_of(place) AS least(floor(16 * (place - floor(place))), 15)::INTEGER;
CREATE OR REPLACE TEMP MACRO even_place(place, below) AS
    exact_share(CASE WHEN below IS NULL THEN place ELSE floor(place) + (
        below[part_of(place) + 1]
        + (16 * (place - floor(place)) - part_of(place)) * (below[part_of(place) + 2] - below[part_of(place) + 1])
    ) / below[17] END);

-- The part of a bin below a place.
CREATE OR REPLACE TEMP MACRO place_in(place, bin, below) AS
    CASE WHEN floor(place) = bin THEN even_place(place, below) - bin WHEN place > bin THEN 1 ELSE 0 END;
CREATE OR REPLACE TEMP MACRO bin_middle_ms(bin) AS 0.01 * power(10, (bin + 0.5) / 32);

-- The other way: the place below which this share of the requests of a bin lies.
CREATE OR REPLACE TEMP MACRO place_inside(share, below) AS
    CASE WHEN below IS NULL THEN share ELSE [
        (part + (share * below[17] - below[part + 1]) / (below[part + 2] - below[part + 1])) / 16
        FOR part IN range(16) IF below[part + 2] > below[part + 1] AND below[part + 2] >= share * below[17] * (1 - 1e-12)
    ][1] END;

-- Shares fall with the rate as an S, whose logit is nearly a line. The hundredths keep none and all within reach.
CREATE OR REPLACE TEMP MACRO bent(share) AS
    ln((least(greatest(share, 0), 1) + 0.02) / (1.02 - least(greatest(share, 0), 1)));
CREATE OR REPLACE TEMP MACRO unbent(bend) AS (1.02 * exp(bend) - 0.02) / (1 + exp(bend));

-- The rate between two neighbours of a ladder at which as many requests as wanted meet the limits, and the share at a rate.
CREATE OR REPLACE TEMP MACRO rate_between(wanted, before_rate, before_share, rate, share) AS
    before_rate + (bent(before_share) - bent(wanted)) / (bent(before_share) - bent(share)) * (rate - before_rate);
CREATE OR REPLACE TEMP MACRO share_between(at_rate, before_rate, before_share, rate, share) AS
    unbent(bent(before_share) + (at_rate - before_rate) / (rate - before_rate) * (bent(share) - bent(before_share)));

-- The limit of TTFT that is left for steps, as they were played.
CREATE OR REPLACE TEMP MACRO ttft_of_steps(outside_ms, beside_ms, step_factor) AS
    (getvariable('ttft_limit_ms') - outside_ms - beside_ms) / step_factor;

-- The share of times between tokens within their limit, with steps as predicted, longer and shorter; no row without a limit.
-- They are counted by time, not by request: this share alone has to reach the wanted one.
CREATE OR REPLACE TEMP MACRO token_shares(wanted_phase) AS TABLE
SELECT
    load_token.load_id,
    sum(gaps * bin_share(exact_share(bin_place(getvariable('tbt_limit_ms') / step_factor)), gap_bin)) / sum(gaps) AS of_tbt,
    sum(gaps * bin_share(exact_share(bin_place(getvariable('tbt_limit_ms') / step_factor / (1 + step_error))), gap_bin)) / sum(gaps) AS slower_of_tbt,
    sum(gaps * bin_share(exact_share(bin_place(getvariable('tbt_limit_ms') / step_factor / (1 - step_error))), gap_bin)) / sum(gaps) AS faster_of_tbt
FROM (SELECT DISTINCT load_id, step_error, step_factor FROM played WHERE phase = wanted_phase) AS loads
JOIN raw.load_token AS load_token ON load_token.load_id = loads.load_id
WHERE getvariable('tbt_limit_ms') IS NOT NULL
GROUP BY load_token.load_id;

-- How many tokens after the first the answers of a load have, and what part of its requests: each length that its workload
-- names, in eight parts where the client draws lengths from a span.
CREATE OR REPLACE TEMP MACRO answer_parts() AS TABLE
WITH lengths AS (
    SELECT
        load_id, coalesce(bins.output_length, scenario.output_length) AS tokens, coalesce(bins.weight, 1) AS weight,
        -- A simulation draws lengths from a span where something of its client was stated.
        CASE
            WHEN list_has_any(string_split(unusual_service, ','), ['shortest_length', 'prompts_per_user', 'poll_steps'])
                THEN coalesce(shortest_length, 1)
            ELSE 1
        END AS shortest
    FROM played
    JOIN ladder USING (ladder)
    JOIN raw.scenario AS scenario ON scenario.scenario_id = ladder.scenario_id
    LEFT JOIN raw.workload AS workload ON workload.key = scenario.workload_key
    LEFT JOIN raw.workload_bin AS bins ON bins.workload_id = workload.id
    WHERE getvariable('e2e_limit_ms') IS NOT NULL
)
SELECT
    load_id, greatest(tokens * (shortest + (1 - shortest) * (part + 0.5) / parts) - 1, 0) AS gained, weight / parts AS weight
FROM (SELECT *, CASE WHEN shortest < 1 THEN 8 ELSE 1 END AS parts, unnest(range(parts)) AS part FROM lengths);

CREATE OR REPLACE TEMP MACRO readings(slower, faster) AS [
    {'reading': 'predicted', 'c': 1.0}, {'reading': 'slower', 'c': slower}, {'reading': 'faster', 'c': faster}
];

-- Loads as they were predicted, and with steps as much longer and shorter as they are expected to be off. `share` is joint,
-- or the smaller of both limits' own; `half_width` is that of its 95 % interval over five batches (t of 4 degrees: 2.776).
-- `low` and `high` are its ends. The temporary table `chosen` names the ladders to read.
CREATE OR REPLACE TEMP MACRO load_shares(wanted_phase, marginal) AS TABLE
WITH loads AS MATERIALIZED (
    SELECT
        ladder, place, load_id, counted_requests, arrivals_per_s, 1 + step_error AS slower, 1 - step_error AS faster,
        CASE WHEN phase = 'decode' THEN NULL ELSE ttft_of_steps(outside_ms, beside_ms, step_factor) END AS ttft_ms,
        getvariable('tpot_limit_ms') / step_factor AS tpot_ms,
        CASE WHEN phase = 'aggregated' THEN (getvariable('e2e_limit_ms') - outside_ms) / step_factor END AS whole_ms
    FROM played JOIN chosen USING (ladder)
    WHERE phase = wanted_phase
),
limited AS (
    SELECT DISTINCT load_id, reading, metric, bin_place(limit_ms / coalesce(c, 1)) AS place
    FROM (
        SELECT
            load_id, ttft_ms, tpot_ms, unnest(readings(slower, faster), recursive := TRUE)
        FROM loads
    )
    CROSS JOIN LATERAL (VALUES (0, ttft_ms), (1, tpot_ms)) AS limits (metric, limit_ms)
),
placed AS (
    SELECT
        limited.load_id,
        max(even_place(place, below)) FILTER (WHERE reading = 'predicted' AND limited.metric = 1) AS tpot_place,
        max(even_place(place, below)) FILTER (WHERE reading = 'predicted' AND limited.metric = 0) AS ttft_place,
        max(even_place(place, below)) FILTER (WHERE reading = 'slower' AND limited.metric = 1) AS tpot_slower,
        max(even_place(place, below)) FILTER (WHERE reading = 'faster' AND limited.metric = 1) AS tpot_faster,
        max(even_place(place, below)) FILTER (WHERE reading = 'slower' AND limited.metric = 0) AS ttft_slower,
        max(even_place(place, below)) FILTER (WHERE reading = 'faster' AND limited.metric = 0) AS ttft_faster
    FROM limited
    LEFT JOIN raw.load_uneven AS part ON part.metric = limited.metric AND part.bin = floor(place)::INTEGER
        AND part.load_id = limited.load_id
    GROUP BY limited.load_id
),
-- The part of each cell within the limits of the whole request and of TPOT. A request takes TTFT + (tokens - 1) TPOT, and
-- answers of a cell are as long as those of all.
ended AS (
    SELECT
        load_id, ttft_bin, tpot_bin, reading,
        sum(weight * place_in(least(whole_place, bin_place(tpot_ms / c)), tpot_bin, below)) AS of_both,
        sum(weight * place_in(whole_place, tpot_bin, below)) AS of_whole
    FROM (
        SELECT
            read.load_id, ttft_bin, tpot_bin, tpot_ms, weight, below, reading, c,
            CASE
                WHEN gained > 0 THEN bin_place((whole_ms / c - bin_middle_ms(ttft_bin)) / gained)
                WHEN whole_ms / c >= bin_middle_ms(ttft_bin) THEN 1e9
                ELSE -1
            END AS whole_place
        FROM (
            SELECT
                load_id, tpot_ms, whole_ms, unnest(readings(slower, faster), recursive := TRUE)
            FROM loads
            WHERE whole_ms IS NOT NULL
        ) AS read
        JOIN cell ON cell.load_id = read.load_id
        JOIN answer_parts() AS answers ON answers.load_id = read.load_id
        LEFT JOIN raw.load_uneven AS part ON part.metric = 1 AND part.bin = tpot_bin AND part.load_id = read.load_id
        WHERE c IS NOT NULL
    )
    GROUP BY load_id, ttft_bin, tpot_bin, reading
),
wholes AS (
    SELECT
        load_id, ttft_bin, tpot_bin, any_value(of_whole) FILTER (WHERE reading = 'predicted') AS in_whole,
        any_value(of_both) FILTER (WHERE reading = 'predicted') AS in_both,
        any_value(of_whole) FILTER (WHERE reading = 'slower') AS slower_whole,
        any_value(of_both) FILTER (WHERE reading = 'slower') AS slower_both,
        any_value(of_whole) FILTER (WHERE reading = 'faster') AS faster_whole,
        any_value(of_both) FILTER (WHERE reading = 'faster') AS faster_both
    FROM ended
    GROUP BY load_id, ttft_bin, tpot_bin
),
weighed AS (
    SELECT
        load_id, bin_share(ttft_place, ttft_bin) AS in_ttft, bin_share(tpot_place, tpot_bin) AS in_tpot,
        bin_share(ttft_slower, ttft_bin) AS slower_ttft, bin_share(tpot_slower, tpot_bin) AS slower_tpot,
        bin_share(ttft_faster, ttft_bin) AS faster_ttft, bin_share(tpot_faster, tpot_bin) AS faster_tpot,
        exact_share(coalesce(in_whole, 1)) AS in_whole, exact_share(coalesce(slower_whole, 1)) AS slower_whole,
        exact_share(coalesce(faster_whole, 1)) AS faster_whole,
        exact_share(in_ttft * coalesce(in_both, in_tpot)) AS in_both,
        exact_share(slower_ttft * coalesce(slower_both, slower_tpot)) AS slower_both,
        exact_share(faster_ttft * coalesce(faster_both, faster_tpot)) AS faster_both, requests_1, requests_2, requests_3, requests_4, requests_5,
        requests_1 + requests_2 + requests_3 + requests_4 + requests_5 AS requests
    FROM placed
    JOIN cell USING (load_id)
    LEFT JOIN wholes USING (load_id, ttft_bin, tpot_bin)
),
counted AS (
    SELECT
        load_id, sum(in_ttft * requests) AS of_ttft, sum(in_tpot * requests) AS of_tpot,
        sum(in_whole * requests) AS of_whole,
        sum(in_both * requests) AS of_both, sum(slower_ttft * requests) AS slower_of_ttft,
        sum(slower_tpot * requests) AS slower_of_tpot, sum(slower_whole * requests) AS slower_of_whole,
        sum(slower_both * requests) AS slower_of_both,
        sum(faster_ttft * requests) AS faster_of_ttft, sum(faster_tpot * requests) AS faster_of_tpot,
        sum(faster_whole * requests) AS faster_of_whole,
        sum(faster_both * requests) AS faster_of_both,
        list_stddev_samp(list_value(
            sum(in_both * requests_1), sum(in_both * requests_2), sum(in_both * requests_3),
            sum(in_both * requests_4), sum(in_both * requests_5)
        )) AS batch_sd
    FROM weighed
    GROUP BY load_id
),
met AS (
    SELECT
        ladder, place, loads.load_id, arrivals_per_s, counted_requests, slower, faster,
        coalesce(of_ttft, 0) / counted_requests AS of_ttft, coalesce(of_tpot, 0) / counted_requests AS of_tpot,
        coalesce(of_whole, 0) / counted_requests AS share_e2e, coalesce(of_tbt, 1) AS share_tbt,
        least(coalesce(of_tbt, 1), coalesce(CASE WHEN marginal THEN least(of_ttft, of_tpot, of_whole) ELSE of_both END, 0)
            / counted_requests) AS of_limits,
        least(coalesce(slower_of_tbt, 1), coalesce(
            CASE WHEN marginal THEN least(slower_of_ttft, slower_of_tpot, slower_of_whole) ELSE slower_of_both END, 0)
            / counted_requests) AS slower_of_limits,
        least(coalesce(faster_of_tbt, 1), coalesce(
            CASE WHEN marginal THEN least(faster_of_ttft, faster_of_tpot, faster_of_whole) ELSE faster_of_both END, 0)
            / counted_requests) AS faster_of_limits,
        coalesce(2.776 * sqrt(5) * batch_sd, 0) / counted_requests AS half_width
    FROM loads
    LEFT JOIN counted ON counted.load_id = loads.load_id
    LEFT JOIN token_shares(wanted_phase) AS tokens ON tokens.load_id = loads.load_id
),
readings AS (
    SELECT
        ladder, place, load_id, arrivals_per_s, half_width, of_ttft AS share_ttft, of_tpot AS share_tpot,
        share_e2e, share_tbt,
        unnest([
            {'reading': 'predicted', 'c': 1.0, 'share': of_limits},
            {'reading': 'low', 'c': 1.0, 'share': of_limits - half_width},
            {'reading': 'high', 'c': 1.0, 'share': of_limits + half_width},
            {'reading': 'slower', 'c': slower, 'share': slower_of_limits},
            {'reading': 'faster', 'c': faster, 'share': faster_of_limits}
        ], recursive := TRUE)
    FROM met
)
SELECT * FROM readings WHERE c IS NOT NULL;

-- The highest rate before the first at which the share is below the wanted one, between neighbours: of each ladder, as predicted, at both ends of the sampling interval, and with longer and shorter steps. NULL where the lowest rate
-- has too small a share already; `at_least` where the highest still has enough; `recrosses` where a higher rate has again.
CREATE OR REPLACE TEMP MACRO goodputs(wanted_phase, marginal, wanted_share) AS TABLE
WITH shares AS MATERIALIZED (
    SELECT * FROM load_shares(wanted_phase, marginal)
),
neighbours AS (
    SELECT
        shares.*, wanted_share AS wanted, coalesce(
            rate_between(wanted_share, before.arrivals_per_s, before.share, shares.arrivals_per_s, shares.share), 0
        ) AS reached_rate
    FROM shares
    LEFT JOIN shares AS before ON before.ladder = shares.ladder AND before.reading = shares.reading
        AND before.place = shares.place - 1
)
SELECT
    ladder, reading,
    CASE
        WHEN bool_and(share >= wanted) THEN max(arrivals_per_s)
        ELSE nullif(min_by(reached_rate, arrivals_per_s) FILTER (WHERE share < wanted), 0)
    END / any_value(c) AS goodput,
    bool_and(share >= wanted) AS at_least,
    coalesce(
        max(arrivals_per_s) FILTER (WHERE share >= wanted) > min(arrivals_per_s) FILTER (WHERE share < wanted), FALSE
    ) AS recrosses,
    min_by(
        CASE
            WHEN share_tbt < least(share_ttft, share_tpot, share_e2e) THEN 'tbt'
            WHEN share_e2e < least(share_ttft, share_tpot) THEN 'e2e' WHEN share_ttft <= share_tpot THEN 'ttft' ELSE 'tpot'
        END, arrivals_per_s
    )
        FILTER (WHERE share < wanted) AS binding_limit
FROM neighbours
GROUP BY ladder, reading;

-- Percentiles of TTFT and TPOT of loads, each alone: requests lie evenly in the logarithm of a bin, or of its parts. Rejected ones
-- have none.
CREATE OR REPLACE TEMP MACRO load_percentiles(load_ids) AS TABLE
WITH cells AS MATERIALIZED (
    SELECT load_id, ttft_bin, tpot_bin, requests_1 + requests_2 + requests_3 + requests_4 + requests_5 AS requests
    FROM cell WHERE load_id IN (SELECT unnest(load_ids))
),
marginals AS (
    SELECT load_id, 'ttft' AS metric, ttft_bin AS bin, sum(requests) AS requests FROM cells GROUP BY load_id, ttft_bin
    UNION ALL
    SELECT load_id, 'tpot', tpot_bin, sum(requests) FROM cells GROUP BY load_id, tpot_bin
),
summed AS (
    SELECT
        load_id, metric, bin, requests, sum(requests) OVER (PARTITION BY load_id, metric ORDER BY bin) AS upto,
        sum(requests) OVER (PARTITION BY load_id, metric) AS total
    FROM marginals
),
firsts AS (
    SELECT load_id, metric, q, min(bin) AS bin, min_by((q * total - (upto - requests)) / requests, summed.bin) AS inside
    FROM summed
    CROSS JOIN (VALUES (0.5), (0.9), (0.99)) AS wanted (q)
    WHERE upto >= q * total
    GROUP BY load_id, metric, q
),
found AS (
    SELECT
        firsts.load_id, firsts.metric, q,
        step_factor * 0.01 * power(10, (firsts.bin + place_inside(inside, part.below)) / 32) AS found_ms
    FROM firsts
    JOIN (SELECT DISTINCT load_id, step_factor FROM played) AS steps ON steps.load_id = firsts.load_id
    LEFT JOIN raw.load_uneven AS part ON part.metric = CASE firsts.metric WHEN 'ttft' THEN 0 ELSE 1 END
        AND part.bin = firsts.bin AND part.load_id = firsts.load_id
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
JOIN raw.load AS load ON load.id = found.load_id
GROUP BY found.load_id;

-- The highest rate before the first at which the share is below the wanted one, between neighbours: over the rates of one
-- ladder. 0 where the lowest has too small a share already.
CREATE OR REPLACE TEMP MACRO crossed_rate(rate, share, before_rate, before_share, wanted_share) AS
    coalesce(
        min_by(coalesce(rate_between(wanted_share, before_rate, before_share, rate, share), 0), rate)
            FILTER (WHERE share < wanted_share),
        max(rate)
    );

-- Factors of limits: from a quarter to four times as long, four an octave.
CREATE OR REPLACE TEMP MACRO limit_scales() AS TABLE
SELECT power(2, range / 4) AS scale FROM range(-8, 9);
