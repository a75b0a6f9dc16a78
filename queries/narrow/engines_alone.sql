-- What formulas make of a scope where engines serve everything: the columns that nothing beside them has.
CREATE OR REPLACE TEMP MACRO formula_enough(target_qps) AS TABLE
SELECT unnest(NULL::STRUCT(question_group INTEGER, devices BIGINT)) WHERE FALSE;
CREATE OR REPLACE TEMP MACRO formula_deployments(looked_at) AS TABLE
SELECT unnest(NULL::STRUCT(question_group INTEGER)) WHERE FALSE;
