-- name: validation
-- summary: measured values beside their predictions
CREATE OR REPLACE VIEW validation AS
SELECT * FROM raw.validation;
