-- What every report is built on: the probes of the question's scope, judged by the question's rules and limits.
-- `scope` is a temporary table of (scenario_id, first_batch_size, last_batch_size, question_group).
CREATE OR REPLACE TEMP VIEW scoped AS
SELECT probe.*, scope.question_group
FROM probe
JOIN scope ON probe.scenario_id = scope.scenario_id
WHERE probe.batch_size BETWEEN scope.first_batch_size AND scope.last_batch_size;

-- The TPOT of a row where none is asked for: what an engine's clients report, or the seeds' under formulas.
CREATE OR REPLACE TEMP MACRO own_tpot(serving_model) AS
    CASE WHEN serving_model IN ('waves', 'seed002') THEN 'inclusive' ELSE 'exclusive' END;

-- Every probe of a phase with its memory left, and its TPOT, QPS and rate by the named rules. `rate` ranks a phase:
-- generated tokens/s of aggregated and decode instances, prompt tokens/s of prefill ones. `latency_ms` breaks ties.
CREATE OR REPLACE TEMP MACRO judged(
    wanted_phase, reserved_gib, kv_charge, tpot_rule, prefill_qps_rule, decode_qps_rule, throughput_rule
) AS TABLE
SELECT
    *,
    device_memory_bytes - weight_bytes - activation_bytes - (reserved_gib::DOUBLE * 1073741824)::BIGINT
        - CASE kv_charge WHEN 'mean' THEN kv_cache_mean_bytes ELSE kv_cache_bytes END AS memory_free_bytes,
    CASE coalesce(tpot_rule, own_tpot(serving_model)) WHEN 'exclusive' THEN tpot_exclusive_ms ELSE tpot_inclusive_ms END AS tpot_ms,
    CASE phase
        WHEN 'prefill' THEN CASE prefill_qps_rule WHEN 'ttft' THEN prefill_ttft_qps ELSE prefill_capacity_qps END
        WHEN 'decode' THEN CASE decode_qps_rule WHEN 'full' THEN decode_full_qps ELSE decode_minus_one_qps END
        ELSE requests_per_s
    END AS qps,
    CASE phase
        WHEN 'prefill' THEN input_tokens_per_s
        WHEN 'decode' THEN output_tokens_per_s
        ELSE CASE throughput_rule WHEN 'twice' THEN output_tokens_per_s_twice ELSE output_tokens_per_s END
    END AS rate,
    CASE phase WHEN 'prefill' THEN ttft_ms WHEN 'decode' THEN tpot_exclusive_ms ELSE e2e_ms END AS latency_ms
FROM scoped
WHERE phase = wanted_phase;

-- The judged probes that satisfy every limit, without the columns nothing decides by; NULL does not limit. A metric a phase does not have limits nothing there.
CREATE OR REPLACE TEMP MACRO admitted(
    wanted_phase, reserved_gib, kv_charge, tpot_rule, prefill_qps_rule, decode_qps_rule, throughput_rule,
    ttft_limit_ms, tpot_limit_ms, e2e_limit_ms, min_user_rate
) AS TABLE
SELECT
    question_group, scenario_id, scenario, probe, phase, device, plan, tp, pp, dp, ep, moe_tp, moe_dp, num_devices,
    batch_size, concurrency, output_length, ttft_ms, tpot_exclusive_ms, e2e_ms, decode_step_ms, tokens_per_s_per_user,
    kv_bytes_per_request, memory_free_bytes, tpot_ms, qps, rate, latency_ms
FROM judged(wanted_phase, reserved_gib, kv_charge, tpot_rule, prefill_qps_rule, decode_qps_rule, throughput_rule)
WHERE memory_free_bytes >= 0
    AND qps > 0
    AND (ttft_limit_ms IS NULL OR wanted_phase = 'decode' OR ttft_ms <= ttft_limit_ms)
    AND (tpot_limit_ms IS NULL OR wanted_phase = 'prefill' OR tpot_ms <= tpot_limit_ms)
    AND (e2e_limit_ms IS NULL OR wanted_phase <> 'aggregated' OR e2e_ms <= e2e_limit_ms)
    AND (min_user_rate IS NULL OR wanted_phase = 'prefill' OR tokens_per_s_per_user >= min_user_rate);

