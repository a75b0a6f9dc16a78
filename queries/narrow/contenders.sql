-- The rows that can be the first of their scenario by an objective, whatever the limits are, in that order and with every
-- column. A row cannot where one before it is no worse in anything that is limited: wherever it is admitted, so is that
-- one. Looked for is one witness, the row of the smallest batch among those before; nothing is assumed of how times move
-- with the batch.
CREATE OR REPLACE TEMP MACRO contending_rows(wanted_objective) AS TABLE
WITH ordered AS (
    SELECT rowid AS narrow_row, *, CASE wanted_objective WHEN 'qps' THEN qps ELSE rate END AS objective
    FROM narrow
    WHERE qps > 0
),
witnessed AS (
    SELECT
        *,
        arg_min(narrow_row, batch_size) OVER (
            PARTITION BY lot ORDER BY objective DESC, latency_ms, batch_size
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS witness
    FROM ordered
    WHERE objective IS NOT NULL
),
contending AS (
    SELECT this.* EXCLUDE (narrow_row, witness)
    FROM witnessed AS this
    LEFT JOIN narrow AS other ON other.rowid = this.witness
    WHERE NOT coalesce(
        (this.memory_unreserved_bytes IS NULL OR other.memory_unreserved_bytes >= this.memory_unreserved_bytes)
        AND (this.ttft_ms IS NULL OR other.ttft_ms <= this.ttft_ms)
        AND (this.tpot_ms IS NULL OR other.tpot_ms <= this.tpot_ms)
        AND (this.e2e_ms IS NULL OR other.e2e_ms <= this.e2e_ms)
        AND (this.tokens_per_s_per_user IS NULL OR other.tokens_per_s_per_user >= this.tokens_per_s_per_user),
        false
    )
)
SELECT
    contending.* EXCLUDE (kept_row, objective),
    kept.* EXCLUDE (
        batch_size, concurrency, ttft_ms, tpot_exclusive_ms, e2e_ms, tokens_per_s_per_user, makespan_ms, prompt_service_ms,
        decode_step_ms, tokens_per_step, kv_bytes_per_request
    )
FROM contending
JOIN kept ON kept.rowid = kept_row
ORDER BY lot, objective DESC, latency_ms, batch_size;
