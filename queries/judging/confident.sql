-- The probes of the question's scope where limits are read with a confidence: bounds are what a measured value stays
-- within with that probability. `factors` is a temporary table of (scenario_id, ttft, pair_ttft, tpot_inclusive,
-- tpot_exclusive): quantiles of measured / predicted, NULL where nothing is known of it, so that no limit is passed.
-- `pair_ttft` is of pairs that a prefill row stands in. An end-to-end time is the inclusive TPOT times the output; a
-- user's tokens/s are the inverse of the exclusive TPOT.
CREATE OR REPLACE TEMP VIEW scoped AS
SELECT
    probe.*, scope.question_group, probe.ttft_ms * factors.pair_ttft AS pair_ttft_bound_ms, each_sure_stored_bound
FROM probe
JOIN scope ON probe.scenario_id = scope.scenario_id
JOIN factors ON factors.scenario_id = scope.scenario_id
WHERE probe.batch_size BETWEEN scope.first_batch_size AND scope.last_batch_size;
