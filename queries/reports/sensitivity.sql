-- summary: the best throughput as a step function of one limit, ranked as best ranks: where the winner changes and what one more unit buys
-- modes: aggregated, prefill, decode
-- requires: vary | sensitivity varies a limit | add `vary`: each_limit_listed, or two of them
-- layout: long
-- shows: vary, limit_from, limit_to, ranked_tokens_per_s if sized or num_devices, output_tokens_per_s, gain, gain_per_unit, winner_changes, device, plan, batch_size, concurrency, probe
-- reads: narrow, winners, measured
-- column: question_group, ranked_by, output_tokens_per_s, winner_changes, probe, device, plan, batch_size, concurrency
-- column: vary | none | the limit that varies; memory is the reserve, which counts down
-- column: limit_from | ms or GiB | from this value on this row is the best
-- column: limit_to | ms or GiB | up to the next step; NULL: however far it is relaxed
-- column: ranked_tokens_per_s | tokens/s | best throughput in that interval, by ranked_by
-- column: gain | tokens/s | of ranked_tokens_per_s over the step before; NULL at the first
-- column: gain_per_unit | tokens/s per ms or GiB | gain / how far the limit moved since the step before
WITH points AS (
    SELECT
        *,
        needed(getvariable('vary'), each_limited) AS needs
    FROM judged(getvariable('wanted_phase'))
    WHERE qps > 0 AND keeps_limits(phase, [getvariable('vary')], each_limited)
),
reachable AS (
    SELECT question_group, needs, num_devices, rate, latency_ms, batch_size, scenario, concurrency, probe, device, plan
    FROM points
    WHERE needs IS NOT NULL AND (needs <= 0 OR NOT counts_down(getvariable('vary')))
        AND (getvariable('num_devices') IS NULL OR num_devices <= getvariable('num_devices'))
),
sizes AS (
    SELECT question_group, ranking('output_tokens_per_s', FALSE, min(num_devices), max(num_devices)) AS ranked_by
    FROM reachable
    GROUP BY question_group
),
measured AS (
    SELECT
        reachable.*, ranked_by, ranked_measure(ranked_by, rate, num_devices, rate) AS ranked_tokens_per_s,
        sign(needs) * floor(sqrt(abs(needs)) * 16) AS stretch
    FROM reachable
    JOIN sizes ON sizes.question_group = reachable.question_group
),
-- Points that one within a much tighter limit reaches or beats are no step: few are left to be looked at one by one.
bars AS (
    SELECT
        question_group, stretch,
        max(max(ranked_tokens_per_s)) OVER (
            PARTITION BY question_group ORDER BY stretch ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS most_tighter
    FROM measured
    GROUP BY question_group, stretch
),
steps AS (
    SELECT measured.*
    FROM measured
    JOIN bars ON bars.question_group = measured.question_group AND bars.stretch = measured.stretch
    WHERE most_tighter IS NULL OR ranked_tokens_per_s > most_tighter
    QUALIFY ranked_tokens_per_s > coalesce(
        max(ranked_tokens_per_s) OVER (
            PARTITION BY measured.question_group
            ORDER BY needs, ranked_tokens_per_s DESC, latency_ms, batch_size, scenario
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ),
        -1
    )
),
compared AS (
    SELECT
        *,
        lead(needs) OVER following AS next_needs,
        ranked_tokens_per_s - lag(ranked_tokens_per_s) OVER following AS gain,
        needs - lag(needs) OVER following AS moved,
        scenario <> lag(scenario) OVER following AS winner_changes
    FROM steps
    WINDOW following AS (PARTITION BY question_group ORDER BY needs, ranked_tokens_per_s, scenario)
)
SELECT
    question_group, getvariable('vary') AS vary, abs(needs) AS limit_from, abs(next_needs) AS limit_to, ranked_by,
    ranked_tokens_per_s, rate AS output_tokens_per_s, gain, gain / nullif(moved, 0) AS gain_per_unit, winner_changes, probe, device, plan, batch_size, concurrency
FROM compared
ORDER BY question_group, needs, scenario;

-- when: vary_second | sensitivity-grid
-- summary: the best throughput for a grid of two limits, ranked as best ranks, their values spread over what is stored
-- shows: first_limit, second_limit, ranked_tokens_per_s if sized or num_devices, output_tokens_per_s, device, plan, batch_size, concurrency, probe
-- reads: narrow, measured
-- column: question_group, ranked_by, output_tokens_per_s, probe, device, plan, batch_size, concurrency
-- column: first_limit | ms or GiB | value of the first limit
-- column: second_limit | ms or GiB | value of the second limit
-- column: ranked_tokens_per_s | tokens/s | best throughput within both, by ranked_by; NULL: nothing satisfies them
WITH points AS (
    SELECT
        *,
        needed(getvariable('vary'), each_limited) AS first_needs,
        needed(getvariable('vary_second'), each_limited) AS second_needs
    FROM judged(getvariable('wanted_phase'))
    WHERE qps > 0 AND keeps_limits(phase, [getvariable('vary'), getvariable('vary_second')], each_limited)
),
reachable AS (
    SELECT
        *,
        ranking('output_tokens_per_s', FALSE, min(num_devices) OVER sizes, max(num_devices) OVER sizes) AS ranked_by,
        ranked_measure(ranked_by, rate, num_devices, rate) AS ranked_tokens_per_s
    FROM points
    WHERE first_needs IS NOT NULL AND second_needs IS NOT NULL
        AND (first_needs <= 0 OR NOT counts_down(getvariable('vary')))
        AND (second_needs <= 0 OR NOT counts_down(getvariable('vary_second')))
        AND (getvariable('num_devices') IS NULL OR num_devices <= getvariable('num_devices'))
    WINDOW sizes AS (PARTITION BY question_group)
),
shares AS (
    SELECT unnest(range(1, getvariable('steps') + 1)) / getvariable('steps') AS share
),
ordered AS (
    SELECT
        question_group, list_sort(list(first_needs)) AS first_sorted, list_sort(list(second_needs)) AS second_sorted
    FROM reachable
    GROUP BY question_group
),
firsts AS (
    SELECT DISTINCT question_group, first_sorted[ceil(share * len(first_sorted))::BIGINT] AS first_limit
    FROM ordered, shares
),
seconds AS (
    SELECT DISTINCT question_group, second_sorted[ceil(share * len(second_sorted))::BIGINT] AS second_limit
    FROM ordered, shares
),
cells AS (
    SELECT f.question_group, f.first_limit, s.second_limit
    FROM firsts AS f
    JOIN seconds AS s ON f.question_group = s.question_group
),
winners AS (
    SELECT
        c.question_group, c.first_limit, c.second_limit, r.ranked_by, r.ranked_tokens_per_s, r.rate,
        r.probe, r.device, r.plan, r.batch_size, r.concurrency
    FROM cells AS c
    LEFT JOIN reachable AS r
        ON r.question_group = c.question_group AND r.first_needs <= c.first_limit AND r.second_needs <= c.second_limit
    QUALIFY row_number() OVER (
        PARTITION BY c.question_group, c.first_limit, c.second_limit
        ORDER BY r.ranked_tokens_per_s DESC, r.latency_ms, r.batch_size, r.scenario
    ) = 1
)
SELECT
    question_group, abs(first_limit) AS first_limit, abs(second_limit) AS second_limit, ranked_by, ranked_tokens_per_s,
    rate AS output_tokens_per_s, probe, device, plan, batch_size, concurrency
FROM winners
ORDER BY question_group, winners.first_limit, winners.second_limit;

-- when: by | sensitivity by goodput
-- summary: the best goodput over one limit, the other held: where the winner changes and what one more ms buys
-- modes: aggregated, prefill, decode
-- reads: loads | ladder
-- requires: vary | goodput-sensitivity varies a limit | add `vary=ttft` or tpot
-- layout: long
-- shows: vary, limit_ms, ranked_goodput, goodput, gain, gain_per_ms, winner_changes, device, plan, num_devices, said
-- column: question_group, winner_changes, device, plan, num_devices, attainment, arrivals, scenario
-- column: vary | none | the limit that varies, eight values a decade; its own option is left out
-- column: limit_ms | ms | from the first value at which any plan has a goodput to the one from which nothing is gained
-- column: ranked_goodput | requests/s | what ranks plans: of the copies that the device budget holds, without one of a device
-- column: goodput | requests/s | of one instance of the winner
-- column: gain | requests/s | of ranked_goodput over the value before; NULL at the first
-- column: gain_per_ms | requests/s per ms | gain / how far the limit moved
-- column: said | none | >= X: the highest rate simulated, goodput may be higher
WITH loads AS MATERIALIZED (
    SELECT
        ladder, place, played.load_id, arrivals_per_s, counted_requests, step_factor,
        CASE WHEN getvariable('vary') = 'ttft' THEN outside_ms + beside_ms ELSE 0 END AS beside_steps_ms,
        coalesce(of_tbt, 1) AS share_tbt,
        even_place(held_place, held.below) AS held_place
    FROM (
        SELECT
            *, CASE
                WHEN getvariable('vary') = 'ttft' THEN bin_place(getvariable('tpot_limit_ms') / step_factor)
                WHEN phase = 'decode' THEN 1e9
                ELSE bin_place(ttft_of_steps(outside_ms, beside_ms, step_factor))
            END AS held_place
        FROM played
    ) AS played
    LEFT JOIN raw.load_uneven AS held ON held.metric = CASE WHEN getvariable('vary') = 'ttft' THEN 1 ELSE 0 END
        AND held.bin = floor(held_place)::INTEGER AND held.load_id = played.load_id
    LEFT JOIN token_shares(getvariable('wanted_phase')) AS tokens ON tokens.load_id = played.load_id AND reading = 'predicted'
    WHERE phase = getvariable('wanted_phase')
),
-- Requests by bin of the limit that varies: those that meet the other one, and with marginal shares all.
by_bin AS MATERIALIZED (
    SELECT
        load_id, CASE WHEN getvariable('vary') = 'ttft' THEN ttft_bin ELSE tpot_bin END AS bin,
        sum(requests * CASE WHEN getvariable('marginal') THEN 1 ELSE
            bin_share(held_place, CASE WHEN getvariable('vary') = 'ttft' THEN tpot_bin ELSE ttft_bin END) END) AS met,
        sum(requests * bin_share(held_place, CASE WHEN getvariable('vary') = 'ttft' THEN tpot_bin ELSE ttft_bin END)) AS held
    FROM (SELECT DISTINCT load_id, held_place FROM loads)
    JOIN cell USING (load_id)
    GROUP BY load_id, bin
),
limits AS (
    -- 0.01 ms to a quarter of a day, where any request of the scope lies below.
    SELECT 0.01 * power(10, range / 8) AS limit_ms
    FROM range(73), (SELECT min(bin) AS first_bin, max(bin) AS last_bin FROM by_bin)
    WHERE 4 * range > first_bin AND 4 * range <= last_bin + 64
),
-- Below each bin, and in it; one more row where all are below.
summed AS MATERIALIZED (
    SELECT
        load_id, bin, coalesce(lead(bin) OVER bins, 100000) AS next_bin, met AS within,
        coalesce(sum(met) OVER (bins ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS below,
        sum(held) OVER (PARTITION BY load_id) AS held
    FROM by_bin
    WINDOW bins AS (PARTITION BY load_id ORDER BY bin)
),
shares AS MATERIALIZED (
    SELECT
        ladder, place, arrivals_per_s, limit_ms, least(
            share_tbt,
            CASE WHEN getvariable('marginal') THEN coalesce(held, 0) / counted_requests ELSE 1 END,
            coalesce(below + within * least(limit_place - bin, 1), 0) / counted_requests
        ) AS share
    FROM (
        SELECT limited.* REPLACE (even_place(limit_place, varied.below) AS limit_place)
        FROM (
            SELECT loads.*, limit_ms, bin_place((limit_ms - beside_steps_ms) / step_factor) AS limit_place FROM loads CROSS JOIN limits
        ) AS limited
        LEFT JOIN raw.load_uneven AS varied ON varied.metric = CASE WHEN getvariable('vary') = 'ttft' THEN 0 ELSE 1 END
            AND varied.bin = floor(limit_place)::INTEGER AND varied.load_id = limited.load_id
    ) AS asked
    LEFT JOIN summed ON summed.load_id = asked.load_id AND limit_place >= bin AND limit_place < next_bin
),
-- Where each curve first falls short. Only this rate and the one before are read: ordering all of them takes longer than the rest.
ends AS (
    SELECT
        ladder, limit_ms, max(arrivals_per_s) AS highest,
        min(place) FILTER (WHERE share < getvariable('attainment')) AS short_place
    FROM shares
    GROUP BY ladder, limit_ms
),
around AS (
    SELECT
        ends.ladder, ends.limit_ms, any_value(highest) AS highest, any_value(short_place) AS short_place,
        max(arrivals_per_s) FILTER (WHERE place = short_place) AS rate, max(share) FILTER (WHERE place = short_place) AS share,
        max(arrivals_per_s) FILTER (WHERE place < short_place) AS before_rate,
        max(share) FILTER (WHERE place < short_place) AS before_share
    FROM ends
    LEFT JOIN shares ON shares.ladder = ends.ladder AND shares.limit_ms = ends.limit_ms
        AND (place = short_place OR place = short_place - 1)
    GROUP BY ends.ladder, ends.limit_ms
),
curves AS (
    SELECT
        ladder, limit_ms, short_place IS NULL AS at_least,
        CASE
            WHEN short_place IS NULL THEN highest
            ELSE coalesce(rate_between(getvariable('attainment'), before_rate, before_share, rate, share), 0)
        END AS goodput
    FROM around
),
winners AS (
    SELECT
        question_group, limit_ms, ladder, goodput, ladder_worth(goodput, num_devices) AS ranked_goodput, at_least
    FROM curves
    JOIN ladder USING (ladder)
    WHERE goodput > 0 AND (getvariable('num_devices') IS NULL OR num_devices <= getvariable('num_devices'))
    QUALIFY row_number() OVER (PARTITION BY question_group, limit_ms ORDER BY ranked_goodput DESC, ladder) = 1
),
compared AS (
    SELECT
        *, ranked_goodput - lag(ranked_goodput) OVER following AS gain, limit_ms - lag(limit_ms) OVER following AS moved,
        ladder <> lag(ladder) OVER following AS winner_changes,
        max(ranked_goodput) OVER (PARTITION BY question_group) AS most
    FROM winners
    WINDOW following AS (PARTITION BY question_group ORDER BY limit_ms)
)
SELECT
    compared.question_group, getvariable('vary') AS vary, limit_ms, ranked_goodput, goodput, gain, gain / moved AS gain_per_ms,
    winner_changes, device, plan, num_devices, getvariable('attainment') AS attainment,
    CASE WHEN at_least THEN format('>= {:.4g}, the highest rate simulated', goodput) END AS said, arrivals, scenario
FROM compared
JOIN ladder USING (ladder)
QUALIFY gain IS NULL OR limit_ms <= min(limit_ms) FILTER (WHERE ranked_goodput >= most * (1 - 1e-9))
    OVER (PARTITION BY compared.question_group)
ORDER BY compared.question_group, limit_ms;
