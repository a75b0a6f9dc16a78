-- summary: the probes each sweep asked for, new or already there: a probe appears once for each sweep
-- column: sweep | hex | the sweep that asked for the row
CREATE OR REPLACE VIEW sweep_probe AS
SELECT raw.sweep.key AS sweep, probe.*
FROM probe
JOIN raw.sweep_interval ON raw.sweep_interval.scenario_id = probe.scenario_id
    AND probe.batch_size BETWEEN raw.sweep_interval.first_batch_size AND raw.sweep_interval.last_batch_size
JOIN raw.sweep ON raw.sweep.id = raw.sweep_interval.sweep_id;
