-- name: goodput-pairs
-- summary: prefill and decode instances paired from loads of each side alone: counts with the highest rate at which the wanted share meets both limits
-- part of: goodput
-- nearest: none
-- shows: rank, prefill_plan, decode_plan, prefill_instances, decode_instances, devices_used, goodput, goodput_slower, goodput_faster, goodput_per_device, goodput_least, goodput_most, kv_transfer_ms, colocated_plan, colocated_goodput, advantage, said, arrivals
-- column: question_group | none | results are ranked within a group of model, workload, precision and convention
-- column: rank | none | 1 has the highest goodput within the device budget, without one the highest a device; ties go to the content keys
-- column: prefill_device | none | device of the prefill side
-- column: prefill_plan | none | label of its split
-- column: decode_device | none | device of the decode side
-- column: decode_plan | none | label of its split
-- column: prefill_instances | instances | within the budget; up to 8 without one
-- column: decode_instances | instances | as prefill_instances
-- column: devices_used | devices | by both sides
-- column: goodput | requests/s | of all of them: shares of the sides multiplied reach the wanted share, from sides played with arrivals of their own
-- column: goodput_slower | requests/s | if every step takes longer by the expected error of its side; NULL where nobody measured near
-- column: goodput_faster | requests/s | if every step is shorter by as much
-- column: goodput_per_device | requests/s | goodput / devices_used
-- column: goodput_least | requests/s | however the two times of a request depend on each other: both shares less 1
-- column: goodput_most | requests/s | if the same requests meet both: the smaller share; also each limit by itself
-- column: kv_transfer_ms | ms | part of each TTFT: moving a prompt, and receiving the request on the decode side
-- column: colocated_plan | none | best plan that does both, of the same group and stream; NULL where none was played
-- column: colocated_goodput | requests/s | of its copies on as many devices
-- column: advantage | ratio | goodput / colocated_goodput: above 1 separation pays
-- column: said | none | separation pays, or does not; below the lowest rate played of a side
-- column: attainment | ratio | share of requests that is wanted
-- column: kv_transfer_gb_per_s | GB/s | between instances, as it was given; NULL: the outermost link of the devices that hold a prompt
-- column: arrivals | none | process, requests and seed
-- column: prefill_scenario | none | content key of the prefill side
-- column: decode_scenario | none | content key of the decode side
WITH prefill_rates AS MATERIALIZED (
    SELECT * FROM side_rates('prefill', getvariable('attainment'))
),
decode_rates AS MATERIALIZED (
    SELECT * FROM side_rates('decode', getvariable('attainment'))
),
prefill_sides AS MATERIALIZED (
    SELECT question_group, settings_key, any_value(stream) AS stream, any_value(device) AS device, any_value(plan) AS plan,
        any_value(num_devices) AS size, any_value(scenario) AS scenario, any_value(beside_ms) AS beside_ms,
        any_value(concat(process, CASE WHEN process = 'gamma' THEN concat(':', cv) END, ', ', arrival_requests,
            ' requests, seed ', seed)) AS arrivals
    FROM played('prefill')
    GROUP BY question_group, settings_key
),
decode_sides AS MATERIALIZED (
    SELECT question_group, settings_key, any_value(stream) AS stream, any_value(device) AS device, any_value(plan) AS plan,
        any_value(num_devices) AS size, any_value(scenario) AS scenario
    FROM played('decode')
    GROUP BY question_group, settings_key
),
-- Counts of both sides for every two sizes of an instance: a pair and a smaller one of the same ratio need the same devices each.
counts AS MATERIALIZED (
    SELECT sizes.prefill_size, sizes.decode_size, p.range AS prefill_instances, d.range AS decode_instances,
        p.range * sizes.prefill_size + d.range * sizes.decode_size AS devices_used
    FROM (
        SELECT DISTINCT p.size AS prefill_size, d.size AS decode_size FROM prefill_sides AS p, decode_sides AS d
    ) AS sizes, range(1, 65) AS p, range(1, 65) AS d
    WHERE CASE WHEN getvariable('num_devices') IS NULL THEN p.range <= 8 AND d.range <= 8
        ELSE p.range * sizes.prefill_size + d.range * sizes.decode_size <= getvariable('num_devices') END
),
pairs AS (
    SELECT
        p.question_group, p.settings_key AS prefill_key, d.settings_key AS decode_key, p.size AS prefill_size,
        d.size AS decode_size
    FROM prefill_sides AS p
    JOIN decode_sides AS d ON d.question_group = p.question_group AND d.stream = p.stream
),
joined AS (
    SELECT
        pairs.*, p.reading, p.rule, p.level, p.side_rate AS prefill_rate, d.side_rate AS decode_rate
    FROM pairs
    JOIN prefill_rates AS p ON p.question_group = pairs.question_group AND p.settings_key = pairs.prefill_key
    JOIN decode_rates AS d ON d.question_group = pairs.question_group AND d.settings_key = pairs.decode_key
        AND d.reading = p.reading AND d.rule = p.rule AND d.level = 16 - p.level
),
tried AS (
    SELECT
        question_group, prefill_key, decode_key, prefill_instances, decode_instances, devices_used,
        max(least(prefill_instances * prefill_rate, decode_instances * decode_rate)) AS goodput
    FROM joined
    JOIN counts ON counts.prefill_size = joined.prefill_size AND counts.decode_size = joined.decode_size
    WHERE reading = 'predicted' AND rule = 'product' AND NOT getvariable('marginal')
    GROUP BY ALL
    UNION ALL
    SELECT
        p.question_group, pairs.prefill_key, pairs.decode_key, prefill_instances, decode_instances, devices_used,
        least(prefill_instances * p.side_rate, decode_instances * d.side_rate)
    FROM pairs
    JOIN prefill_rates AS p ON p.question_group = pairs.question_group AND p.settings_key = pairs.prefill_key
    JOIN decode_rates AS d ON d.question_group = pairs.question_group AND d.settings_key = pairs.decode_key
    JOIN counts ON counts.prefill_size = pairs.prefill_size AND counts.decode_size = pairs.decode_size
    WHERE p.reading = 'predicted' AND d.reading = 'predicted' AND p.rule = 'product' AND d.rule = 'product'
        AND p.level = 16 AND d.level = 16 AND getvariable('marginal')
),
best AS (
    SELECT *
    FROM tried
    QUALIFY row_number() OVER (
        PARTITION BY question_group, prefill_key, decode_key
        ORDER BY CASE WHEN getvariable('num_devices') IS NULL THEN goodput / devices_used ELSE goodput END DESC,
            devices_used, prefill_instances
    ) = 1
),
ranked AS MATERIALIZED (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY question_group
            ORDER BY CASE WHEN getvariable('num_devices') IS NULL THEN goodput / devices_used ELSE goodput END DESC,
                devices_used, prefill_key, decode_key
        ) AS rank
    FROM best
    QUALIFY rank <= getvariable('top')
),
read AS (
    SELECT
        ranked.question_group, ranked.prefill_key, ranked.decode_key, reading, rule,
        max(least(prefill_instances * prefill_rate, decode_instances * decode_rate)) AS goodput
    FROM ranked
    JOIN joined ON joined.question_group = ranked.question_group AND joined.prefill_key = ranked.prefill_key
        AND joined.decode_key = ranked.decode_key
    GROUP BY ALL
),
others AS (
    SELECT
        question_group, prefill_key, decode_key,
        max(goodput) FILTER (WHERE reading = 'slower') AS goodput_slower,
        max(goodput) FILTER (WHERE reading = 'faster') AS goodput_faster,
        max(goodput) FILTER (WHERE rule = 'bracket') AS goodput_least
    FROM read
    GROUP BY question_group, prefill_key, decode_key
),
together AS MATERIALIZED (
    -- Of plans that do both, the goodput of one instance.
    SELECT goodput.question_group, any_value(stream) AS stream, goodput.settings_key, any_value(plan) AS plan,
        any_value(num_devices) AS size, any_value(goodput.goodput) AS goodput
    FROM goodputs('aggregated', getvariable('marginal'), getvariable('attainment')) AS goodput
    JOIN played('aggregated') AS played ON played.question_group = goodput.question_group
        AND played.settings_key = goodput.settings_key
    WHERE reading = 'predicted'
    GROUP BY goodput.question_group, goodput.settings_key
),
listed AS (
    SELECT
        ranked.*, others.goodput_slower, others.goodput_faster, others.goodput_least,
        least(
            prefill_instances * p.side_rate, decode_instances * d.side_rate
        ) AS goodput_most, ps.stream
    FROM ranked
    JOIN others ON others.question_group = ranked.question_group AND others.prefill_key = ranked.prefill_key
        AND others.decode_key = ranked.decode_key
    JOIN prefill_rates AS p ON p.question_group = ranked.question_group AND p.settings_key = ranked.prefill_key
        AND p.reading = 'predicted' AND p.rule = 'product' AND p.level = 16
    JOIN decode_rates AS d ON d.question_group = ranked.question_group AND d.settings_key = ranked.decode_key
        AND d.reading = 'predicted' AND d.rule = 'product' AND d.level = 16
    JOIN prefill_sides AS ps ON ps.question_group = ranked.question_group AND ps.settings_key = ranked.prefill_key
),
beside AS (
    SELECT listed.question_group, listed.rank, together.plan AS colocated_plan,
        floor(devices_used / together.size) * together.goodput AS colocated_goodput
    FROM listed
    JOIN together ON together.question_group = listed.question_group AND together.stream = listed.stream
    QUALIFY row_number() OVER (
        PARTITION BY listed.question_group, listed.rank
        ORDER BY floor(devices_used / together.size) * together.goodput DESC NULLS LAST, together.settings_key
    ) = 1
)
SELECT
    listed.question_group, listed.rank, p.device AS prefill_device, p.plan AS prefill_plan, d.device AS decode_device,
    d.plan AS decode_plan, prefill_instances, decode_instances, devices_used, nullif(listed.goodput, 0) AS goodput,
    goodput_slower, goodput_faster, nullif(listed.goodput, 0) / devices_used AS goodput_per_device, goodput_least,
    goodput_most, p.beside_ms AS kv_transfer_ms, colocated_plan, colocated_goodput,
    nullif(listed.goodput, 0) / nullif(colocated_goodput, 0) AS advantage,
    CASE
        WHEN listed.goodput = 0 THEN 'below the lowest rate played'
        WHEN listed.goodput > colocated_goodput THEN 'separation pays'
        WHEN colocated_goodput IS NOT NULL THEN 'separation does not pay'
    END AS said,
    getvariable('attainment') AS attainment, getvariable('kv_transfer_bytes_per_s') / 1e9 AS kv_transfer_gb_per_s,
    p.arrivals, p.scenario AS prefill_scenario, d.scenario AS decode_scenario
FROM listed
JOIN prefill_sides AS p ON p.question_group = listed.question_group AND p.settings_key = listed.prefill_key
JOIN decode_sides AS d ON d.question_group = listed.question_group AND d.settings_key = listed.decode_key
LEFT JOIN beside ON beside.question_group = listed.question_group AND beside.rank = listed.rank
ORDER BY listed.question_group, listed.rank;
