-- name: compare
-- summary: the best aggregated deployment against the best split one on the same devices and limits, with the gain
-- of loads: goodput-compare | by
-- needs: aggregated, prefill, decode
-- allocates: instances
-- timed: pairs
-- requires: num_devices | report compare needs a device budget | add `num_devices=N`
-- suffices: winners
-- verdict: deployments
-- layout: turned
-- column: question_group | none | group of model, workload, precision and convention
-- column: mode | none | aggregated or pd
-- column: system_qps | requests/s | carried by the whole deployment
-- column: gain | ratio | system_qps over the aggregated deployment's; NULL where only one of them fits
-- column: devices_used | devices | by the instances
-- column: devices_idle | devices | of the budget
-- column: qps_per_device | requests/s | system_qps / devices_used
-- column: output_tokens_per_s | tokens/s | system_qps x mean output length
-- column: ttft_ms | ms | time to first token; of pd under an engine with every wait and the KV transfer, under formulas without
-- column: prefill_wait_ms | ms | pd under an engine: wait for a prefill server, part of ttft_ms
-- column: kv_transfer_ms | ms | pd: time to move one prompt's KV cache; NULL under formulas without a bandwidth
-- column: slot_wait_ms | ms | pd under an engine: wait for the decode step to end, part of ttft_ms
-- column: e2e_ms | ms | end-to-end time of a request of the client's mean length, as its rate counts; NULL of pd under formulas
-- column: prefill_utilisation | ratio | pd: system_qps / what all prefill instances pass
-- column: decode_utilisation | ratio | pd: system_qps / what all decode instances pass at most
-- column: tpot_ms | ms | by the named definition
-- column: instances | instances | aggregated ones
-- column: prefill_instances | instances | NULL unless pd
-- column: decode_instances | instances | NULL unless pd
-- column: probe | none | the aggregated configuration
-- column: device | none | its device
-- column: plan | none | its split
-- column: prefill_probe | none | NULL unless pd
-- column: prefill_device | none | NULL unless pd
-- column: prefill_plan | none | NULL unless pd
-- column: decode_probe | none | NULL unless pd
-- column: decode_device | none | NULL unless pd
-- column: decode_plan | none | NULL unless pd
WITH winners AS (
    SELECT *
    FROM deployments(NULL, NULL, FALSE, NULL::BIGINT[], FALSE)
    QUALIFY row_number() OVER (
        PARTITION BY question_group, mode
        ORDER BY system_qps DESC, devices, prefill_instances, first_key, second_key
    ) = 1
)
SELECT
    question_group, mode, system_qps,
    system_qps / first_value(system_qps) OVER (PARTITION BY question_group ORDER BY mode)
        * CASE WHEN count(*) OVER (PARTITION BY question_group) = 2 THEN 1 END AS gain,
    devices AS devices_used, getvariable('num_devices') - devices AS devices_idle,
    system_qps / devices AS qps_per_device, system_qps * answer_tokens AS output_tokens_per_s, ttft_ms, prefill_wait_ms, kv_transfer_ms, slot_wait_ms, tpot_ms,
    e2e_ms, prefill_utilisation, decode_utilisation, instances, prefill_instances, decode_instances, probe, device, plan,
    prefill_probe, prefill_device, prefill_plan, decode_probe, decode_device, decode_plan
FROM winners
ORDER BY question_group, mode;
