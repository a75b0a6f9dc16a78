-- summary: the closest configurations when nothing satisfies the limits: which limit binds, and how far to relax it
-- modes: aggregated, prefill, decode
-- shows: rank, phase, device, plan, batch_size, binding_limit, miss, relax_to, admitted_then, ttft_ms, tpot_ms, memory_free_gib, e2e_ms if e2e_limits or ttft_intervals, tokens_per_s_per_user if min_tokens_per_s_per_user, probe
-- reads: narrow
-- column: question_group
-- column: rank | none | 1 misses by the least
-- column: phase | none | phase of the row
-- column: probe, device, plan, batch_size, concurrency
-- column: binding_limit | none | the limit missed by the largest share: ttft, tpot, e2e, tokens_per_s_per_user or memory
-- column: miss | ratio | how far beyond the binding limit, as a share of it; memory as a share of the device
-- column: relax_to | ms, tokens/s or GiB | the value of the binding limit at which this row would pass it; memory: the reserve in GiB
-- column: admitted_then | rows | rows of the group that would pass every limit if only the binding one were relaxed so far
-- column: ttft_ms | ms | time to first token
-- column: tpot_ms
-- column: e2e_ms | ms | end to end, of a request of the lengths named
-- column: tokens_per_s_per_user | tokens/s | of one user
-- column: memory_free_bytes | bytes | after the reserve; negative: does not fit
WITH missed AS (
    SELECT
        *,
        CASE WHEN phase <> 'decode'
            THEN greatest(coalesce(ttft_bound_ms / getvariable('ttft_limit_ms') - 1, 0), 0) ELSE 0 END AS ttft_miss,
        CASE WHEN phase <> 'prefill'
            THEN greatest(coalesce(tpot_bound_ms / getvariable('tpot_limit_ms') - 1, 0), 0) ELSE 0 END AS tpot_miss,
        CASE WHEN phase = 'aggregated'
            THEN greatest(coalesce(e2e_bound_ms / getvariable('e2e_limit_ms') - 1, 0), 0) ELSE 0 END AS e2e_miss,
        CASE WHEN phase <> 'prefill'
            THEN greatest(coalesce(getvariable('min_user_rate') / user_rate_bound - 1, 0), 0) ELSE 0 END AS user_miss,
        greatest(-memory_free_bytes / device_memory_bytes, 0) AS memory_miss
    FROM judged(getvariable('wanted_phase'))
    -- Of a row whose error nobody knows no limit is near, where limits are read with a confidence.
    WHERE (getvariable('ttft_limit_ms') IS NULL OR ttft_ms IS NULL OR ttft_bound_ms IS NOT NULL)
        AND (getvariable('tpot_limit_ms') IS NULL OR tpot_ms IS NULL OR tpot_bound_ms IS NOT NULL)
        AND (getvariable('e2e_limit_ms') IS NULL OR e2e_ms IS NULL OR e2e_bound_ms IS NOT NULL)
        AND (getvariable('min_user_rate') IS NULL OR tokens_per_s_per_user IS NULL OR user_rate_bound IS NOT NULL)
),
bound AS (
    SELECT
        *,
        greatest(ttft_miss, tpot_miss, e2e_miss, user_miss, memory_miss) AS miss,
        CASE greatest(ttft_miss, tpot_miss, e2e_miss, user_miss, memory_miss)
            WHEN memory_miss THEN 'memory'
            WHEN ttft_miss THEN 'ttft'
            WHEN tpot_miss THEN 'tpot'
            WHEN e2e_miss THEN 'e2e'
            ELSE 'tokens_per_s_per_user'
        END AS binding_limit
    FROM missed
),
closest AS (
    SELECT *
    FROM bound
    WHERE miss > 0
    QUALIFY row_number() OVER (PARTITION BY question_group, scenario_id ORDER BY miss, batch_size) = 1
),
ranked AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY question_group ORDER BY miss, latency_ms, batch_size, scenario) AS rank,
        CASE binding_limit
            WHEN 'memory' THEN getvariable('reserved_gib') + memory_free_bytes / 1073741824.0
            WHEN 'ttft' THEN ttft_bound_ms
            WHEN 'tpot' THEN tpot_bound_ms
            WHEN 'e2e' THEN e2e_bound_ms
            ELSE user_rate_bound
        END AS relax_to
    FROM closest
),
shown AS (
    SELECT * FROM ranked WHERE rank <= least(getvariable('top'), 5)
),
admitted_rows AS (
    SELECT shown.question_group, shown.rank, count(*) AS admitted_then
    FROM shown
    JOIN bound ON bound.question_group = shown.question_group
        AND (bound.ttft_miss = 0 OR (shown.binding_limit = 'ttft' AND bound.ttft_bound_ms <= shown.relax_to))
        AND (bound.tpot_miss = 0 OR (shown.binding_limit = 'tpot' AND bound.tpot_bound_ms <= shown.relax_to))
        AND (bound.e2e_miss = 0 OR (shown.binding_limit = 'e2e' AND bound.e2e_bound_ms <= shown.relax_to))
        AND (bound.user_miss = 0 OR (shown.binding_limit = 'tokens_per_s_per_user'
            AND bound.user_rate_bound >= shown.relax_to))
        AND (bound.memory_miss = 0 OR (shown.binding_limit = 'memory'
            AND bound.memory_free_bytes >= shown.memory_free_bytes))
    GROUP BY shown.question_group, shown.rank
)
SELECT
    shown.question_group, shown.rank, phase, probe, device, plan, batch_size, concurrency, binding_limit, miss,
    relax_to, coalesce(admitted_then, 0) AS admitted_then, ttft_ms, tpot_ms, e2e_ms, tokens_per_s_per_user,
    memory_free_bytes
FROM shown
LEFT JOIN admitted_rows ON admitted_rows.question_group = shown.question_group AND admitted_rows.rank = shown.rank
ORDER BY shown.question_group, shown.rank;
