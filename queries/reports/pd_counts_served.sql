-- name: pd-counts-served
-- summary: every number of prefill and decode instances within the budget, for the best pair of an engine's plans
-- part of: pd-counts
-- narrow: judged
-- suffices: winners
-- column: rank | none | 1 carries most; ties go to fewer devices, then fewer prefill instances
-- column: prefill_instances | instances | of the prefill side
-- column: decode_instances | instances | of the decode side
-- column: devices_used | devices | by both
-- column: devices_idle | devices | of the budget
-- column: exact | none | whether every device is used
-- column: ratio | ratio | prefill instances for each decode instance
-- column: system_qps | requests/s | of the fullest decode row that prefill keeps up with within the limits; NULL where none
-- column: qps_per_device | requests/s | system_qps / devices_used
-- column: prefill_utilisation | ratio | system_qps / what all prefill instances pass
-- column: decode_utilisation | ratio | system_qps / what all decode instances pass at most
-- column: ttft_ms | ms | of the pair, waits and KV transfer in it
-- column: prefill_probe | none | the prefill side
-- column: decode_probe | none | the decode side; its batch size may differ from line to line
WITH prefills AS (
    SELECT *
    FROM engine_prefills()
    WHERE scenario = getvariable('prefill_scenario')
),
decodes AS (
    SELECT *, max(qps) OVER () AS most_qps
    FROM engine_decodes()
    WHERE scenario = getvariable('decode_scenario')
),
counts AS (
    SELECT x.range AS prefill_instances, y.range AS decode_instances, x.range * p.size + y.range * d.size AS devices_used
    FROM (SELECT DISTINCT size FROM prefills) AS p
    CROSS JOIN (SELECT DISTINCT size FROM decodes) AS d
    JOIN range(1, getvariable('num_devices') + 1) AS x ON x.range * p.size < getvariable('num_devices')
    JOIN range(1, getvariable('num_devices') + 1) AS y
        ON x.range * p.size + y.range * d.size <= getvariable('num_devices')
),
held AS (
    SELECT
        prefill_instances, decode_instances, decode_instances * d.qps AS system_qps, d.probe AS decode_probe,
        p.probe AS prefill_probe, decode_instances * d.qps / (prefill_instances * p.qps) AS prefill_utilisation,
        d.qps / most_qps AS decode_utilisation,
        pair_ttft_ms(
            decode_instances * d.qps / 1000.0, lone_ms + slot_wait_ms, answer_ms, service_ms,
            prefill_instances * servers_each, first_share
        ) AS ttft_ms
    FROM counts
    CROSS JOIN prefills AS p
    CROSS JOIN decodes AS d
    WHERE pair_holds(
        decode_instances * d.qps / 1000.0, lone_ms + slot_wait_ms, answer_ms, service_ms, prefill_instances * servers_each,
        first_share, ttft_ratio, answer_ratio
    )
    QUALIFY row_number() OVER (
        PARTITION BY prefill_instances, decode_instances ORDER BY d.qps DESC, d.batch_size
    ) = 1
)
SELECT
    row_number() OVER (ORDER BY system_qps DESC NULLS LAST, devices_used, prefill_instances, decode_instances) AS rank,
    prefill_instances, decode_instances, devices_used, getvariable('num_devices') - devices_used AS devices_idle,
    devices_used = getvariable('num_devices') AS exact, prefill_instances / decode_instances AS ratio, system_qps,
    system_qps / devices_used AS qps_per_device, prefill_utilisation, decode_utilisation, ttft_ms, prefill_probe,
    decode_probe
FROM counts
LEFT JOIN held USING (prefill_instances, decode_instances)
ORDER BY rank;
