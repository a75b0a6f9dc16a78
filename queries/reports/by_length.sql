-- summary: how the best aggregated plan and the best P:D ratio change with input length: one line a stored workload
-- needs: aggregated
-- needs: prefill
-- needs: decode
-- scope: workloads
-- refuses: rank_by | by-length ranks by tokens/s/device and requests/s/device | leave `rank_by` out
-- refuses: all_pairs
-- shows: workload, input_length_mean, output_length, device, plan, batch_size, output_tokens_per_s_per_device, plan_changes, prefill_plan, decode_plan, pd_ratio, requests_per_s_per_device_bound, pair_changes
-- column: workload, workload_key, input_length, output_length, prefill_device, decode_device, pd_ratio, prefill_probe, decode_probe
-- column: question_group | none | group of model, precision and convention, over every workload of the scope
-- column: position | none | 1 is the shortest mean input; ties go to the shorter output, then the workload's key
-- column: input_length_mean | tokens | mean prompt; what lines are ordered by
-- column: device | none | of the best aggregated plan; NULL where no aggregated row satisfies the limits
-- column: plan | none | the aggregated plan with the most generated tokens/s/device; ties as in best
-- column: batch_size | requests | its best batch size by tokens/s
-- column: output_tokens_per_s_per_device | tokens/s | generated tokens/s of that plan / its devices
-- column: plan_changes | none | whether device or plan differs from the line before; NULL at the first and beside a NULL
-- column: prefill_plan | none | under formulas the prefill plan with the most requests/s/device; under an engine that of the pair with the most, waits in its times; NULL where none satisfies the limits
-- column: prefill_batch_size | requests | its best batch size by requests/s; 1 under an engine, which takes prompts one by one
-- column: decode_plan | none | likewise of the decode side
-- column: decode_batch_size | requests | its best batch size by requests/s; under an engine that of the pair
-- column: requests_per_s_per_device_bound | requests/s | 1 / (prefill devices / prefill_requests_per_s + decode devices / decode_requests_per_s), if rates match without loss; under formulas the highest of any pair
-- column: prefill_instances | instances | under an engine of the best counts, up to 8 a side; else NULL
-- column: decode_instances | instances | likewise
-- column: requests_per_s_per_device | requests/s | under an engine what these counts carry per device within the limits; else NULL
-- column: ttft_ms | ms | of that pair, every wait and the KV transfer in it; NULL under formulas
-- column: pair_changes | none | whether a device or plan of the pair differs from the line before; NULL at the first and beside a NULL
-- column: probe | none | of the aggregated winner
WITH workloads AS (
    SELECT DISTINCT question_group, workload, workload_key, input_length, input_length_mean, output_length
    FROM scoped
),
aggregated_side AS (
    SELECT question_group, workload_key, device, plan, batch_size, probe, rate / num_devices AS output_tokens_per_s_per_device
    FROM picked('aggregated', 'output_tokens_per_s')
    QUALIFY row_number() OVER (
        PARTITION BY question_group, workload_key
        ORDER BY row(-rate / num_devices, latency_ms, batch_size, scenario)
    ) = 1
),
picks AS MATERIALIZED (
    SELECT * FROM picked('split', 'qps')
),
served AS (
    SELECT *
    FROM engine_pairs('budget', NULL, FALSE, 1, 'requests_per_s_per_device')
    QUALIFY row_number() OVER (
        PARTITION BY question_group, workload_key ORDER BY row(-requests_per_s_per_device, prefill_rank, decode_rank)
    ) = 1
),
sides AS (
    SELECT
        phase, question_group, workload_key, device, plan, batch_size, probe, num_devices, degraded_qps(phase, qps) AS qps
    FROM picks
    WHERE NOT by_engine AND takes_side(phase, device, num_devices)
    QUALIFY row_number() OVER (
        PARTITION BY phase, question_group, workload_key
        ORDER BY row(-picks.qps / num_devices, latency_ms, batch_size, scenario)
    ) = 1
    UNION ALL
    SELECT
        'prefill', question_group, workload_key, prefill_device, prefill_plan, 1, prefill_probe, prefill_size, prefill_requests_per_s
    FROM served
    UNION ALL
    SELECT
        'decode', question_group, workload_key, decode_device, decode_plan, decode_batch_size, decode_probe, decode_size,
        decode_requests_per_s
    FROM served
)
SELECT
    w.question_group, row_number() OVER by_length AS position, w.workload, w.workload_key, w.input_length,
    w.input_length_mean, w.output_length, a.device, a.plan, a.batch_size, a.output_tokens_per_s_per_device,
    a.device <> lag(a.device) OVER by_length OR a.plan <> lag(a.plan) OVER by_length AS plan_changes,
    p.device AS prefill_device, p.plan AS prefill_plan, p.batch_size AS prefill_batch_size, d.device AS decode_device,
    d.plan AS decode_plan, d.batch_size AS decode_batch_size, d.qps / p.qps AS pd_ratio,
    1 / (p.num_devices / p.qps + d.num_devices / d.qps) AS requests_per_s_per_device_bound, s.prefill_instances,
    s.decode_instances, s.requests_per_s_per_device, s.ttft_ms,
    CASE
        WHEN p.plan IS NOT NULL AND d.plan IS NOT NULL AND lag(p.plan) OVER by_length IS NOT NULL
            AND lag(d.plan) OVER by_length IS NOT NULL
            THEN p.device <> lag(p.device) OVER by_length OR p.plan <> lag(p.plan) OVER by_length
                OR d.device <> lag(d.device) OVER by_length OR d.plan <> lag(d.plan) OVER by_length
    END AS pair_changes,
    a.probe, p.probe AS prefill_probe, d.probe AS decode_probe
FROM workloads AS w
LEFT JOIN aggregated_side AS a ON a.question_group = w.question_group AND a.workload_key = w.workload_key
LEFT JOIN sides AS p ON p.phase = 'prefill' AND p.question_group = w.question_group AND p.workload_key = w.workload_key
LEFT JOIN sides AS d ON d.phase = 'decode' AND d.question_group = w.question_group AND d.workload_key = w.workload_key
LEFT JOIN served AS s ON s.question_group = w.question_group AND s.workload_key = w.workload_key
WINDOW by_length AS (
    PARTITION BY w.question_group ORDER BY w.input_length_mean, w.output_length, w.workload_key
)
ORDER BY w.question_group, position;
