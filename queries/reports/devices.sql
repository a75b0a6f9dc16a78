-- summary: the best configuration of each device in one phase, ranked as best ranks: by what a device makes where sizes differ
-- modes: aggregated, prefill, decode, pd
-- shows: rank, device, plan, batch_size, concurrency, output_tokens_per_s, output_tokens_per_s_per_device, instances if num_devices, system_output_tokens_per_s if num_devices, requests_per_s, ttft_ms, tpot_ms, num_devices, e2e_ms if e2e_limit or ttft_intervals, tokens_per_s_per_user if min_tokens_per_s_per_user, probe
-- reads: narrow, winners, measured
-- column: question_group, rank, device, phase, output_tokens_per_s, ranked_by, output_tokens_per_s_per_device, instances, devices_used
-- column: system_output_tokens_per_s, requests_per_s, ttft_ms, tpot_ms, e2e_ms, concurrency, plan, tp, pp, dp, ep, moe_tp, moe_dp, batch_size
-- column: num_devices, probe, memory_free_bytes
WITH winners AS MATERIALIZED (
    SELECT *
    FROM ranked_instances(getvariable('wanted_phase'))
    QUALIFY row_number() OVER (PARTITION BY question_group, device ORDER BY rank) = 1
),
ranked AS (
    SELECT * REPLACE (row_number() OVER (PARTITION BY question_group ORDER BY rank) AS rank)
    FROM winners
)
SELECT
    question_group, rank, device, phase, ranked_by, rate AS output_tokens_per_s, rate_per_device AS output_tokens_per_s_per_device,
    instances, devices_used, system_rate AS system_output_tokens_per_s, qps AS requests_per_s, ttft_ms, tpot_ms, e2e_ms, concurrency, plan, tp, pp, dp, ep, moe_tp, moe_dp, batch_size, num_devices, probe, memory_free_bytes
FROM ranked
WHERE rank <= getvariable('top')
ORDER BY question_group, rank;

-- when: split | devices-pairs
-- summary: the best pair of each device, both sides on it, ranked as pd-ratio ranks pairs
-- shows: rank, prefill_device, decode_device if prefill_device or decode_device, prefill_plan, ttft_ms, prefill_requests_per_s, decode_plan, tpot_ms, decode_requests_per_s, pd_ratio, balanced_requests_per_s, prefill_probe, decode_probe, kv_transfer_ms if kv_transfer_gb_per_s, transfer_hides if kv_transfer_gb_per_s
-- shows with num_devices: rank, prefill_device, decode_device if prefill_device or decode_device, prefill_instances, prefill_plan, ttft_ms, decode_instances, decode_plan, tpot_ms, devices_idle, system_requests_per_s, prefill_probe, decode_probe, kv_transfer_ms if kv_transfer_gb_per_s, transfer_hides if kv_transfer_gb_per_s
-- shows with served: rank, prefill_device, decode_device if prefill_device or decode_device, prefill_instances, prefill_plan, prefill_utilisation, ttft_ms, decode_instances, decode_plan, decode_utilisation, tpot_ms, system_requests_per_s, requests_per_s_per_device, prefill_probe, decode_probe, kv_transfer_ms if kv_transfer_gb_per_s, transfer_hides if kv_transfer_gb_per_s
-- reads: narrow, winners
-- column: as pd-ratio
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
                    pair_objective(balanced_requests_per_s, system_requests_per_s, requests_per_s_per_device, requests_per_s_per_device_bound) DESC NULLS LAST,
                    prefill_device
            ) AS rank
        )
    FROM best
)
SELECT ranked.*
FROM ranked
WHERE rank <= getvariable('top')
ORDER BY question_group, rank;

-- when: by | devices by goodput
-- summary: the plan of each device that carries most requests that arrive a device, ranked
-- modes: aggregated, prefill, decode
-- reads: loads | ladder
-- shows: rank, device, plan, goodput, goodput_low, goodput_high, goodput_slower, goodput_faster, goodput_per_device, num_devices
-- column: question_group, device, plan, phase, goodput, goodput_low, goodput_high, goodput_slower, goodput_faster, goodput_per_device, attainment
-- column: num_devices, arrivals, scenario
-- column: rank | none | 1 has the highest goodput a device; ties go to the content key
SELECT
    question_group, row_number() OVER (PARTITION BY question_group ORDER BY goodput / num_devices DESC, ladder) AS rank,
    device, plan, phase, goodput, goodput_low, goodput_high, goodput_slower, goodput_faster,
    goodput / num_devices AS goodput_per_device, getvariable('attainment') AS attainment, num_devices, arrivals, scenario
FROM carrying_devices(getvariable('wanted_phase'))
QUALIFY rank <= getvariable('top')
ORDER BY question_group, rank;
