-- summary: the device profiles of the question's scope: effective rates, memory and interconnect
-- verdict: none
-- shows: device, family, matrix_tflops, vector_tflops, memory_bandwidth_tib_per_s, memory_gib, grid, link_gb_per_s
-- column: device, vendor, family
-- column: matrix_tflops | TFLOP/s | effective bf16 matrix rate
-- column: vector_tflops | TFLOP/s | effective bf16 vector rate
-- column: memory_bandwidth_tib_per_s | TiB/s | effective bandwidth of device memory; the seeds print it as TB/s
-- column: memory_gib | GiB | device memory; the seeds print it as GB
-- column: grid | devices | interconnect grid, outermost first
-- column: link_bandwidths | bytes/s | effective bandwidth of each grid level
-- column: link_gb_per_s | GB/s | the same in decimal GB
-- column: device_key | sha256 | content key of the profile, calibration included
SELECT
    name AS device, vendor, family, matrix_flops_per_s / 1e12 AS matrix_tflops,
    vector_flops_per_s / 1e12 AS vector_tflops, memory_bandwidth_bytes_per_s / 1099511627776
        AS memory_bandwidth_tib_per_s,
    memory_bytes / 1073741824 AS memory_gib, grid, link_bandwidths,
    array_to_string([printf('%g', link::DOUBLE / 1e9) FOR link IN string_split(link_bandwidths, ' | ')], ' | ')
        AS link_gb_per_s,
    key AS device_key
FROM device
WHERE key IN (
    SELECT scenario.device_key FROM scenario JOIN scope ON scope.scenario_id = scenario.scenario_id
)
ORDER BY device, family, device_key;
