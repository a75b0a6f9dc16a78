-- summary: every scenario with status and reason: failures are rows too
CREATE OR REPLACE VIEW scenario AS
SELECT * FROM raw.scenario;
