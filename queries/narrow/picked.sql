-- What a report looks at many times is looked up once: `picks` is a table of one row a scenario, made for each question.
CREATE OR REPLACE TEMP MACRO picked(wanted_phase, wanted_objective) AS TABLE
SELECT * FROM picks WHERE phase = wanted_phase;
