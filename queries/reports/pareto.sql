-- summary: configurations that no other beats in both tokens/s/device and tokens/s/user, aggregated and disaggregated
-- needs: prefill, decode
-- needs: aggregated
-- layout: long
-- refuses: prefill_device, decode_device, prefill_devices_per_instance, decode_devices_per_instance, prefill_degradation, decode_degradation
-- shows: mode, tokens_per_s_per_user, output_tokens_per_s_per_device, num_devices, ttft_ms, tpot_exclusive_ms, device, plan, concurrency, probe, prefill_plan, pd_ratio, prefill_probe
-- reads: narrow, winners, measured
-- column: question_group, mode, num_devices, ttft_ms, frontier_of, device, plan, prefill_probe, prefill_device, prefill_plan
-- column: tokens_per_s_per_user | tokens/s | 1000 / tpot_exclusive
-- column: output_tokens_per_s_per_device | tokens/s | generated tokens/s over every device that serves them, prefill devices too; pd: under an engine of the counts of instances, up to 8 a side, with the most requests/s per device that keep the limits; under formulas at the best ratio, whole numbers of instances not asked for
-- column: tpot_exclusive_ms | ms | time per output token after the first
-- column: concurrency | requests | of the aggregated or decode instance
-- column: probe | none | the aggregated or decode row
-- column: pd_ratio | ratio | decode_requests_per_s / prefill_requests_per_s: prefill instances for each decode instance; NULL unless pd
-- column: prefill_instances | instances | pd under an engine: the counts that this point is of; else NULL
-- column: decode_instances | instances | likewise
SELECT
    question_group, mode, pace AS tokens_per_s_per_user, yield AS output_tokens_per_s_per_device, num_devices, ttft_ms,
    tpot_exclusive_ms, concurrency, point AS probe, device, plan, other_point AS prefill_probe, prefill_device, prefill_plan,
    pd_ratio, prefill_instances, decode_instances, frontier_of
FROM unbeaten_points()
ORDER BY question_group, mode, tokens_per_s_per_user DESC, probe;

-- when: by | pareto by goodput
-- summary: loads that meet the limits and that no other beats in both requests/s/device and tokens/s of the median user
-- modes: aggregated, decode
-- reads: loads | ladder
-- layout: long
-- shows: device, plan, arrivals_per_s, requests_per_s_per_device, tokens_per_s_per_user, attained, ttft_p90_ms, tpot_p50_ms, num_devices, load
-- column: question_group, arrivals_per_s, attainment, num_devices, frontier_of, tpot_p50_ms, tpot_p90_ms, device, plan, arrivals, load, scenario
-- column: mode | none | aggregated or decode
-- column: tokens_per_s_per_user | tokens/s | 1000 / tpot_p50_ms
-- column: requests_per_s_per_device | requests/s | arrivals_per_s / devices of the instance
-- column: attained | ratio | share of requests within the limits, at least the wanted one
-- column: ttft_p90_ms | ms | 90th percentile of the time to the first token; NULL for decode
SELECT
    question_group, mode, pace AS tokens_per_s_per_user, yield AS requests_per_s_per_device,
    rate AS arrivals_per_s, share AS attained, getvariable('attainment') AS attainment, num_devices, ttft_p90_ms, tpot_p50_ms, tpot_p90_ms, device,
    plan, arrivals, point AS load, scenario, frontier_of
FROM unbeaten_points()
ORDER BY question_group, mode, tokens_per_s_per_user DESC, load;
