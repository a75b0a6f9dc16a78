-- summary: workloads: lengths, prefix cache, token budget
CREATE OR REPLACE VIEW workload AS
SELECT * FROM raw.workload;
