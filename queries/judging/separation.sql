-- Goodput of one pair and of the plan beside it as limits get tighter and looser: TTFT alone, TPOT alone and both, by factors of a
-- quarter octave. Shares of both sides multiply, in 16 steps, as in `goodput_pairs`.
WITH deployed AS (
    SELECT ladder, phase AS side, CASE phase WHEN 'prefill' THEN $prefills WHEN 'decode' THEN $decodes ELSE $copies END AS copies
    FROM ladder
    WHERE question_group = $question_group AND settings_key IN ($prefill, $decode, $colocated)
),
scales AS (
    SELECT
        axis, power(2, range / 4) AS scale, CASE WHEN axis = 'tpot' THEN 1 ELSE scale END AS of_ttft,
        CASE WHEN axis = 'ttft' THEN 1 ELSE scale END AS of_tpot
    FROM range(-12, 13), (VALUES ('both'), ('ttft'), ('tpot')) AS axes (axis)
),
loads AS MATERIALIZED (
    SELECT side, copies, place, load_id, arrivals_per_s, counted_requests, outside_ms + beside_ms AS beside_steps_ms,
        step_factor
    FROM played JOIN deployed USING (ladder)
),
limited AS (
    SELECT
        loads.*, axis, scale, bin_place(of_tpot * getvariable('tpot_limit_ms') / step_factor) AS tpot_place,
        CASE
            WHEN side = 'decode' THEN 1e9
            ELSE bin_place((of_ttft * getvariable('ttft_limit_ms') - beside_steps_ms) / step_factor)
        END AS ttft_place
    FROM loads, scales
),
placed AS (
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
    JOIN (
        SELECT load_id, ttft_bin, tpot_bin, requests_1 + requests_2 + requests_3 + requests_4 + requests_5 AS requests FROM cell
    ) AS cells USING (load_id)
    GROUP BY load_id, axis, scale
),
shares AS (
    SELECT
        side, copies, axis, scale, place, arrivals_per_s,
        coalesce(CASE WHEN getvariable('marginal') THEN least(of_ttft, of_tpot) ELSE of_both END, 0) / counted_requests AS share
    FROM placed
    LEFT JOIN counted USING (load_id, axis, scale)
),
neighbours AS (
    SELECT *, lag(arrivals_per_s) OVER rates AS before_rate, lag(share) OVER rates AS before_share
    FROM shares
    WINDOW rates AS (PARTITION BY side, axis, scale ORDER BY place)
),
carried AS (
    SELECT
        side, axis, scale, level, any_value(copies) * crossed_rate(
            arrivals_per_s, share, before_rate, before_share, power(getvariable('attainment'), level / 16) - 1e-12
        ) AS rate
    FROM neighbours
    JOIN range(17) AS levels (level) ON side <> 'aggregated' OR level = 16
    GROUP BY side, axis, scale, level
),
compared AS (
    SELECT p.axis, p.scale, max(least(p.rate, d.rate)) AS apart, any_value(both_phases.rate) AS together
    FROM carried AS p
    JOIN carried AS d ON d.side = 'decode' AND d.axis = p.axis AND d.scale = p.scale
        AND CASE WHEN getvariable('marginal') THEN d.level = 16 AND p.level = 16 ELSE d.level = 16 - p.level END
    JOIN carried AS both_phases ON both_phases.side = 'aggregated' AND both_phases.axis = p.axis AND both_phases.scale = p.scale
    WHERE p.side = 'prefill'
    GROUP BY p.axis, p.scale
)
SELECT axis, scale, apart, together FROM compared ORDER BY axis, scale;
