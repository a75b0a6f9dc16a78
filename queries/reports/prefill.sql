-- summary: the best batch size of each prefill plan under the limits, ranked by prompt tokens/s, per device where sizes differ
-- needs: prefill
-- shows: rank, device, plan, batch_size, concurrency, rate, rate_per_device if sized, instances if num_devices, system_rate if num_devices, qps, ttft_ms, num_devices, memory_free_gib, launchable, probe
-- reads: narrow, winners
-- column: as best
SELECT instances.*
FROM best_instances('prefill') AS instances
ORDER BY instances.question_group, instances.rank;
