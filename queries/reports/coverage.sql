-- summary: which model, device, workload, precision and phase are stored, how densely, and with how many failures
-- scope: whole
-- verdict: none
-- refuses: each_limit_keyword | coverage lists what is stored, whatever its numbers; ask best
-- shows: model, device, workload, linear_quantization, convention, phase, plans, scenarios_ok, illegal, unsupported, error, probes, most_common_reason
-- column: model, device, workload, phase
-- column: linear_quantization | none | number format of linears
-- column: experts_quantization | none | number format of experts
-- column: attention_quantization | none | number format of the KV cache
-- column: convention | none | physical or upstream
-- column: formula_version | none | the newest stored
-- column: plans | plans | distinct splits evaluated, failures included
-- column: scenarios | scenarios | stored, failures included
-- column: scenarios_ok | scenarios | that have numbers
-- column: illegal | scenarios | plans that do not divide the model
-- column: unsupported | scenarios | not covered, with a reason
-- column: error | scenarios | failed while being evaluated
-- column: probes | probes | stored and not voided
-- column: smallest_batch_size | requests | of the probes
-- column: largest_batch_size | requests | of the probes
-- column: most_common_reason | none | of the failures; of equally common ones the last in the alphabet
WITH stored AS (
    SELECT scenario_id, count(*) AS probes, min(batch_size) AS smallest, max(batch_size) AS largest
    FROM probe
    GROUP BY scenario_id
),
cells AS (
    SELECT
        s.model, s.device, s.workload, s.linear_quantization, s.experts_quantization, s.attention_quantization,
        s.convention, s.phase, s.formula_version, s.status, s.reason, s.scenario_id,
        concat_ws('/', {plan_sizes}) AS split, stored.probes, stored.smallest,
        stored.largest,
        -- How often the cell has this reason, before the reason itself: the largest text is the most common reason.
        printf('%09d', count(*) OVER (
            PARTITION BY s.model, s.device, s.workload, s.linear_quantization, s.experts_quantization,
                s.attention_quantization, s.convention, s.phase, s.reason
        )) || s.reason AS counted_reason
    FROM scenario AS s
    JOIN scope ON scope.scenario_id = s.scenario_id
    LEFT JOIN stored ON stored.scenario_id = s.scenario_id
)
SELECT
    model, device, workload, linear_quantization, experts_quantization, attention_quantization, convention, phase,
    max(formula_version) AS formula_version, count(DISTINCT split) AS plans, count(DISTINCT scenario_id) AS scenarios,
    count(DISTINCT scenario_id) FILTER (WHERE status = 'ok') AS scenarios_ok,
    count(DISTINCT scenario_id) FILTER (WHERE status = 'illegal') AS illegal,
    count(DISTINCT scenario_id) FILTER (WHERE status = 'unsupported') AS unsupported,
    count(DISTINCT scenario_id) FILTER (WHERE status = 'error') AS error,
    coalesce(sum(probes), 0)::BIGINT AS probes, min(smallest) AS smallest_batch_size,
    max(largest) AS largest_batch_size, 
    substr(max(counted_reason) FILTER (WHERE status <> 'ok'), 10) AS most_common_reason
FROM cells
GROUP BY ALL
ORDER BY
    model, device, workload, linear_quantization, experts_quantization, attention_quantization, convention, phase;
