-- summary: measured settings in the columns of probe, a row a setting: what was not measured is NULL, the memory among it
-- column: probe | sha256 | beginning of the content key of one of its runs, which `sweepdb measurements show` takes
-- column: phase | none | aggregated, prefill or decode; pd: disaggregated, measured as one
-- column: plan | none | label of the split as stated; of pd that of the decode side
-- column: batch_size | requests | requests in flight of one replica, which need not be a whole number
-- column: concurrency | requests | requests in flight of the whole deployment; of a stated rate requests_per_s x e2e_ms, at most what was stated
-- column: num_devices | devices | devices of the whole deployment
-- column: engine_version | none | version of the serving engine
-- column: request_rate | requests/s | offered rate; NULL where users ask again
-- column: runs | none | measured points of this setting
-- column: prefill_instances | instances | pd: instances that take prompts
-- column: prefill_tp | devices | pd: tensor parallel size of these
-- column: decode_instances | instances | instances of this plan
-- column: last_imported_at | UTC | when the newest of its runs was imported
CREATE OR REPLACE VIEW measured_probe AS
WITH told AS (
    SELECT
        *, CASE mode WHEN 'disaggregated' THEN 'pd' ELSE mode END AS phase,
        coalesce(decode_instances, 1) * coalesce(decode_pp, 1) * coalesce(decode_dp, 1) AS replicas,
        coalesce(requests_per_s, output_tokens_per_s / nullif(output_length, 0)) AS finished_per_s,
        coalesce(output_tokens_per_s, requests_per_s * output_length) AS made_per_s,
        coalesce(e2e_ms, ttft_ms + greatest(output_length - 1, 0) * tpot_exclusive_ms) AS whole_ms
    FROM measured_setting
    WHERE coalesce(ttft_ms, tpot_exclusive_ms, e2e_ms, output_tokens_per_s, requests_per_s) IS NOT NULL
),
loaded AS (
    SELECT
        *, CASE
            WHEN request_rate IS NULL THEN concurrency ELSE least(concurrency, finished_per_s * whole_ms / 1000)
        END AS in_flight
    FROM told
),
named AS (
    SELECT
        left(first_measurement, 12) AS probe,
        md5(CAST(row(model, device, engine, phase, precision, kv_precision, num_devices, decode_instances, decode_tp,
            decode_pp, decode_dp, decode_ep, prefill_instances, prefill_tp, input_length, output_length) AS VARCHAR))
            AS subject,
        md5(concat(subject, engine_version)) AS scenario,
        last_measured_at AS stored_at, 'measured' AS family, model, device, decode_tp AS tp,
        coalesce(decode_pp, 1) AS pp, coalesce(decode_dp, 1) AS dp, coalesce(decode_ep, 1) AS ep,
        concat('tp' || tp, 'pp', pp, 'dp', dp, CASE WHEN ep > 1 THEN 'ep' || ep END) AS plan,
        coalesce(num_devices, replicas * tp) AS num_devices, precision AS linear_quantization,
        kv_precision AS attention_quantization, 'measured' AS convention, coalesce(engine, 'unstated') AS serving_model,
        input_length, input_length AS input_length_mean, output_length,
        concat(round(input_length)::BIGINT, '/', round(output_length)::BIGINT) AS workload, phase,
        in_flight / replicas AS batch_size, in_flight AS concurrency, ttft_ms, tpot_exclusive_ms,
        whole_ms / nullif(output_length, 0) AS tpot_inclusive_ms, whole_ms AS e2e_ms, finished_per_s AS requests_per_s,
        finished_per_s * input_length AS input_tokens_per_s, made_per_s AS output_tokens_per_s,
        made_per_s / num_devices AS output_tokens_per_s_per_device,
        1000.0 / nullif(tpot_exclusive_ms, 0) AS tokens_per_s_per_user,
        engine_version, request_rate, runs, prefill_instances, prefill_tp, decode_instances, last_imported_at
    FROM loaded
)
SELECT
    {measured_columns}, engine_version, request_rate, runs, prefill_instances, prefill_tp, decode_instances,
    last_imported_at
FROM named;
