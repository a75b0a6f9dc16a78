-- What every report is built on: the probes of the question's scope, judged by the question's rules and limits. These
-- are session variables, each set with its type (SET VARIABLE ttft_limit_ms = 500::DOUBLE); queries/asking/options.py
-- declares them. Arguments of macros are what differs from call to call.
-- `scope` is a temporary table of (scenario_id, first_batch_size, last_batch_size, question_group). A bound is what a
-- limit is compared with: the prediction itself, or with a confidence what a measured value stays within with that
-- probability. `factors` is then a temporary table of (scenario_id, first_batch_size, last_batch_size, ttft, pair_ttft, ...): quantiles
-- of measured / predicted, NULL where nothing is known of it, so that no limit is passed. `pair_ttft` is of pairs that a
-- prefill row stands in. An end-to-end time is the inclusive TPOT times the output; a user's tokens/s are the inverse of
-- the exclusive TPOT.
CREATE OR REPLACE TEMP VIEW scoped AS
SELECT
    probe.*, scope.question_group, each_stored_bound
FROM probe
JOIN scope ON probe.scenario_id = scope.scenario_id
with_factors_of_scope
WHERE probe.batch_size BETWEEN scope.first_batch_size AND scope.last_batch_size;

-- The stored rows that an answer shows, with every column. `wanted` lists their scenario_id and batch_size, so that
-- few files and rows are read for them.
CREATE OR REPLACE TEMP MACRO stored_rows(wanted) AS TABLE
SELECT scoped.*
FROM scoped
SEMI JOIN (SELECT unnest(wanted, recursive := true)) AS asked
    ON asked.scenario_id = scoped.scenario_id AND asked.batch_size = scoped.batch_size
WHERE scenario_id IN (SELECT unnest(list_transform(wanted, lambda row: row.scenario_id)));

-- The same of rows that were ranked.
CREATE OR REPLACE TEMP MACRO ranked_rows(wanted) AS TABLE
SELECT * FROM stored_rows(wanted);

-- The TPOT of a row where none is asked for: what an engine's clients report, or the seeds' under formulas.
CREATE OR REPLACE TEMP MACRO own_tpot(serving_model) AS
    CASE WHEN is_formula(serving_model) THEN 'inclusive' ELSE 'exclusive' END;

-- Mean length over nominal of a client that draws lengths from `shortest` of it on; a row that states none has them alike.
CREATE OR REPLACE TEMP MACRO mean_length(shortest) AS (1.0 + coalesce(shortest, 1.0)) / 2;

-- What a transfer of keys and values gets of a device's outermost link, of which collectives get the effective bandwidth; the same share
-- and its source stand in evaluator/serving/pairs.py.
CREATE OR REPLACE TEMP MACRO moving_bytes_per_s(link_bytes_per_s) AS (0.7::DOUBLE * link_bytes_per_s);

-- The TPOT, requests/s and rate that the question's rules choose of what is stored of a row.
CREATE OR REPLACE TEMP MACRO tpot_by(tpot_rule, serving_model, inclusive, exclusive) AS
    CASE coalesce(tpot_rule, own_tpot(serving_model)) WHEN 'exclusive' THEN exclusive ELSE inclusive END;
CREATE OR REPLACE TEMP MACRO ruled_tpot(serving_model, inclusive, exclusive) AS
    tpot_by(getvariable('tpot_rule'), serving_model, inclusive, exclusive);

-- Rows of an engine are paired as it serves (queries/paired.sql), others by the seeds' rule. Version 1 lacks a prompt's service.
CREATE OR REPLACE TEMP MACRO by_engine(serving_model, formula_version) AS
    NOT is_formula(serving_model) AND formula_version > 1;

-- Whether a row keeps every limit, those aside that a report varies. NULL does not limit, nor does a metric that a phase
-- has not. Names that begin with
-- `each` or `every` stand for a part a limit (queries/asking/limits.py).
CREATE OR REPLACE TEMP MACRO keeps_limits(phase, varied, each_limited) AS
    every_limit_kept;

-- The value of the limit `vary` from which on a row is admitted; counted downwards where less of it admits more.
CREATE OR REPLACE TEMP MACRO needed(vary, each_limited) AS
    CASE vary when_each_needed END;
