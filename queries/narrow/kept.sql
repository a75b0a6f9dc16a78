-- The scenarios of a scope by group, with what all their probes share. Those of a phase follow each other.
CREATE OR REPLACE TEMP TABLE lots AS
SELECT
    row_number() OVER (ORDER BY named.phase, asked.question_group, asked.scenario_id)::INTEGER AS lot,
    asked.question_group, named.*
FROM (SELECT DISTINCT question_group, scenario_id FROM scope) AS asked
JOIN named ON named.scenario_id = asked.scenario_id;
