-- summary: stored probes and measured settings in the same columns; `rows` says which a row is
-- column: rows | none | predicted or measured
CREATE OR REPLACE VIEW every_probe AS
SELECT *, 'predicted' AS rows FROM probe
UNION ALL BY NAME
SELECT
    * EXCLUDE (
        engine_version, request_rate, runs, prefill_instances, prefill_tp, decode_instances, last_imported_at
    ),
    'measured' AS rows
FROM measured_probe;
