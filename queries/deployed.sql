-- Whole deployments: so many instances that do both, or so many of each side.
-- The aggregated instance of each size that carries most, and those of either side under formulas.
CREATE OR REPLACE TEMP MACRO sized_sides() AS TABLE
WITH picks AS MATERIALIZED (
    SELECT * FROM picked(NULL, 'qps')
)
SELECT
    question_group, phase, scenario, probe, plan, device, num_devices AS size, degraded_qps(phase, qps) AS qps, ttft_ms,
    tpot_ms, e2e_ms, concurrency, input_length_mean, output_length, memory_free_bytes, shortest_length,
    kv_bytes_per_request, prefix_cache_hit_rate + host_hit_rate + ssd_hit_rate + remote_hit_rate AS prefix_cache_hit_rate
FROM picks
WHERE phase = 'aggregated' OR (NOT by_engine AND takes_side(phase, device, num_devices))
QUALIFY row_number() OVER (
    PARTITION BY question_group, phase, num_devices ORDER BY row(-qps, latency_ms, batch_size, scenario)
) = 1;

-- Of a number of users the aggregated row of as many: so many instances, each with its share; of each size the fewest, or
-- those whose requests are shortest.
CREATE OR REPLACE TEMP MACRO sides_of_users(target_users) AS TABLE
WITH tight AS (
    SELECT *, ceil(target_users / concurrency)::BIGINT AS needed
    FROM admitted('aggregated')
    WHERE target_users IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY question_group, scenario_id, needed ORDER BY concurrency, batch_size) = 1
        AND (NOT getvariable('least_latency') OR needed * num_devices <= getvariable('num_devices'))
)
SELECT
    question_group, phase, scenario, probe, plan, device, num_devices AS size, qps, ttft_ms, tpot_ms, e2e_ms, concurrency,
    input_length_mean, output_length, memory_free_bytes, shortest_length, kv_bytes_per_request,
    prefix_cache_hit_rate + host_hit_rate + ssd_hit_rate + remote_hit_rate AS prefix_cache_hit_rate
FROM tight
QUALIFY row_number() OVER (
    PARTITION BY question_group, num_devices
    ORDER BY CASE WHEN getvariable('least_latency') THEN latency_ms END, needed, qps DESC, latency_ms, batch_size, scenario
) = 1;

-- The prefill plans of an engine that no other one of their size beats: a prompt never waits longer where service, lone time
-- and servers are no worse.
CREATE OR REPLACE TEMP MACRO engine_prefill_front() AS TABLE
WITH plans AS MATERIALIZED (
    SELECT *, row_number() OVER (ORDER BY scenario) AS prefill_number
    FROM engine_prefills()
)
SELECT *
FROM plans AS p
WHERE NOT EXISTS (
    SELECT 1
    FROM plans AS o
    WHERE o.question_group = p.question_group AND o.size = p.size AND o.first_share = p.first_share
        AND coalesce(o.ttft_ratio, 1e300) <= coalesce(p.ttft_ratio, 1e300)
        AND o.service_ms <= p.service_ms AND o.lone_ms <= p.lone_ms AND o.servers_each >= p.servers_each
        AND (
            o.service_ms < p.service_ms OR o.lone_ms < p.lone_ms OR o.servers_each > p.servers_each
            OR o.scenario < p.scenario
        )
);

CREATE OR REPLACE TEMP MACRO engine_decode_side() AS TABLE
SELECT
    *, max(qps) OVER (PARTITION BY question_group, scenario) AS most_qps,
    row_number() OVER (ORDER BY scenario, batch_size) AS decode_number
FROM engine_decodes();

-- Numbers alone: names are looked up for what is answered.
CREATE OR REPLACE TEMP MACRO engine_rows() AS TABLE
SELECT
    p.question_group, prefill_number, decode_number, p.size AS prefill_size, d.size AS decode_size, d.qps,
    p.service_ms, lone_ms + slot_wait_ms AS unqueued_ms, p.servers_each, p.first_share, d.answer_ms,
    pair_ttft_limit_ms(d.answer_ms, p.ttft_ratio, d.answer_ratio) AS limit_ms,
    d.qps / least_devices_each(
        p.size, d.size, d.qps, lone_ms + slot_wait_ms, d.answer_ms, p.service_ms, p.servers_each, p.first_share, limit_ms
    ) AS most_qps_each
