-- summary: probes of decode instances: time per output token and tokens a second; the metrics of the phase are never NULL here
CREATE OR REPLACE VIEW decode AS
SELECT * FROM probe WHERE phase = 'decode';
