-- name: goodput-pairs
-- summary: prefill and decode instances paired from loads of each side alone: counts with the highest rate at which the wanted share meets both limits
-- part of: goodput
-- reads: loads | best_of_sizes(getvariable('marginal'), getvariable('attainment'))
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
-- Of the sides multiplied, rates at all levels in a row.
prefill_sides AS MATERIALIZED (
    SELECT ladder, any_value(question_group) AS question_group, any_value(stream) AS stream,
        any_value(num_devices) AS size, list(side_rate ORDER BY level) AS rates
    FROM prefill_rates JOIN ladder USING (ladder)
    WHERE reading = 'predicted' AND rule = 'product'
    GROUP BY ladder
),
decode_sides AS MATERIALIZED (
    SELECT ladder, any_value(question_group) AS question_group, any_value(stream) AS stream,
        any_value(num_devices) AS size, list(side_rate ORDER BY level DESC) AS rates
    FROM decode_rates JOIN ladder USING (ladder)
    WHERE reading = 'predicted' AND rule = 'product'
    GROUP BY ladder
),
-- Counts of both sides for every two sizes of an instance: a pair and a smaller one of the same ratio need the same devices each.
sizes AS (
    SELECT prefill_size, decode_size, unnest(range(1, coalesce(least(64, floor(
            (getvariable('num_devices') - decode_size) / prefill_size)), 8)::BIGINT + 1)) AS prefill_instances
    FROM (SELECT DISTINCT size AS prefill_size FROM prefill_sides), (SELECT DISTINCT size AS decode_size FROM decode_sides)
),
counts AS MATERIALIZED (
    SELECT *, prefill_instances * prefill_size + decode_instances * decode_size AS devices_used
    FROM (
        SELECT *, unnest(range(1, coalesce(least(64, floor(
            (getvariable('num_devices') - prefill_instances * prefill_size) / decode_size)), 8)::BIGINT + 1)) AS decode_instances
        FROM sizes
    )
),
-- A pair has at least the rate of any one level, and at most that of the limits by themselves.
bounded AS (
    SELECT
        p.question_group, p.ladder AS prefill_ladder, d.ladder AS decode_ladder, prefill_instances, decode_instances,
        devices_used, CASE WHEN getvariable('num_devices') IS NULL THEN devices_used ELSE 1 END AS shared_by,
        least(prefill_instances * p.rates[17], decode_instances * d.rates[1]) AS most,
        CASE WHEN getvariable('marginal') THEN most ELSE greatest(
            least(prefill_instances * p.rates[4], decode_instances * d.rates[4]),
            least(prefill_instances * p.rates[9], decode_instances * d.rates[9]),
            least(prefill_instances * p.rates[14], decode_instances * d.rates[14])
        ) END AS at_least
    FROM prefill_sides AS p
    JOIN decode_sides AS d ON d.question_group = p.question_group AND d.stream = p.stream
    JOIN counts ON counts.prefill_size = p.size AND counts.decode_size = d.size
),
enough AS MATERIALIZED (
    SELECT question_group, min(worth) AS worth
    FROM (
        SELECT question_group, max(at_least / shared_by) AS worth
        FROM bounded
        GROUP BY question_group, prefill_ladder, decode_ladder
        QUALIFY row_number() OVER (PARTITION BY question_group ORDER BY worth DESC) <= getvariable('top')
    )
    GROUP BY question_group
),
tried AS (
    SELECT
        bounded.*EXCLUDE (at_least),
        CASE WHEN getvariable('marginal') THEN most ELSE list_max([
            least(prefill_instances * rate, decode_instances * d.rates[place]) FOR rate, place IN p.rates
        ]) END AS goodput
    FROM bounded
    JOIN enough ON enough.question_group = bounded.question_group
    JOIN prefill_sides AS p ON p.ladder = prefill_ladder
    JOIN decode_sides AS d ON d.ladder = decode_ladder
    WHERE most / shared_by >= enough.worth * (1 - 1e-9)
),
best AS (
    SELECT *
    FROM tried
    QUALIFY row_number() OVER (
        PARTITION BY question_group, prefill_ladder, decode_ladder
        ORDER BY goodput / shared_by DESC, devices_used, prefill_instances
    ) = 1
),
ranked AS MATERIALIZED (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY question_group ORDER BY goodput / shared_by DESC, devices_used, prefill_ladder, decode_ladder
        ) AS rank
    FROM best
    QUALIFY rank <= getvariable('top')
),
read AS (
    SELECT
        ranked.question_group, rank, p.reading, p.rule,
        max(least(prefill_instances * p.side_rate, decode_instances * d.side_rate)) AS goodput
    FROM ranked
    JOIN prefill_rates AS p ON p.ladder = prefill_ladder
    JOIN decode_rates AS d ON d.ladder = decode_ladder AND d.reading = p.reading AND d.rule = p.rule
        AND d.level = 16 - p.level
    GROUP BY ALL
),
others AS (
    SELECT
        question_group, rank, max(goodput) FILTER (WHERE reading = 'slower') AS goodput_slower,
        max(goodput) FILTER (WHERE reading = 'faster') AS goodput_faster,
        max(goodput) FILTER (WHERE rule = 'bracket') AS goodput_least
    FROM read
    GROUP BY question_group, rank
),
-- Of plans that do both, the goodput of one instance.
together AS (
    SELECT ladder, goodput
    FROM goodputs('aggregated', getvariable('marginal'), getvariable('attainment'))
    WHERE reading = 'predicted'
),
asked AS (
    SELECT DISTINCT ranked.question_group, stream, devices_used
    FROM ranked JOIN ladder ON ladder.ladder = prefill_ladder
),
beside AS (
    SELECT question_group, stream, devices_used, ladder, plan, floor(devices_used / num_devices) * goodput AS colocated_goodput
    FROM asked JOIN ladder USING (question_group, stream) JOIN together USING (ladder)
    QUALIFY row_number() OVER (
        PARTITION BY question_group, stream, devices_used ORDER BY colocated_goodput DESC NULLS LAST, ladder
    ) = 1
)
SELECT
    ranked.question_group, ranked.rank, p.device AS prefill_device, p.plan AS prefill_plan, d.device AS decode_device,
    d.plan AS decode_plan, prefill_instances, decode_instances, ranked.devices_used, nullif(ranked.goodput, 0) AS goodput,
    goodput_slower, goodput_faster, nullif(ranked.goodput, 0) / ranked.devices_used AS goodput_per_device, goodput_least,
    most AS goodput_most, moved.beside_ms AS kv_transfer_ms, beside.plan AS colocated_plan, colocated_goodput,
    nullif(ranked.goodput, 0) / nullif(colocated_goodput, 0) AS advantage,
    CASE
        WHEN ranked.goodput = 0 THEN 'below the lowest rate played'
        WHEN ranked.goodput > colocated_goodput THEN 'separation pays'
        WHEN colocated_goodput IS NOT NULL THEN 'separation does not pay'
    END AS said,
    getvariable('attainment') AS attainment, getvariable('kv_transfer_bytes_per_s') / 1e9 AS kv_transfer_gb_per_s,
    p.arrivals, p.scenario AS prefill_scenario, d.scenario AS decode_scenario
FROM ranked
JOIN others ON others.question_group = ranked.question_group AND others.rank = ranked.rank
JOIN ladder AS p ON p.ladder = prefill_ladder
JOIN ladder AS d ON d.ladder = decode_ladder
JOIN (SELECT ladder, any_value(beside_ms) AS beside_ms FROM played GROUP BY ladder) AS moved ON moved.ladder = prefill_ladder
LEFT JOIN beside ON beside.question_group = ranked.question_group AND beside.stream = p.stream
    AND beside.devices_used = ranked.devices_used
ORDER BY ranked.question_group, ranked.rank;
