-- name: prefill
-- summary: the best batch size of each prefill plan under the limits, ranked by prompt tokens/s, per device where sizes differ
-- needs: prefill
-- shows: rank, device, plan, batch_size, concurrency, rate, rate_per_device if sized, instances if num_devices, system_rate if num_devices, qps, ttft_ms, num_devices, memory_free_gib, launchable, probe
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
SELECT
    ranked.question_group, ranked.rank, ranked.rate, ranked.ranked_by, ranked.rate_per_device, ranked.instances,
    ranked.devices_used, ranked.system_rate, ranked.qps, ranked.tpot_ms, ranked.memory_free_bytes, p.probe,
    p.subject, p.scenario, p.first_sweep, p.stored_at, p.formula_version, p.family, p.model, p.architecture, p.device,
    p.device_key, p.vendor, p.tp, p.pp, p.dp, p.ep, p.moe_tp, p.moe_dp, p.num_devices, p.plan, p.linear_quantization,
    p.experts_quantization, p.attention_quantization, p.mxfp4_group_size, p.compile, p.convention, p.serving_model,
    p.serving_cost_ms, p.shortest_length, p.prompts_per_user, p.poll_steps, p.seats, p.wait_steps, p.routing,
    p.launchable, p.workload, p.workload_key, p.input_length, p.input_length_mean, p.output_length,
    p.prefix_cache_hit_rate, p.max_batched_tokens, p.mtp_tokens, p.phase, p.batch_size, p.concurrency, p.ttft_ms,
    p.prefill_step_ms, p.prefill_chunks, p.makespan_ms, p.prompt_service_ms, p.decode_step_ms, p.tokens_per_step,
    p.tpot_inclusive_ms,
    p.tpot_exclusive_ms, p.e2e_ms, p.prefill_capacity_qps, p.prefill_ttft_qps, p.decode_minus_one_qps,
    p.decode_full_qps, p.requests_per_s, p.input_tokens_per_s, p.output_tokens_per_s, p.output_tokens_per_s_twice,
    p.output_tokens_per_s_per_device, p.tokens_per_s_per_user, p.device_memory_bytes, p.weight_bytes, p.kv_cache_bytes,
    p.kv_cache_mean_bytes, p.activation_bytes, p.kv_bytes_per_request, p.prefill_step_matrix_ms,
    p.prefill_step_vector_ms, p.prefill_step_memory_ms, p.prefill_step_communication_ms, p.prefill_step_overhead_ms,
    p.decode_step_matrix_ms, p.decode_step_vector_ms, p.decode_step_memory_ms, p.decode_step_communication_ms,
    p.decode_step_overhead_ms, p.realised_input_length_mean, p.decode_step_p50_ms, p.decode_step_p90_ms,
    p.decode_step_p99_ms
FROM ranked_instances('prefill') AS ranked
JOIN scoped AS p
    ON p.scenario_id = ranked.scenario_id AND p.batch_size = ranked.batch_size
    AND p.question_group = ranked.question_group
WHERE rank <= getvariable('top')
ORDER BY ranked.question_group, rank;
