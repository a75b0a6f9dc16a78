-- summary: bins of length distributions
CREATE OR REPLACE VIEW workload_bin AS
SELECT * FROM raw.workload_bin;
