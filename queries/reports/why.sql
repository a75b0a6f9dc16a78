-- summary: two probes side by side: margins, knobs that differ, slack to each limit here and at the next batch size, step splits
-- scope: probes
-- requires: probes | why compares two probes | sweepdb query why a1b2c3d4:175 e5f6a7b8:64
-- column: section | none | result, limit, next batch size, knob, split or memory
-- column: name | none | what is compared
-- column: unit | none | its unit
-- column: first | none | value of the first probe, as text for knobs
-- column: second | none | value of the second probe
-- column: difference | none | first - second, for numbers
-- column: ratio | ratio | first / second, for numbers
WITH sides AS (
    -- The scope's groups number the probes: 1 and 2 the two asked about, 11 and 12 the next batch size of each.
    SELECT
        *,
        question_group % 10 AS side,
        question_group > 10 AS is_next
    FROM judged(NULL)
),
named AS (
    SELECT
        side, is_next,
        unnest(limit_uses(device_memory_bytes, each_limited) || [
            {'section': 'result', 'name': 'output_tokens_per_s', 'unit': 'tokens/s', 'position': 1, 'value': rate},
            {'section': 'result', 'name': 'output_tokens_per_s_per_device', 'unit': 'tokens/s', 'position': 2, 'value': rate / num_devices},
            {'section': 'result', 'name': 'requests_per_s', 'unit': 'requests/s', 'position': 3, 'value': qps},
            {'section': 'result', 'name': 'ttft_ms', 'unit': 'ms', 'position': 4, 'value': ttft_ms},
            {'section': 'result', 'name': 'tpot_ms', 'unit': 'ms', 'position': 5, 'value': tpot_ms},
            {'section': 'result', 'name': 'e2e_ms', 'unit': 'ms', 'position': 6, 'value': e2e_ms},
            {'section': 'knob', 'name': 'num_devices', 'unit': 'devices', 'position': 32, 'value': num_devices::DOUBLE},
            {plan_knobs},
            {'section': 'knob', 'name': 'host_hit_rate', 'unit': 'ratio', 'position': 43, 'value': host_hit_rate::DOUBLE},
            {'section': 'knob', 'name': 'ssd_hit_rate', 'unit': 'ratio', 'position': 44, 'value': ssd_hit_rate::DOUBLE},
            {'section': 'knob', 'name': 'remote_hit_rate', 'unit': 'ratio', 'position': 45, 'value': remote_hit_rate::DOUBLE},
            {'section': 'knob', 'name': 'batch_size', 'unit': 'requests', 'position': 46, 'value': batch_size::DOUBLE},
            {'section': 'knob', 'name': 'concurrency', 'unit': 'requests', 'position': 47, 'value': concurrency::DOUBLE},
            {'section': 'knob', 'name': 'formula_version', 'unit': 'none', 'position': 48, 'value': formula_version::DOUBLE},
            {'section': 'memory', 'name': 'weight_bytes', 'unit': 'bytes', 'position': 50, 'value': weight_bytes::DOUBLE},
            {'section': 'memory', 'name': 'kv_cache_bytes', 'unit': 'bytes', 'position': 51, 'value': kv_cache_bytes::DOUBLE},
            {'section': 'memory', 'name': 'activation_bytes', 'unit': 'bytes', 'position': 52, 'value': activation_bytes::DOUBLE},
            {'section': 'memory', 'name': 'memory_free_bytes', 'unit': 'bytes', 'position': 53, 'value': memory_free_bytes::DOUBLE},
            {'section': 'split', 'name': 'prefill_step_matrix_ms', 'unit': 'ms', 'position': 60, 'value': prefill_step_matrix_ms::DOUBLE},
            {'section': 'split', 'name': 'prefill_step_vector_ms', 'unit': 'ms', 'position': 61, 'value': prefill_step_vector_ms::DOUBLE},
            {'section': 'split', 'name': 'prefill_step_memory_ms', 'unit': 'ms', 'position': 62, 'value': prefill_step_memory_ms::DOUBLE},
            {'section': 'split', 'name': 'prefill_step_communication_ms', 'unit': 'ms', 'position': 63, 'value': prefill_step_communication_ms::DOUBLE},
            {'section': 'split', 'name': 'prefill_step_overhead_ms', 'unit': 'ms', 'position': 64, 'value': prefill_step_overhead_ms::DOUBLE},
            {'section': 'split', 'name': 'decode_step_matrix_ms', 'unit': 'ms', 'position': 65, 'value': decode_step_matrix_ms::DOUBLE},
            {'section': 'split', 'name': 'decode_step_vector_ms', 'unit': 'ms', 'position': 66, 'value': decode_step_vector_ms::DOUBLE},
            {'section': 'split', 'name': 'decode_step_memory_ms', 'unit': 'ms', 'position': 67, 'value': decode_step_memory_ms::DOUBLE},
            {'section': 'split', 'name': 'decode_step_communication_ms', 'unit': 'ms', 'position': 68, 'value': decode_step_communication_ms::DOUBLE},
            {'section': 'split', 'name': 'decode_step_overhead_ms', 'unit': 'ms', 'position': 69, 'value': decode_step_overhead_ms::DOUBLE}
        ], recursive := true)
    FROM sides
),
numbers AS (
    SELECT
        CASE WHEN is_next THEN 'next batch size' ELSE section END AS section, name, unit,
        CASE WHEN is_next THEN position + 10 ELSE position END AS position,
        max(value) FILTER (WHERE side = 1) AS first_number, max(value) FILTER (WHERE side = 2) AS second_number
    FROM named
    WHERE NOT is_next OR section = 'limit'
    GROUP BY ALL
),
texts AS (
    SELECT
        side,
        unnest([
            {'name': 'model', 'position': 25, 'value': model}, {'name': 'workload', 'position': 26, 'value': workload},
            {'name': 'device', 'position': 27, 'value': device}, {'name': 'plan', 'position': 28, 'value': plan},
            {'name': 'linear_quantization', 'position': 29, 'value': linear_quantization},
            {'name': 'experts_quantization', 'position': 29, 'value': experts_quantization},
            {'name': 'mixers_quantization', 'position': 29, 'value': coalesce(mixers_quantization, linear_quantization)},
            {'name': 'head_quantization', 'position': 29, 'value': coalesce(head_quantization, 'BF16')},
            {'name': 'drafts_quantization', 'position': 29, 'value': coalesce(drafts_quantization, 'as other layers')},
            {'name': 'attention_quantization', 'position': 30, 'value': attention_quantization},
            {'name': 'phase', 'position': 31, 'value': phase}, {'name': 'convention', 'position': 31, 'value': convention},
            {'name': 'family', 'position': 31, 'value': family},
            {'name': 'serving_model', 'position': 31, 'value': serving_model},
            {'name': 'compile', 'position': 31, 'value': compile::VARCHAR}
        ], recursive := true)
    FROM sides
    WHERE NOT is_next
),
knobs AS (
    SELECT
        name, position, max(value) FILTER (WHERE side = 1) AS first_text,
        max(value) FILTER (WHERE side = 2) AS second_text
    FROM texts
    GROUP BY ALL
),
lines AS (
    SELECT
        section, name, unit, position, first_number::VARCHAR AS first, second_number::VARCHAR AS second,
        first_number - second_number AS difference, first_number / nullif(second_number, 0) AS ratio
    FROM numbers
    WHERE (first_number IS NOT NULL OR second_number IS NOT NULL)
        AND (section <> 'knob' OR first_number IS DISTINCT FROM second_number)
    UNION ALL
    SELECT 'knob', name, 'none', position, first_text, second_text, NULL, NULL
    FROM knobs
    WHERE first_text IS DISTINCT FROM second_text
)
SELECT section, name, unit, first, second, difference, ratio
FROM lines
ORDER BY position, name;
