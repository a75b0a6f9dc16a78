-- name: pd-counts
-- summary: numbers of prefill and decode instances within the budget, for the best pair of plans, and what each carries: all, or the 10,000 that carry most
-- needs: prefill, decode
-- allocates: pairs
-- timed: pairs
-- requires: num_devices | report pd-counts needs a device budget | add `num_devices=N`
-- best of: pd-ratio
-- variant: pd-counts-served | served
-- narrow: judged
-- suffices: winners
-- column: rank | none | 1 carries most; ties go to fewer devices, then the ratio closest to the balanced one
-- column: prefill_instances | instances | of the prefill side
-- column: decode_instances | instances | of the decode side
-- column: devices_used | devices | by both
-- column: devices_idle | devices | of the budget
-- column: exact | none | whether every device is used
-- column: ratio | ratio | prefill instances for each decode instance
-- column: system_qps | requests/s | the smaller of both sides
-- column: qps_per_device | requests/s | system_qps / devices_used
-- column: prefill_probe | none | the prefill side
-- column: decode_probe | none | the decode side
WITH least AS (
    -- what at least 10,000 of the counts carry: those within a triangle of counts below the best
    SELECT greatest(
        divided_qps(
            getvariable('num_devices') - getvariable('prefill_size') - getvariable('decode_size')
                - sqrt(2.0 * 10000 * getvariable('prefill_size') * getvariable('decode_size')),
            getvariable('prefill_size'), getvariable('decode_size'), getvariable('prefill_qps'), getvariable('decode_qps')
        ),
        0.0
    ) AS least_qps
),
prefills AS (
    SELECT
        least_qps,
        unnest(range(
            greatest(floor(least_qps / getvariable('prefill_qps'))::BIGINT, 1),
            (getvariable('num_devices') - getvariable('decode_size')
                * greatest(floor(least_qps / getvariable('decode_qps'))::BIGINT, 1)) // getvariable('prefill_size') + 1
        )) AS prefill_instances
    FROM least
),
counts AS (
    SELECT
        prefill_instances,
        unnest(range(
            greatest(floor(least_qps / getvariable('decode_qps'))::BIGINT, 1),
            (getvariable('num_devices') - prefill_instances * getvariable('prefill_size')) // getvariable('decode_size') + 1
        )) AS decode_instances
    FROM prefills
),
carried AS (
    SELECT
        prefill_instances, decode_instances,
        prefill_instances * getvariable('prefill_size') + decode_instances * getvariable('decode_size') AS devices_used,
        prefill_instances / decode_instances AS ratio,
        least(prefill_instances * getvariable('prefill_qps'), decode_instances * getvariable('decode_qps'))
            AS system_qps
    FROM counts
)
SELECT
    row_number() OVER (
        ORDER BY system_qps DESC, devices_used, abs(ratio - getvariable('decode_qps') / getvariable('prefill_qps')),
            prefill_instances
    ) AS rank,
    prefill_instances, decode_instances, devices_used, getvariable('num_devices') - devices_used AS devices_idle,
    devices_used = getvariable('num_devices') AS exact, ratio, system_qps, system_qps / devices_used AS qps_per_device,
    getvariable('prefill_probe') AS prefill_probe, getvariable('decode_probe') AS decode_probe
FROM carried
QUALIFY rank <= 10000
ORDER BY rank;
