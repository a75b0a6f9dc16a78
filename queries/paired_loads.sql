-- Prefill and decode instances paired from loads of each side alone, those of one stream together: the `kept` best pairs of plans
-- of each group, within the device budget, without one by what a device carries. Shares of both sides multiply.
CREATE OR REPLACE TEMP MACRO multiplied_pairs(marginal, wanted_share, kept) AS TABLE
WITH prefill_rates AS MATERIALIZED (
    SELECT * FROM side_rates('prefill', wanted_share)
),
decode_rates AS MATERIALIZED (
    SELECT * FROM side_rates('decode', wanted_share)
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
        CASE WHEN marginal THEN most ELSE greatest(
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
        QUALIFY row_number() OVER (PARTITION BY question_group ORDER BY worth DESC) <= kept
    )
    GROUP BY question_group
),
tried AS (
    SELECT
        bounded.*EXCLUDE (at_least),
        CASE WHEN marginal THEN most ELSE list_max([
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
    QUALIFY rank <= kept
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
)
SELECT ranked.*, goodput_slower, goodput_faster, goodput_least
FROM ranked
JOIN others ON others.question_group = ranked.question_group AND others.rank = ranked.rank;

-- The instances that carry a rate at the fewest devices, for each two plans of one stream: each level of a share says how many of
-- either side it takes. One row for steps as predicted, and one for longer ones where they have an expected error.
CREATE OR REPLACE TEMP MACRO carrying_pairs(marginal, wanted_share, wanted_rate) AS TABLE
WITH prefill_rates AS MATERIALIZED (
    SELECT * FROM side_rates('prefill', wanted_share) WHERE rule = 'product' AND reading <> 'faster'
),
decode_rates AS MATERIALIZED (
    SELECT * FROM side_rates('decode', wanted_share) WHERE rule = 'product' AND reading <> 'faster'
)
SELECT
    p.question_group, prefill_rates.reading, p.ladder AS prefill_ladder, d.ladder AS decode_ladder,
    instances_for(wanted_rate, prefill_rates.side_rate) AS prefill_instances,
    instances_for(wanted_rate, decode_rates.side_rate) AS decode_instances,
    prefill_instances * p.num_devices + decode_instances * d.num_devices AS devices,
    least(prefill_instances * prefill_rates.side_rate, decode_instances * decode_rates.side_rate) AS goodput
FROM prefill_rates
JOIN decode_rates ON decode_rates.reading = prefill_rates.reading
    AND decode_rates.level = CASE WHEN marginal THEN 16 ELSE 16 - prefill_rates.level END
JOIN ladder AS p ON p.ladder = prefill_rates.ladder
JOIN ladder AS d ON d.ladder = decode_rates.ladder AND d.question_group = p.question_group AND d.stream = p.stream
WHERE prefill_rates.side_rate > 0 AND decode_rates.side_rate > 0 AND (NOT marginal OR prefill_rates.level = 16)
QUALIFY row_number() OVER (
    PARTITION BY p.question_group, prefill_rates.reading, p.ladder, d.ladder
    ORDER BY devices, goodput DESC, prefill_instances, prefill_rates.level
) = 1;
