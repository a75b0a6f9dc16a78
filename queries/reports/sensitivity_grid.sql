-- name: sensitivity-grid
-- summary: the best throughput for a grid of two limits, ranked as best ranks, their values spread over what is stored
-- part of: sensitivity
-- shows: first_limit, second_limit, ranked_rate if sized or num_devices, rate, device, plan, batch_size, concurrency, probe
-- parameters: rules
-- parameters: limits
-- parameter: wanted_phase | VARCHAR | none | never NULL: prefill, decode or aggregated
-- parameter: num_devices | BIGINT | devices | no device budget: no copies
-- parameter: vary | VARCHAR | none | never NULL: ttft, tpot, e2e or memory (the reserve); its own limit is left out
-- parameter: vary_second | VARCHAR | none | never NULL: another of them
-- parameter: steps | BIGINT | values | never NULL: values of each limit, quantiles of what is stored
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
        CASE $vary WHEN 'ttft' THEN ttft_bound_ms WHEN 'tpot' THEN tpot_bound_ms WHEN 'e2e' THEN e2e_bound_ms
            ELSE -($reserved_gib + memory_free_bytes / 1073741824) END AS first_needs,
        CASE $vary_second WHEN 'ttft' THEN ttft_bound_ms WHEN 'tpot' THEN tpot_bound_ms WHEN 'e2e' THEN e2e_bound_ms
            ELSE -($reserved_gib + memory_free_bytes / 1073741824) END AS second_needs
    FROM judged(
        $wanted_phase, $reserved_gib, $kv_charge, $tpot_rule, $prefill_qps_rule, $decode_qps_rule, $throughput_rule
    )
    WHERE qps > 0
        AND ('memory' IN ($vary, $vary_second) OR memory_free_bytes >= 0)
        AND ('ttft' IN ($vary, $vary_second) OR $ttft_limit_ms IS NULL OR phase = 'decode'
            OR ttft_bound_ms <= $ttft_limit_ms)
        AND ('tpot' IN ($vary, $vary_second) OR $tpot_limit_ms IS NULL OR phase = 'prefill'
            OR tpot_bound_ms <= $tpot_limit_ms)
        AND ('e2e' IN ($vary, $vary_second) OR $e2e_limit_ms IS NULL OR phase <> 'aggregated'
            OR e2e_bound_ms <= $e2e_limit_ms)
        AND ($min_user_rate IS NULL OR phase = 'prefill' OR user_rate_bound >= $min_user_rate)
),
reachable AS (
    SELECT
        *,
        ranking(
            'rate', FALSE, $num_devices, min(num_devices) OVER sizes, max(num_devices) OVER sizes
        ) AS ranked_by,
        ranked_measure(ranked_by, rate, num_devices, $num_devices, rate) AS ranked_rate
    FROM points
    WHERE first_needs IS NOT NULL AND second_needs IS NOT NULL
        AND ($vary <> 'memory' OR first_needs <= 0) AND ($vary_second <> 'memory' OR second_needs <= 0)
        AND ($num_devices IS NULL OR num_devices <= $num_devices)
    WINDOW sizes AS (PARTITION BY question_group)
),
shares AS (
    SELECT unnest(range(1, $steps + 1)) / $steps AS share
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