-- The best batch size of each scenario in each of its groups: highest objective, then lower latency, then smaller batch. Only ties are sorted.
CREATE OR REPLACE TEMP MACRO picked(
    wanted_phase, reserved_gib, kv_charge, tpot_rule, prefill_qps_rule, decode_qps_rule, throughput_rule,
    ttft_limit_ms, tpot_limit_ms, e2e_limit_ms, min_user_rate, wanted_objective
) AS TABLE
WITH candidates AS (
    SELECT
        *,
        CASE wanted_objective
            WHEN 'qps' THEN qps
            WHEN 'rate' THEN rate
            WHEN 'rate_per_device' THEN rate / num_devices
            WHEN 'ttft' THEN -ttft_ms
            WHEN 'tpot' THEN -tpot_ms
            WHEN 'e2e' THEN -e2e_ms
            WHEN 'batch_size' THEN batch_size
            WHEN 'concurrency' THEN concurrency
            WHEN 'tokens_per_s_per_user' THEN tokens_per_s_per_user
        END AS objective
    FROM admitted(
        wanted_phase, reserved_gib, kv_charge, tpot_rule, prefill_qps_rule, decode_qps_rule, throughput_rule,
        ttft_limit_ms, tpot_limit_ms, e2e_limit_ms, min_user_rate
    )
),
peaks AS (
    SELECT question_group, scenario_id, max(objective) AS objective FROM candidates GROUP BY question_group, scenario_id
)
SELECT candidates.*
FROM candidates
JOIN peaks
    ON candidates.question_group = peaks.question_group AND candidates.scenario_id = peaks.scenario_id
    AND candidates.objective = peaks.objective
QUALIFY row_number() OVER (
    PARTITION BY candidates.question_group, candidates.scenario_id
    ORDER BY candidates.latency_ms, candidates.batch_size
) = 1;

-- One side of a deployment: each plan at its best batch size by requests/s, or every admitted row.
CREATE OR REPLACE TEMP MACRO side(
    wanted_phase, reserved_gib, kv_charge, tpot_rule, prefill_qps_rule, decode_qps_rule, throughput_rule,
    ttft_limit_ms, tpot_limit_ms, min_user_rate, every_row
) AS TABLE
SELECT *
FROM admitted(
    wanted_phase, reserved_gib, kv_charge, tpot_rule, prefill_qps_rule, decode_qps_rule, throughput_rule,
    ttft_limit_ms, tpot_limit_ms, NULL, min_user_rate
)
WHERE every_row
UNION ALL
SELECT * EXCLUDE (objective)
FROM picked(
    wanted_phase, reserved_gib, kv_charge, tpot_rule, prefill_qps_rule, decode_qps_rule, throughput_rule,
    ttft_limit_ms, tpot_limit_ms, NULL, min_user_rate, 'qps'
)
WHERE NOT every_row;

-- The smallest whole number of instances that carries a rate; the quotient may be off by one, the products decide.
CREATE OR REPLACE TEMP MACRO least_count(qps, target_qps) AS
    CASE
        WHEN ceil(target_qps / qps) > 1 AND (ceil(target_qps / qps) - 1) * qps >= target_qps
            THEN ceil(target_qps / qps)::BIGINT - 1
        WHEN ceil(target_qps / qps) * qps >= target_qps THEN greatest(ceil(target_qps / qps)::BIGINT, 1)
        ELSE ceil(target_qps / qps)::BIGINT + 1
    END;

