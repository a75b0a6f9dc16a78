-- summary: configurations that no other beats in both tokens/s/device and tokens/s/user, aggregated and split
-- needs: prefill, decode
-- needs: aggregated
-- layout: long
-- refuses: prefill_device, decode_device, prefill_devices_per_instance, decode_devices_per_instance, prefill_degradation, decode_degradation
-- shows: mode, tokens_per_s_per_user, tokens_per_s_per_device, num_devices, ttft_ms, tpot_exclusive_ms, device, plan, concurrency, probe, prefill_plan, pd_ratio, prefill_probe
-- reads: narrow, winners
-- column: question_group, mode
-- column: tokens_per_s_per_user | tokens/s | 1000 / tpot_exclusive
-- column: tokens_per_s_per_device | tokens/s | generated tokens/s over every device that serves them, prefill devices too; pd: under an engine of the counts of instances, up to 8 a side, with the most requests/s per device that keep the limits; under formulas at the best ratio, whole numbers of instances not asked for
-- column: num_devices | devices | of the aggregated instance; NULL for pd
-- column: ttft_ms
-- column: tpot_exclusive_ms | ms | time per output token after the first
-- column: concurrency | requests | of the aggregated or decode instance
-- column: probe | none | the aggregated or decode row
-- column: device, plan, prefill_probe, prefill_device, prefill_plan
-- column: pd_ratio | ratio | decode_qps / prefill_qps: prefill instances for each decode instance; NULL unless pd
-- column: prefill_instances | instances | pd under an engine: the counts that this point is of; else NULL
-- column: decode_instances | instances | likewise
WITH whole AS (
    SELECT
        question_group, 'aggregated' AS mode, tokens_per_s_per_user, rate / num_devices AS tokens_per_s_per_device,
        num_devices, ttft_ms, tpot_exclusive_ms, concurrency, probe, device, plan, NULL::VARCHAR AS prefill_probe,
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
        PARTITION BY question_group ORDER BY num_devices / qps, latency_ms, batch_size, scenario
    ) = 1
),
split AS (
    SELECT
        d.question_group, 'pd', d.tokens_per_s_per_user,
        d.output_length / (partner.num_devices / partner.qps + d.num_devices / d.qps), NULL::BIGINT, partner.ttft_ms,
        d.tpot_exclusive_ms, d.concurrency, d.probe, d.device, d.plan, partner.probe, partner.device, partner.plan,
        d.qps / partner.qps, NULL::BIGINT, NULL::BIGINT
    FROM admitted('decode') AS d
    JOIN partner ON partner.question_group = d.question_group
    WHERE NOT by_engine
),
-- Under an engine each decode row fixes a rate, and the best partner is the one whose waits it leaves within the limits.
served AS (
    SELECT
        question_group, 'pd', 1000.0 / tpot_exclusive_ms, tokens_per_s_per_device, NULL::BIGINT, ttft_ms,
        tpot_exclusive_ms, decode_concurrency, decode_probe, decode_device, decode_plan, prefill_probe, prefill_device,
        prefill_plan, pd_ratio, prefill_instances, decode_instances
    FROM served_frontier
),
points AS (
    SELECT * FROM whole
    UNION ALL
    SELECT * FROM split
    UNION ALL
    SELECT * FROM served
),
-- Points that a much faster one reaches or beats cannot stay: few are left to be looked at one by one.
speeds AS (
    SELECT
        question_group, mode, coalesce(floor(sqrt(tokens_per_s_per_user) * 16), -1) AS speed,
        max(tokens_per_s_per_device) AS most
    FROM points
    GROUP BY ALL
),
bars AS (
    SELECT
        question_group, mode, speed,
        max(most) OVER (
            PARTITION BY question_group, mode ORDER BY speed DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS most_faster
    FROM speeds
),
likely AS (
    SELECT points.*
    FROM points
    JOIN bars
        ON bars.question_group = points.question_group AND bars.mode = points.mode
        AND bars.speed = coalesce(floor(sqrt(points.tokens_per_s_per_user) * 16), -1)
    WHERE most_faster IS NULL OR tokens_per_s_per_device > most_faster
),
-- A point stays when no user at least as fast gets more a device, and every faster one gets less. Equals both stay.
frontier AS (
    SELECT
        *,
        max(tokens_per_s_per_device) OVER as_fast AS best_as_fast,
        max(tokens_per_s_per_device) OVER faster AS best_faster
    FROM likely
    WINDOW
        as_fast AS (
            PARTITION BY question_group, mode ORDER BY tokens_per_s_per_user DESC
            RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ),
        faster AS (
            PARTITION BY question_group, mode ORDER BY tokens_per_s_per_user DESC
            RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE GROUP
        )
),
stays AS (
    SELECT *
    FROM frontier
    WHERE tokens_per_s_per_device = best_as_fast
        AND (best_faster IS NULL OR tokens_per_s_per_device > best_faster)
),
-- Where a picture has room for fewer points: of each width of its logarithmic axis the one with the most a device.
placed AS (
    SELECT
        *,
        floor(
            (ln(tokens_per_s_per_user) - min(ln(tokens_per_s_per_user)) OVER whole)
            / nullif(max(ln(tokens_per_s_per_user)) OVER whole - min(ln(tokens_per_s_per_user)) OVER whole, 0)
            * (getvariable('max_points') - 1)
        ) AS width
    FROM stays
    WINDOW whole AS (PARTITION BY question_group, mode)
)
SELECT
    question_group, mode, tokens_per_s_per_user, tokens_per_s_per_device, num_devices, ttft_ms, tpot_exclusive_ms,
    concurrency, probe, device, plan, prefill_probe, prefill_device, prefill_plan, pd_ratio,
    prefill_instances, decode_instances
FROM placed
QUALIFY getvariable('max_points') IS NULL OR row_number() OVER (
    PARTITION BY question_group, mode, width ORDER BY tokens_per_s_per_device DESC, probe, prefill_probe
) = 1
ORDER BY question_group, mode, tokens_per_s_per_user DESC, probe;
