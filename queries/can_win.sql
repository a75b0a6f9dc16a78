-- The rows of `contending` that can be an answer's row of a report whose header says `reads: winners`, under any limits,
-- rules, reserve and confidence. `contending` has every column of `probe` and the `lot` of each row: rows of one scenario, of
-- which no two have the same batch size. One rule, for files (sweepdb/thinning.py) and for sessions (queries/narrow).
-- Of two numbers, one of which may be missing: whether the later is no less, or both are missing.
CREATE OR REPLACE TEMP MACRO no_less(before, value) AS
    coalesce(before <= value, before IS NULL AND value IS NULL);
-- Whether a rate comes before another: what is no number cannot be ranked.
CREATE OR REPLACE TEMP MACRO outranks(rate, other) AS no_less(other, rate) AND coalesce(isfinite(rate), true);

-- Left out are rows that no memory holds, and rows that stand behind a witness: of the smaller batch sizes of the lot the
-- one with the highest rate, where it fits wherever the row does, is no worse in whatever limits are compared with, has no
-- less of each rate that ranks, and is faster for its user (equals may stand side by side on a frontier). Wherever the row
-- is admitted, so is its witness, which comes before it in every order; nothing is assumed of how times move with the
-- batch size. Decode rows of an engine all stay: a pair may want fewer requests/s of them.
CREATE OR REPLACE TEMP TABLE rated AS
SELECT
    lot, scenario_id, batch_size, phase, each_stored_column,
    weight_bytes + activation_bytes + kv_cache_bytes AS full_bytes,
    weight_bytes + activation_bytes + kv_cache_mean_bytes AS mean_bytes,
    phase = 'decode' AND by_engine(serving_model, formula_version) AS is_paired,
    -- What `judged_rows` of scoped.sql makes of a row by either rule.
    CASE phase
        WHEN 'prefill' THEN prefill_capacity_requests_per_s
        WHEN 'decode' THEN decode_minus_one_requests_per_s
        ELSE requests_per_s
    END AS first_qps,
    CASE phase WHEN 'prefill' THEN prefill_ttft_requests_per_s WHEN 'decode' THEN decode_full_requests_per_s END AS second_qps,
    CASE phase WHEN 'prefill' THEN input_tokens_per_s ELSE output_tokens_per_s END AS first_rate,
    CASE phase WHEN 'aggregated' THEN output_tokens_per_s_twice END AS second_rate
FROM contending
WHERE coalesce(weight_bytes + activation_bytes + least(kv_cache_bytes, kv_cache_mean_bytes) <= device_memory_bytes, true);

CREATE OR REPLACE TEMP TABLE can_win AS
WITH witnessed AS (
    SELECT
        *,
        arg_max(batch_size, first_qps) OVER (
            PARTITION BY lot ORDER BY batch_size ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS witness
    FROM rated
)
SELECT this.lot, this.scenario_id, this.batch_size
FROM witnessed AS this
LEFT JOIN rated AS other ON other.lot = this.lot AND other.batch_size = this.witness
WHERE other.lot IS NULL OR this.is_paired OR NOT (
    no_less(other.full_bytes, this.full_bytes) AND no_less(other.mean_bytes, this.mean_bytes)
    AND every_limit_no_worse
    AND outranks(other.first_qps, this.first_qps) AND outranks(other.second_qps, this.second_qps)
    AND outranks(other.first_rate, this.first_rate) AND outranks(other.second_rate, this.second_rate)
    AND (this.phase = 'prefill' OR coalesce(other.tokens_per_s_per_user > this.tokens_per_s_per_user, false))
);
DROP TABLE rated;
