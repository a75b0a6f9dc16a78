-- The rows of `probe` that can be an answer's row of a report whose header says `suffices: winners`, under any limits,
-- rules, reserve and confidence. Left out are rows that no memory holds, and rows of a block behind a smaller batch size
-- that is at least as good in whatever limits are compared with and in each rate that ranks: of a block whose limited
-- numbers never get better as the batch size grows, rows behind the highest rates so far. Blocks of which this is not so
-- keep every row that fits, and so do decode rows of an engine: a pair may want fewer requests/s of them.
-- Of two numbers, one of which may be missing: whether the later is no less, or both are missing.
CREATE OR REPLACE TEMP MACRO no_less(before, value) AS coalesce(before <= value, before IS NULL AND value IS NULL);

-- Whether a rate can be ranked like the rates before it, whose highest is `most`: each is a positive number, or none is there.
CREATE OR REPLACE TEMP MACRO like_before(most, rate) AS
    CASE WHEN rate IS NULL THEN most IS NULL ELSE most IS NOT NULL AND rate > 0 AND isfinite(rate) END;

CREATE OR REPLACE TEMP TABLE can_win AS
WITH rated AS (
    SELECT
        block_id, scenario_id, batch_size, tokens_per_s_per_user, each_stored_column,
        weight_bytes + activation_bytes + kv_cache_bytes AS full_bytes,
        weight_bytes + activation_bytes + kv_cache_mean_bytes AS mean_bytes,
        phase, phase = 'decode' AND by_engine(serving_model, formula_version) AS paired_by_row,
        -- What `judged` of scoped.sql makes of a row by either rule.
        CASE phase
            WHEN 'prefill' THEN prefill_capacity_qps
            WHEN 'decode' THEN decode_minus_one_qps
            ELSE requests_per_s * asked_share(e2e_ms, shortest_length, output_length, tpot_exclusive_ms)
        END AS first_qps,
        CASE phase WHEN 'prefill' THEN prefill_ttft_qps WHEN 'decode' THEN decode_full_qps END AS second_qps,
        CASE phase WHEN 'prefill' THEN input_tokens_per_s ELSE output_tokens_per_s END AS first_rate,
        CASE phase WHEN 'aggregated' THEN output_tokens_per_s_twice END AS second_rate
    FROM probe
    WHERE coalesce(weight_bytes + activation_bytes + least(kv_cache_bytes, kv_cache_mean_bytes) <= device_memory_bytes, true)
),
compared AS (
    SELECT
        *, lag(batch_size) OVER smaller IS NULL AS is_first,
        -- For its user as fast as the row before: equals may stand side by side on a frontier.
        phase <> 'prefill'
            AND tokens_per_s_per_user IS NOT DISTINCT FROM lag(tokens_per_s_per_user) OVER smaller AS as_fast,
        every_limit_never_better AND no_less(lag(full_bytes) OVER smaller, full_bytes)
            AND no_less(lag(mean_bytes) OVER smaller, mean_bytes) AS is_monotone,
        max(first_qps) OVER all_smaller AS most_first_qps, max(second_qps) OVER all_smaller AS most_second_qps,
        max(first_rate) OVER all_smaller AS most_first_rate, max(second_rate) OVER all_smaller AS most_second_rate
    FROM rated
    WINDOW
        smaller AS (PARTITION BY block_id ORDER BY batch_size),
        all_smaller AS (
            PARTITION BY block_id ORDER BY batch_size ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        )
),
proven AS (
    SELECT block_id
    FROM compared
    GROUP BY block_id
    HAVING NOT bool_or(paired_by_row) AND bool_and(CASE
        WHEN is_first
            THEN (first_qps > 0) IS DISTINCT FROM false AND (second_qps > 0) IS DISTINCT FROM false
                AND (first_rate > 0) IS DISTINCT FROM false AND (second_rate > 0) IS DISTINCT FROM false
                AND isfinite(coalesce(first_qps + second_qps, first_qps, 0)) AND isfinite(coalesce(first_rate, 0))
                AND isfinite(coalesce(second_rate, 0))
        ELSE is_monotone AND like_before(most_first_qps, first_qps) AND like_before(most_second_qps, second_qps)
            AND like_before(most_first_rate, first_rate) AND like_before(most_second_rate, second_rate)
    END)
)
SELECT compared.block_id, scenario_id, batch_size
FROM compared
LEFT JOIN proven ON proven.block_id = compared.block_id
WHERE proven.block_id IS NULL OR is_first OR as_fast
    OR first_qps > most_first_qps OR second_qps > most_second_qps
    OR first_rate > most_first_rate OR second_rate > most_second_rate;
