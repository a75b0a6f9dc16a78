-- Pairs of a prefill and a decode instance under an engine: TTFT holds the wait for a prefill server, the transfer of
-- keys and values and the wait for a decode slot (waits.sql). Where no engine serves anything in the scope, a session has empty
-- relations in place of `engine_pairs` and `engine_frontier` (queries/narrow/unserved.sql): what they are made of is not planned.
-- Decoded tokens that requests/s of decode rows count, of an answer of so many tokens.
CREATE OR REPLACE TEMP MACRO decoded_tokens(tokens) AS
    CASE getvariable('decode_qps_rule') WHEN 'full' THEN tokens ELSE greatest(tokens - 1.0, 1.0) END;

-- The lone prompt of each prefill plan: its row at batch size 1, at the client's mean length. Without a bandwidth given,
-- keys and values go over the outermost link of every device that holds a part of the prompt.
CREATE OR REPLACE TEMP MACRO engine_prefills() AS TABLE
WITH outermost AS (
    SELECT key, any_value(string_split(link_bandwidths, ' | ')[1])::DOUBLE AS link_bytes_per_s
    FROM device
    GROUP BY key
),
lone AS (
    SELECT
        question_group, workload_key, scenario_id, scenario, probe, plan, device, num_devices AS size,
        dp AS servers_each, mean_length(shortest_length) * makespan_ms + ttft_ms - makespan_ms AS alone_ms,
        ttft_ms - makespan_ms AS handover_ms,
        mean_length(shortest_length) * prompt_service_ms / getvariable('prefill_degradation') AS service_ms,
        1000.0 * dp / service_ms AS qps, kv_bytes_per_request, memory_free_bytes,
        mean_length(shortest_length) * 1000.0 * kv_bytes_per_request
            / coalesce(getvariable('kv_transfer_bytes_per_s'), tp * pp * moving_bytes_per_s(link_bytes_per_s)) AS transfer_ms,
        1.0 / coalesce(prompts_per_user, 10) AS first_share, pair_ttft_bound_ms / ttft_ms AS ttft_ratio
    FROM judged('prefill')
    JOIN outermost ON outermost.key = device_key
    WHERE by_engine AND batch_size = 1 AND memory_free_bytes >= 0 AND prompt_service_ms > 0
        AND takes_side(phase, device, num_devices)
)
SELECT *, alone_ms + transfer_ms + handover_ms AS lone_ms
FROM lone
WHERE getvariable('ttft_limit_ms') IS NULL
    OR alone_ms + transfer_ms + handover_ms <= getvariable('ttft_limit_ms') / ttft_ratio;

-- Every decode row within the limits: the rate that one instance takes, and how long an answer of the client's mean
-- length decodes.
CREATE OR REPLACE TEMP MACRO engine_decodes() AS TABLE
SELECT
    question_group, workload_key, scenario_id, scenario, probe, plan, device, num_devices AS size, batch_size,
    concurrency, tpot_ms, tpot_exclusive_ms, mean_length(shortest_length) * output_length AS answer_tokens,
    mean_length(shortest_length) * input_length_mean AS prompt_tokens, memory_free_bytes,
    prefix_cache_hit_rate + host_hit_rate + ssd_hit_rate + remote_hit_rate AS prefix_cache_hit_rate,
    qps * getvariable('decode_degradation') * decoded_tokens(output_length)
        / decoded_tokens(answer_tokens) AS qps,
    greatest(answer_tokens - 1.0, 0.0) * tpot_exclusive_ms AS answer_ms,
    0.5 * tpot_exclusive_ms * tokens_per_step AS slot_wait_ms, tpot_exclusive_ms_bound / tpot_exclusive_ms AS answer_ratio
FROM admitted('decode')
WHERE by_engine
    AND takes_side(phase, device, num_devices);

