-- summary: every stored probe, one row a batch size, names joined and rates derived; voided rows are left out
-- column: probe | none | short reference of the row: scenario and batch size; show, explain and why accept it
-- column: plan | none | label of the split: tp8pp1dp1, with the expert split where there is one
-- column: prefill_capacity_qps | requests/s | prompts a second of one prefill instance: concurrency / makespan, at the mean work of a prompt; NULL elsewhere
-- column: prefill_ttft_qps | requests/s | the seeds' rule: concurrency / mean ttft; NULL elsewhere
-- column: decode_minus_one_qps | requests/s | concurrency / (tpot x max(output_length - 1, 1)) of one decode instance; NULL elsewhere
-- column: decode_full_qps | requests/s | concurrency / (tpot x output_length), seed 000's rule; NULL elsewhere
-- column: requests_per_s | requests/s | finished requests a second: capacity of a prefill or decode instance, concurrency / e2e of an aggregated one at the mean work of a prompt
-- column: input_tokens_per_s | tokens/s | prompt tokens served a second, cached ones included; NULL for decode
-- column: output_tokens_per_s | tokens/s | generated tokens a second of one instance, ttft counted once; NULL for prefill
-- column: output_tokens_per_s_twice | tokens/s | seed 001's printed formula, which counts ttft twice; NULL unless aggregated
-- column: output_tokens_per_s_per_device | tokens/s | output_tokens_per_s / devices of the instance
-- column: tokens_per_s_per_user | tokens/s | 1000 / tpot_exclusive_ms; NULL for prefill
-- column: input_length_bias | ratio | how far the mean prompt of the composed batch is off: realised_input_length_mean / input_length_mean - 1; NULL for fixed lengths
CREATE OR REPLACE VIEW probe AS
WITH stored AS (
    SELECT
        *,
        -- A composed batch whose prompts are shorter than the distribution's is not faster: QPS by mean work a request.
        coalesce(realised_input_length_mean / input_length_mean, 1) AS work_share,
        1000.0 * concurrency / nullif(makespan_ms, 0) * work_share AS capacity,
        concurrency * 1000.0 / nullif(tpot_exclusive_ms, 0) AS decoded_per_s,
        -- Of an aggregated batch only the prefills are composed: its decodes are of the whole distribution already.
        CASE convention WHEN 'upstream' THEN 0 ELSE ttft_ms * (1 / work_share - 1) END AS missed_ms,
        1000.0 * concurrency / nullif(e2e_ms + missed_ms, 0) AS finished_per_s
    FROM raw.stored_probe
)
SELECT
    concat(left(scenario, 8), ':', batch_size) AS probe,
    * EXCLUDE (scenario_id, block_id, work_share, capacity, decoded_per_s, missed_ms, finished_per_s),
    concat(
        'tp', tp, 'pp', pp, 'dp', dp,
        CASE WHEN ep > 1 OR moe_tp > 1 OR moe_dp > 1 THEN concat('ep', ep, 'moetp', moe_tp, 'moedp', moe_dp) END,
        CASE WHEN redundant_experts > 0 THEN concat('red', redundant_experts) END,
        CASE WHEN dcp > 1 THEN concat('dcp', dcp) END,
        CASE WHEN pcp > 1 THEN concat('pcp', pcp) END,
        CASE WHEN micro_batches > 1 THEN concat('mb', micro_batches) END,
        CASE WHEN encoder_devices > 0 THEN concat('enc', encoder_devices) END
    ) AS plan,
    CASE WHEN phase = 'prefill' THEN capacity END AS prefill_capacity_qps,
    CASE WHEN phase = 'prefill' THEN 1000.0 * concurrency / nullif(ttft_ms, 0) * work_share END AS prefill_ttft_qps,
    CASE WHEN phase = 'decode' THEN decoded_per_s / greatest(output_length - 1, 1) END AS decode_minus_one_qps,
    CASE WHEN phase = 'decode' THEN decoded_per_s / output_length END AS decode_full_qps,
    CASE phase
        WHEN 'prefill' THEN capacity
        WHEN 'decode' THEN decoded_per_s / greatest(output_length - 1, 1)
        ELSE finished_per_s
    END AS requests_per_s,
    CASE phase WHEN 'prefill' THEN capacity WHEN 'aggregated' THEN finished_per_s END
        * input_length_mean AS input_tokens_per_s,
    CASE phase WHEN 'decode' THEN decoded_per_s WHEN 'aggregated' THEN finished_per_s * output_length END
        AS output_tokens_per_s,
    CASE WHEN phase = 'aggregated'
        THEN 1000.0 * concurrency * output_length / (ttft_ms + tpot_inclusive_ms * output_length + 2 * missed_ms)
    END AS output_tokens_per_s_twice,
    CASE phase WHEN 'decode' THEN decoded_per_s WHEN 'aggregated' THEN finished_per_s * output_length END / num_devices
        AS output_tokens_per_s_per_device,
    1000.0 / nullif(tpot_exclusive_ms, 0) AS tokens_per_s_per_user,
    realised_input_length_mean / input_length_mean - 1 AS input_length_bias,
    scenario_id, block_id
FROM stored;