FROM engine_prefill_front() AS p
JOIN engine_decode_side() AS d ON p.question_group = d.question_group;

-- The fewest devices of each row of a pair that carry the target, as many decodes as it takes and prefills until it holds,
-- NULL of each group besides.
CREATE OR REPLACE TEMP MACRO engine_enough(target_qps, target_users) AS TABLE
WITH engine_rows AS (
    SELECT * FROM engine_rows()
)
SELECT question_group, min(prefill_instances * prefill_size + decode_instances * decode_size) AS devices
FROM (
    SELECT
        *, held_prefills(
            greatest(fewest_prefills, 1), 4 * fewest_prefills + 8, decode_instances, qps, unqueued_ms, answer_ms,
            service_ms, servers_each, first_share, limit_ms
        ) AS prefill_instances
    FROM (
        SELECT
            *, greatest(
                least_count(qps, target_qps), ceil(target_users * 1000.0 / (qps * (unqueued_ms + answer_ms)))::BIGINT
            ) AS decode_instances,
            busy_prefills(decode_instances, qps, service_ms, servers_each) AS fewest_prefills
        FROM engine_rows
        WHERE coalesce(target_qps, target_users) IS NOT NULL
    )
)
GROUP BY question_group
UNION ALL
SELECT DISTINCT question_group, NULL FROM engine_rows;

