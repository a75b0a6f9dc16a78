-- summary: the share of requests that meets the limits at every rate that was simulated
-- modes: aggregated, prefill, decode
-- reads: loads | ladder
-- layout: long
-- shows: device, plan, arrivals_per_s, load_share, attained, half_width, ttft_attained, tpot_attained, e2e_attained if e2e_limit, tbt_attained if tbt_limit, load_status, load
-- column: question_group, device, plan, arrivals_per_s, load_share, process, load
-- column: attained | ratio | share of requests within both limits, or within the limit that fewer meet
-- column: half_width | ratio | half of the 95 % interval of the joint share, from five batches of requests
-- column: ttft_attained | ratio | share within the limit of TTFT
-- column: tpot_attained | ratio | share within the limit of TPOT
-- column: e2e_attained | ratio | share within the limit of the whole request; NULL without one
-- column: tbt_attained | ratio | share of times between tokens within their limit; 1 without one
-- column: load_status | none | stable or saturated
-- column: in_flight | requests | mean number in one instance
-- column: settings_key | sha256 | content key of all of that but the rate
SELECT
    question_group, ladder.device, ladder.plan, shares.arrivals_per_s, load_share, share AS attained, half_width,
    share_ttft AS ttft_attained, share_tpot AS tpot_attained, share_tbt AS tbt_attained,
    CASE WHEN getvariable('e2e_limit_ms') IS NOT NULL THEN share_e2e END AS e2e_attained, load_status, in_flight, ladder.process, ladder.settings_key, load
FROM load_shares(getvariable('wanted_phase'), getvariable('marginal')) AS shares
JOIN ladder USING (ladder)
JOIN load ON load.load_id = shares.load_id
WHERE reading = 'predicted'
ORDER BY question_group, ladder.device, ladder.plan, ladder.settings_key, shares.arrivals_per_s, shares.load_id;

-- when: scale | attainment-scale
-- summary: goodput (with a rate, the share of requests) of each plan as both limits tighten and loosen; beyond 50 plans, those that can be best
-- refuses: e2e_limit | an end-to-end limit is not scaled | ask attainment, or capacity, with one limit after the other
-- reads: loads | promising(getvariable('wanted_phase'), getvariable('marginal'), getvariable('attainment'))
-- layout: long
-- shows: device, plan, scale, ttft_limit_ms if ttft_limit, tpot_limit_ms if tpot_limit, tbt_limit_ms if tbt_limit, goodput, attained if rate, said, settings_key
-- column: question_group, device, plan, attainment, process, num_devices, scenario
-- column: scale | ratio | of every limit over the one that was given: a quarter to four, four values an octave
-- column: ttft_limit_ms | ms | so scaled; NULL: no limit
-- column: tpot_limit_ms | ms | so scaled; NULL: no limit
-- column: tbt_limit_ms | ms | so scaled; NULL: no limit
-- column: goodput | requests/s | of one instance; NULL where the lowest rate simulated has too small a share
-- column: attained | ratio | share of requests within the limits at the rate that is asked for, between the rates simulated on a line in the logit; NULL without one, and above the highest
-- column: said | none | >= X: the highest rate simulated; below the lowest rate simulated
-- column: settings_key | sha256 | content key of what the loads have in common
WITH scales AS MATERIALIZED (
    SELECT power(2, range / 4) AS scale FROM range(-8, 9) WHERE getvariable('scale')
),
wanted AS (
    SELECT list(ladder) AS ladders FROM ladder JOIN chosen USING (ladder) WHERE phase = getvariable('wanted_phase')
),
tokens AS (
    SELECT
        load_id, scale,
        sum(gaps * bin_share(exact_share(bin_place(scale * getvariable('tbt_limit_ms') / step_factor)), gap_bin)) / sum(gaps) AS of_tbt
    FROM (SELECT DISTINCT load_id, step_factor FROM played JOIN chosen USING (ladder)) AS of_scope
    JOIN raw.load_token USING (load_id)
    CROSS JOIN scales
    WHERE getvariable('tbt_limit_ms') IS NOT NULL
    GROUP BY load_id, scale
),
shares AS (
    SELECT ladder, place, scale, arrivals_per_s, least(coalesce(of_tbt, 1), share) AS share
    FROM scaled_shares(
        (SELECT ladders FROM wanted), (SELECT list({'axis': 'both', 'scale': scale, 'of_ttft': scale, 'of_tpot': scale}) FROM scales)
    )
    LEFT JOIN tokens USING (load_id, scale)
),
neighbours AS (
    SELECT *, lag(arrivals_per_s) OVER rates AS before_rate, lag(share) OVER rates AS before_share
    FROM shares
    WINDOW rates AS (PARTITION BY ladder, scale ORDER BY place)
),
curves AS (
    SELECT
        ladder, scale, min(share) >= getvariable('attainment') AS at_least,
        nullif(crossed_rate(arrivals_per_s, share, before_rate, before_share, getvariable('attainment')), 0) AS goodput,
        -- At the lowest rate simulated and below, what that one has.
        min_by(
            CASE
                WHEN before_rate IS NULL THEN share
                ELSE share_between(getvariable('rate'), before_rate, before_share, arrivals_per_s, share)
            END, arrivals_per_s
        ) FILTER (WHERE arrivals_per_s >= getvariable('rate')) AS attained
    FROM neighbours
    GROUP BY ladder, scale
)
SELECT
    question_group, device, plan, scale, scale * getvariable('ttft_limit_ms') AS ttft_limit_ms,
    scale * getvariable('tpot_limit_ms') AS tpot_limit_ms, scale * getvariable('tbt_limit_ms') AS tbt_limit_ms, goodput,
    attained, getvariable('attainment') AS attainment,
    CASE
        WHEN goodput IS NULL THEN 'below the lowest rate simulated'
        WHEN at_least THEN format('>= {:.4g}, the highest rate simulated', goodput)
    END AS said,
    process, num_devices, settings_key, scenario
FROM curves
JOIN ladder USING (ladder)
ORDER BY question_group, device, plan, settings_key, scale;
