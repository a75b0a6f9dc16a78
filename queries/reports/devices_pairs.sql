-- name: devices-pairs
-- summary: the best pair of each device, both sides on it, ranked as pd-ratio ranks pairs
-- part of: devices
-- shows: rank, prefill_device, decode_device if prefill_device or decode_device, prefill_plan, ttft_ms, prefill_qps, decode_plan, tpot_ms, decode_qps, pd_ratio, balanced_qps, prefill_probe, decode_probe, kv_transfer_ms if kv_transfer_gb_per_s, transfer_hides if kv_transfer_gb_per_s
-- shows with num_devices: rank, prefill_device, decode_device if prefill_device or decode_device, prefill_instances, prefill_plan, ttft_ms, decode_instances, decode_plan, tpot_ms, devices_idle, system_qps, prefill_probe, decode_probe, kv_transfer_ms if kv_transfer_gb_per_s, transfer_hides if kv_transfer_gb_per_s
-- shows with served: rank, prefill_device, decode_device if prefill_device or decode_device, prefill_instances, prefill_plan, prefill_utilisation, ttft_ms, decode_instances, decode_plan, decode_utilisation, tpot_ms, system_qps, qps_per_device, prefill_probe, decode_probe, kv_transfer_ms if kv_transfer_gb_per_s, transfer_hides if kv_transfer_gb_per_s
-- narrow: judged
-- suffices: winners
-- columns like: pd-ratio
-- column: rank | none | 1 is best; ties go to the name of the device
-- column: prefill_device | none | device of both sides
WITH best AS (
    SELECT pairs.* FROM ranked_pairs(TRUE, 1) AS pairs
),
ranked AS (
    SELECT
        * REPLACE (
            row_number() OVER (
                PARTITION BY question_group
                ORDER BY
                    pair_objective(balanced_qps, system_qps, qps_per_device, qps_per_device_bound) DESC NULLS LAST,
                    prefill_device
            ) AS rank
        )
    FROM best
)
SELECT ranked.*
FROM ranked
WHERE rank <= getvariable('top')
ORDER BY question_group, rank;
