-- What reports show of instances and of pairs, in their order of columns: measures that rank, then the stored rows.
-- The instances of a phase.
CREATE OR REPLACE TEMP MACRO best_instances(wanted_phase) AS TABLE
WITH shown AS MATERIALIZED (
    SELECT * FROM ranked_instances(wanted_phase) WHERE rank <= getvariable('top')
)
SELECT
    * EXCLUDE (made) REPLACE (
        CASE WHEN phase = 'prefill' THEN made ELSE input_tokens_per_s END AS input_tokens_per_s,
        CASE WHEN phase <> 'prefill' THEN made END AS output_tokens_per_s,
        CASE WHEN phase <> 'prefill' THEN made / num_devices END AS output_tokens_per_s_per_device
    )
FROM (
    SELECT
        ranked.question_group, ranked.rank, ranked.ranked_by, ranked.instances,
        ranked.devices_used, ranked.system_rate AS system_output_tokens_per_s, ranked.qps AS requests_per_s,
        ranked.tpot_ms,
        ranked.memory_free_bytes, ranked.rate AS made, {instance_columns}
    FROM shown AS ranked
    JOIN ranked_rows((SELECT list({'scenario_id': scenario_id, 'batch_size': batch_size}) FROM shown)) AS p
        ON p.scenario_id = ranked.scenario_id AND p.batch_size = ranked.batch_size
        AND p.question_group = ranked.question_group
);

-- The measure that ranks pairs.
CREATE OR REPLACE TEMP MACRO pair_objective(balanced_requests_per_s, system_requests_per_s, requests_per_s_per_device, requests_per_s_per_device_bound) AS
    CASE getvariable('objective')
        WHEN 'balanced_requests_per_s' THEN balanced_requests_per_s
        WHEN 'system_requests_per_s' THEN system_requests_per_s
        WHEN 'requests_per_s_per_device' THEN requests_per_s_per_device
        WHEN 'requests_per_s_per_device_bound' THEN requests_per_s_per_device_bound
    END;

-- How many pairs of formulas are kept for so many that are listed: every one, where the objective may fall as a side
-- improves.
CREATE OR REPLACE TEMP MACRO pairs_kept(most_listed) AS
    CASE WHEN getvariable('pruned') THEN most_listed ELSE 1099511627776 END;

