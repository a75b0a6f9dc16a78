-- summary: prefill and decode instances paired, each plan at its best batch size under its limits, with instance counts
-- needs: prefill, decode
-- allocates: pairs
-- shows: rank, prefill_device if prefill_device or decode_device, decode_device if prefill_device or decode_device, prefill_plan, ttft_ms, prefill_requests_per_s, decode_plan, tpot_ms, decode_requests_per_s, pd_ratio, balanced_requests_per_s, prefill_probe, decode_probe, kv_transfer_ms if kv_transfer_gb_per_s, transfer_hides if kv_transfer_gb_per_s
-- shows with num_devices: rank, prefill_device if prefill_device or decode_device, decode_device if prefill_device or decode_device, prefill_instances, prefill_plan, ttft_ms, decode_instances, decode_plan, tpot_ms, devices_idle, system_requests_per_s, prefill_probe, decode_probe, kv_transfer_ms if kv_transfer_gb_per_s, transfer_hides if kv_transfer_gb_per_s
-- shows with served: rank, prefill_device if prefill_device or decode_device, decode_device if prefill_device or decode_device, prefill_instances, prefill_plan, prefill_utilisation, ttft_ms, decode_instances, decode_plan, decode_utilisation, tpot_ms, system_requests_per_s, requests_per_s_per_device, prefill_probe, decode_probe, kv_transfer_ms if kv_transfer_gb_per_s, transfer_hides if kv_transfer_gb_per_s
-- reads: narrow, winners
-- column: question_group, pd_ratio, devices_used, devices_idle, requests_per_s_per_device, prefill_utilisation, decode_utilisation, prefill_wait_ms
-- column: slot_wait_ms, e2e_ms, kv_transfer_ms, tpot_ms
-- column: rank | none | 1 is best; ties go to the better prefill side (more requests/s, lower latency, smaller batch, content key), then decode side
-- column: prefill_requests_per_s | requests/s | of one prefill instance, by the named rule and degradation; under an engine what its replicas pass in full steps
-- column: decode_requests_per_s | requests/s | of one decode instance, by the named rule and degradation
-- column: balanced_requests_per_s | requests/s | the smaller of the two
-- column: requests_per_s_per_device_bound | requests/s | 1 / (prefill devices / prefill_requests_per_s + decode devices / decode_requests_per_s): no integer counts do better
-- column: prefill_instances | instances | NULL where none fits; without a device budget under an engine up to 8 with the most requests/s/device, else NULL
-- column: decode_instances | instances | as prefill_instances
-- column: system_requests_per_s | requests/s | the smaller of all prefill and all decode instances; under an engine what its decode row passes, which prefill keeps up with
-- column: allocation_reason | none | why there are no counts
-- column: users | requests | in the closed loop that the pair serves; NULL under formulas
-- column: prefill_alone_ms | ms | part of ttft_ms: a prompt with nobody else there; NULL under formulas
-- column: prefill_burst_ms | ms | part of ttft_ms of first requests, which come all at once
-- column: handover_ms | ms | part of ttft_ms: the decode instance receives the request, too
-- column: ttft_with_transfer_ms | ms | ttft_ms with kv_transfer_ms in it
-- column: transfer_hides | none | whether the transfer is shorter than one decode step; NULL without a bandwidth
-- column: ttft_ms | ms | of the pair under an engine: alone, transfer, handover and slot wait, and the wait or burst of prompts; under formulas of the prefill side
-- column: prefill_memory_free_bytes | bytes | memory left on the fullest prefill device
-- column: decode_memory_free_bytes | bytes | memory left on the fullest decode device
SELECT pairs.*
FROM ranked_pairs(FALSE, getvariable('top')) AS pairs
ORDER BY pairs.question_group, pairs.rank;