CREATE OR REPLACE TEMP MACRO counts_down(vary) AS vary IN (each_counted_down);

-- How far a row is beyond the limit that it misses by the largest share (0 where it keeps all), which limit that is, and
-- how many it misses.
CREATE OR REPLACE TEMP MACRO largest_miss(phase, device_memory_bytes, each_limited) AS greatest(each_miss);
CREATE OR REPLACE TEMP MACRO limit_missed_by(miss, phase, device_memory_bytes, each_limited) AS
    CASE miss when_each_missed END;
CREATE OR REPLACE TEMP MACRO limits_missed(phase, device_memory_bytes, each_limited) AS sum_of_missed;

-- Whether something is known of everything that is limited, where limits are read with a confidence.
CREATE OR REPLACE TEMP MACRO knows_limits(each_metric, each_limited) AS
    every_limit_known;

-- The share of each limit that a row uses, as lines of `why`.
CREATE OR REPLACE TEMP MACRO limit_uses(device_memory_bytes, each_limited) AS [each_use];

-- Memory that is left of what a device has, as it is predicted.
CREATE OR REPLACE TEMP MACRO memory_left(scenario_id, predicted_bytes) AS predicted_bytes;

-- Every probe of the scope with its memory left, and its TPOT, requests/s and rate by the named rules. `rate` ranks a phase:
-- generated tokens/s of aggregated and decode instances, prompt tokens/s of prefill ones. `latency_ms` breaks ties.
CREATE OR REPLACE TEMP VIEW judged_rows AS
SELECT
    *,
    memory_left(
        scenario_id,
        device_memory_bytes - weight_bytes - activation_bytes - (getvariable('reserved_gib') * 1073741824)::BIGINT
            - CASE getvariable('kv_charge') WHEN 'mean' THEN kv_cache_mean_bytes ELSE kv_cache_bytes END
    ) AS memory_free_bytes,
    ruled_tpot(serving_model, tpot_inclusive_ms, tpot_exclusive_ms) AS tpot_ms,
    ruled_tpot(serving_model, tpot_inclusive_ms_bound, tpot_exclusive_ms_bound) AS tpot_ms_bound,
    CASE phase
        WHEN 'prefill'
            THEN CASE getvariable('prefill_qps_rule') WHEN 'ttft' THEN prefill_ttft_requests_per_s ELSE prefill_capacity_requests_per_s END
        WHEN 'decode'
            THEN CASE getvariable('decode_qps_rule') WHEN 'full' THEN decode_full_requests_per_s ELSE decode_minus_one_requests_per_s END
        ELSE requests_per_s
    END AS qps,
    CASE phase
        WHEN 'prefill' THEN input_tokens_per_s
        WHEN 'decode' THEN output_tokens_per_s
        ELSE CASE getvariable('throughput_rule')
            WHEN 'twice' THEN output_tokens_per_s_twice ELSE output_tokens_per_s
        END
    END AS rate,
    CASE phase WHEN 'prefill' THEN ttft_ms WHEN 'decode' THEN tpot_exclusive_ms ELSE e2e_ms END AS latency_ms,
    by_engine(serving_model, formula_version) AS by_engine
FROM scoped;

-- Whether a phase is the wanted one, or of either side of pairs (`split`); NULL wants any.
CREATE OR REPLACE TEMP MACRO is_wanted(phase, wanted_phase) AS
    wanted_phase IS NULL OR phase = wanted_phase OR (wanted_phase = 'split' AND phase <> 'aggregated');

-- Those of a phase.
CREATE OR REPLACE TEMP MACRO judged(wanted_phase) AS TABLE
SELECT * FROM judged_rows WHERE is_wanted(phase, wanted_phase);

-- The judged probes that satisfy every limit.
CREATE OR REPLACE TEMP MACRO admitted(wanted_phase) AS TABLE
SELECT * FROM judged(wanted_phase) WHERE qps > 0 AND keeps_limits(phase, ['none'], each_limited);

