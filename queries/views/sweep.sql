-- summary: requests: what was asked, by which program version, when, and how it ended
CREATE OR REPLACE VIEW sweep AS
SELECT * FROM raw.sweep;
