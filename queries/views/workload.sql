-- summary: workloads: lengths, prefix cache, max_num_batched_tokens
-- column: max_num_batched_tokens | tokens | tokens of one step, per replica
-- column: max_batched_tokens | tokens | old name of max_num_batched_tokens, gone with the next release
CREATE OR REPLACE VIEW workload AS
SELECT *, max_batched_tokens AS max_num_batched_tokens FROM raw.workload;
