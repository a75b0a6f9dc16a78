-- Whole deployments: so many instances that do both, or so many of each side.
-- The smallest whole number of instances that carries a rate; the quotient may be off by one, the products decide.
CREATE OR REPLACE TEMP MACRO least_count(qps, target_qps) AS
    CASE
        WHEN ceil(target_qps / qps) > 1 AND (ceil(target_qps / qps) - 1) * qps >= target_qps
            THEN ceil(target_qps / qps)::BIGINT - 1
        WHEN ceil(target_qps / qps) * qps >= target_qps THEN greatest(ceil(target_qps / qps)::BIGINT, 1)
        ELSE ceil(target_qps / qps)::BIGINT + 1
    END;

-- Every useful number of instances within a device budget, aggregated or split: so many of one side, and the fewest of
-- the other that keep up. Of each size only the side with the most requests/s can matter; under an engine every decode
-- row can, as prefill must keep up with it, and the prefill plans that no other of their size beats. Without a budget up
-- to what the target needs of the one kind that needs less, or of each with `every_mode`.
CREATE OR REPLACE TEMP MACRO deployments(target_qps, every_mode) AS TABLE
WITH aggregated_side AS (
    SELECT
        question_group, scenario, probe, plan, device, num_devices AS size, qps, ttft_ms, tpot_ms,
        e2e_ms / asked_share(e2e_ms, shortest_length, output_length, tpot_exclusive_ms) AS e2e_ms, concurrency,
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
        AND takes_prefill(device, num_devices)
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
        AND takes_decode(device, num_devices)
    QUALIFY row_number() OVER (
        PARTITION BY question_group, num_devices ORDER BY qps DESC, latency_ms, batch_size, scenario
    ) = 1
),
pairs AS (
    SELECT
        p.question_group, p.scenario AS prefill_scenario, d.scenario AS decode_scenario, p.probe AS prefill_probe,
        d.probe AS decode_probe, p.plan AS prefill_plan, d.plan AS decode_plan, p.device AS prefill_device,
        d.device AS decode_device, p.size AS prefill_size, d.size AS decode_size, p.qps AS prefill_qps,
        d.qps AS decode_qps, p.ttft_ms, d.tpot_ms, d.answer_tokens, d.prompt_tokens, d.prefix_cache_hit_rate,
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
        first_share, ttft_ratio, answer_ratio
    )
),
enough AS (
    SELECT question_group, 'aggregated' AS mode, least_count(qps, target_qps) * size AS devices FROM aggregated_side
    UNION ALL
    SELECT
        question_group, 'pd',
        least_count(prefill_qps, target_qps) * prefill_size + least_count(decode_qps, target_qps) * decode_size
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
    SELECT *, wanted AS prefill_instances, least_count(decode_qps, wanted * prefill_qps) AS decode_instances
    FROM by_prefill
    UNION ALL
    SELECT *, least_count(prefill_qps, wanted * decode_qps), wanted
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
        first_share, ttft_ratio, answer_ratio
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
            first_share, ttft_ratio, answer_ratio
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
        first_share, ttft_ratio, answer_ratio
    )
),
engine_most AS (
    SELECT question_group, devices, max(decode_instances * qps) AS system_qps
    FROM engine_held
    GROUP BY question_group, devices
),
engine_best AS (
    SELECT h.*, m.system_qps
    FROM engine_held AS h
    JOIN engine_most AS m ON m.question_group = h.question_group AND m.devices = h.devices
        AND m.system_qps = h.decode_instances * h.qps
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
        b.question_group, b.devices, b.system_qps, b.prefill_instances, b.decode_instances, b.unqueued_ms, d.tpot_ms, d.answer_ms,
        d.answer_tokens, d.prompt_tokens, d.prefix_cache_hit_rate,
        least(p.memory_free_bytes, d.memory_free_bytes) AS memory_free_bytes, p.transfer_ms, d.slot_wait_ms, p.qps AS prefill_qps, d.most_qps, p.probe AS prefill_probe,
        p.device AS prefill_device, p.plan AS prefill_plan, d.probe AS decode_probe, d.device AS decode_device,
        d.plan AS decode_plan, p.scenario AS prefill_scenario, d.scenario AS decode_scenario,
        pair_wait_ms(
            b.system_qps / 1000.0, b.unqueued_ms, d.answer_ms, p.service_ms, b.prefill_instances * p.servers_each
        ) AS wait_ms,
        b.unqueued_ms + (1.0 - p.first_share) * wait_ms + p.first_share * pair_burst_ms(
            b.system_qps / 1000.0 * (b.unqueued_ms + wait_ms + d.answer_ms), p.service_ms,
            b.prefill_instances * p.servers_each
        ) AS ttft_ms
    FROM engine_best AS b
    JOIN engine_prefill_front AS p ON p.prefill_number = b.prefill_number
    JOIN engine_decode_side AS d ON d.decode_number = b.decode_number
)
SELECT
    question_group, instances * size AS devices, instances * qps AS system_qps, 'aggregated' AS mode, instances,
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
    least(prefill_instances * prefill_qps, decode_instances * decode_qps), 'pd', NULL, prefill_instances,
    decode_instances, ttft_ms, tpot_ms, NULL, answer_tokens, prompt_tokens, prefix_cache_hit_rate, memory_free_bytes, NULL,
    kv_transfer_ms, NULL,
    least(1, decode_instances * decode_qps / (prefill_instances * prefill_qps)),
    least(1, prefill_instances * prefill_qps / (decode_instances * decode_qps)), NULL, NULL, NULL, prefill_probe,
    prefill_device, prefill_plan, decode_probe, decode_device, decode_plan, NULL, prefill_scenario, decode_scenario
FROM pair_counts
WHERE prefill_instances * prefill_size + decode_instances * decode_size <= most_devices
UNION ALL
SELECT
    question_group, devices, system_qps, 'pd', NULL, prefill_instances, decode_instances, ttft_ms, tpot_ms,
    ttft_ms + answer_ms, answer_tokens, prompt_tokens, prefix_cache_hit_rate, memory_free_bytes, wait_ms, transfer_ms, slot_wait_ms,
    system_qps / (prefill_instances * prefill_qps), system_qps / (decode_instances * most_qps), NULL, NULL, NULL,
    prefill_probe, prefill_device, prefill_plan, decode_probe, decode_device, decode_plan,
    system_qps * (unqueued_ms + wait_ms + answer_ms) / 1000.0, prefill_scenario, decode_scenario
FROM engine_timed;
