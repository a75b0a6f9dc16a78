-- summary: the probes that fit device memory with 10 GiB reserved and every request charged its full length
-- column: memory_free_bytes | bytes | memory left on the fullest device; at least 0 here
CREATE OR REPLACE VIEW feasible AS
SELECT * FROM fits(10, 'full');