-- Deployments that an engine serves within each number of devices that is looked at: its group, and the most devices there.
CREATE OR REPLACE TEMP MACRO engine_deployments(target_qps, target_users, looked_at) AS TABLE
WITH stops AS MATERIALIZED (
    SELECT unnest(looked_at, recursive := TRUE)
),
engine_rows AS MATERIALIZED (
    SELECT * FROM engine_rows()
),
-- What the likeliest decode row of each two plans carries within each number of devices: others are worth a look only
-- where they may carry as much.
engine_likely AS (
    SELECT *
    FROM engine_rows
    QUALIFY row_number() OVER (
        PARTITION BY question_group, prefill_number, decode_size ORDER BY most_qps_each DESC, decode_number
    ) = 1
),
engine_carried AS (
    SELECT
        e.question_group, devices,
        qps * held_decodes(
            devices, 1, 1, (devices - prefill_size) // decode_size, prefill_size, decode_size, qps, unqueued_ms,
            answer_ms, service_ms, servers_each, first_share, limit_ms
        ) AS carried_qps
    FROM engine_likely AS e
    JOIN stops ON stops.question_group = e.question_group
    WHERE prefill_size + decode_size <= devices
),
engine_floor AS MATERIALIZED (
    SELECT
        n.question_group, n.devices, floor(8 * log2(n.devices)) AS lot,
        max(coalesce(max(carried_qps), 0.0)) OVER (PARTITION BY n.question_group ORDER BY n.devices) AS least_qps
    FROM stops AS n
    LEFT JOIN engine_carried AS c ON c.question_group = n.question_group AND c.devices = n.devices
    GROUP BY n.question_group, n.devices
),
engine_hopeful AS (
    SELECT r.*, lot
    FROM engine_rows AS r
    JOIN (
        SELECT question_group, lot, min(least_qps / devices) AS least_qps_each FROM engine_floor GROUP BY question_group, lot
    ) AS lots ON lots.question_group = r.question_group AND most_qps_each * (1 + 1e-9) >= least_qps_each
),
engine_tried AS (
    SELECT h.*, devices AS within, least_qps
    FROM engine_hopeful AS h
    JOIN engine_floor AS f ON f.question_group = h.question_group AND f.lot = h.lot
    WHERE prefill_size + decode_size <= devices
        AND most_qps_each * devices * (1 + 1e-9) >= least_qps AND (devices - prefill_size) // decode_size * qps >= least_qps
),
engine_held AS (
    SELECT * EXCLUDE (least_instances, most_more, held_more)
    FROM (
        SELECT
            *, least_instances - 1 + held_more AS decode_instances,
            CASE WHEN held_more > 0 THEN decode_instances * qps END AS system_requests_per_s
        FROM (
            SELECT
                *, held_decodes(
                    within, least_instances, 1, most_more, prefill_size, decode_size, qps, unqueued_ms, answer_ms,
                    service_ms, servers_each, first_share, limit_ms
                ) AS held_more
            FROM (
                SELECT
                    *, greatest(floor(least_qps / qps)::BIGINT, 1) AS least_instances,
                    least(
                        (within - prefill_size) // decode_size, floor(most_qps_each * within * (1 + 1e-9) / qps)::BIGINT
                    ) - least_instances + 1 AS most_more
                FROM engine_tried
            )
        )
    )
    -- of those that hold any, which have a rate: WHERE would count the instances of each row twice
    QUALIFY system_requests_per_s = max(system_requests_per_s) OVER (PARTITION BY question_group, within)
),
-- As many decode instances of any row as hold the users where none waits, or some less where enough others do.
engine_populated AS (
    SELECT
        * EXCLUDE (most_qps_each), most_devices AS within,
        greatest(
            ceil(target_users * 1000.0 / (qps * (unqueued_ms + answer_ms)))::BIGINT - unnest([0, 1, 2, 3, 4, 6, 8]),
            coalesce(least_count(qps, target_qps), 1), 1
        ) AS decode_instances,
        decode_instances * qps AS system_requests_per_s
    FROM engine_rows
    JOIN (SELECT DISTINCT question_group, most_devices FROM stops) AS ends USING (question_group)
    WHERE target_users IS NOT NULL
),
-- The fewest prefill instances beside them.
engine_counts AS (
    SELECT
        *, prefill_instances * prefill_size + decode_instances * decode_size AS devices,
        system_requests_per_s / 1000.0 * (unqueued_ms + answer_ms + pair_wait_ms(
            system_requests_per_s / 1000.0, unqueued_ms, answer_ms, service_ms, prefill_instances * servers_each
        )) AS users
    FROM (
        SELECT
            * EXCLUDE (fewest_prefills, most_prefills), held_prefills(
                fewest_prefills, most_prefills, decode_instances, qps, unqueued_ms, answer_ms, service_ms, servers_each,
                first_share, limit_ms
            ) AS prefill_instances
        FROM (
            SELECT
                *, greatest(busy_prefills(decode_instances, qps, service_ms, servers_each), 1) AS fewest_prefills,
                (within - decode_instances * decode_size) // prefill_size AS most_prefills
            FROM (
                SELECT *, FALSE AS of_users FROM engine_held
                UNION ALL BY NAME
                SELECT *, TRUE AS of_users FROM engine_populated
            )
        )
    )
    WHERE prefill_instances IS NOT NULL
),
-- A rate that more devices carry no better is that of the fewest.
engine_best AS (
    SELECT *
    FROM (
        SELECT *
        FROM engine_counts
        WHERE NOT of_users OR users >= target_users
        QUALIFY NOT of_users OR row_number() OVER (
            PARTITION BY question_group, of_users
            ORDER BY
                CASE WHEN getvariable('least_latency') THEN users / system_requests_per_s END, devices, users / system_requests_per_s,
                prefill_number, decode_number
        ) = 1
    )
    QUALIFY row_number() OVER (
        PARTITION BY question_group, system_requests_per_s
        ORDER BY
            devices,
            pair_ttft_ms(
                system_requests_per_s / 1000.0, unqueued_ms, answer_ms, service_ms, prefill_instances * servers_each, first_share
            ),
            prefill_instances, prefill_number, decode_number
    ) = 1
)
SELECT
    b.question_group, b.devices, b.system_requests_per_s, b.prefill_instances, b.decode_instances,
    pair_wait_ms(
        b.system_requests_per_s / 1000.0, b.unqueued_ms, d.answer_ms, p.service_ms, b.prefill_instances * p.servers_each
    ) AS prefill_wait_ms,
    b.unqueued_ms + (1.0 - p.first_share) * prefill_wait_ms + p.first_share * pair_burst_ms(
        b.system_requests_per_s / 1000.0 * (b.unqueued_ms + prefill_wait_ms + d.answer_ms), p.service_ms,
        b.prefill_instances * p.servers_each
    ) AS ttft_ms,
    d.tpot_ms, ttft_ms + d.answer_ms AS e2e_ms, d.answer_tokens, d.prompt_tokens, d.prefix_cache_hit_rate,
    least(p.memory_free_bytes, d.memory_free_bytes) AS memory_free_bytes, p.transfer_ms AS kv_transfer_ms, d.slot_wait_ms,
    b.system_requests_per_s / (b.prefill_instances * p.qps) AS prefill_utilisation,
    b.system_requests_per_s / (b.decode_instances * d.most_qps) AS decode_utilisation, p.probe AS prefill_probe,
    p.device AS prefill_device, p.plan AS prefill_plan, d.probe AS decode_probe, d.device AS decode_device,
    d.plan AS decode_plan, b.system_requests_per_s * (b.unqueued_ms + prefill_wait_ms + d.answer_ms) / 1000.0 AS users,
    p.scenario AS prefill_scenario, d.scenario AS decode_scenario
