-- The rows of two sweeps, which of them the limits admit, and the best of each subject's group in either.
CREATE OR REPLACE TEMP MACRO of_two_sweeps() AS TABLE
WITH admissible AS (
    SELECT
        *,
        coalesce(
            qps > 0 AND keeps_limits(phase, ['none'], each_limited), false
        ) AS fits
    FROM judged(NULL)
)
SELECT
    *,
    fits AND row_number() OVER (
        PARTITION BY question_group, model, workload_key, linear_quantization, experts_quantization,
            attention_quantization, mxfp4_group_size, mixers_quantization, head_quantization, drafts_quantization,
            convention, phase, fits
        ORDER BY rate DESC, latency_ms, batch_size, scenario
    ) = 1 AS wins
FROM admissible;
