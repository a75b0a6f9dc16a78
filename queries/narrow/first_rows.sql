-- The best row of each scenario within the limits, by requests/s or by rate: the first of the contenders, which are in
-- the order of the objective asked for.
CREATE OR REPLACE TEMP MACRO first_rows(wanted_objective) AS TABLE
SELECT *, CASE wanted_objective WHEN 'qps' THEN qps ELSE rate END AS objective
FROM judged_contenders()
WHERE narrow_row IN (
    SELECT min(narrow_row)
    FROM judged_contenders()
    WHERE list_contains(getvariable('picked_phases'), phase)
        AND keeps_limits(phase_kind, ['none'], each_limited)
    GROUP BY lot
);
