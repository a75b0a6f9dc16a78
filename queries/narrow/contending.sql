-- The rows that can_win.sql tells winners of: those of the scope that are kept, in lots.
CREATE OR REPLACE TEMP VIEW contending AS
SELECT scoped.*, lots.lot
FROM scoped
JOIN lots ON lots.scenario_id = scoped.scenario_id AND lots.question_group = scoped.question_group;
