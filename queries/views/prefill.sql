-- summary: probes of prefill instances: time to first token and prompts a second; the metrics of the phase are never NULL here
CREATE OR REPLACE VIEW prefill AS
SELECT * FROM probe WHERE phase = 'prefill';
