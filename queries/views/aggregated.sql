-- summary: probes of instances that prefill and decode; the metrics of the phase are never NULL here
CREATE OR REPLACE VIEW aggregated AS
SELECT * FROM probe WHERE phase = 'aggregated';