FROM engine_best AS b
JOIN engine_prefill_front() AS p ON p.prefill_number = b.prefill_number
JOIN engine_decode_side() AS d ON d.decode_number = b.decode_number;

-- Both sides of each size by formulas. Where none serves anything in the scope, a session has empty relations in place of
-- `formula_enough` and `formula_deployments` (queries/narrow/engines_alone.sql).
CREATE OR REPLACE TEMP MACRO sized_pairs() AS TABLE
SELECT
    p.question_group, p.scenario AS prefill_scenario, d.scenario AS decode_scenario, p.probe AS prefill_probe,
    d.probe AS decode_probe, p.plan AS prefill_plan, d.plan AS decode_plan, p.device AS prefill_device,
    d.device AS decode_device, p.size AS prefill_size, d.size AS decode_size, p.qps AS prefill_requests_per_s,
    d.qps AS decode_requests_per_s, p.ttft_ms, d.tpot_ms, d.output_length AS answer_tokens,
    d.input_length_mean AS prompt_tokens, d.prefix_cache_hit_rate,
    least(p.memory_free_bytes, d.memory_free_bytes) AS memory_free_bytes,
    p.kv_bytes_per_request / getvariable('kv_transfer_bytes_per_s') * 1000 AS kv_transfer_ms
FROM sized_sides() AS p
JOIN sized_sides() AS d ON p.question_group = d.question_group
WHERE p.phase = 'prefill' AND d.phase = 'decode';

CREATE OR REPLACE TEMP MACRO formula_enough(target_qps) AS TABLE
SELECT
    question_group,
    min(least_count(prefill_requests_per_s, target_qps) * prefill_size + least_count(decode_requests_per_s, target_qps) * decode_size) AS devices
FROM sized_pairs()
GROUP BY question_group;

-- The best pair by formulas within each number of devices that is looked at.
CREATE OR REPLACE TEMP MACRO formula_deployments(looked_at) AS TABLE
WITH stops AS (
    SELECT unnest(looked_at, recursive := TRUE)
),
pair_turns AS (
    SELECT
        pairs.*, devices AS within,
        unnest(counts_around(devices, prefill_size, decode_size, prefill_requests_per_s, decode_requests_per_s), recursive := TRUE)
    FROM sized_pairs() AS pairs
    JOIN stops ON stops.question_group = pairs.question_group
    WHERE prefill_size + decode_size <= devices
),
pair_counts AS (
    SELECT
        *, needed_prefills(prefills, decodes, prefill_requests_per_s, decode_requests_per_s) AS prefill_instances,
        needed_decodes(prefills, decodes, prefill_requests_per_s, decode_requests_per_s) AS decode_instances,
        prefill_instances * prefill_size + decode_instances * decode_size AS devices,
        least(prefill_instances * prefill_requests_per_s, decode_instances * decode_requests_per_s) AS system_requests_per_s
    FROM pair_turns
    QUALIFY row_number() OVER (
        PARTITION BY question_group, within
        ORDER BY row(-system_requests_per_s, devices, prefill_instances, prefill_scenario, decode_scenario)
    ) = 1
)
SELECT
    question_group, devices, system_requests_per_s, prefill_instances, decode_instances, ttft_ms, tpot_ms, answer_tokens,
    prompt_tokens, prefix_cache_hit_rate, memory_free_bytes, kv_transfer_ms,
    least(1, decode_instances * decode_requests_per_s / (prefill_instances * prefill_requests_per_s)) AS prefill_utilisation,
    least(1, prefill_instances * prefill_requests_per_s / (decode_instances * decode_requests_per_s)) AS decode_utilisation,
    prefill_probe, prefill_device, prefill_plan, decode_probe, decode_device, decode_plan, prefill_scenario, decode_scenario
