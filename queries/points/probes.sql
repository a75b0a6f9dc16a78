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
SELECT * FROM single
UNION ALL BY NAME
SELECT
    question_group, decode_device AS device, decode_scenario AS scenario, decode_probe AS probe,
    concat(prefill_instances, ' x ', prefill_plan, ' + ', decode_instances, ' x ', decode_plan) AS plan,
    decode_batch_size AS batch_size, devices_used AS num_devices, system_requests_per_s * answer_tokens AS rate, ttft_ms,
    tpot_ms, prefill_probe, prefill_utilisation, decode_utilisation
FROM paired;

-- `pace` is tokens/s of a user, `yield` generated tokens/s over every device that serves them.
CREATE OR REPLACE TEMP MACRO frontier_points() AS TABLE
WITH whole AS (
    SELECT
        question_group, 'aggregated' AS mode, tokens_per_s_per_user AS pace, rate / num_devices AS yield,
        num_devices, ttft_ms, tpot_exclusive_ms, concurrency, probe AS point, device, plan
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
        d.question_group, 'pd' AS mode, d.tokens_per_s_per_user AS pace,
        d.output_length / (partner.num_devices / partner.qps + d.num_devices / d.qps) AS yield, partner.ttft_ms,
        d.tpot_exclusive_ms, d.concurrency, d.probe AS point, d.device, d.plan, partner.probe AS other_point,
        partner.device AS prefill_device, partner.plan AS prefill_plan, d.qps / partner.qps AS pd_ratio
    FROM admitted('decode') AS d
    JOIN partner ON partner.question_group = d.question_group AND frontier_of(partner.device) = frontier_of(d.device)
    WHERE NOT by_engine
),
-- Under an engine each decode row fixes a rate, and the best partner is the one whose waits it leaves within the limits.
served AS (
    SELECT
        question_group, 'pd' AS mode, 1000.0 / tpot_exclusive_ms AS pace, output_tokens_per_s_per_device AS yield, ttft_ms,
        tpot_exclusive_ms, decode_concurrency AS concurrency, decode_probe AS point, decode_device AS device,
        decode_plan AS plan, prefill_probe AS other_point, prefill_device, prefill_plan, pd_ratio, prefill_instances, decode_instances
    FROM engine_frontier()
)
SELECT * FROM whole
UNION ALL BY NAME
SELECT * FROM split
UNION ALL BY NAME
SELECT * FROM served;
