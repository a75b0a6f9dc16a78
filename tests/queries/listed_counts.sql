-- Counts of instances as they were found before they were counted by arithmetic: every number is listed. Tests hold both to
-- each other over small budgets.

CREATE OR REPLACE TEMP MACRO listed_deployments(target_qps, every_mode) AS TABLE
WITH aggregated_side AS (
    SELECT
        question_group, scenario, probe, plan, device, num_devices AS size, qps, ttft_ms, tpot_ms,
        e2e_ms, concurrency,
        mean_length(shortest_length) * output_length AS answer_tokens,
        mean_length(shortest_length) * input_length_mean AS prompt_tokens, memory_free_bytes,
        prefix_cache_hit_rate + host_hit_rate + ssd_hit_rate + remote_hit_rate AS prefix_cache_hit_rate
    FROM picked('aggregated', 'qps')
    QUALIFY row_number() OVER (
        PARTITION BY question_group, num_devices ORDER BY qps DESC, latency_ms, batch_size, scenario
    ) = 1
),
prefill_side AS (
    SELECT
        question_group, scenario, probe, plan, device, num_devices AS size,
        qps * getvariable('prefill_degradation') AS qps, ttft_ms,
        kv_bytes_per_request, memory_free_bytes
    FROM picked('prefill', 'qps')
    WHERE NOT by_engine
        AND takes_side(phase, device, num_devices)
    QUALIFY row_number() OVER (
        PARTITION BY question_group, num_devices ORDER BY qps DESC, latency_ms, batch_size, scenario
    ) = 1
),
decode_side AS (
    SELECT
        question_group, scenario, probe, plan, device, num_devices AS size,
        qps * getvariable('decode_degradation') AS qps, tpot_ms,
        output_length AS answer_tokens, input_length_mean AS prompt_tokens, memory_free_bytes,
        prefix_cache_hit_rate + host_hit_rate + ssd_hit_rate + remote_hit_rate AS prefix_cache_hit_rate
    FROM picked('decode', 'qps')
    WHERE NOT by_engine
        AND takes_side(phase, device, num_devices)
    QUALIFY row_number() OVER (
        PARTITION BY question_group, num_devices ORDER BY qps DESC, latency_ms, batch_size, scenario
    ) = 1
),
pairs AS (
    SELECT
        p.question_group, p.scenario AS prefill_scenario, d.scenario AS decode_scenario, p.probe AS prefill_probe,
        d.probe AS decode_probe, p.plan AS prefill_plan, d.plan AS decode_plan, p.device AS prefill_device,
        d.device AS decode_device, p.size AS prefill_size, d.size AS decode_size, p.qps AS prefill_requests_per_s,
        d.qps AS decode_requests_per_s, p.ttft_ms, d.tpot_ms, d.answer_tokens, d.prompt_tokens, d.prefix_cache_hit_rate,
        least(p.memory_free_bytes, d.memory_free_bytes) AS memory_free_bytes,
        p.kv_bytes_per_request / getvariable('kv_transfer_bytes_per_s') * 1000 AS kv_transfer_ms
    FROM prefill_side AS p
    JOIN decode_side AS d ON p.question_group = d.question_group
),
engine_prefill_side AS MATERIALIZED (
    SELECT *, row_number() OVER (ORDER BY scenario) AS prefill_number
    FROM engine_prefills()
),
-- A prompt never waits longer where service, lone time and servers are no worse.
engine_prefill_front AS MATERIALIZED (
    SELECT *
    FROM engine_prefill_side AS p
    WHERE NOT EXISTS (
        SELECT 1
        FROM engine_prefill_side AS o
        WHERE o.question_group = p.question_group AND o.size = p.size AND o.first_share = p.first_share
            AND coalesce(o.ttft_ratio, 1e300) <= coalesce(p.ttft_ratio, 1e300)
            AND o.service_ms <= p.service_ms AND o.lone_ms <= p.lone_ms AND o.servers_each >= p.servers_each
            AND (
                o.service_ms < p.service_ms OR o.lone_ms < p.lone_ms OR o.servers_each > p.servers_each
                OR o.scenario < p.scenario
            )
    )
),
engine_decode_side AS MATERIALIZED (
    SELECT
        *, max(qps) OVER (PARTITION BY question_group, scenario) AS most_qps,
        row_number() OVER (ORDER BY scenario, batch_size) AS decode_number
    FROM engine_decodes()
),
-- Numbers alone: names are looked up for what is answered.
engine_rows AS (
    SELECT
        p.question_group, prefill_number, decode_number, p.size AS prefill_size, d.size AS decode_size, d.qps,
        p.service_ms, p.lone_ms, p.servers_each, p.first_share, p.ttft_ratio, d.answer_ms, d.slot_wait_ms,
        d.answer_ratio
    FROM engine_prefill_front AS p
    JOIN engine_decode_side AS d ON p.question_group = d.question_group
),
-- The fewest devices of each row of a pair that carry the target: as many decodes as it takes, prefills until it holds.
engine_enough AS (
    SELECT question_group, prefill_instances * prefill_size + decode_instances * decode_size AS devices
    FROM (
        SELECT
            *,
            unnest(range(
                greatest(floor(decode_instances * qps / 1000.0 * service_ms / servers_each)::BIGINT, 1),
                4 * floor(decode_instances * qps / 1000.0 * service_ms / servers_each)::BIGINT + 9
            )) AS prefill_instances
        FROM (SELECT *, least_count(qps, target_qps) AS decode_instances FROM engine_rows WHERE target_qps IS NOT NULL)
    )
    WHERE pair_holds(
        decode_instances * qps / 1000.0, lone_ms + slot_wait_ms, answer_ms, service_ms, prefill_instances * servers_each,
        first_share, pair_ttft_limit_ms(answer_ms, ttft_ratio, answer_ratio)
    )
),
enough AS (
    SELECT question_group, 'aggregated' AS mode, least_count(qps, target_qps) * size AS devices FROM aggregated_side
    UNION ALL
    SELECT
        question_group, 'pd',
        least_count(prefill_requests_per_s, target_qps) * prefill_size + least_count(decode_requests_per_s, target_qps) * decode_size
    FROM pairs
    UNION ALL
    SELECT question_group, 'pd', devices FROM engine_enough
    UNION ALL
    SELECT question_group, 'pd', NULL FROM engine_rows
),
ends AS (
    SELECT
        question_group,
        coalesce(getvariable('num_devices'), CASE WHEN every_mode THEN max(devices) ELSE min(devices) END, 64)::BIGINT
            AS most_devices
    FROM (SELECT question_group, mode, min(devices) AS devices FROM enough GROUP BY question_group, mode)
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
    SELECT *, wanted AS prefill_instances, least_count(decode_requests_per_s, wanted * prefill_requests_per_s) AS decode_instances
    FROM by_prefill
    UNION ALL
    SELECT *, least_count(prefill_requests_per_s, wanted * decode_requests_per_s), wanted
    FROM by_decode
),
-- The quotient is the fewest prefill instances that keep up, or one less.
engine_counts AS (
    SELECT
        *,
        greatest(floor(decode_instances * qps / 1000.0 * service_ms / servers_each)::BIGINT, 1) AS fewest_prefills,
        (most_devices - decode_instances * decode_size) // prefill_size AS most_prefills
    FROM (
        SELECT
            r.*, most_devices, lone_ms + slot_wait_ms AS unqueued_ms,
            unnest(range(1, (most_devices - prefill_size) // decode_size + 1)) AS decode_instances
        FROM engine_rows AS r
        JOIN ends ON ends.question_group = r.question_group
        WHERE prefill_size + decode_size <= most_devices
    )
),
-- A frontier that some rows reach with few prefill instances: others are worth a look only above it.
engine_sample AS (
    SELECT *, prefill_instances * prefill_size + decode_instances * decode_size AS devices
    FROM (
        SELECT *, unnest(range(fewest_prefills, least(fewest_prefills + 4, most_prefills + 1))) AS prefill_instances
        FROM engine_counts
        WHERE decode_number % 8 = 0 AND fewest_prefills <= most_prefills
    )
    WHERE pair_holds(
        decode_instances * qps / 1000.0, unqueued_ms, answer_ms, service_ms, prefill_instances * servers_each,
        first_share, pair_ttft_limit_ms(answer_ms, ttft_ratio, answer_ratio)
    )
),
engine_floor AS MATERIALIZED (
    SELECT
        n.question_group, n.devices,
        coalesce(max(max(decode_instances * qps)) OVER (PARTITION BY n.question_group ORDER BY n.devices), 0.0)
            AS least_qps
    FROM (SELECT question_group, unnest(range(0, most_devices + 1)) AS devices FROM ends) AS n
    LEFT JOIN engine_sample AS e ON e.question_group = n.question_group AND e.devices = n.devices
    GROUP BY n.question_group, n.devices
),
-- The most prefill instances that fit decide whether any number of them does.
engine_bounded AS (
    SELECT c.*
    FROM engine_counts AS c
    JOIN engine_floor AS f ON f.question_group = c.question_group
        AND f.devices = fewest_prefills * prefill_size + decode_instances * decode_size
        AND decode_instances * qps >= f.least_qps
    WHERE fewest_prefills <= most_prefills
        AND pair_holds(
            decode_instances * qps / 1000.0, unqueued_ms, answer_ms, service_ms, most_prefills * servers_each,
            first_share, pair_ttft_limit_ms(answer_ms, ttft_ratio, answer_ratio)
        )
),
engine_tried AS (
    SELECT *, unnest(range(fewest_prefills, most_prefills + 1)) AS prefill_instances FROM engine_bounded
),
engine_held AS MATERIALIZED (
    SELECT *, prefill_instances * prefill_size + decode_instances * decode_size AS devices
    FROM engine_tried
    WHERE pair_holds(
        decode_instances * qps / 1000.0, unqueued_ms, answer_ms, service_ms, prefill_instances * servers_each,
        first_share, pair_ttft_limit_ms(answer_ms, ttft_ratio, answer_ratio)
    )
),
engine_most AS (
    SELECT question_group, devices, max(decode_instances * qps) AS system_requests_per_s
    FROM engine_held
    GROUP BY question_group, devices
),
engine_best AS (
    SELECT h.*, m.system_requests_per_s
    FROM engine_held AS h
    JOIN engine_most AS m ON m.question_group = h.question_group AND m.devices = h.devices
        AND m.system_requests_per_s = h.decode_instances * h.qps
    QUALIFY row_number() OVER (
        PARTITION BY h.question_group, h.devices
        ORDER BY
            pair_ttft_ms(
                h.decode_instances * h.qps / 1000.0, unqueued_ms, answer_ms, service_ms,
                prefill_instances * servers_each, first_share
            ),
            prefill_instances, prefill_number, decode_number
    ) = 1
),
engine_timed AS (
    SELECT
        b.question_group, b.devices, b.system_requests_per_s, b.prefill_instances, b.decode_instances, b.unqueued_ms, d.tpot_ms, d.answer_ms,
        d.answer_tokens, d.prompt_tokens, d.prefix_cache_hit_rate,
        least(p.memory_free_bytes, d.memory_free_bytes) AS memory_free_bytes, p.transfer_ms, d.slot_wait_ms, p.qps AS prefill_requests_per_s, d.most_qps, p.probe AS prefill_probe,
        p.device AS prefill_device, p.plan AS prefill_plan, d.probe AS decode_probe, d.device AS decode_device,
        d.plan AS decode_plan, p.scenario AS prefill_scenario, d.scenario AS decode_scenario,
        pair_wait_ms(
            b.system_requests_per_s / 1000.0, b.unqueued_ms, d.answer_ms, p.service_ms, b.prefill_instances * p.servers_each
        ) AS wait_ms,
        b.unqueued_ms + (1.0 - p.first_share) * wait_ms + p.first_share * pair_burst_ms(
            b.system_requests_per_s / 1000.0 * (b.unqueued_ms + wait_ms + d.answer_ms), p.service_ms,
            b.prefill_instances * p.servers_each
        ) AS ttft_ms
    FROM engine_best AS b
    JOIN engine_prefill_front AS p ON p.prefill_number = b.prefill_number
    JOIN engine_decode_side AS d ON d.decode_number = b.decode_number
)
SELECT
    question_group, instances * size AS devices, instances * qps AS system_requests_per_s, 'aggregated' AS mode, instances,
    NULL::BIGINT AS prefill_instances, NULL::BIGINT AS decode_instances, ttft_ms, tpot_ms, e2e_ms, answer_tokens,
    prompt_tokens, prefix_cache_hit_rate, memory_free_bytes, NULL::DOUBLE AS prefill_wait_ms, NULL::DOUBLE AS kv_transfer_ms, NULL::DOUBLE AS slot_wait_ms,
    NULL::DOUBLE AS prefill_utilisation, NULL::DOUBLE AS decode_utilisation, probe, device, plan,
    NULL::VARCHAR AS prefill_probe, NULL::VARCHAR AS prefill_device, NULL::VARCHAR AS prefill_plan,
    NULL::VARCHAR AS decode_probe, NULL::VARCHAR AS decode_device, NULL::VARCHAR AS decode_plan,
    instances * concurrency AS users, scenario AS first_key, '' AS second_key
FROM aggregated_counts
UNION ALL
SELECT
    question_group, prefill_instances * prefill_size + decode_instances * decode_size,
    least(prefill_instances * prefill_requests_per_s, decode_instances * decode_requests_per_s), 'pd', NULL, prefill_instances,
    decode_instances, ttft_ms, tpot_ms, NULL, answer_tokens, prompt_tokens, prefix_cache_hit_rate, memory_free_bytes, NULL,
    kv_transfer_ms, NULL,
    least(1, decode_instances * decode_requests_per_s / (prefill_instances * prefill_requests_per_s)),
    least(1, prefill_instances * prefill_requests_per_s / (decode_instances * decode_requests_per_s)), NULL, NULL, NULL, prefill_probe,
    prefill_device, prefill_plan, decode_probe, decode_device, decode_plan, NULL, prefill_scenario, decode_scenario
FROM pair_counts
WHERE prefill_instances * prefill_size + decode_instances * decode_size <= most_devices
UNION ALL
SELECT
    question_group, devices, system_requests_per_s, 'pd', NULL, prefill_instances, decode_instances, ttft_ms, tpot_ms,
    ttft_ms + answer_ms, answer_tokens, prompt_tokens, prefix_cache_hit_rate, memory_free_bytes, wait_ms, transfer_ms, slot_wait_ms,
    system_requests_per_s / (prefill_instances * prefill_requests_per_s), system_requests_per_s / (decode_instances * most_qps), NULL, NULL, NULL,
    prefill_probe, prefill_device, prefill_plan, decode_probe, decode_device, decode_plan,
    system_requests_per_s * (unqueued_ms + wait_ms + answer_ms) / 1000.0, prefill_scenario, decode_scenario
FROM engine_timed;

CREATE OR REPLACE TEMP MACRO listed_pairs(allocation_rule, budget, same_device, kept, wanted_objective) AS TABLE
WITH prefills AS MATERIALIZED (
    SELECT
        *, hash(workload_key, CASE WHEN same_device THEN device END) AS place,
        row_number() OVER (PARTITION BY question_group ORDER BY qps DESC, alone_ms, scenario) AS prefill_rank
    FROM engine_prefills()
),
decode_rows AS (
    SELECT
        *, hash(workload_key, CASE WHEN same_device THEN device END) AS place,
        max(qps) OVER (
            PARTITION BY question_group, scenario, CASE WHEN getvariable('all_pairs') THEN batch_size END
        ) AS most_qps
    FROM engine_decodes()
),
decodes AS MATERIALIZED (
    SELECT
        *,
        dense_rank() OVER (
            PARTITION BY question_group
            ORDER BY most_qps DESC, scenario, CASE WHEN getvariable('all_pairs') THEN batch_size END
        ) AS decode_rank
    FROM decode_rows
),
decode_plans AS (
    SELECT question_group, place, decode_rank, any_value(size) AS size, any_value(most_qps) AS most_qps
    FROM decodes
    GROUP BY question_group, place, decode_rank
),
pairs AS MATERIALIZED (
    SELECT
        p.question_group, p.place, prefill_rank, decode_rank, servers_each, service_ms, lone_ms, first_share,
        ttft_ratio, p.size AS prefill_size, d.size AS decode_size,
        CASE
            WHEN wanted_objective = 'balanced_requests_per_s' THEN least(p.qps, most_qps)
            WHEN wanted_objective = 'system_requests_per_s' AND budget IS NOT NULL THEN list_max([
                least(x * p.qps, (budget - x * p.size) // d.size * most_qps)
                FOR x IN range(1, (budget - d.size) // p.size + 1)
            ])
            ELSE 1 / (p.size / p.qps + d.size / most_qps)
        END AS most
    FROM prefills AS p
    JOIN decode_plans AS d ON p.question_group = d.question_group AND p.place = d.place
    WHERE budget IS NULL OR p.size + d.size <= budget
),
tried AS (
    SELECT *
    FROM pairs
    WHERE kept < 1000
    QUALIFY row_number() OVER (
        PARTITION BY question_group, place ORDER BY most DESC, prefill_rank, decode_rank
    ) <= 4 * kept
),
tried_counts AS (
    SELECT
        tried.*, d.qps, d.answer_ms, d.answer_ratio, lone_ms + slot_wait_ms AS unqueued_ms,
        unnest(range(1, CASE WHEN budget IS NULL THEN 9 ELSE (budget - prefill_size) // decode_size + 1 END)) AS y
    FROM tried
    JOIN decodes AS d ON d.question_group = tried.question_group AND d.decode_rank = tried.decode_rank
),
tried_most AS (
    SELECT
        *, CASE WHEN budget IS NULL THEN 8 ELSE (budget - y * decode_size) // prefill_size END AS x_most
    FROM tried_counts
),
tried_best AS (
    SELECT
        question_group, place, prefill_rank, decode_rank,
        max(
            CASE
                WHEN budget IS NULL AND wanted_objective = 'requests_per_s_per_device'
                    THEN y * qps / (x_most * prefill_size + y * decode_size)
                WHEN budget IS NOT NULL AND wanted_objective = 'system_requests_per_s' THEN y * qps
                WHEN budget IS NOT NULL AND wanted_objective = 'requests_per_s_per_device' THEN y * qps / budget
            END
        ) AS reached
    FROM tried_most
    WHERE (coalesce(allocation_rule, '') <> 'exact' OR x_most * prefill_size + y * decode_size = budget)
        AND pair_holds(
            y * qps / 1000.0, unqueued_ms, answer_ms, service_ms, x_most * servers_each,
            first_share, pair_ttft_limit_ms(answer_ms, ttft_ratio, answer_ratio)
        )
    GROUP BY question_group, place, prefill_rank, decode_rank
),
thresholds AS (
    SELECT question_group, place, list_min(max(reached, least(kept, 1000))) AS least_reached
    FROM tried_best
    GROUP BY question_group, place
    HAVING count(reached) >= kept
),
wanted AS MATERIALIZED (
    SELECT pairs.*
    FROM pairs
    LEFT JOIN thresholds AS t ON t.question_group = pairs.question_group AND t.place = pairs.place
    WHERE least_reached IS NULL OR most * (1 + 1e-9) >= least_reached
),
counts AS (
    SELECT
        w.*, d.batch_size, d.qps, d.answer_ms, d.answer_ratio, lone_ms + slot_wait_ms AS unqueued_ms,
        unnest(range(1, CASE WHEN budget IS NULL THEN 9 ELSE (budget - prefill_size) // decode_size + 1 END)) AS y
    FROM wanted AS w
    JOIN decodes AS d ON d.question_group = w.question_group AND d.decode_rank = w.decode_rank
),
-- x_least servers are the fewest that keep up, one less for the rounding of the quotient.
bounded AS (
    SELECT
        *, CASE WHEN budget IS NULL THEN 8 ELSE (budget - y * decode_size) // prefill_size END AS x_most,
        CASE
            WHEN allocation_rule = 'exact' THEN (budget - y * decode_size) // prefill_size
            ELSE greatest(floor(y * qps / 1000.0 * service_ms / servers_each)::BIGINT, 1)
        END AS x_least
    FROM counts
),
measured AS (
    SELECT
        *, CASE WHEN budget IS NULL THEN y * qps / (x_least * prefill_size + y * decode_size) ELSE y * qps END
            AS at_most,
        CASE WHEN budget IS NULL THEN y * qps / (x_most * prefill_size + y * decode_size) ELSE y * qps END AS at_least
    FROM bounded
    WHERE x_least <= x_most
        AND (coalesce(allocation_rule, '') <> 'exact' OR x_most * prefill_size + y * decode_size = budget)
),
reached AS (
    SELECT question_group, prefill_rank, decode_rank, max(at_least) AS reached
    FROM measured
    WHERE pair_holds(
        y * qps / 1000.0, unqueued_ms, answer_ms, service_ms, x_most * servers_each,
        first_share, pair_ttft_limit_ms(answer_ms, ttft_ratio, answer_ratio)
    )
    GROUP BY question_group, prefill_rank, decode_rank
),
hopeful AS (
    SELECT m.*, unnest(range(x_least, x_most + 1)) AS x
    FROM measured AS m
    JOIN reached AS r ON r.question_group = m.question_group AND r.prefill_rank = m.prefill_rank
        AND r.decode_rank = m.decode_rank AND m.at_most >= r.reached
),
chosen AS (
    SELECT
        question_group, place, prefill_rank, decode_rank, batch_size, x, y, y * qps AS system_requests_per_s,
        x * prefill_size + y * decode_size AS devices_used
    FROM hopeful
    WHERE pair_holds(
        y * qps / 1000.0, unqueued_ms, answer_ms, service_ms, x * servers_each,
        first_share, pair_ttft_limit_ms(answer_ms, ttft_ratio, answer_ratio)
    )
    QUALIFY row_number() OVER (
        PARTITION BY question_group, prefill_rank, decode_rank
        ORDER BY
            CASE WHEN budget IS NULL THEN y * qps / (x * prefill_size + y * decode_size) ELSE y * qps END DESC,
            x * prefill_size + y * decode_size, x, batch_size
    ) = 1
),
timed AS (
    SELECT
        c.question_group, c.place, p.workload_key, c.prefill_rank, c.decode_rank, c.x AS prefill_instances, c.y AS decode_instances,
        c.devices_used, c.system_requests_per_s, p.scenario_id AS prefill_scenario_id, p.scenario AS prefill_scenario,
        p.probe AS prefill_probe, p.plan AS prefill_plan, p.device AS prefill_device, p.size AS prefill_size,
        p.memory_free_bytes AS prefill_memory_free_bytes, p.alone_ms, p.handover_ms, p.transfer_ms, p.first_share,
        p.qps AS prefill_requests_per_s, p.kv_bytes_per_request, d.scenario_id AS decode_scenario_id,
        d.scenario AS decode_scenario, d.probe AS decode_probe, d.plan AS decode_plan, d.device AS decode_device,
        d.size AS decode_size, d.memory_free_bytes AS decode_memory_free_bytes, d.batch_size AS decode_batch_size,
        d.qps AS decode_requests_per_s, d.most_qps, d.tpot_ms, d.answer_ms, d.slot_wait_ms, d.answer_tokens,
        pair_wait_ms(
            c.system_requests_per_s / 1000.0, p.lone_ms + d.slot_wait_ms, d.answer_ms, p.service_ms, c.x * p.servers_each
        ) AS wait_ms,
        c.system_requests_per_s / 1000.0 * (p.lone_ms + d.slot_wait_ms + wait_ms + d.answer_ms) AS users,
        pair_burst_ms(users, p.service_ms, c.x * p.servers_each) AS burst_ms
    FROM chosen AS c
    JOIN prefills AS p ON p.question_group = c.question_group AND p.prefill_rank = c.prefill_rank
    JOIN decodes AS d ON d.question_group = c.question_group AND d.decode_rank = c.decode_rank
        AND d.batch_size = c.batch_size
)
SELECT
    *, alone_ms + transfer_ms + handover_ms + slot_wait_ms + (1.0 - first_share) * wait_ms + first_share * burst_ms
        AS ttft_ms,
    ttft_ms + answer_ms AS e2e_ms, system_requests_per_s / devices_used AS requests_per_s_per_device,
    system_requests_per_s / (prefill_instances * prefill_requests_per_s) AS prefill_utilisation,
    system_requests_per_s / (decode_instances * most_qps) AS decode_utilisation,
    least(prefill_requests_per_s, decode_requests_per_s) AS balanced_requests_per_s, decode_requests_per_s / prefill_requests_per_s AS pd_ratio,
    1 / (prefill_size / prefill_requests_per_s + decode_size / decode_requests_per_s) AS requests_per_s_per_device_bound
FROM timed;

CREATE OR REPLACE TEMP MACRO listed_allocation() AS TABLE
WITH pairs AS NOT MATERIALIZED (SELECT * FROM allocated_pairs),
prefill_counts AS (
    SELECT
        *,
        unnest(range(1, (getvariable('num_devices') - decode_size) // prefill_size + 1)) AS prefill_instances
    FROM pairs
    WHERE getvariable('num_devices') IS NOT NULL AND prefill_size + decode_size <= getvariable('num_devices')
),
most_decodes AS (
    SELECT
        *,
        (getvariable('num_devices') - prefill_instances * prefill_size) // decode_size AS decode_most,
        ceil(prefill_instances * prefill_requests_per_s / decode_requests_per_s)::BIGINT AS decode_about
    FROM prefill_counts
),
counts AS (
    SELECT
        *,
        -- The fewest decode instances that keep up with the prefill ones (the quotient may be off by one: compare the
        -- products); all there is room for where none do.
        CASE
            WHEN getvariable('allocation_rule') = 'exact' OR decode_most * decode_requests_per_s < prefill_instances * prefill_requests_per_s
                THEN decode_most
            WHEN decode_about > 1 AND (decode_about - 1) * decode_requests_per_s >= prefill_instances * prefill_requests_per_s
                THEN decode_about - 1
            WHEN decode_about * decode_requests_per_s >= prefill_instances * prefill_requests_per_s THEN greatest(decode_about, 1)
            ELSE decode_about + 1
        END AS decode_instances
    FROM most_decodes
    WHERE getvariable('allocation_rule') <> 'exact'
        OR prefill_instances * prefill_size + decode_most * decode_size = getvariable('num_devices')
),
allocated AS (
    SELECT
        *,
        prefill_instances * prefill_size + decode_instances * decode_size AS devices_used,
        least(prefill_instances * prefill_requests_per_s, decode_instances * decode_requests_per_s) AS system_requests_per_s
    FROM counts
),
allocation AS (
    SELECT
        question_group, place, prefill_rank, decode_rank, prefill_instances, decode_instances, devices_used,
        system_requests_per_s
    FROM allocated
    QUALIFY row_number() OVER (
        PARTITION BY question_group, place, prefill_rank, decode_rank
        ORDER BY
            CASE
                WHEN getvariable('allocation_rule') = 'exact' THEN abs(prefill_instances / decode_instances - pd_ratio)
            END,
            system_requests_per_s DESC, devices_used, abs(prefill_instances / decode_instances - pd_ratio), prefill_instances
    ) = 1
)
SELECT * FROM allocation;

CREATE OR REPLACE TEMP MACRO listed_counts() AS TABLE
WITH counts AS (
    SELECT p.range AS prefill_instances, d.range AS decode_instances
    FROM range(1, getvariable('num_devices') // getvariable('prefill_size') + 1) AS p
    JOIN range(1, getvariable('num_devices') // getvariable('decode_size') + 1) AS d
        ON p.range * getvariable('prefill_size') + d.range * getvariable('decode_size') <= getvariable('num_devices')
),
carried AS (
    SELECT
        prefill_instances, decode_instances,
        prefill_instances * getvariable('prefill_size') + decode_instances * getvariable('decode_size') AS devices_used,
        prefill_instances / decode_instances AS ratio,
        least(prefill_instances * getvariable('prefill_requests_per_s'), decode_instances * getvariable('decode_requests_per_s'))
            AS system_requests_per_s
    FROM counts
)
SELECT
    row_number() OVER (
        ORDER BY system_requests_per_s DESC, devices_used, abs(ratio - getvariable('decode_requests_per_s') / getvariable('prefill_requests_per_s')),
            prefill_instances
    ) AS rank,
    prefill_instances, decode_instances, devices_used, getvariable('num_devices') - devices_used AS devices_idle,
    devices_used = getvariable('num_devices') AS exact, ratio, system_requests_per_s, system_requests_per_s / devices_used AS requests_per_s_per_device,
    getvariable('prefill_probe') AS prefill_probe, getvariable('decode_probe') AS decode_probe
FROM carried
ORDER BY rank;

CREATE OR REPLACE TEMP MACRO listed_served_counts() AS TABLE
WITH prefills AS (
    SELECT *
    FROM engine_prefills()
    WHERE scenario = getvariable('prefill_scenario')
),
decodes AS (
    SELECT *, max(qps) OVER () AS most_qps
    FROM engine_decodes()
    WHERE scenario = getvariable('decode_scenario')
),
counts AS (
    SELECT x.range AS prefill_instances, y.range AS decode_instances, x.range * p.size + y.range * d.size AS devices_used
    FROM (SELECT DISTINCT size FROM prefills) AS p
    CROSS JOIN (SELECT DISTINCT size FROM decodes) AS d
    JOIN range(1, getvariable('num_devices') + 1) AS x ON x.range * p.size < getvariable('num_devices')
    JOIN range(1, getvariable('num_devices') + 1) AS y
        ON x.range * p.size + y.range * d.size <= getvariable('num_devices')
),
held AS (
    SELECT
        prefill_instances, decode_instances, decode_instances * d.qps AS system_requests_per_s, d.probe AS decode_probe,
        p.probe AS prefill_probe, decode_instances * d.qps / (prefill_instances * p.qps) AS prefill_utilisation,
        d.qps / most_qps AS decode_utilisation,
        pair_ttft_ms(
            decode_instances * d.qps / 1000.0, lone_ms + slot_wait_ms, answer_ms, service_ms,
            prefill_instances * servers_each, first_share
        ) AS ttft_ms
    FROM counts
    CROSS JOIN prefills AS p
    CROSS JOIN decodes AS d
    WHERE pair_holds(
        decode_instances * d.qps / 1000.0, lone_ms + slot_wait_ms, answer_ms, service_ms, prefill_instances * servers_each,
        first_share, pair_ttft_limit_ms(answer_ms, ttft_ratio, answer_ratio)
    )
    QUALIFY row_number() OVER (
        PARTITION BY prefill_instances, decode_instances ORDER BY d.qps DESC, d.batch_size
    ) = 1
)
SELECT
    row_number() OVER (ORDER BY system_requests_per_s DESC NULLS LAST, devices_used, prefill_instances, decode_instances) AS rank,
    prefill_instances, decode_instances, devices_used, getvariable('num_devices') - devices_used AS devices_idle,
    devices_used = getvariable('num_devices') AS exact, prefill_instances / decode_instances AS ratio, system_requests_per_s,
    system_requests_per_s / devices_used AS requests_per_s_per_device, prefill_utilisation, decode_utilisation, ttft_ms, prefill_probe,
    decode_probe
FROM counts
LEFT JOIN held USING (prefill_instances, decode_instances)
ORDER BY rank;
