-- name: sensitivity
-- summary: the best throughput as a step function of one limit, ranked as best ranks: where the winner changes and what one more unit buys
-- modes: aggregated, prefill, decode
-- requires: vary | sensitivity varies a limit | add `vary=ttft`, tpot, e2e or memory, or two of them
-- variant: sensitivity-grid | vary_second
-- layout: long
-- shows: vary, limit_from, limit_to, ranked_rate if sized or num_devices, rate, gain, gain_per_unit, winner_changes, device, plan, batch_size, concurrency, probe
-- parameters: rules
-- parameters: limits
-- parameter: wanted_phase | VARCHAR | none | never NULL: prefill, decode or aggregated
-- parameter: num_devices | BIGINT | devices | no device budget: no copies
-- parameter: vary | VARCHAR | none | never NULL: ttft, tpot, e2e or memory; its own limit is left out
-- column: question_group | none | group of model, workload, precision and convention
-- column: vary | none | the limit that varies; memory is the reserve, which counts down
-- column: limit_from | ms or GiB | from this value on this row is the best
-- column: limit_to | ms or GiB | up to the next step; NULL: however far it is relaxed
-- column: ranked_by | none | system_rate within a budget, rate_per_device where the group holds instances of several sizes, else rate
-- column: ranked_rate | tokens/s | best throughput in that interval, by ranked_by
-- column: rate | tokens/s | of one instance of the winner
-- column: gain | tokens/s | of ranked_rate over the step before; NULL at the first
-- column: gain_per_unit | tokens/s per ms or GiB | gain / how far the limit moved since the step before
-- column: winner_changes | none | whether another plan wins than before
-- column: probe | none | the winner
-- column: device | none | its device
-- column: plan | none | its split
-- column: batch_size | requests | its batch size
-- column: concurrency | requests | in flight
WITH points AS (
    SELECT
        *,
        CASE $vary
            WHEN 'ttft' THEN ttft_bound_ms
            WHEN 'tpot' THEN tpot_bound_ms
            WHEN 'e2e' THEN e2e_bound_ms
            -- Less reserve admits more: the limit is counted downwards.
            ELSE -($reserved_gib + memory_free_bytes / 1073741824)
        END AS needs
    FROM judged(
        $wanted_phase, $reserved_gib, $kv_charge, $tpot_rule, $prefill_qps_rule, $decode_qps_rule, $throughput_rule
    )
    WHERE qps > 0
        AND ($vary = 'memory' OR memory_free_bytes >= 0)
        AND ($vary = 'ttft' OR $ttft_limit_ms IS NULL OR phase = 'decode' OR ttft_bound_ms <= $ttft_limit_ms)
        AND ($vary = 'tpot' OR $tpot_limit_ms IS NULL OR phase = 'prefill' OR tpot_bound_ms <= $tpot_limit_ms)
        AND ($vary = 'e2e' OR $e2e_limit_ms IS NULL OR phase <> 'aggregated' OR e2e_bound_ms <= $e2e_limit_ms)
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
    WHERE needs IS NOT NULL AND ($vary <> 'memory' OR needs <= 0)
        AND ($num_devices IS NULL OR num_devices <= $num_devices)
    WINDOW sizes AS (PARTITION BY question_group)
),
steps AS (
    SELECT *
    FROM reachable
    QUALIFY ranked_rate > coalesce(
        max(ranked_rate) OVER (
            PARTITION BY question_group ORDER BY needs, ranked_rate DESC, latency_ms, batch_size, scenario
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ),
        -1
    )
),
compared AS (
    SELECT
        *,
        lead(needs) OVER following AS next_needs,
        ranked_rate - lag(ranked_rate) OVER following AS gain,
        needs - lag(needs) OVER following AS moved,
        scenario <> lag(scenario) OVER following AS winner_changes
    FROM steps
    WINDOW following AS (PARTITION BY question_group ORDER BY needs, ranked_rate, scenario)
)
SELECT
    question_group, $vary AS vary, abs(needs) AS limit_from, abs(next_needs) AS limit_to, ranked_by, ranked_rate,
    rate, gain, gain / nullif(moved, 0) AS gain_per_unit, winner_changes, probe, device, plan, batch_size, concurrency
FROM compared
ORDER BY question_group, needs, scenario;
