-- name: measurement
-- summary: measured serving points; never predictions
CREATE OR REPLACE VIEW measurement AS
SELECT * FROM raw.measurement;
