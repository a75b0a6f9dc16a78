-- What every report is built on: the probes of the question's scope, judged by the question's rules and limits.
-- `scope` is a temporary table of (scenario_id, first_batch_size, last_batch_size, question_group). A bound is what a
-- limit is compared with: the prediction itself, or what confident.sql makes of it.
CREATE OR REPLACE TEMP VIEW scoped AS
SELECT
    probe.*, scope.question_group, probe.ttft_ms AS ttft_bound_ms, probe.ttft_ms AS pair_ttft_bound_ms,
    probe.tpot_inclusive_ms AS tpot_inclusive_bound_ms, probe.tpot_exclusive_ms AS tpot_exclusive_bound_ms,
    probe.e2e_ms AS e2e_bound_ms, probe.tokens_per_s_per_user AS user_rate_bound
FROM probe
JOIN scope ON probe.scenario_id = scope.scenario_id
WHERE probe.batch_size BETWEEN scope.first_batch_size AND scope.last_batch_size;

-- The TPOT of a row where none is asked for: what an engine's clients report, or the seeds' under formulas.
CREATE OR REPLACE TEMP MACRO own_tpot(serving_model) AS
    CASE WHEN serving_model IN ('waves', 'seed002') THEN 'inclusive' ELSE 'exclusive' END;

-- Mean length over nominal of a client that draws lengths from `shortest` of it on; a row that states none has them alike.
CREATE OR REPLACE TEMP MACRO mean_length(shortest) AS (1.0 + coalesce(shortest, 1.0)) / 2;

-- Requests of the client's mean length over requests of nominal length, which an instance that does both is stored for.
CREATE OR REPLACE TEMP MACRO asked_share(e2e_ms, shortest, output_length, tpot_exclusive_ms) AS
    CASE
        WHEN shortest < 1.0 THEN e2e_ms / (e2e_ms - (1.0 - mean_length(shortest)) * output_length * tpot_exclusive_ms)
        ELSE 1.0
    END;

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
    CASE coalesce(tpot_rule, own_tpot(serving_model))
        WHEN 'exclusive' THEN tpot_exclusive_bound_ms ELSE tpot_inclusive_bound_ms
    END AS tpot_bound_ms,
    CASE phase
        WHEN 'prefill' THEN CASE prefill_qps_rule WHEN 'ttft' THEN prefill_ttft_qps ELSE prefill_capacity_qps END
        WHEN 'decode' THEN CASE decode_qps_rule WHEN 'full' THEN decode_full_qps ELSE decode_minus_one_qps END
        ELSE requests_per_s * asked_share(e2e_ms, shortest_length, output_length, tpot_exclusive_ms)
    END AS qps,
    CASE phase
        WHEN 'prefill' THEN input_tokens_per_s
        WHEN 'decode' THEN output_tokens_per_s
        ELSE CASE throughput_rule WHEN 'twice' THEN output_tokens_per_s_twice ELSE output_tokens_per_s END
    END AS rate,
    CASE phase WHEN 'prefill' THEN ttft_ms WHEN 'decode' THEN tpot_exclusive_ms ELSE e2e_ms END AS latency_ms,
    -- Rows of an engine are paired as it serves (queries/paired.sql), others by the seeds' rule. Version 1 lacks a prompt's service.
    serving_model NOT IN ('waves', 'seed002') AND formula_version > 1 AS by_engine
FROM scoped
WHERE phase = wanted_phase;

-- The judged probes that satisfy every limit, without the columns nothing decides by; NULL does not limit. A metric a phase does not have limits nothing there.
CREATE OR REPLACE TEMP MACRO admitted(
    wanted_phase, reserved_gib, kv_charge, tpot_rule, prefill_qps_rule, decode_qps_rule, throughput_rule,
    ttft_limit_ms, tpot_limit_ms, e2e_limit_ms, min_user_rate
) AS TABLE
SELECT
    question_group, scenario_id, scenario, workload_key, probe, phase, device, plan, tp, pp, dp, ep, moe_tp, moe_dp,
    num_devices, shortest_length, batch_size, concurrency, output_length, ttft_ms, tpot_exclusive_ms, tpot_exclusive_bound_ms, e2e_ms, decode_step_ms,
    tokens_per_s_per_user, tokens_per_step, kv_bytes_per_request, memory_free_bytes, tpot_ms, qps, rate, latency_ms, by_engine
FROM judged(wanted_phase, reserved_gib, kv_charge, tpot_rule, prefill_qps_rule, decode_qps_rule, throughput_rule)
WHERE memory_free_bytes >= 0
    AND qps > 0
    AND (ttft_limit_ms IS NULL OR wanted_phase = 'decode' OR ttft_bound_ms <= ttft_limit_ms)
    AND (tpot_limit_ms IS NULL OR wanted_phase = 'prefill' OR tpot_bound_ms <= tpot_limit_ms)
    AND (e2e_limit_ms IS NULL OR wanted_phase <> 'aggregated' OR e2e_bound_ms <= e2e_limit_ms)
    AND (min_user_rate IS NULL OR wanted_phase = 'prefill' OR user_rate_bound >= min_user_rate);

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

-- What instances of a group are ranked by: an objective that was asked for, what a budget holds of each where there is one,
-- what a device makes where sizes differ (a larger instance makes more tokens), else what was asked for by default.
CREATE OR REPLACE TEMP MACRO ranking(wanted_objective, objective_asked, budget, smallest, largest) AS
    CASE
        WHEN objective_asked THEN wanted_objective
        WHEN budget IS NOT NULL THEN 'system_rate'
        WHEN smallest < largest THEN 'rate_per_device'
        ELSE wanted_objective
    END;

-- The measure of an instance that `ranking` names.
CREATE OR REPLACE TEMP MACRO ranked_measure(ranked_by, rate, num_devices, budget, objective) AS
    CASE ranked_by
        WHEN 'system_rate' THEN budget::BIGINT // num_devices * rate
        WHEN 'rate_per_device' THEN rate / num_devices
        ELSE objective
    END;

-- Every plan of a phase at its best batch size, ranked within its group.
CREATE OR REPLACE TEMP MACRO ranked_instances(
    wanted_phase, reserved_gib, kv_charge, tpot_rule, prefill_qps_rule, decode_qps_rule, throughput_rule,
    ttft_limit_ms, tpot_limit_ms, e2e_limit_ms, min_user_rate, wanted_objective, objective_asked, budget
) AS TABLE
WITH sized AS (
    SELECT
        *,
        rate / num_devices AS rate_per_device,
        budget::BIGINT // num_devices AS instances,
        instances * num_devices AS devices_used,
        instances * rate AS system_rate,
        ranking(
            wanted_objective, objective_asked, budget, min(num_devices) OVER sizes, max(num_devices) OVER sizes
        ) AS ranked_by
    FROM picked(
        wanted_phase, reserved_gib, kv_charge, tpot_rule, prefill_qps_rule, decode_qps_rule, throughput_rule,
        ttft_limit_ms, tpot_limit_ms, e2e_limit_ms, min_user_rate, wanted_objective
    )
    WHERE budget IS NULL OR num_devices <= budget
    WINDOW sizes AS (PARTITION BY question_group)
)
SELECT
    *,
    row_number() OVER (
        PARTITION BY question_group
        ORDER BY
            ranked_measure(ranked_by, rate, num_devices, budget, objective) DESC, latency_ms, batch_size, scenario
    ) AS rank
FROM sized;

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