-- The best pairs of each group, or of each group and device where both sides are of the same one: those of formulas, with
-- counts of instances within a budget, and those of an engine with their waits (paired.sql).
CREATE OR REPLACE TEMP MACRO ranked_pairs(same_device, most_listed) AS TABLE
WITH candidates AS MATERIALIZED (
    SELECT *, CASE WHEN same_device THEN hash(device) ELSE 0 END AS place FROM formula_sides()
),
-- No objective that is pruned falls when a side improves at the same size. So of each size only the best `kept` rows
-- can be in the best `kept` pairs, and of those only pairs whose ranks multiply to `kept` at most: every pair of a row
-- at least as good on both sides comes before. Ties are broken by rank, or the argument would not hold.
thresholds AS (
    SELECT
        phase, question_group, place, num_devices,
        list_min(max(qps, least(pairs_kept(most_listed), 999999))) AS least_qps
    FROM candidates
    GROUP BY phase, question_group, place, num_devices
),
instances AS MATERIALIZED (
    SELECT
        c.*,
        row_number() OVER (
            PARTITION BY c.phase, c.question_group, c.place ORDER BY c.qps DESC, latency_ms, batch_size, scenario
        ) AS side_rank,
        row_number() OVER (
            PARTITION BY c.phase, c.question_group, c.place, c.num_devices
            ORDER BY c.qps DESC, latency_ms, batch_size, scenario
        ) AS size_rank
    FROM candidates AS c
    JOIN thresholds AS t
        ON c.phase = t.phase AND c.question_group = t.question_group AND c.place = t.place
        AND c.num_devices = t.num_devices AND c.qps >= t.least_qps
    QUALIFY size_rank <= pairs_kept(most_listed)
),
pairs AS (
    SELECT
        p.question_group, p.place, p.side_rank AS prefill_rank, d.side_rank AS decode_rank, p.qps AS prefill_requests_per_s,
        d.qps AS decode_requests_per_s, p.num_devices AS prefill_size, d.num_devices AS decode_size,
        least(p.qps, d.qps) AS balanced_requests_per_s, d.qps / p.qps AS pd_ratio,
        1 / (p.num_devices / p.qps + d.num_devices / d.qps) AS requests_per_s_per_device_bound
    FROM instances AS p
    JOIN instances AS d
        ON p.question_group = d.question_group AND p.place = d.place
        AND p.size_rank <= pairs_kept(most_listed) // d.size_rank
    WHERE p.phase = 'prefill' AND d.phase = 'decode'
),
turns AS (
    SELECT
        *, unnest(CASE
            WHEN getvariable('allocation_rule') = 'exact'
                THEN exact_counts(getvariable('num_devices'), prefill_size, decode_size, prefill_requests_per_s, decode_requests_per_s)
            ELSE counts_around(getvariable('num_devices'), prefill_size, decode_size, prefill_requests_per_s, decode_requests_per_s)
        END, recursive := TRUE)
    FROM pairs
    WHERE getvariable('num_devices') IS NOT NULL AND prefill_size + decode_size <= getvariable('num_devices')
),
allocated AS (
    SELECT
        * EXCLUDE (prefills, decodes),
        CASE
            WHEN getvariable('allocation_rule') = 'exact' THEN prefills
            ELSE needed_prefills(prefills, decodes, prefill_requests_per_s, decode_requests_per_s)
        END AS prefill_instances,
        CASE
            WHEN getvariable('allocation_rule') = 'exact' THEN decodes
            ELSE needed_decodes(prefills, decodes, prefill_requests_per_s, decode_requests_per_s)
        END AS decode_instances,
        prefill_instances * prefill_size + decode_instances * decode_size AS devices_used,
        least(prefill_instances * prefill_requests_per_s, decode_instances * decode_requests_per_s) AS system_requests_per_s
    FROM turns
),
allocation AS (
    SELECT
        question_group, place, prefill_rank, decode_rank, prefill_instances, decode_instances, devices_used,
        system_requests_per_s
    FROM allocated
    QUALIFY row_number() OVER (
        PARTITION BY question_group, place, prefill_rank, decode_rank
        ORDER BY row(
            CASE
                WHEN getvariable('allocation_rule') = 'exact' THEN abs(prefill_instances / decode_instances - pd_ratio)
            END,
            -system_requests_per_s, devices_used, abs(prefill_instances / decode_instances - pd_ratio), prefill_instances
        )
    ) = 1
),
ranked AS (
    SELECT
        pairs.*, allocation.prefill_instances, allocation.decode_instances, allocation.devices_used,
        getvariable('num_devices') - allocation.devices_used AS devices_idle, allocation.system_requests_per_s,
        allocation.system_requests_per_s / allocation.devices_used AS requests_per_s_per_device,
        CASE
            WHEN getvariable('num_devices') IS NULL OR allocation.devices_used IS NOT NULL THEN NULL
            WHEN prefill_size + decode_size > getvariable('num_devices')
                THEN concat('one of each needs ', prefill_size + decode_size, ' devices')
            ELSE 'no whole numbers of instances use every device'
        END AS allocation_reason,
        row_number() OVER (
            PARTITION BY pairs.question_group, pairs.place
            ORDER BY
                pair_objective(
                    balanced_requests_per_s, allocation.system_requests_per_s, allocation.system_requests_per_s / allocation.devices_used,
                    requests_per_s_per_device_bound
                ) DESC NULLS LAST,
                pairs.prefill_rank, pairs.decode_rank
        ) AS rank
    FROM pairs
    LEFT JOIN allocation ON allocation.question_group = pairs.question_group AND allocation.place = pairs.place
        AND allocation.prefill_rank = pairs.prefill_rank AND allocation.decode_rank = pairs.decode_rank
),
seeded AS (
    SELECT
        ranked.question_group, rank, ranked.prefill_requests_per_s, ranked.decode_requests_per_s, balanced_requests_per_s, pd_ratio,
        requests_per_s_per_device_bound, prefill_instances, decode_instances, devices_used, system_requests_per_s, requests_per_s_per_device,
        allocation_reason, ps.kv_bytes_per_request / getvariable('kv_transfer_bytes_per_s') * 1000 AS transfer_ms,
        ps.ttft_ms AS pair_ttft_ms,
        system_requests_per_s / (prefill_instances * ranked.prefill_requests_per_s) AS prefill_utilisation,
        system_requests_per_s / (decode_instances * ranked.decode_requests_per_s) AS decode_utilisation, ds.tpot_ms,
        ps.scenario_id AS prefill_scenario_id, ps.batch_size AS prefill_size,
        ps.memory_free_bytes AS prefill_memory_free_bytes, ds.scenario_id AS decode_scenario_id,
        ds.batch_size AS decode_size, ds.memory_free_bytes AS decode_memory_free_bytes
    FROM ranked
    JOIN instances AS ps ON ps.phase = 'prefill' AND ps.question_group = ranked.question_group
        AND ps.place = ranked.place AND ps.side_rank = ranked.prefill_rank
    JOIN instances AS ds ON ds.phase = 'decode' AND ds.question_group = ranked.question_group
        AND ds.place = ranked.place AND ds.side_rank = ranked.decode_rank
    WHERE rank <= most_listed
),
served AS (
    SELECT
        question_group,
        row_number() OVER (
            PARTITION BY question_group, CASE WHEN same_device THEN prefill_device END
            ORDER BY
                pair_objective(balanced_requests_per_s, system_requests_per_s, requests_per_s_per_device, requests_per_s_per_device_bound) DESC,
                prefill_rank, decode_rank
        ) AS rank,
        prefill_requests_per_s, decode_requests_per_s, balanced_requests_per_s, pd_ratio, requests_per_s_per_device_bound, prefill_instances, decode_instances,
        devices_used, system_requests_per_s, requests_per_s_per_device, transfer_ms,
        ttft_ms AS pair_ttft_ms, alone_ms, wait_ms, burst_ms, handover_ms, slot_wait_ms, e2e_ms AS pair_e2e_ms, users,
        prefill_utilisation, decode_utilisation, tpot_ms, prefill_scenario_id, 1 AS prefill_size,
        prefill_memory_free_bytes, decode_scenario_id, decode_batch_size AS decode_size, decode_memory_free_bytes
    FROM engine_pairs(
        getvariable('allocation_rule'), getvariable('num_devices'), same_device, most_listed, getvariable('objective')
    )
    QUALIFY rank <= most_listed
),
answered AS MATERIALIZED (
    SELECT * FROM seeded
    UNION ALL BY NAME
    SELECT * FROM served
),
stored AS MATERIALIZED (
    SELECT *
    FROM ranked_rows((
        SELECT
            list({'scenario_id': prefill_scenario_id, 'batch_size': prefill_size})
            || list({'scenario_id': decode_scenario_id, 'batch_size': decode_size})
        FROM answered
    ))
)
SELECT
    answered.question_group, rank, answered.prefill_requests_per_s, answered.decode_requests_per_s, balanced_requests_per_s, pd_ratio,
    requests_per_s_per_device_bound, prefill_instances, decode_instances, devices_used,
    getvariable('num_devices') - devices_used AS devices_idle, system_requests_per_s, requests_per_s_per_device, allocation_reason,
    prefill_utilisation, decode_utilisation, users, pair_ttft_ms AS ttft_ms, alone_ms AS prefill_alone_ms,
    wait_ms AS prefill_wait_ms,
    burst_ms AS prefill_burst_ms, handover_ms, transfer_ms AS kv_transfer_ms, slot_wait_ms,
    CASE WHEN slot_wait_ms IS NULL THEN pair_ttft_ms + transfer_ms ELSE pair_ttft_ms END AS ttft_with_transfer_ms,
    transfer_ms <= d.decode_step_ms AS transfer_hides, pair_e2e_ms AS e2e_ms, answered.tpot_ms,
    prefill_memory_free_bytes, decode_memory_free_bytes, {pair_columns}
FROM answered
JOIN stored AS p ON p.scenario_id = prefill_scenario_id AND p.batch_size = answered.prefill_size
    AND p.question_group = answered.question_group
JOIN stored AS d ON d.scenario_id = decode_scenario_id AND d.batch_size = answered.decode_size
    AND d.question_group = answered.question_group;
