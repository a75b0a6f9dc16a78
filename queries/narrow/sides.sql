-- One side of a deployment: each plan at its best batch size by requests/s.
CREATE OR REPLACE TEMP MACRO side(wanted_phase) AS TABLE
SELECT * EXCLUDE (objective) FROM picks WHERE phase = wanted_phase;

-- The rows that an answer shows are among those that were picked.
CREATE OR REPLACE TEMP MACRO ranked_rows(wanted) AS TABLE
WITH few AS (
    SELECT * FROM contenders WHERE contender_row IN (
        SELECT picks.narrow_row
        FROM picks
        JOIN (SELECT unnest(wanted, recursive := true)) AS asked
            ON asked.scenario_id = picks.scenario_id AND asked.batch_size = picks.batch_size
    )
)
SELECT few.*, lots.* EXCLUDE (lot, scenario_id)
FROM few
JOIN lots ON lots.lot = few.lot;
