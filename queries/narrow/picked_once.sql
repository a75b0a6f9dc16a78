-- What a report looks at once is looked up where it is looked at: a table of its own takes longer to plan and to make.
CREATE OR REPLACE TEMP MACRO picked(wanted_phase, wanted_objective) AS TABLE
SELECT * FROM first_rows(wanted_objective) WHERE phase = wanted_phase;
