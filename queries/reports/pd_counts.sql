-- summary: numbers of prefill and decode instances within the budget, for the best pair of plans, and what each carries: all, or the 10,000 that carry most
-- needs: prefill, decode
-- allocates: pairs
-- requires: num_devices | report pd-counts needs a device budget | add `num_devices=N`
-- best of: pd-ratio
-- reads: narrow, winners
-- column: prefill_instances, decode_instances, devices_used, devices_idle, exact, ratio, requests_per_s_per_device, prefill_probe, decode_probe
-- column: rank | none | 1 carries most; ties go to fewer devices, then the ratio closest to the balanced one
-- column: system_requests_per_s | requests/s | the smaller of both sides
WITH least AS (
    -- what at least 10,000 of the counts carry: those within a triangle of counts below the best
    SELECT greatest(
        divided_qps(
            getvariable('num_devices') - getvariable('prefill_size') - getvariable('decode_size')
                - sqrt(2.0 * 10000 * getvariable('prefill_size') * getvariable('decode_size')),
            getvariable('prefill_size'), getvariable('decode_size'), getvariable('prefill_requests_per_s'), getvariable('decode_requests_per_s')
        ),
        0.0
    ) AS least_qps
),
prefills AS (
    SELECT
        least_qps,
        unnest(range(
            greatest(floor(least_qps / getvariable('prefill_requests_per_s'))::BIGINT, 1),
            (getvariable('num_devices') - getvariable('decode_size')
                * greatest(floor(least_qps / getvariable('decode_requests_per_s'))::BIGINT, 1)) // getvariable('prefill_size') + 1
        )) AS prefill_instances
    FROM least
),
counts AS (
    SELECT
        prefill_instances,
        unnest(range(
            greatest(floor(least_qps / getvariable('decode_requests_per_s'))::BIGINT, 1),
            (getvariable('num_devices') - prefill_instances * getvariable('prefill_size')) // getvariable('decode_size') + 1
        )) AS decode_instances
    FROM prefills
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
QUALIFY rank <= 10000
ORDER BY rank;

-- when: served | pd-counts-served
-- summary: numbers of prefill and decode instances within the budget, for the best pair of an engine's plans: all, or the 10,000 that carry most
-- reads: narrow, winners
-- column: prefill_instances, decode_instances, devices_used, devices_idle, exact, ratio, requests_per_s_per_device, prefill_utilisation
-- column: decode_utilisation, ttft_ms, prefill_probe
-- column: rank | none | 1 carries most; ties go to fewer devices, then fewer prefill instances
-- column: system_requests_per_s | requests/s | of the fullest decode row that prefill keeps up with within the limits; NULL where none, which more than 10,000 counts leave out
-- column: decode_probe | none | the decode side; its batch size may differ from line to line
WITH prefills AS MATERIALIZED (
    SELECT *
    FROM engine_prefills()
    WHERE scenario = getvariable('prefill_scenario')
),
decodes AS MATERIALIZED (
    SELECT *, max(qps) OVER () AS most_qps
    FROM engine_decodes()
    WHERE scenario = getvariable('decode_scenario')
),
-- A decode row beside the prefill plan, and how many prefill instances each of its instances takes at least.
served AS MATERIALIZED (
    SELECT
        p.size AS prefill_size, d.size AS decode_size, p.qps AS prefill_requests_per_s, d.qps, d.batch_size, most_qps,
        lone_ms + slot_wait_ms AS unqueued_ms, answer_ms, service_ms, servers_each, first_share,
        pair_ttft_limit_ms(answer_ms, ttft_ratio, answer_ratio) AS limit_ms,
        p.probe AS prefill_probe, d.probe AS decode_probe, getvariable('num_devices') AS budget,
        (
            least_devices_each(
                p.size, d.size, d.qps, lone_ms + slot_wait_ms, answer_ms, service_ms, servers_each, first_share, limit_ms
            ) - d.size
        ) / p.size AS least_prefills_each,
        row_number() OVER (ORDER BY d.qps DESC, d.batch_size) AS number
    FROM prefills AS p
    CROSS JOIN decodes AS d
),
best AS (
    SELECT *
    FROM (
        SELECT
            *, held_decodes(
                budget, 1, 1, (budget - prefill_size) // decode_size, prefill_size, decode_size, qps, unqueued_ms,
                answer_ms, service_ms, servers_each, first_share, limit_ms
            ) AS most_decodes
        FROM served
    )
    QUALIFY row_number() OVER (ORDER BY most_decodes * qps DESC, number) = 1
),
-- What at least 10,000 of the counts carry: those of the best row with one decode instance less after another. 0: fewer do.
fewer AS (
    SELECT
        decode_instances * qps AS carried_qps,
        sum(
            (budget - decode_instances * decode_size) // prefill_size + 1 - held_prefills(
                greatest(busy_prefills(decode_instances, qps, service_ms, servers_each), 1),
                (budget - decode_instances * decode_size) // prefill_size, decode_instances, qps, unqueued_ms, answer_ms,
                service_ms, servers_each, first_share, limit_ms
            )
        ) OVER (ORDER BY decode_instances DESC) AS counted
    FROM (
        SELECT *, unnest(range(greatest(most_decodes - 10000, 1), most_decodes + 1)) AS decode_instances FROM best
    )
),
least_carried AS (
    SELECT
        coalesce((SELECT max(carried_qps) FROM fewer WHERE counted >= 10000), 0.0) AS least_qps, prefill_size, decode_size,
        budget, most_qps, (
            SELECT sum((budget - prefills * prefill_size) // decode_size)
            FROM (
                SELECT
                    budget, prefill_size, decode_size,
                    unnest(range(1, (budget - decode_size) // prefill_size + 1)) AS prefills
                FROM best
            )
        ) > 10000 AS some_left_out
    FROM best
),
-- The numbers of prefill instances beside each number of decode ones with which any row may carry that much.
decode_counts AS (
    SELECT
        *, unnest(range(
            greatest(floor(least_qps / most_qps)::BIGINT, 1), (budget - prefill_size) // decode_size + 1
        )) AS decode_instances, least_qps / decode_instances * (1 - 1e-9) AS least_each
    FROM least_carried
),
loosest AS (
    SELECT qps, min(min(least_prefills_each)) OVER (ORDER BY qps DESC) AS least_prefills_each FROM served GROUP BY qps
),
bounded AS MATERIALIZED (
    SELECT
        decode_instances, least_each,
        CASE WHEN some_left_out THEN greatest(floor(decode_instances * least_prefills_each)::BIGINT, 1) ELSE 1 END
            AS least_prefills,
        (budget - decode_instances * decode_size) // prefill_size AS most_prefills
    FROM decode_counts
    ASOF JOIN loosest ON loosest.qps >= decode_counts.least_each
),
counts AS (
    SELECT decode_instances, unnest(range(least_prefills, most_prefills + 1)) AS prefill_instances FROM bounded
),
-- The fewest prefill instances with which a row holds beside so many decode ones.
fewest AS (
    SELECT
        decode_instances, number, held_prefills(
            greatest(busy_prefills(decode_instances, qps, service_ms, servers_each), least_prefills), most_prefills,
            decode_instances, qps, unqueued_ms, answer_ms, service_ms, servers_each, first_share, limit_ms
        ) AS prefill_instances
    FROM bounded
    JOIN served ON qps >= least_each AND decode_instances * least_prefills_each <= most_prefills
),
-- Of the rows that hold with as many or fewer, the one with the most requests/s.
held AS (
    SELECT
        decode_instances, prefill_instances, prefill_instances * prefill_size + decode_instances * decode_size AS devices_used,
        some_left_out, min(least_number) OVER (PARTITION BY decode_instances ORDER BY prefill_instances) AS number
    FROM counts
    CROSS JOIN least_carried
    LEFT JOIN (
        SELECT decode_instances, prefill_instances, min(number) AS least_number FROM fewest GROUP BY ALL
    ) USING (decode_instances, prefill_instances)
)
SELECT
    row_number() OVER (
        ORDER BY decode_instances * qps DESC NULLS LAST, devices_used, prefill_instances, decode_instances
    ) AS rank,
    prefill_instances, decode_instances, devices_used, getvariable('num_devices') - devices_used AS devices_idle,
    devices_used = getvariable('num_devices') AS exact, prefill_instances / decode_instances AS ratio,
    decode_instances * qps AS system_requests_per_s, system_requests_per_s / devices_used AS requests_per_s_per_device,
    system_requests_per_s / (prefill_instances * prefill_requests_per_s) AS prefill_utilisation, qps / most_qps AS decode_utilisation,
    pair_ttft_ms(
        system_requests_per_s / 1000.0, unqueued_ms, answer_ms, service_ms, prefill_instances * servers_each, first_share
    ) AS ttft_ms,
    prefill_probe, decode_probe
FROM held
LEFT JOIN served USING (number)
WHERE number IS NOT NULL OR NOT some_left_out
QUALIFY rank <= 10000
ORDER BY rank;
