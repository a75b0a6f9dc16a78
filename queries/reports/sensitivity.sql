-- name: sensitivity
-- summary: the best throughput as a step function of one limit, ranked as best ranks: where the winner changes and what one more unit buys
-- of loads: goodput-sensitivity | by
-- modes: aggregated, prefill, decode
-- requires: vary | sensitivity varies a limit | add `vary`: each_limit_listed, or two of them
-- variant: sensitivity-grid | vary_second
-- layout: long
-- shows: vary, limit_from, limit_to, ranked_rate if sized or num_devices, rate, gain, gain_per_unit, winner_changes, device, plan, batch_size, concurrency, probe
-- narrow: judged
-- suffices: winners
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
        needed(getvariable('vary'), each_limited) AS needs
    FROM judged(getvariable('wanted_phase'))
    WHERE qps > 0 AND keeps_limits(phase, [getvariable('vary')], each_limited)
),
reachable AS (
    SELECT question_group, needs, num_devices, rate, latency_ms, batch_size, scenario, concurrency, probe, device, plan
    FROM points
    WHERE needs IS NOT NULL AND (needs <= 0 OR NOT counts_down(getvariable('vary')))
        AND (getvariable('num_devices') IS NULL OR num_devices <= getvariable('num_devices'))
),
sizes AS (
    SELECT question_group, ranking('rate', FALSE, min(num_devices), max(num_devices)) AS ranked_by
    FROM reachable
    GROUP BY question_group
),
measured AS (
    SELECT
        reachable.*, ranked_by, ranked_measure(ranked_by, rate, num_devices, rate) AS ranked_rate,
        sign(needs) * floor(sqrt(abs(needs)) * 16) AS stretch
    FROM reachable
    JOIN sizes ON sizes.question_group = reachable.question_group
),
-- Points that one within a much tighter limit reaches or beats are no step: few are left to be looked at one by one.
bars AS (
    SELECT
        question_group, stretch,
        max(max(ranked_rate)) OVER (
            PARTITION BY question_group ORDER BY stretch ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS most_tighter
    FROM measured
    GROUP BY question_group, stretch
),
steps AS (
    SELECT measured.*
    FROM measured
    JOIN bars ON bars.question_group = measured.question_group AND bars.stretch = measured.stretch
    WHERE most_tighter IS NULL OR ranked_rate > most_tighter
    QUALIFY ranked_rate > coalesce(
        max(ranked_rate) OVER (
            PARTITION BY measured.question_group
            ORDER BY needs, ranked_rate DESC, latency_ms, batch_size, scenario
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
    question_group, getvariable('vary') AS vary, abs(needs) AS limit_from, abs(next_needs) AS limit_to, ranked_by,
    ranked_rate, rate, gain, gain / nullif(moved, 0) AS gain_per_unit, winner_changes, probe, device, plan, batch_size, concurrency
FROM compared
ORDER BY question_group, needs, scenario;