-- The best batch size of each scenario in each of its groups: highest objective, then lower latency, then smaller batch.
-- `every_row` takes all of them. An order by one row of keys costs DuckDB a third of what one by each key does.
CREATE OR REPLACE TEMP MACRO picked(wanted_phase, wanted_objective, every_row := FALSE) AS TABLE
WITH candidates AS (
    SELECT
        *,
        CASE wanted_objective
            WHEN 'qps' THEN qps
            WHEN 'output_tokens_per_s' THEN rate
            WHEN 'output_tokens_per_s_per_device' THEN rate / num_devices
            WHEN 'ttft' THEN -ttft_ms
            WHEN 'tpot' THEN -tpot_ms
            WHEN 'e2e' THEN -e2e_ms
            WHEN 'batch_size' THEN batch_size
            WHEN 'concurrency' THEN concurrency
            WHEN 'tokens_per_s_per_user' THEN tokens_per_s_per_user
        END AS objective
    FROM admitted(wanted_phase)
)
SELECT *
FROM candidates
WHERE objective IS NOT NULL
QUALIFY every_row OR row_number() OVER (
    PARTITION BY question_group, scenario_id ORDER BY row(-objective, latency_ms, batch_size)
) = 1;

-- What instances of a group are ranked by: an objective that was asked for, what a budget holds of each where there is one,
-- what a device makes where sizes differ (a larger instance makes more tokens), else what was asked for by default.
CREATE OR REPLACE TEMP MACRO ranking(wanted_objective, objective_asked, smallest, largest) AS
    CASE
        WHEN objective_asked THEN wanted_objective
        WHEN getvariable('num_devices') IS NOT NULL THEN 'system_output_tokens_per_s'
        WHEN smallest < largest THEN 'output_tokens_per_s_per_device'
        ELSE wanted_objective
    END;

-- The measure of an instance that `ranking` names.
CREATE OR REPLACE TEMP MACRO ranked_measure(ranked_by, rate, num_devices, objective) AS
    CASE ranked_by
        WHEN 'system_output_tokens_per_s' THEN getvariable('num_devices') // num_devices * rate
        WHEN 'output_tokens_per_s_per_device' THEN rate / num_devices
        ELSE objective
    END;

-- Every plan of a phase at its best batch size, ranked within its group.
CREATE OR REPLACE TEMP MACRO ranked_instances(wanted_phase) AS TABLE
WITH sized AS (
    SELECT
        *,
        rate / num_devices AS rate_per_device,
        getvariable('num_devices') // num_devices AS instances,
        instances * num_devices AS devices_used,
        instances * rate AS system_rate,
        ranking(
            getvariable('objective'), getvariable('objective_asked'), min(num_devices) OVER sizes,
            max(num_devices) OVER sizes
        ) AS ranked_by
    FROM picked(wanted_phase, getvariable('objective'))
    WHERE getvariable('num_devices') IS NULL OR num_devices <= getvariable('num_devices')
    WINDOW sizes AS (PARTITION BY question_group)
)
SELECT
    *,
    row_number() OVER (
        PARTITION BY question_group
        ORDER BY row(-ranked_measure(ranked_by, rate, num_devices, objective), latency_ms, batch_size, scenario)
    ) AS rank
FROM sized;

-- Whether an instance is one that its side of a deployment may be of; NULL takes any.
CREATE OR REPLACE TEMP MACRO takes_side(phase, device, num_devices) AS
    CASE phase
        WHEN 'prefill' THEN device = coalesce(getvariable('prefill_device'), device)
            AND num_devices = coalesce(getvariable('prefill_instance_devices'), num_devices)
        WHEN 'decode' THEN device = coalesce(getvariable('decode_device'), device)
            AND num_devices = coalesce(getvariable('decode_instance_devices'), num_devices)
        ELSE TRUE
    END;

-- The requests/s of a side of a deployment as they are asked about.
CREATE OR REPLACE TEMP MACRO degraded_qps(phase, qps) AS
    qps * CASE phase
        WHEN 'prefill' THEN getvariable('prefill_degradation')
        WHEN 'decode' THEN getvariable('decode_degradation')
        ELSE 1
    END;

-- Instances of either side that formulas pair: each plan at its best batch size by requests/s, or every admitted row.
CREATE OR REPLACE TEMP MACRO formula_sides() AS TABLE
WITH picks AS MATERIALIZED (
    SELECT * FROM picked('split', 'qps', every_row := getvariable('all_pairs'))
)
SELECT * REPLACE (degraded_qps(phase, qps) AS qps)
FROM picks
WHERE NOT by_engine AND takes_side(phase, device, num_devices);
