-- summary: measured values beside the numbers of their probes, of the newest comparison of each point and metric; raw.validation keeps the older ones
-- column: measurement | sha256 | content key of the measured point, as measurement.key
-- column: source | none | file and line the measured point came from
-- column: metric | none | which column is compared: ttft_ms, tpot_exclusive_ms, e2e_ms ...
-- column: measured | metric | measured value, in the metric's unit
-- column: predicted | metric | the number of the probe, its engine fitted without this pair of device and model
-- column: knowledge | none | evaluated as asked (mean lengths, the usual client), as known (the source's client and launch), or both where they are one scenario
-- column: signed_error | ratio | (predicted - measured) / measured
-- column: region | none | device, kind, engine, mode, batch and length region, for people to read
-- column: kind | none | dense or moe
-- column: engine | none | serving engine as we name it; unstated where the source does not say
-- column: mode | none | aggregated, disaggregated, prefill or decode
-- column: batch_region | none | range of the users of the whole deployment
-- column: length_region | none | range of the prompt length
-- column: phase | none | phase of the scenario that predicts the metric: of a disaggregated point, prefill for first tokens, decode for the others
-- column: probe | none | short reference of the probe that predicts the metric, where there is one
-- column: batch_size | requests | requests of one replica in flight
-- column: compared_at | UTC | when it was compared
CREATE OR REPLACE VIEW validation AS
WITH newest AS (
    SELECT *, rank() OVER (PARTITION BY measurement_id, metric ORDER BY created_at DESC) AS age
    FROM raw.validation
)
SELECT
    raw.measurement.key AS measurement,
    raw.measurement.source,
    newest.metric,
    newest.measured,
    newest.predicted,
    newest.signed_error,
    newest.knowledge,
    concat_ws(', ', newest.device, newest.kind, newest.engine, newest.mode, newest.batch_region, newest.length_region)
        AS region,
    newest.kind,
    raw.scenario.model,
    raw.scenario.device,
    newest.engine,
    newest.mode,
    newest.batch_region,
    newest.length_region,
    raw.scenario.phase,
    raw.scenario.tp, raw.scenario.pp, raw.scenario.dp, raw.scenario.ep, raw.scenario.moe_tp,
    raw.scenario.num_devices,
    raw.scenario.workload,
    newest.batch_size,
    CASE WHEN raw.scenario.status = 'ok' THEN concat(left(raw.scenario.scenario, 8), ':', newest.batch_size) END
        AS probe,
    raw.scenario.scenario,
    newest.created_at AS compared_at
FROM newest
JOIN raw.measurement ON raw.measurement.id = newest.measurement_id
JOIN raw.scenario ON raw.scenario.scenario_id = newest.scenario_id
WHERE newest.age = 1 AND NOT raw.scenario.voided;
