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
neighbours AS (
    SELECT *, lag(arrivals_per_s) OVER rates AS before_rate, lag(share) OVER rates AS before_share
    FROM scaled_shares((SELECT list(ladder) FROM deployed), (SELECT list(scales) FROM scales))
    JOIN deployed USING (ladder)
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
