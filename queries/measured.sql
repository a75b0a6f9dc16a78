-- summary: measured points with the predictions that they were compared with, a row a point and metric
-- column: measured | metric | measured value, in the metric's unit
-- column: predicted | metric | the number of the probe that was compared with it
SELECT
    validation.metric, validation.measured, validation.predicted, 100 * validation.signed_error AS signed_error_percent,
    validation.model, validation.device, validation.engine, validation.mode, validation.region, validation.knowledge,
    validation.probe, validation.source, measurement.num_devices, measurement.concurrency,
    measurement.tpot_exclusive_ms, measurement.output_tokens_per_s, measurement.input_length, measurement.output_length
FROM validation
JOIN measurement ON measurement.key = validation.measurement
ORDER BY validation.model, validation.device, validation.metric, validation.measurement, validation.knowledge, validation.probe
LIMIT 5000;
