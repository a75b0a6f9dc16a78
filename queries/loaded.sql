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

-- Loads of a phase, or of all: as they were predicted, and with steps as much longer and shorter as they are expected to be off.
CREATE OR REPLACE TEMP MACRO read_loads(wanted_phase) AS TABLE
SELECT *
FROM (
    SELECT *, unnest([
        {'reading': 'predicted', 'c': 1.0}, {'reading': 'slower', 'c': 1 + step_error}, {'reading': 'faster', 'c': 1 - step_error}
    ], recursive := TRUE)
    FROM played
)
WHERE c IS NOT NULL AND phase = coalesce(wanted_phase, phase);

-- The share of times between tokens within their limit; no row without a limit. They are counted by time, not by request: this
-- share alone has to reach the wanted one.
CREATE OR REPLACE TEMP MACRO token_shares(wanted_phase) AS TABLE
SELECT
    load_id, reading,
    sum(gaps * bin_share(exact_share(bin_place(getvariable('tbt_limit_ms') / step_factor / c)), gap_bin)) / sum(gaps) AS of_tbt
FROM (SELECT DISTINCT load_id, reading, c, step_factor FROM read_loads(wanted_phase)) AS loads
JOIN raw.load_token AS load_token USING (load_id)
WHERE getvariable('tbt_limit_ms') IS NOT NULL
GROUP BY load_id, reading;

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

-- Shares of loads within their limits. `share` is joint, or the smaller of both limits' own; `half_width` is that of its 95 %
-- interval over five batches (t of 4 degrees: 2.776), and `low` and `high` are its ends. The temporary table `chosen` names the
-- ladders to read.
CREATE OR REPLACE TEMP MACRO load_shares(wanted_phase, marginal) AS TABLE
WITH loads AS MATERIALIZED (
    SELECT
        ladder, place, load_id, counted_requests, arrivals_per_s, reading, c,
        bin_place(CASE WHEN phase <> 'decode' THEN ttft_of_steps(outside_ms, beside_ms, step_factor) END / c) AS ttft_place,
        bin_place(getvariable('tpot_limit_ms') / step_factor / c) AS tpot_place,
        CASE WHEN phase = 'aggregated' THEN (getvariable('e2e_limit_ms') - outside_ms) / step_factor / c END AS whole_ms
    FROM read_loads(wanted_phase) JOIN chosen USING (ladder)
),
placed AS (
    SELECT
        limits.load_id, reading, whole_ms, tpot_place AS whole_tpot_place, even_place(ttft_place, x_part.below) AS ttft_place,
        even_place(tpot_place, y_part.below) AS tpot_place
    FROM (SELECT DISTINCT load_id, reading, ttft_place, tpot_place, whole_ms FROM loads) AS limits
    LEFT JOIN raw.load_uneven AS x_part ON x_part.metric = 0 AND x_part.bin = floor(ttft_place)::INTEGER
        AND x_part.load_id = limits.load_id
    LEFT JOIN raw.load_uneven AS y_part ON y_part.metric = 1 AND y_part.bin = floor(tpot_place)::INTEGER
        AND y_part.load_id = limits.load_id
),
-- The part of each cell within the limits of the whole request and of TPOT. A request takes TTFT + (tokens - 1) TPOT, and
-- answers of a cell are as long as those of all.
ended AS (
    SELECT
        load_id, reading, ttft_bin, tpot_bin,
        sum(weight * place_in(least(whole_place, whole_tpot_place), tpot_bin, below)) AS in_both,
        sum(weight * place_in(whole_place, tpot_bin, below)) AS in_whole
    FROM (
        SELECT
            placed.load_id, reading, ttft_bin, tpot_bin, whole_tpot_place, weight, below,
            CASE
                WHEN gained > 0 THEN bin_place((whole_ms - bin_middle_ms(ttft_bin)) / gained)
                WHEN whole_ms >= bin_middle_ms(ttft_bin) THEN 1e9
                ELSE -1
            END AS whole_place
        FROM placed
        JOIN cell ON cell.load_id = placed.load_id
        JOIN answer_parts() AS answers ON answers.load_id = placed.load_id
        LEFT JOIN raw.load_uneven AS part ON part.metric = 1 AND part.bin = tpot_bin AND part.load_id = placed.load_id
        WHERE whole_ms IS NOT NULL
    )
    GROUP BY load_id, reading, ttft_bin, tpot_bin
),
counted AS (
    SELECT
        load_id, reading, sum(in_ttft * requests) AS of_ttft, sum(in_tpot * requests) AS of_tpot,
        sum(in_whole * requests) AS of_whole, sum(in_both * requests) AS of_both,
        list_stddev_samp(list_value(
            sum(in_both * requests_1), sum(in_both * requests_2), sum(in_both * requests_3),
            sum(in_both * requests_4), sum(in_both * requests_5)
        )) AS batch_sd
    FROM (
        SELECT
            load_id, reading, bin_share(ttft_place, ttft_bin) AS in_ttft, bin_share(tpot_place, tpot_bin) AS in_tpot,
            exact_share(coalesce(ended.in_whole, 1)) AS in_whole, exact_share(in_ttft * coalesce(ended.in_both, in_tpot)) AS in_both,
            requests_1, requests_2, requests_3, requests_4, requests_5, requests
        FROM placed
        JOIN cell USING (load_id)
        LEFT JOIN ended USING (load_id, reading, ttft_bin, tpot_bin)
    )
    GROUP BY load_id, reading
),
met AS (
    SELECT
        ladder, place, load_id, arrivals_per_s, reading, c, coalesce(of_ttft, 0) / counted_requests AS share_ttft,
        coalesce(of_tpot, 0) / counted_requests AS share_tpot, coalesce(of_whole, 0) / counted_requests AS share_e2e,
        coalesce(of_tbt, 1) AS share_tbt,
        least(
            coalesce(of_tbt, 1),
            coalesce(CASE WHEN marginal THEN least(of_ttft, of_tpot, of_whole) ELSE of_both END, 0) / counted_requests
        ) AS share,
        coalesce(2.776 * sqrt(5) * batch_sd, 0) / counted_requests AS half_width
    FROM loads
    LEFT JOIN counted USING (load_id, reading)
    LEFT JOIN token_shares(wanted_phase) USING (load_id, reading)
)
SELECT * FROM met
UNION ALL
SELECT met.* REPLACE (ends.reading AS reading, share + sign * half_width AS share)
FROM met
JOIN (VALUES ('low', -1), ('high', 1)) AS ends (reading, sign) ON met.reading = 'predicted';

