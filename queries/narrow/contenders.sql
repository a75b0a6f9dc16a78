-- Whether a row stands before another of its scenario: by the objective, then by latency, then by batch size.
CREATE OR REPLACE TEMP MACRO precedes(objective, latency_ms, batch_size, other_objective, other_latency_ms, other_batch_size) AS
    objective > other_objective
    OR (
        objective = other_objective
        AND (
            latency_ms < other_latency_ms
            OR (latency_ms = other_latency_ms AND batch_size < other_batch_size)
        )
    );

-- The rows that can be the first of their scenario by an objective, whatever the limits are, in that order and with every
-- column. A row cannot where one before it is no worse in anything that is limited: wherever it is admitted, so is that
-- one. Looked at is one witness of each row, the smallest batch among those of at least its rate; nothing is assumed of
-- how times move with the batch.
CREATE OR REPLACE TEMP MACRO contending_rows(wanted_objective) AS TABLE
WITH witnessed AS (
    SELECT
        *, CASE wanted_objective WHEN 'qps' THEN qps ELSE rate END AS objective,
        -- Lots follow each other and rates fall within one, so that nothing has to be sorted.
        arg_max(rowid, lot::BIGINT * 4294967296 - batch_size) OVER (ROWS UNBOUNDED PRECEDING) AS witness
    FROM narrow
    WHERE qps > 0
),
contending AS (
    SELECT this.* EXCLUDE (witness)
    FROM witnessed AS this
    LEFT JOIN narrow AS other ON other.rowid = this.witness AND other.lot = this.lot
    WHERE this.objective IS NOT NULL
        AND NOT coalesce(
            precedes(
                CASE wanted_objective WHEN 'qps' THEN other.qps ELSE other.rate END, other.latency_ms, other.batch_size,
                this.objective, this.latency_ms, this.batch_size
            )
            AND every_limit_no_worse,
            false
        )
)
SELECT
    contending.* EXCLUDE (kept_row, objective),
    kept.* EXCLUDE (
        batch_size, concurrency, each_stored_metric, tpot_exclusive_ms, makespan_ms, prompt_service_ms,
        decode_step_ms, tokens_per_step, kv_bytes_per_request
    )
FROM contending
JOIN kept ON kept.rowid = kept_row
ORDER BY lot, objective DESC, latency_ms, batch_size;
