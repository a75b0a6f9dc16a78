-- summary: the best batch size of each prefill plan under the limits, ranked by prompt tokens/s, per device where sizes differ
-- needs: prefill
-- shows: rank, device, plan, batch_size, concurrency, input_tokens_per_s, input_tokens_per_s_per_device if sized, instances if num_devices, system_input_tokens_per_s if num_devices, requests_per_s, ttft_ms, num_devices, memory_free_gib, launchable, probe
-- reads: narrow, winners
-- column: question_group, rank, instances, devices_used, requests_per_s, memory_free_bytes
-- column: input_tokens_per_s | tokens/s | prompt tokens of one instance, cached ones included
-- column: input_tokens_per_s_per_device | tokens/s | input_tokens_per_s / devices of the instance
-- column: system_input_tokens_per_s | tokens/s | of all copies
-- column: ranked_by | none | the objective asked for; else system_input_tokens_per_s within a budget, input_tokens_per_s_per_device where the group holds instances of several sizes, input_tokens_per_s where it does not
SELECT
    instances.* EXCLUDE (system_output_tokens_per_s) REPLACE (replace(ranked_by, 'output', 'input') AS ranked_by),
    input_tokens_per_s / num_devices AS input_tokens_per_s_per_device,
    system_output_tokens_per_s AS system_input_tokens_per_s
FROM best_instances('prefill') AS instances
ORDER BY instances.question_group, instances.rank;
