-- summary: every probe with the memory left on its fullest device, for a reserve in GiB and a KV charge ('full' or 'mean')
-- column: memory_free_bytes | bytes | device memory - weights - activations - KV at the charge - reserve; negative: does not fit
CREATE OR REPLACE MACRO memory(reserved_gib, kv_charge) AS TABLE
SELECT
    *,
    device_memory_bytes - weight_bytes - activation_bytes - (reserved_gib::DOUBLE * 1073741824)::BIGINT
        - CASE kv_charge WHEN 'mean' THEN kv_cache_mean_bytes ELSE kv_cache_bytes END AS memory_free_bytes
FROM probe;