-- The highest rate before the first at which the share is below the wanted one, between neighbours: over the rates of one
-- ladder. 0 where the lowest has too small a share already.
CREATE OR REPLACE TEMP MACRO crossed_rate(rate, share, before_rate, before_share, wanted_share) AS
    coalesce(
        min_by(coalesce(rate_between(wanted_share, before_rate, before_share, rate, share), 0), rate)
            FILTER (WHERE share < wanted_share),
        max(rate)
    );

-- The highest rate before the first at which the share is below the wanted one, between neighbours: of each ladder, as predicted, at both ends of the sampling interval, and with longer and shorter steps. NULL where the lowest rate
-- has too small a share already; `at_least` where the highest still has enough; `recrosses` where a higher rate has again.
CREATE OR REPLACE TEMP MACRO goodputs(wanted_phase, marginal, wanted_share) AS TABLE
WITH shares AS MATERIALIZED (
    SELECT * FROM load_shares(wanted_phase, marginal)
),
neighbours AS (
    SELECT shares.*, wanted_share AS wanted, before.arrivals_per_s AS before_rate, before.share AS before_share
    FROM shares
    LEFT JOIN shares AS before ON before.ladder = shares.ladder AND before.reading = shares.reading
        AND before.place = shares.place - 1
)
SELECT
    ladder, reading,
    nullif(crossed_rate(arrivals_per_s, share, before_rate, before_share, wanted), 0) / any_value(c) AS goodput,
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
    SELECT load_id, ttft_bin, tpot_bin, requests FROM cell WHERE load_id IN (SELECT unnest(load_ids))
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

-- The share of each load of some ladders that meets its limits, as these get tighter and looser: `scales` are structs of `axis` and
-- `scale`, which name a case, and of how many times each limit is what is asked for.
CREATE OR REPLACE TEMP MACRO scaled_shares(ladders, scales) AS TABLE
WITH limited AS (
    SELECT
        ladder, place, load_id, arrivals_per_s, counted_requests, axis, scale,
        bin_place(of_tpot * getvariable('tpot_limit_ms') / step_factor) AS tpot_place,
        CASE
            WHEN phase = 'decode' THEN 1e9
            ELSE bin_place((of_ttft * getvariable('ttft_limit_ms') - (outside_ms + beside_ms)) / step_factor)
        END AS ttft_place
    FROM played, (SELECT unnest(scales, recursive := TRUE))
    WHERE ladder IN (SELECT unnest(ladders))
),
placed AS MATERIALIZED (
    SELECT
        limited.* REPLACE (
            even_place(ttft_place, x_part.below) AS ttft_place, even_place(tpot_place, y_part.below) AS tpot_place
        )
    FROM limited
    LEFT JOIN raw.load_uneven AS x_part ON x_part.metric = 0 AND x_part.bin = floor(ttft_place)::INTEGER
        AND x_part.load_id = limited.load_id
    LEFT JOIN raw.load_uneven AS y_part ON y_part.metric = 1 AND y_part.bin = floor(tpot_place)::INTEGER
        AND y_part.load_id = limited.load_id
),
counted AS (
    SELECT
        load_id, axis, scale, sum(requests * bin_share(ttft_place, ttft_bin)) AS of_ttft,
        sum(requests * bin_share(tpot_place, tpot_bin)) AS of_tpot,
        sum(requests * exact_share(bin_share(ttft_place, ttft_bin) * bin_share(tpot_place, tpot_bin))) AS of_both
    FROM placed
    JOIN cell USING (load_id)
    GROUP BY load_id, axis, scale
)
SELECT
    ladder, place, load_id, axis, scale, arrivals_per_s,
    coalesce(CASE WHEN getvariable('marginal') THEN least(of_ttft, of_tpot) ELSE of_both END, 0) / counted_requests AS share
FROM placed
LEFT JOIN counted USING (load_id, axis, scale);
