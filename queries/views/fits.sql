-- summary: the probes that fit device memory, for a reserve in GiB and a KV charge ('full' or 'mean')
-- column: memory_free_bytes | bytes | memory left on the fullest device; at least 0 here
CREATE OR REPLACE MACRO fits(reserved_gib, kv_charge) AS TABLE
SELECT * FROM memory(reserved_gib, kv_charge) WHERE memory_free_bytes >= 0;
