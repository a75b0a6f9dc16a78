-- name: best
-- summary: the best batch size of each aggregated plan under the limits, ranked by generated tokens/s, per device where sizes differ
-- of loads: goodput | by
-- needs: aggregated
-- shows: rank, device, plan, batch_size, concurrency, rate, rate_per_device if sized, instances if num_devices, system_rate if num_devices, ttft_ms, tpot_ms, num_devices, memory_free_gib, launchable, e2e_ms if e2e_limits or ttft_intervals, tokens_per_s_per_user if min_tokens_per_s_per_user, probe
-- instead: mode | ask sweepdb query prefill, decode or pd-ratio
-- narrow: judged
-- suffices: winners
-- column: question_group | none | results are ranked within a group of model, workload, precision and convention
-- column: rank | none | 1 is best; ties go to lower latency, smaller batch, then content key
-- column: rate | tokens/s | what the phase is ranked by: generated tokens/s, prompt tokens/s for prefill
-- column: ranked_by | none | the objective asked for; else system_rate within a budget, rate_per_device where the group holds instances of several sizes, rate where it does not
-- column: rate_per_device | tokens/s | rate / devices of the instance
-- column: instances | instances | copies of the instance that the device budget holds; NULL without one
-- column: devices_used | devices | by the copies
-- column: system_rate | tokens/s | of all copies
-- column: qps | requests/s | requests a second by the named rule
-- column: tpot_ms | ms | time per output token by the named definition
-- column: memory_free_bytes | bytes | memory left on the fullest device after the reserve
SELECT instances.*
FROM best_instances('aggregated') AS instances
ORDER BY instances.question_group, instances.rank;
