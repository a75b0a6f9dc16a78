-- name: devices
-- summary: the best configuration of each device in one phase, ranked
-- modes: aggregated, prefill, decode, pd
-- timed: pairs
-- answered by: devices-pairs | split
-- shows: rank, device, plan, batch_size, concurrency, rate, rate_per_device, qps, ttft_ms, tpot_ms, num_devices, e2e_ms if e2e_limits or ttft_intervals, tokens_per_s_per_user if min_tokens_per_s_per_user, probe
-- narrow: judged
-- suffices: winners
-- column: question_group | none | group of model, workload, precision and convention
-- column: rank | none | 1 is best; ties go to lower latency, smaller batch, then content key
-- column: device | none | device by name
-- column: phase | none | prefill, decode or aggregated
-- column: rate | tokens/s | generated tokens/s of one instance, prompt tokens/s for prefill
-- column: rate_per_device | tokens/s | rate / devices of the instance
-- column: qps | requests/s | by the named rule
-- column: ttft_ms | ms | NULL for decode
-- column: tpot_ms | ms | by the named definition; NULL for prefill
-- column: e2e_ms | ms | of a request of the lengths named; NULL unless aggregated
-- column: concurrency | requests | in flight in one instance
-- column: plan | none | parallel split
-- column: tp | devices | tensor parallel size
-- column: pp | devices | pipeline stages
-- column: dp | replicas | data parallel replicas
-- column: ep | devices | expert parallel size
-- column: moe_tp | devices | tensor parallel size inside experts
-- column: moe_dp | replicas | replicas of the expert group
-- column: batch_size | requests | per replica and stage
-- column: num_devices | devices | of one instance
-- column: probe | none | reference of the row
-- column: memory_free_bytes | bytes | left on the fullest device after the reserve
WITH winners AS (
    SELECT *
    FROM picked(getvariable('wanted_phase'), getvariable('objective'))
    QUALIFY row_number() OVER (
        PARTITION BY question_group, device ORDER BY objective DESC, latency_ms, batch_size, scenario
    ) = 1
),
ranked AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY question_group ORDER BY objective DESC, latency_ms, batch_size, scenario
        ) AS rank
    FROM winners
)
SELECT
    question_group, rank, device, phase, rate, rate / num_devices AS rate_per_device, qps, ttft_ms, tpot_ms, e2e_ms,
    concurrency, plan, tp, pp, dp, ep, moe_tp, moe_dp, batch_size, num_devices, probe, memory_free_bytes
FROM ranked
WHERE rank <= getvariable('top')
ORDER BY question_group, rank;
