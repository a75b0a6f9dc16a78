-- What a report looks at many times is looked up once: `picks` is a table of one row a scenario, made for each question.
CREATE OR REPLACE TEMP MACRO picked(wanted_phase, wanted_objective) AS TABLE
SELECT * FROM picks WHERE phase = wanted_phase;

-- The best row of each scenario within the limits, by requests/s or by rate: of its rows the first in order.
CREATE OR REPLACE TEMP MACRO first_rows(wanted_objective) AS TABLE
SELECT *, CASE wanted_objective WHEN 'qps' THEN qps ELSE rate END AS objective
FROM judged_rows()
WHERE narrow_row IN (
    SELECT arg_min(narrow_row, CASE wanted_objective WHEN 'qps' THEN qps_place ELSE narrow_row END)
    FROM judged_rows()
    WHERE list_contains(getvariable('picked_phases'), phase)
        AND memory_unreserved_bytes >= (getvariable('reserved_gib') * 1073741824)::BIGINT
        AND qps > 0
        AND (wanted_objective = 'qps' OR rate IS NOT NULL)
        AND keeps_limits(phase_kind, ttft_bound_ms, tpot_bound_ms, e2e_bound_ms, user_rate_bound, ['none'])
    GROUP BY lot
);
