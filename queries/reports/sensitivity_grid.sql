-- name: sensitivity-grid
-- summary: the best throughput for a grid of two limits, ranked as best ranks, their values spread over what is stored
-- part of: sensitivity
-- shows: first_limit, second_limit, ranked_rate if sized or num_devices, rate, device, plan, batch_size, concurrency, probe
-- narrow: judged
-- column: question_group | none | group of model, workload, precision and convention
-- column: first_limit | ms or GiB | value of the first limit
-- column: second_limit | ms or GiB | value of the second limit
-- column: ranked_by | none | system_rate within a budget, rate_per_device where the group holds instances of several sizes, else rate
-- column: ranked_rate | tokens/s | best throughput within both, by ranked_by; NULL: nothing satisfies them
-- column: rate | tokens/s | of one instance of the winner
-- column: probe | none | the winner
-- column: device | none | its device
-- column: plan | none | its split
-- column: batch_size | requests | its batch size
-- column: concurrency | requests | in flight
WITH points AS (
    SELECT
        *,
        needed(getvariable('vary'), each_limited) AS first_needs,
        needed(getvariable('vary_second'), each_limited) AS second_needs
    FROM judged(getvariable('wanted_phase'))
    WHERE qps > 0 AND keeps_limits(phase, [getvariable('vary'), getvariable('vary_second')], each_limited)
),
reachable AS (
    SELECT
        *,
        ranking('rate', FALSE, min(num_devices) OVER sizes, max(num_devices) OVER sizes) AS ranked_by,
        ranked_measure(ranked_by, rate, num_devices, rate) AS ranked_rate
    FROM points
    WHERE first_needs IS NOT NULL AND second_needs IS NOT NULL
        AND (first_needs <= 0 OR NOT counts_down(getvariable('vary')))
        AND (second_needs <= 0 OR NOT counts_down(getvariable('vary_second')))
        AND (getvariable('num_devices') IS NULL OR num_devices <= getvariable('num_devices'))
    WINDOW sizes AS (PARTITION BY question_group)
),
shares AS (
    SELECT unnest(range(1, getvariable('steps') + 1)) / getvariable('steps') AS share
),
ordered AS (
    SELECT
        question_group, list_sort(list(first_needs)) AS first_sorted, list_sort(list(second_needs)) AS second_sorted
    FROM reachable
    GROUP BY question_group
),
firsts AS (
    SELECT DISTINCT question_group, first_sorted[ceil(share * len(first_sorted))::BIGINT] AS first_limit
    FROM ordered, shares
),
seconds AS (
    SELECT DISTINCT question_group, second_sorted[ceil(share * len(second_sorted))::BIGINT] AS second_limit
    FROM ordered, shares
),
cells AS (
    SELECT f.question_group, f.first_limit, s.second_limit
    FROM firsts AS f
    JOIN seconds AS s ON f.question_group = s.question_group
),
winners AS (
    SELECT
        c.question_group, c.first_limit, c.second_limit, r.ranked_by, r.ranked_rate, r.rate,
        r.probe, r.device, r.plan, r.batch_size, r.concurrency
    FROM cells AS c
    LEFT JOIN reachable AS r
        ON r.question_group = c.question_group AND r.first_needs <= c.first_limit AND r.second_needs <= c.second_limit
    QUALIFY row_number() OVER (
        PARTITION BY c.question_group, c.first_limit, c.second_limit
        ORDER BY r.ranked_rate DESC, r.latency_ms, r.batch_size, r.scenario
    ) = 1
)
SELECT
    question_group, abs(first_limit) AS first_limit, abs(second_limit) AS second_limit, ranked_by, ranked_rate, rate,
    probe, device, plan, batch_size, concurrency
FROM winners
ORDER BY question_group, winners.first_limit, winners.second_limit;
