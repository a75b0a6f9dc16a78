-- summary: the probes of the newest scenario of each subject that has any: newest formula version, then newest device profile
CREATE OR REPLACE VIEW latest AS
WITH stored AS (
    SELECT DISTINCT subject, formula_version, scenario_id FROM raw.stored_probe
),
newest AS (
    SELECT subject, max_by(scenario_id, formula_version * 1000000000000 + scenario_id) AS scenario_id
    FROM stored
    GROUP BY subject
)
SELECT probe.* FROM probe SEMI JOIN newest ON probe.scenario_id = newest.scenario_id;