FROM pair_counts;

-- The best deployments within numbers of devices, aggregated or split: those of `budgets`, what a target takes, and with
-- `stepwise` every number up to 1,024 and beyond that 64 to each doubling; all up to the device budget, else to what the
-- target needs of the one kind that needs less, or of each with `every_mode`. Of each size only the side with the most
-- requests/s can matter; under an engine every decode row can, as prefill must keep up with it, and the prefill plans
-- that no other of their size beats.
CREATE OR REPLACE TEMP MACRO deployments(target_qps, target_users, every_mode, budgets, stepwise) AS TABLE
WITH aggregated_side AS (
    SELECT
        *, mean_length(shortest_length) * output_length AS answer_tokens,
        mean_length(shortest_length) * input_length_mean AS prompt_tokens
    FROM (
        SELECT * FROM sized_sides() WHERE phase = 'aggregated'
        UNION ALL BY NAME
        SELECT * FROM sides_of_users(target_users)
    )
),
enough AS MATERIALIZED (
    SELECT
        question_group, 'aggregated' AS mode,
        min(greatest(least_count(qps, target_qps), ceil(target_users / concurrency)::BIGINT) * size) AS devices
    FROM aggregated_side
    GROUP BY question_group
    UNION ALL
    SELECT question_group, 'pd', devices FROM formula_enough(target_qps)
    UNION ALL
    SELECT question_group, 'pd', devices FROM engine_enough(target_qps, target_users)
),
ends AS MATERIALIZED (
    SELECT
        question_group,
        coalesce(getvariable('num_devices'), CASE WHEN every_mode THEN max(devices) ELSE min(devices) END, 64)::BIGINT
            AS most_devices
    FROM (SELECT question_group, mode, min(devices) AS devices FROM enough GROUP BY question_group, mode)
    GROUP BY question_group
),
enough_users AS (
    SELECT
        question_group,
        greatest(ceil(target_users / concurrency)::BIGINT, coalesce(least_count(qps, target_qps), 1)) * size AS devices
    FROM aggregated_side
    WHERE target_users IS NOT NULL
),
-- The numbers of devices that are looked at.
stops AS MATERIALIZED (
    SELECT DISTINCT question_group, devices, most_devices
    FROM (
        SELECT question_group, unnest(
            [most_devices] || coalesce(budgets, []) || CASE
                WHEN stepwise THEN range(1, least(most_devices, 1024) + 1) || list_transform(
                    range(1, (64 * log2(greatest(most_devices / 1024, 1)))::BIGINT + 1),
                    lambda part: floor(1024 * pow(2, part / 64))::BIGINT
                )
                ELSE []
            END
        ) AS devices
        FROM ends
        UNION ALL
        SELECT question_group, devices FROM enough
        UNION ALL
        SELECT question_group, devices FROM enough_users
    )
    JOIN ends USING (question_group)
    WHERE devices <= most_devices
),
aggregated_counts AS (
    SELECT s.*, instances
    FROM (
        SELECT DISTINCT question_group, size, devices // size AS instances
        FROM (SELECT DISTINCT question_group, size FROM aggregated_side)
        JOIN stops USING (question_group)
    ) AS counts
    JOIN aggregated_side AS s ON s.question_group = counts.question_group AND s.size = counts.size
    WHERE instances > 0
)
SELECT
    question_group, instances * size AS devices, instances * qps AS system_requests_per_s, 'aggregated' AS mode, instances,
    ttft_ms, tpot_ms, e2e_ms, answer_tokens, prompt_tokens, prefix_cache_hit_rate, memory_free_bytes, probe, device, plan,
    instances * concurrency AS users, scenario AS first_key, '' AS second_key
FROM aggregated_counts
UNION ALL BY NAME
SELECT * RENAME (prefill_scenario AS first_key, decode_scenario AS second_key), 'pd' AS mode
FROM (
    SELECT * FROM formula_deployments((SELECT list({'question_group': question_group, 'devices': devices}) FROM stops))
    UNION ALL BY NAME
    SELECT *
    FROM engine_deployments(
        target_qps, target_users,
        (SELECT list({'question_group': question_group, 'devices': devices, 'most_devices': most_devices}) FROM stops)
    )
);
