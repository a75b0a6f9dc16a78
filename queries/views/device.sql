-- summary: device profile snapshots that produced numbers
CREATE OR REPLACE VIEW device AS
SELECT * FROM raw.device;
