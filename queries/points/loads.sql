-- Loads as points that reports ask of (queries/points.sql).

-- What one instance of each plan carries at the limits: as predicted, at both ends of the sampling interval, and with steps
-- that are longer and shorter by their expected error.
CREATE OR REPLACE TEMP MACRO carried(wanted_phase) AS TABLE
WITH readings AS (
    SELECT
        ladder, any_value(at_least) FILTER (WHERE reading = 'predicted') AS at_least,
        any_value(recrosses) FILTER (WHERE reading = 'predicted') AS recrosses,
        any_value(binding_limit) FILTER (WHERE reading = 'predicted') AS binding_limit,
        max(goodput) FILTER (WHERE reading = 'predicted') AS goodput,
        max(goodput) FILTER (WHERE reading = 'low') AS goodput_low,
        max(goodput) FILTER (WHERE reading = 'high') AS goodput_high,
        max(goodput) FILTER (WHERE reading = 'slower') AS goodput_slower,
        max(goodput) FILTER (WHERE reading = 'faster') AS goodput_faster
    FROM goodputs(wanted_phase, getvariable('marginal'), getvariable('attainment'))
    GROUP BY ladder
)
SELECT ladder.*, readings.* EXCLUDE (ladder)
FROM readings
JOIN ladder ON ladder.ladder = readings.ladder;

-- The plan of each device that carries most a device.
CREATE OR REPLACE TEMP MACRO carrying_devices(wanted_phase) AS TABLE
SELECT *
FROM carried(wanted_phase)
WHERE goodput > 0
QUALIFY row_number() OVER (PARTITION BY question_group, device ORDER BY goodput / num_devices DESC, ladder) = 1;

CREATE OR REPLACE TEMP MACRO sellers() AS TABLE
SELECT *, goodput AS rate FROM carrying_devices('aggregated');

-- Loads of which enough requests meet the limits. `pace` is tokens/s of the median user, `yield` requests/s of a device.
CREATE OR REPLACE TEMP MACRO frontier_points() AS TABLE
WITH kept AS MATERIALIZED (
    SELECT ladder, load_id, arrivals_per_s AS rate, share
    FROM load_shares(getvariable('wanted_phase'), getvariable('marginal'))
    WHERE reading = 'predicted' AND share >= getvariable('attainment')
)
SELECT
    question_group, phase AS mode, 1000 / tpot_p50_ms AS pace, rate / num_devices AS yield, num_devices,
    ttft_p90_ms, tpot_p50_ms, tpot_p90_ms, rate, share, device, plan, arrivals, scenario, left(load.key, 8) AS point,
    NULL::VARCHAR AS other_point
FROM kept
JOIN ladder ON ladder.ladder = kept.ladder
JOIN raw.load AS load ON load.id = kept.load_id
JOIN load_percentiles((SELECT list(load_id) FROM kept)) AS percentiles ON percentiles.load_id = kept.load_id;
