SELECT
    coalesce(b.model, a.model) AS model, coalesce(b.workload, a.workload) AS workload,
    coalesce(b.phase, a.phase) AS phase, a.device AS device_before, a.plan AS plan_before,
    a.batch_size AS batch_before, a.rate AS rate_before, b.device AS device_after, b.plan AS plan_after,
    b.batch_size AS batch_after, b.rate AS rate_after
FROM (SELECT * FROM of_two_sweeps() WHERE question_group = 0 AND wins) AS a
FULL JOIN (SELECT * FROM of_two_sweeps() WHERE question_group = 1 AND wins) AS b
    ON a.model = b.model AND a.workload_key = b.workload_key AND a.phase = b.phase AND a.convention = b.convention
        AND a.linear_quantization = b.linear_quantization AND a.experts_quantization = b.experts_quantization
        AND a.attention_quantization = b.attention_quantization
        AND a.mxfp4_group_size IS NOT DISTINCT FROM b.mxfp4_group_size
        AND a.mixers_quantization IS NOT DISTINCT FROM b.mixers_quantization
        AND a.head_quantization IS NOT DISTINCT FROM b.head_quantization
        AND a.drafts_quantization IS NOT DISTINCT FROM b.drafts_quantization
ORDER BY model, workload, phase, plan_before, plan_after;
