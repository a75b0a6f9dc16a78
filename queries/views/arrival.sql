-- summary: streams of requests that loads were simulated with, at one a second
CREATE OR REPLACE VIEW arrival AS
SELECT * FROM raw.arrival;
