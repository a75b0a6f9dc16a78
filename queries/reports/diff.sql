-- summary: what changed between two sweeps of the same subjects, a row a subject and batch size, changed winners first
-- scope: sweeps
-- requires: sweeps | diff compares two sweeps | sweepdb sweeps lists them
-- layout: long
-- verdict: changes
-- shows: model, device, workload, phase, plan, batch_size, throughput_change_percent, ttft_change_percent, tpot_change_percent, won_before, wins_after, first_probe, second_probe
-- reads: measured
-- column: model, device, workload, phase, plan
-- column: subject | sha256 | what both rows are about
-- column: batch_size | requests | of both rows
-- column: throughput_change_percent | percent | from the first to the second, of tokens/s
-- column: ttft_change_percent | percent | from the first to the second; NULL for decode
-- column: tpot_change_percent | percent | from the first to the second; NULL for prefill
-- column: memory_change_bytes | bytes | memory left, second - first
-- column: won_before | none | best of its model, workload, precision, convention and phase in the first sweep
-- column: wins_after | none | best of the same in the second sweep
-- column: first_probe | none | row of the first sweep
-- column: second_probe | none | row of the second sweep; the same reference: the same stored row
-- column: first_formula_version | none | of the first
-- column: second_formula_version | none | of the second
-- column: first_family | none | cost model of the first
-- column: second_family | none | cost model of the second
-- column: device_profile_changed | none | whether the device profile or its calibration differs
WITH compared AS (
    SELECT
        a.subject, a.model, a.device, a.workload, a.phase, a.plan, a.batch_size, 100 * (b.rate / a.rate - 1) AS throughput_change_percent,
        100 * (b.ttft_ms / a.ttft_ms - 1) AS ttft_change_percent, 100 * (b.tpot_ms / a.tpot_ms - 1) AS tpot_change_percent,
        b.memory_free_bytes - a.memory_free_bytes AS memory_change_bytes, a.wins AS won_before, b.wins AS wins_after,
        a.probe AS first_probe, b.probe AS second_probe, a.formula_version AS first_formula_version,
        b.formula_version AS second_formula_version, a.family AS first_family, b.family AS second_family,
        a.device_key <> b.device_key AS device_profile_changed, a.scenario AS first_scenario
    FROM of_two_sweeps() AS a
    JOIN of_two_sweeps() AS b
        ON a.subject = b.subject AND a.batch_size = b.batch_size AND a.question_group = 0 AND b.question_group = 1
)
SELECT
    subject, model, device, workload, phase, plan, batch_size, throughput_change_percent, ttft_change_percent, tpot_change_percent,
    memory_change_bytes, won_before, wins_after, first_probe, second_probe, first_formula_version,
    second_formula_version, first_family, second_family, device_profile_changed
FROM compared
ORDER BY
    won_before <> wins_after DESC, abs(throughput_change_percent) DESC NULLS LAST, subject, batch_size, first_scenario, second_probe
LIMIT getvariable('top');
