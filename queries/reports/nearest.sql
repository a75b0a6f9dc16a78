-- summary: the closest configurations when nothing satisfies the limits: which limit binds, and how far to relax it
-- modes: aggregated, prefill, decode
-- shows: rank, phase, device, plan, batch_size, binding_limit, miss, relax_to, admitted_then, ttft_ms, tpot_ms, memory_free_gib, e2e_ms if e2e_limit or ttft_intervals, tokens_per_s_per_user if min_tokens_per_s_per_user, probe
-- reads: narrow
-- column: question_group, phase, probe, device, plan, batch_size, concurrency, ttft_ms, tpot_ms, e2e_ms, tokens_per_s_per_user, memory_free_bytes
-- column: rank | none | 1 misses by the least
-- column: binding_limit | none | the limit missed by the largest share: each_limit_listed
-- column: miss | ratio | how far beyond the binding limit, as a share of it; memory as a share of the device
-- column: relax_to | ms, tokens/s or GiB | the value of the binding limit at which this row would pass it; memory: the reserve in GiB
-- column: admitted | rows | rows of the group that pass every limit
-- column: admitted_then | rows | rows of the group that would pass every limit if only the binding one were relaxed so far
WITH bound AS (
    SELECT
        *, largest_miss(phase, device_memory_bytes, each_limited) AS miss,
        limit_missed_by(miss, phase, device_memory_bytes, each_limited) AS binding_limit,
        limits_missed(phase, device_memory_bytes, each_limited) AS missed, needed(binding_limit, each_limited) AS needs
    FROM judged(getvariable('wanted_phase'))
    -- Of a row whose error nobody knows no limit is near, where limits are read with a confidence.
    WHERE knows_limits(each_metric, each_limited)
),
closest AS (
    SELECT *
    FROM bound
    WHERE miss > 0
    QUALIFY row_number() OVER (PARTITION BY question_group, scenario_id ORDER BY miss, batch_size) = 1
),
shown AS (
    SELECT
        *, row_number() OVER (PARTITION BY question_group ORDER BY miss, latency_ms, batch_size, scenario) AS rank,
        CASE WHEN counts_down(binding_limit) THEN -needs ELSE needs END AS relax_to
    FROM closest
    QUALIFY rank <= least(getvariable('top'), 5)
),
admitted_rows AS (
    SELECT shown.question_group, shown.rank, count(*) AS admitted_then,
        count(*) FILTER (WHERE bound.missed = 0) AS admitted
    FROM shown
    JOIN bound ON bound.question_group = shown.question_group AND (
        bound.missed = 0
        OR (bound.missed = 1 AND bound.binding_limit = shown.binding_limit AND bound.needs <= shown.needs)
    )
    GROUP BY shown.question_group, shown.rank
)
SELECT
    shown.question_group, shown.rank, phase, probe, device, plan, batch_size, concurrency, binding_limit, miss,
    relax_to, coalesce(admitted, 0) AS admitted, coalesce(admitted_then, 0) AS admitted_then, ttft_ms, tpot_ms, e2e_ms,
    tokens_per_s_per_user, memory_free_bytes
FROM shown
LEFT JOIN admitted_rows ON admitted_rows.question_group = shown.question_group AND admitted_rows.rank = shown.rank
ORDER BY shown.question_group, shown.rank;
