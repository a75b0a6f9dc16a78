-- summary: every stored batch of each plan by its lengths, with its share of the KV cache: what planners of running clusters interpolate between
-- modes: aggregated, prefill, decode
-- scope: workloads
-- layout: long
-- shows: device, plan, input_length, output_length, batch_size, concurrency, context_length, kv_usage, ttft_ms, itl_ms, tokens_per_s_per_device, within_limits, probe
-- column: model, device, plan, num_devices, serving_model, input_length, output_length, prefix_cache_hit_rate, batch_size, concurrency, ttft_ms
-- column: requests_per_s, within_limits, usd_per_device_hour, scenario, probe
-- column: question_group | none | group of model, precision and convention, over every workload of the scope
-- column: context_length | tokens | mean length of a request that is answered: prompt and half of the answer
-- column: max_kv_tokens | tokens | that the caches of one instance hold beside weights, activations and the reserve; NULL for prefill
-- column: kv_usage | ratio | concurrency x context_length / max_kv_tokens; NULL for prefill
-- column: itl_ms | ms | between two tokens of a request: the exclusive TPOT; NULL for prefill
-- column: e2e_ms | ms | arrival to last token; NULL unless aggregated
-- column: tokens_per_s_per_device | tokens/s | of one instance / its devices: generated tokens, of prefill prompt tokens
WITH fitting AS (
    SELECT
        *, input_length_mean + output_length / 2 AS context_length,
        memory_free_bytes
            + CASE getvariable('kv_charge') WHEN 'mean' THEN kv_cache_mean_bytes ELSE kv_cache_bytes END AS cache_room_bytes
    FROM judged(getvariable('wanted_phase'))
    WHERE memory_free_bytes >= 0 AND qps > 0
),
holding AS (
    -- A request is charged in whole blocks of 128 tokens (evaluator/pricing/kv_state.py).
    SELECT
        *,
        CASE
            WHEN phase <> 'prefill'
                THEN floor(concurrency * 128 * ceil((input_length_mean + output_length) / 128) * cache_room_bytes / nullif(kv_cache_bytes, 0))
        END AS max_kv_tokens
    FROM fitting
)
SELECT
    question_group, model, device, plan, num_devices, serving_model, input_length, output_length, prefix_cache_hit_rate,
    batch_size, concurrency, context_length, max_kv_tokens, concurrency * context_length / max_kv_tokens AS kv_usage,
    ttft_ms, tpot_exclusive_ms AS itl_ms, e2e_ms, qps AS requests_per_s, rate / num_devices AS tokens_per_s_per_device,
    keeps_limits(phase, ['none'], each_limited) AS within_limits, usd_per_device_hour, scenario, probe
FROM holding
LEFT JOIN valid_prices() AS price ON price.device_name = holding.device
ORDER BY question_group, device, plan, input_length, output_length, scenario, batch_size;
