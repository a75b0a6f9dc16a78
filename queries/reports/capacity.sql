-- name: capacity
-- summary: the most requests/s each number of devices carries, aggregated or split, and the fewest that carry a target
-- of loads: goodput-capacity | rate
-- needs: prefill, decode
-- needs: aggregated
-- allocates: instances
-- timed: pairs
-- shows: devices, system_qps, qps_per_device, carries_target, mode, instances, plan, probe, prefill_instances, prefill_plan, decode_instances, decode_plan, prefill_probe, decode_probe
-- narrow: judged
-- suffices: winners
-- column: question_group | none | group of model, workload, precision and convention
-- column: devices | devices | from this number on, to the next row's, nothing carries more; up to the budget, else to what the target needs, else to 64; every number up to 1,024, beyond that 64 to each doubling
-- column: system_qps | requests/s | carried by that number of devices
-- column: qps_per_device | requests/s | system_qps / devices
-- column: carries_target | none | whether system_qps reaches the target; NULL without one
-- column: mode | none | aggregated or pd
-- column: instances | instances | aggregated ones; NULL for pd
-- column: prefill_instances | instances | NULL unless pd
-- column: decode_instances | instances | NULL unless pd
-- column: prefill_utilisation | ratio | pd: system_qps / what all prefill instances pass
-- column: decode_utilisation | ratio | pd: system_qps / what all decode instances pass at most
-- column: ttft_ms | ms | time to first token; of pd under an engine with every wait and the KV transfer
-- column: tpot_ms | ms | by the named definition
-- column: probe | none | the aggregated configuration; NULL for pd
-- column: prefill_probe | none | NULL unless pd
-- column: decode_probe | none | NULL unless pd
-- column: plan | none | split of an aggregated instance
-- column: prefill_plan | none | split of a prefill instance
-- column: decode_plan | none | split of a decode instance
WITH most AS (
    SELECT *
    FROM deployments(getvariable('target_qps'), NULL, FALSE, NULL::BIGINT[], TRUE)
    QUALIFY row_number() OVER (
        PARTITION BY question_group, devices
        ORDER BY system_qps DESC, mode, prefill_instances, first_key, second_key
    ) = 1
),
frontier AS (
    SELECT *
    FROM most
    QUALIFY system_qps > coalesce(
        max(system_qps) OVER (
            PARTITION BY question_group ORDER BY devices ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ),
        0
    )
)
SELECT
    question_group, devices, system_qps, system_qps / devices AS qps_per_device,
    system_qps >= getvariable('target_qps') AS carries_target, mode, instances, prefill_instances, decode_instances,
    prefill_utilisation, decode_utilisation, ttft_ms, tpot_ms, probe, prefill_probe, decode_probe, plan,
    prefill_plan, decode_plan
FROM frontier
ORDER BY question_group, devices;