-- The numbers of decode instances to try of a row: up to 8 without a budget, else the most that it holds, which carries
-- most. `exact` leaves no device idle, so only every few of them fit.
CREATE OR REPLACE TEMP MACRO tried_decodes(
    allocation_rule, budget, prefill_size, decode_size, qps, unqueued_ms, answer_ms, service_ms, servers_each,
    first_share, limit_ms
) AS
    CASE
        WHEN budget IS NULL THEN range(1, 9)
        ELSE list_transform(
            CASE
                WHEN allocation_rule = 'exact' THEN list_filter(
                    range(1, prefill_size + 1), lambda y: (budget - y * decode_size) % prefill_size = 0
                )[:1]
                ELSE [1]
            END,
            lambda first: first + (held_decodes(
                budget, first, CASE WHEN allocation_rule = 'exact' THEN prefill_size // gcd(prefill_size, decode_size) ELSE 1 END,
                ((budget - prefill_size) // decode_size - first)
                    // CASE WHEN allocation_rule = 'exact' THEN prefill_size // gcd(prefill_size, decode_size) ELSE 1 END + 1,
                prefill_size, decode_size, qps, unqueued_ms, answer_ms, service_ms, servers_each, first_share, limit_ms
            ) - 1) * CASE WHEN allocation_rule = 'exact' THEN prefill_size // gcd(prefill_size, decode_size) ELSE 1 END
        )
    END;

-- The best counts and decode row of the best pairs of plans, of each workload by itself. Within a budget: most requests/s, then fewest devices.
-- Without: up to 8 instances a side, most requests/s per device. Only pairs that may be among the best `kept` are
-- looked at: `most` is what a pair would reach if nothing ever waited, and the first few that are tried say what the
-- others must reach. More prefill instances never lengthen a wait, so the most there is room for decide whether a
-- decode row can be had at all, and the fewest that hold the limits are then taken.
CREATE OR REPLACE TEMP MACRO engine_pairs(allocation_rule, budget, same_device, kept, wanted_objective) AS TABLE
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
            WHEN wanted_objective = 'system_requests_per_s' AND budget IS NOT NULL
                THEN divided_qps(budget, p.size, d.size, p.qps, most_qps)
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
        tried.*, d.qps, d.answer_ms, lone_ms + slot_wait_ms AS unqueued_ms,
        pair_ttft_limit_ms(d.answer_ms, ttft_ratio, d.answer_ratio) AS limit_ms,
        unnest(tried_decodes(
            allocation_rule, budget, prefill_size, decode_size, d.qps, lone_ms + slot_wait_ms, d.answer_ms, service_ms,
            servers_each, first_share, limit_ms
        )) AS y
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
    WHERE y > 0 AND (coalesce(allocation_rule, '') <> 'exact' OR x_most * prefill_size + y * decode_size = budget)
        AND pair_holds(
            y * qps / 1000.0, unqueued_ms, answer_ms, service_ms, x_most * servers_each,
            first_share, limit_ms
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
        w.*, d.batch_size, d.qps, d.answer_ms, lone_ms + slot_wait_ms AS unqueued_ms,
        pair_ttft_limit_ms(d.answer_ms, ttft_ratio, d.answer_ratio) AS limit_ms,
        unnest(tried_decodes(
            allocation_rule, budget, prefill_size, decode_size, d.qps, lone_ms + slot_wait_ms, d.answer_ms, service_ms,
            servers_each, first_share, limit_ms
        )) AS y
    FROM wanted AS w
    JOIN decodes AS d ON d.question_group = w.question_group AND d.decode_rank = w.decode_rank
),
-- x_least servers are the fewest that keep up, one less for the rounding of the quotient.
bounded AS (
    SELECT
        *, CASE WHEN budget IS NULL THEN 8 ELSE (budget - y * decode_size) // prefill_size END AS x_most,
        CASE
            WHEN allocation_rule = 'exact' THEN (budget - y * decode_size) // prefill_size
            ELSE greatest(busy_prefills(y, qps, service_ms, servers_each), 1)
        END AS x_least
    FROM counts
),
measured AS (
    SELECT
        *, CASE WHEN budget IS NULL THEN y * qps / (x_least * prefill_size + y * decode_size) ELSE y * qps END
            AS at_most,
        CASE WHEN budget IS NULL THEN y * qps / (x_most * prefill_size + y * decode_size) ELSE y * qps END AS at_least
    FROM bounded
    WHERE y > 0 AND x_least <= x_most
        AND (coalesce(allocation_rule, '') <> 'exact' OR x_most * prefill_size + y * decode_size = budget)
),
reached AS (
    SELECT question_group, prefill_rank, decode_rank, max(at_least) AS reached
    FROM measured
    WHERE pair_holds(
        y * qps / 1000.0, unqueued_ms, answer_ms, service_ms, x_most * servers_each,
        first_share, limit_ms
    )
    GROUP BY question_group, prefill_rank, decode_rank
),
hopeful AS (
    SELECT
        m.*, held_prefills(
            x_least, x_most, y, qps, unqueued_ms, answer_ms, service_ms, servers_each, first_share, limit_ms
        ) AS x
    FROM measured AS m
    JOIN reached AS r ON r.question_group = m.question_group AND r.prefill_rank = m.prefill_rank
        AND r.decode_rank = m.decode_rank AND m.at_most >= r.reached
),
chosen AS (
    SELECT
        question_group, place, prefill_rank, decode_rank, batch_size, x, y, y * qps AS system_requests_per_s,
        x * prefill_size + y * decode_size AS devices_used
    FROM hopeful
    WHERE x IS NOT NULL
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

-- The device whose frontier a point may lie on, where each has one.
CREATE OR REPLACE TEMP MACRO frontier_of(device) AS CASE WHEN getvariable('by_device') THEN device ELSE 'all devices' END;
CREATE OR REPLACE TEMP MACRO frontier_of_point(device, point) AS frontier_of(device);

-- The best prefill plan and counts, up to 8 a side, of each decode row that may lie on the frontier of a user's tokens/s
-- and tokens/s per device. `most` is what a pair reaches were only first requests to wait. The likeliest partners are the
-- prefill plans with the most requests/s a device. What they reach with the rows that no faster row's `most` beats is a floor under
-- every row that is no faster for its users; a pair whose `most` stays below the floor is not looked at.
CREATE OR REPLACE TEMP MACRO engine_frontier() AS TABLE
WITH prefills AS MATERIALIZED (
    SELECT
        *, row_number() OVER (PARTITION BY question_group ORDER BY qps DESC, alone_ms, scenario) AS prefill_rank,
        frontier_of(device) AS frontier_of
    FROM engine_prefills()
),
decodes AS MATERIALIZED (
    SELECT
        *, row_number() OVER (ORDER BY scenario, batch_size) AS decode_number, frontier_of(device) AS frontier_of
    FROM engine_decodes()
),
likely AS (
    SELECT *
    FROM prefills, (SELECT unnest([1.0, 0.7, 0.4]) AS share)
    WHERE lone_ms <= share * coalesce(getvariable('ttft_limit_ms') / ttft_ratio, 1e300)
    QUALIFY row_number() OVER (
        PARTITION BY question_group, frontier_of, workload_key, share ORDER BY size / qps, prefill_rank
    ) = 1
),
hopeful AS (
    SELECT
        d.*, l.size AS prefill_size, l.service_ms, l.servers_each, l.first_share, l.lone_ms, share,
        pair_ttft_limit_ms(answer_ms, l.ttft_ratio, answer_ratio) AS limit_ms,
        answer_tokens / (l.size / l.qps + d.size / d.qps) AS unlimited,
        answer_tokens / (
            l.size / pair_qps_bound(
                l.qps, lone_ms + slot_wait_ms, answer_ms, service_ms, servers_each, first_share, limit_ms
            ) + d.size / d.qps
        ) AS most
    FROM decodes AS d
    JOIN likely AS l ON l.question_group = d.question_group AND l.workload_key = d.workload_key
        AND l.frontier_of = d.frontier_of
),
likely_counts AS (
    SELECT *, unnest(range(1, 9)) AS y
    FROM hopeful
    QUALIFY most >= max(most) OVER (PARTITION BY question_group, frontier_of, share ORDER BY tpot_exclusive_ms)
),
likely_tried AS (
    SELECT *, unnest(range(greatest(floor(y * qps / 1000.0 * service_ms / servers_each)::BIGINT, 1), 9)) AS x
    FROM likely_counts
),
likely_reached AS (
    SELECT
        question_group, frontier_of, tpot_exclusive_ms,
        max(y * qps * answer_tokens / (x * prefill_size + y * size)) AS reached
    FROM likely_tried
    WHERE pair_holds(
        y * qps / 1000.0, lone_ms + slot_wait_ms, answer_ms, service_ms, x * servers_each,
        first_share, limit_ms
    )
    GROUP BY question_group, frontier_of, tpot_exclusive_ms
),
floors AS (
    SELECT
        d.question_group, d.frontier_of, d.tpot_exclusive_ms,
        max(reached) OVER (PARTITION BY d.question_group, d.frontier_of ORDER BY d.tpot_exclusive_ms) AS least_reached
    FROM (SELECT DISTINCT question_group, frontier_of, tpot_exclusive_ms FROM decodes) AS d
    LEFT JOIN likely_reached AS r
        ON r.question_group = d.question_group AND r.frontier_of = d.frontier_of
        AND r.tpot_exclusive_ms = d.tpot_exclusive_ms
),
kept AS MATERIALIZED (
    SELECT h.decode_number, least_reached
    FROM hopeful AS h
    JOIN floors AS f ON f.question_group = h.question_group AND f.frontier_of = h.frontier_of
        AND f.tpot_exclusive_ms = h.tpot_exclusive_ms
    WHERE share = 1.0 AND (least_reached IS NULL OR unlimited * (1 + 1e-9) >= least_reached)
),
pairs AS (
    SELECT
        p.question_group, prefill_rank, d.decode_number, p.size AS prefill_size, d.size AS decode_size, d.qps,
        service_ms, servers_each, first_share, lone_ms + slot_wait_ms AS unqueued_ms, answer_ms, answer_tokens,
        tpot_exclusive_ms, pair_ttft_limit_ms(answer_ms, ttft_ratio, answer_ratio) AS limit_ms
    FROM kept
    JOIN decodes AS d ON d.decode_number = kept.decode_number
    JOIN prefills AS p ON p.question_group = d.question_group AND p.workload_key = d.workload_key
        AND p.frontier_of = d.frontier_of
    WHERE least_reached IS NULL OR answer_tokens / (
        p.size / pair_qps_bound(
            p.qps, unqueued_ms, answer_ms, service_ms, servers_each, first_share, limit_ms
        ) + d.size / d.qps
    ) * (1 + 1e-9) >= least_reached
),
counts AS (
    SELECT *, unnest(range(1, 9)) AS y
    FROM pairs
),
tried AS (
    SELECT *, unnest(range(greatest(floor(y * qps / 1000.0 * service_ms / servers_each)::BIGINT, 1), 9)) AS x
    FROM counts
),
chosen AS (
    SELECT
        *, y * qps / (x * prefill_size + y * decode_size) AS requests_per_s_per_device,
        pair_ttft_ms(
            y * qps / 1000.0, unqueued_ms, answer_ms, service_ms, x * servers_each, first_share
        ) AS pair_ttft
    FROM tried
    WHERE pair_holds(
        y * qps / 1000.0, unqueued_ms, answer_ms, service_ms, x * servers_each,
        first_share, limit_ms
    )
    QUALIFY row_number() OVER (
        PARTITION BY question_group, decode_number
        ORDER BY requests_per_s_per_device DESC, x * prefill_size + y * decode_size, x, prefill_rank
    ) = 1
)
SELECT
    c.question_group, requests_per_s_per_device, c.requests_per_s_per_device * c.answer_tokens AS output_tokens_per_s_per_device,
    c.pair_ttft AS ttft_ms, c.tpot_exclusive_ms, x AS prefill_instances, y AS decode_instances,
    c.qps / p.qps AS pd_ratio, d.concurrency AS decode_concurrency, d.probe AS decode_probe, d.device AS decode_device,
    d.plan AS decode_plan, p.probe AS prefill_probe, p.device AS prefill_device, p.plan AS prefill_plan
FROM chosen AS c
JOIN prefills AS p ON p.question_group = c.question_group AND p.prefill_rank = c.prefill_rank
JOIN decodes AS d ON d.question_group = c.question_group AND d.decode_number = c.decode_number;
