-- All rates of one scenario and settings, a row each; rates of a pool are no rates of an instance, so pools are left to SQL.
-- `step_error` is a temporary table of (scenario_id, error, factor): how far off
-- times of steps are expected to be, NULL where nobody knows, and how much longer they are by own runs. `ladder` orders as group and content key do.
CREATE OR REPLACE TEMP TABLE ladder AS
WITH lowest AS (
    SELECT scenario_id, settings_key, min(id) AS load_id
    FROM raw.load
    WHERE scenario_id IN (SELECT scenario_id FROM scope) AND prefill_policy IS NULL
    GROUP BY scenario_id, settings_key
)
SELECT
    (row_number() OVER (ORDER BY question_group, load.settings_key))::INTEGER AS ladder, question_group, load.settings_key,
    load.scenario_id, phase, scenario, device, plan, num_devices, stream, process, kv_admission, dispatch, outside_ms,
    play_seats AS seats, arrival_requests,
    concat(process, CASE WHEN process = 'gamma' THEN concat(':', cv) END, ', ', arrival_requests, ' requests, seed ', seed,
        CASE WHEN trace_caches IS NOT NULL THEN concat(', caches ', trace_caches) END) AS arrivals,
    error AS step_error, coalesce(factor, 1) AS step_factor
FROM lowest
JOIN load USING (load_id)
JOIN (SELECT DISTINCT scenario_id, question_group FROM scope) AS asked ON asked.scenario_id = load.scenario_id
LEFT JOIN step_error ON step_error.scenario_id = load.scenario_id;

-- A row a load: what looking limits up reads, with its place among the rates of its ladder. Where own runs say that steps take
-- `step_factor` times as long, a load is that of so much a lower rate, and all its times but `outside_ms` are as much longer. `beside_ms` is what a pair adds to the TTFT of a prefill side.
CREATE OR REPLACE TEMP TABLE played AS
SELECT
    ladder.ladder, row_number() OVER (ORDER BY ladder.ladder, raw.load.arrivals_per_s) AS place, ladder.phase,
    raw.load.id AS load_id, left(raw.load.key, 8) AS load, raw.load.arrivals_per_s / step_factor AS arrivals_per_s, raw.load.counted_requests,
    raw.load.outside_ms, 0.0::DOUBLE AS beside_ms, ladder.step_error, step_factor, ttft_first, ttft_end, tpot_first, tpot_end
FROM ladder
JOIN raw.load ON raw.load.scenario_id = ladder.scenario_id AND raw.load.settings_key = ladder.settings_key
LEFT JOIN raw.load_span ON raw.load_span.load_id = raw.load.id;

-- Ladders whose loads all keep every request: filled in for pairs.
CREATE OR REPLACE TEMP TABLE keeping AS SELECT ladder FROM ladder LIMIT 0;

-- The ladders whose cells a question reads: filled in when it is asked.
CREATE OR REPLACE TEMP TABLE chosen AS SELECT ladder FROM ladder LIMIT 0;
