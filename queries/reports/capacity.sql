-- name: capacity
-- summary: the most requests/s each number of devices carries, aggregated or split, and the fewest that carry a target
-- needs: prefill, decode
-- needs: aggregated
-- allocates: instances
-- timed: pairs
-- shows: devices, system_qps, qps_per_device, carries_target, mode, instances, plan, probe, prefill_instances, prefill_plan, decode_instances, decode_plan, prefill_probe, decode_probe
-- parameters: rules
-- parameters: limits
-- parameter: target_qps | DOUBLE | requests/s | no target: only the frontier
-- parameter: num_devices | BIGINT | devices | the frontier ends at what the target needs, else at 64
-- parameter: prefill_device | VARCHAR | none | prefill instances on any stored device
-- parameter: decode_device | VARCHAR | none | decode instances on any stored device
-- parameter: prefill_instance_devices | BIGINT | devices | prefill instances of any size
-- parameter: decode_instance_devices | BIGINT | devices | decode instances of any size
-- parameter: prefill_degradation | DOUBLE | ratio | never NULL: share of prefill QPS that is kept in service
-- parameter: decode_degradation | DOUBLE | ratio | never NULL: share of decode QPS that is kept in service
-- parameter: kv_transfer_bytes_per_s | DOUBLE | bytes/s | under an engine the outermost link of the devices that hold a prompt, else no KV transfer time
-- column: question_group | none | group of model, workload, precision and convention
-- column: devices | devices | from this number on, to the next row's, nothing carries more
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
    FROM deployments(
        $reserved_gib, $kv_charge, $tpot_rule, $prefill_qps_rule, $decode_qps_rule, $throughput_rule, $ttft_limit_ms,
        $tpot_limit_ms, $e2e_limit_ms, $min_user_rate, $target_qps, $num_devices, $prefill_device, $decode_device,
        $prefill_instance_devices, $decode_instance_devices, $prefill_degradation, $decode_degradation,
        $kv_transfer_bytes_per_s
    )
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
    system_qps >= $target_qps AS carries_target, mode, instances, prefill_instances, decode_instances,
    prefill_utilisation, decode_utilisation, ttft_ms, tpot_ms, probe, prefill_probe, decode_probe, plan,
    prefill_plan, decode_plan
FROM frontier
ORDER BY question_group, devices;
