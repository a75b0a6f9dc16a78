-- name: goodput-sensitivity
-- summary: the best goodput over one limit, the other held: where the winner changes and what one more ms buys
-- modes: aggregated, prefill, decode
-- reads: loads | ladder
-- nearest: none
-- requires: vary | goodput-sensitivity varies a limit | add `vary=ttft` or tpot
-- layout: long
-- shows: vary, limit_ms, ranked_goodput, goodput, gain, gain_per_ms, winner_changes, device, plan, num_devices, said
-- column: question_group | none | group of model, workload, precision and convention
-- column: vary | none | the limit that varies, eight values a decade; its own option is left out
-- column: limit_ms | ms | from the first value at which any plan has a goodput to the one from which nothing is gained
-- column: ranked_goodput | requests/s | what ranks plans: of the copies that the device budget holds, without one of a device
-- column: goodput | requests/s | of one instance of the winner
-- column: gain | requests/s | of ranked_goodput over the value before; NULL at the first
-- column: gain_per_ms | requests/s per ms | gain / how far the limit moved
-- column: winner_changes | none | whether another plan wins than at the value before
-- column: device | none | the winner's device
-- column: plan | none | its split
-- column: num_devices | devices | of one instance
-- column: attainment | ratio | share of requests that is wanted
-- column: said | none | >= X: the highest rate played, goodput may be higher
-- column: arrivals | none | process, requests and seed
-- column: scenario | none | content key of the winner
WITH loads AS MATERIALIZED (
    SELECT
        ladder, place, played.load_id, arrivals_per_s, counted_requests,
        CASE WHEN getvariable('vary') = 'ttft' THEN outside_ms + beside_ms ELSE 0 END AS beside_steps_ms,
        coalesce(of_tbt, 1) AS share_tbt,
        even_place(held_place, held.below) AS held_place
    FROM (
        SELECT
            *, CASE
                WHEN getvariable('vary') = 'ttft' THEN bin_place(getvariable('tpot_limit_ms'))
                WHEN phase = 'decode' THEN 1e9
                ELSE bin_place(ttft_of_steps(outside_ms, beside_ms))
            END AS held_place
        FROM played
    ) AS played
    LEFT JOIN raw.load_uneven AS held ON held.metric = CASE WHEN getvariable('vary') = 'ttft' THEN 1 ELSE 0 END
        AND held.bin = floor(held_place)::INTEGER AND held.load_id = played.load_id
    LEFT JOIN token_shares(getvariable('wanted_phase')) AS tokens ON tokens.load_id = played.load_id
    WHERE phase = getvariable('wanted_phase')
),
-- Requests by bin of the limit that varies: those that meet the other one, and with marginal shares all.
by_bin AS MATERIALIZED (
    SELECT
        load_id, CASE WHEN getvariable('vary') = 'ttft' THEN ttft_bin ELSE tpot_bin END AS bin,
        sum((requests_1 + requests_2 + requests_3 + requests_4 + requests_5) * CASE WHEN getvariable('marginal') THEN 1 ELSE
            bin_share(held_place, CASE WHEN getvariable('vary') = 'ttft' THEN tpot_bin ELSE ttft_bin END) END) AS met,
        sum((requests_1 + requests_2 + requests_3 + requests_4 + requests_5)
            * bin_share(held_place, CASE WHEN getvariable('vary') = 'ttft' THEN tpot_bin ELSE ttft_bin END)) AS held
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
            SELECT loads.*, limit_ms, bin_place(limit_ms - beside_steps_ms) AS limit_place FROM loads CROSS JOIN limits
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
    CASE WHEN at_least THEN format('>= {:.4g}, the highest rate played', goodput) END AS said, arrivals, scenario
FROM compared
JOIN ladder USING (ladder)
QUALIFY gain IS NULL OR limit_ms <= min(limit_ms) FILTER (WHERE ranked_goodput >= most * (1 - 1e-9))
    OVER (PARTITION BY compared.question_group)
ORDER BY compared.question_group, limit_ms;