-- Every useful number of instances within a device budget, aggregated or split: so many of one side, and the fewest of
-- the other that keep up. Of each size only the side with the most requests/s can matter.
CREATE OR REPLACE TEMP MACRO deployments(
    reserved_gib, kv_charge, tpot_rule, prefill_qps_rule, decode_qps_rule, throughput_rule, ttft_limit_ms,
    tpot_limit_ms, e2e_limit_ms, min_user_rate, target_qps, budget, prefill_on, decode_on, prefill_devices_each,
    decode_devices_each, prefill_kept, decode_kept
) AS TABLE
WITH aggregated_side AS (
    SELECT question_group, scenario, probe, plan, device, num_devices AS size, qps, ttft_ms, tpot_ms, output_length
    FROM picked(
        'aggregated', reserved_gib, kv_charge, tpot_rule, prefill_qps_rule, decode_qps_rule, throughput_rule,
        ttft_limit_ms, tpot_limit_ms, e2e_limit_ms, min_user_rate, 'qps'
    )
    QUALIFY row_number() OVER (
        PARTITION BY question_group, num_devices ORDER BY qps DESC, latency_ms, batch_size, scenario
    ) = 1
),
prefill_side AS (
    SELECT
        question_group, scenario, probe, plan, device, num_devices AS size, qps * prefill_kept AS qps, ttft_ms,
        kv_bytes_per_request
    FROM picked(
        'prefill', reserved_gib, kv_charge, tpot_rule, prefill_qps_rule, decode_qps_rule, throughput_rule,
        ttft_limit_ms, NULL, NULL, NULL, 'qps'
    )
    WHERE (prefill_on IS NULL OR device = prefill_on)
        AND (prefill_devices_each IS NULL OR num_devices = prefill_devices_each)
    QUALIFY row_number() OVER (
        PARTITION BY question_group, num_devices ORDER BY qps DESC, latency_ms, batch_size, scenario
    ) = 1
),
decode_side AS (
    SELECT
        question_group, scenario, probe, plan, device, num_devices AS size, qps * decode_kept AS qps, tpot_ms,
        output_length
    FROM picked(
        'decode', reserved_gib, kv_charge, tpot_rule, prefill_qps_rule, decode_qps_rule, throughput_rule,
        NULL, tpot_limit_ms, NULL, min_user_rate, 'qps'
    )
    WHERE (decode_on IS NULL OR device = decode_on)
        AND (decode_devices_each IS NULL OR num_devices = decode_devices_each)
    QUALIFY row_number() OVER (
        PARTITION BY question_group, num_devices ORDER BY qps DESC, latency_ms, batch_size, scenario
    ) = 1
),
pairs AS (
    SELECT
        p.question_group, p.scenario AS prefill_scenario, d.scenario AS decode_scenario, p.probe AS prefill_probe,
        d.probe AS decode_probe, p.plan AS prefill_plan, d.plan AS decode_plan, p.device AS prefill_device,
        d.device AS decode_device, p.size AS prefill_size, d.size AS decode_size, p.qps AS prefill_qps,
        d.qps AS decode_qps, p.ttft_ms, d.tpot_ms, d.output_length, p.kv_bytes_per_request
    FROM prefill_side AS p
    JOIN decode_side AS d ON p.question_group = d.question_group
),
enough AS (
    SELECT question_group, least_count(qps, target_qps) * size AS devices FROM aggregated_side
    UNION ALL
    SELECT
        question_group,
        least_count(prefill_qps, target_qps) * prefill_size + least_count(decode_qps, target_qps) * decode_size
    FROM pairs
),
ends AS (
    SELECT question_group, coalesce(budget, min(devices), 64)::BIGINT AS most_devices
    FROM enough
    GROUP BY question_group
),
aggregated_counts AS (
    SELECT s.*, unnest(range(1, most_devices // size + 1)) AS instances
    FROM aggregated_side AS s
    JOIN ends ON ends.question_group = s.question_group
),
fitting AS (
    SELECT pairs.*, most_devices
    FROM pairs
    JOIN ends ON ends.question_group = pairs.question_group
    WHERE prefill_size + decode_size <= most_devices
),
by_prefill AS (
    SELECT *, unnest(range(1, (most_devices - decode_size) // prefill_size + 1)) AS wanted FROM fitting
),
by_decode AS (
    SELECT *, unnest(range(1, (most_devices - prefill_size) // decode_size + 1)) AS wanted FROM fitting
),
pair_counts AS (
    SELECT *, wanted AS prefill_instances, least_count(decode_qps, wanted * prefill_qps) AS decode_instances
    FROM by_prefill
    UNION ALL
    SELECT *, least_count(prefill_qps, wanted * decode_qps), wanted
    FROM by_decode
)
SELECT
    question_group, instances * size AS devices, instances * qps AS system_qps, 'aggregated' AS mode, instances,
    NULL::BIGINT AS prefill_instances, NULL::BIGINT AS decode_instances, ttft_ms, tpot_ms, output_length,
    NULL::BIGINT AS kv_bytes_per_request, probe, device, plan, NULL::VARCHAR AS prefill_probe,
    NULL::VARCHAR AS prefill_device, NULL::VARCHAR AS prefill_plan, NULL::VARCHAR AS decode_probe,
    NULL::VARCHAR AS decode_device, NULL::VARCHAR AS decode_plan, scenario AS first_key, '' AS second_key
FROM aggregated_counts
UNION ALL
SELECT
    question_group, prefill_instances * prefill_size + decode_instances * decode_size,
    least(prefill_instances * prefill_qps, decode_instances * decode_qps), 'pd', NULL, prefill_instances,
    decode_instances, ttft_ms, tpot_ms, output_length, kv_bytes_per_request, NULL, NULL, NULL, prefill_probe,
    prefill_device, prefill_plan, decode_probe, decode_device, decode_plan, prefill_scenario, decode_scenario
FROM pair_counts
WHERE prefill_instances * prefill_size + decode_instances * decode_size <= most_devices;
