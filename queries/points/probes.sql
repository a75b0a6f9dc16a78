-- Probes as points that reports ask of (queries/points.sql).

-- The cheapest configuration of each device, or the cheapest pair that decodes on it.
CREATE OR REPLACE TEMP MACRO sellers() AS TABLE
WITH single AS (
    SELECT
        question_group, device, scenario, probe, plan, batch_size, num_devices, rate, ttft_ms, tpot_ms
    FROM picked(getvariable('wanted_phase'), 'output_tokens_per_s_per_device')
    WHERE NOT getvariable('split')
    QUALIFY row_number() OVER (
        PARTITION BY question_group, device ORDER BY objective DESC, latency_ms, batch_size, scenario
    ) = 1
),
paired AS (
    SELECT *
    FROM engine_pairs('budget', NULL, TRUE, 1, 'requests_per_s_per_device')
    WHERE getvariable('split')
    QUALIFY row_number() OVER (
        PARTITION BY question_group, decode_device ORDER BY requests_per_s_per_device DESC, prefill_rank, decode_rank
    ) = 1
)
SELECT
    *, NULL::VARCHAR AS prefill_probe, NULL::DOUBLE AS prefill_utilisation, NULL::DOUBLE AS decode_utilisation
FROM single
UNION ALL
SELECT
    question_group, decode_device, decode_scenario, decode_probe,
    concat(prefill_instances, ' x ', prefill_plan, ' + ', decode_instances, ' x ', decode_plan),
    decode_batch_size, devices_used, system_requests_per_s * answer_tokens, ttft_ms, tpot_ms, prefill_probe,
    prefill_utilisation, decode_utilisation
FROM paired;

-- `pace` is tokens/s of a user, `yield` generated tokens/s over every device that serves them.
CREATE OR REPLACE TEMP MACRO frontier_points() AS TABLE
WITH whole AS (
    SELECT
        question_group, 'aggregated' AS mode, tokens_per_s_per_user AS pace, rate / num_devices AS yield,
        num_devices, ttft_ms, tpot_exclusive_ms, concurrency, probe AS point, device, plan, NULL::VARCHAR AS other_point,
        NULL::VARCHAR AS prefill_device, NULL::VARCHAR AS prefill_plan, NULL::DOUBLE AS pd_ratio,
        NULL::BIGINT AS prefill_instances, NULL::BIGINT AS decode_instances
    FROM admitted('aggregated')
),
-- Under formulas the prefill plan with the most requests/s a device is the best partner of every decode row.
partner AS (
    SELECT question_group, probe, device, plan, num_devices, qps, ttft_ms
    FROM picked('prefill', 'qps')
    WHERE NOT by_engine
    QUALIFY row_number() OVER (
        PARTITION BY question_group, frontier_of(device) ORDER BY num_devices / qps, latency_ms, batch_size, scenario
    ) = 1
),
split AS (
    SELECT
        d.question_group, 'pd', d.tokens_per_s_per_user,
        d.output_length / (partner.num_devices / partner.qps + d.num_devices / d.qps), NULL::BIGINT, partner.ttft_ms,
        d.tpot_exclusive_ms, d.concurrency, d.probe, d.device, d.plan, partner.probe, partner.device, partner.plan,
        d.qps / partner.qps, NULL::BIGINT, NULL::BIGINT
    FROM admitted('decode') AS d
    JOIN partner ON partner.question_group = d.question_group AND frontier_of(partner.device) = frontier_of(d.device)
    WHERE NOT by_engine
),
-- Under an engine each decode row fixes a rate, and the best partner is the one whose waits it leaves within the limits.
served AS (
    SELECT
        question_group, 'pd', 1000.0 / tpot_exclusive_ms, output_tokens_per_s_per_device, NULL::BIGINT, ttft_ms,
        tpot_exclusive_ms, decode_concurrency, decode_probe, decode_device, decode_plan, prefill_probe, prefill_device,
        prefill_plan, pd_ratio, prefill_instances, decode_instances
    FROM engine_frontier()
)
SELECT * FROM whole
UNION ALL
SELECT * FROM split
UNION ALL
SELECT * FROM served;
