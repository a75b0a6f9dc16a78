-- The rows that an answer shows, looked up among those that are kept.
CREATE OR REPLACE TEMP MACRO stored_rows(wanted) AS TABLE
WITH asked AS (
    SELECT unnest(wanted, recursive := true)
),
few AS (
    SELECT * FROM kept WHERE rowid IN (
        SELECT kept.rowid
        FROM kept
        JOIN asked ON asked.scenario_id = kept.scenario_id AND asked.batch_size = kept.batch_size
    )
)
SELECT few.*, lots.* EXCLUDE (scenario_id)
FROM few
JOIN lots ON lots.scenario_id = few.scenario_id;
