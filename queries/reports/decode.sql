-- summary: the best batch size of each decode plan under the limits, ranked by generated tokens/s, per device where sizes differ
-- needs: decode
-- shows: rank, device, plan, batch_size, concurrency, output_tokens_per_s, output_tokens_per_s_per_device if sized, instances if num_devices, system_output_tokens_per_s if num_devices, requests_per_s, tpot_ms, num_devices, memory_free_gib, launchable, e2e_ms if e2e_limit, tokens_per_s_per_user if min_tokens_per_s_per_user, probe
-- reads: narrow, winners
-- column: as best
SELECT instances.*
FROM best_instances('decode') AS instances
ORDER BY instances.question_group, instances.rank;
