-- summary: what so many users get of each aggregated plan: its row of as many, the most tokens/s first
-- needs: aggregated
-- requires: concurrency | concurrency is about a number of users | add `concurrency=100`
-- shows: rank, device, plan, instances if num_devices, devices_used if num_devices, users, system_output_tokens_per_s, system_requests_per_s, ttft_ms, tpot_ms, e2e_ms, memory_free_gib, within_limits if ttft_limit or tpot_limit or e2e_limit or min_tokens_per_s_per_user, probe
-- reads: narrow
-- column: question_group, device, plan, devices_used, system_requests_per_s, ttft_ms, tpot_ms, e2e_ms, memory_free_bytes, within_limits, probe
-- column: rank | none | rows that keep the limits first, then the most tokens/s
-- column: instances | instances | copies that the device budget holds; 1 without one
-- column: users | requests | in flight in all copies: the fewest stored that are as many as asked for
-- column: system_output_tokens_per_s | tokens/s | generated, of all copies
WITH counted AS (
    SELECT *, coalesce(getvariable('num_devices') // num_devices, 1) AS instances
    FROM judged('aggregated')
    WHERE memory_free_bytes >= 0 AND qps > 0
),
serving AS (
    SELECT
        *, instances * concurrency AS users, instances * qps AS system_requests_per_s,
        instances * rate AS system_output_tokens_per_s,
        keeps_limits('aggregated', ['none'], each_limited) AS within_limits
    FROM counted
    WHERE users >= getvariable('target_users')
    QUALIFY row_number() OVER (PARTITION BY question_group, scenario_id ORDER BY concurrency, batch_size) = 1
),
ranked AS (
    SELECT
        *, row_number() OVER (
            PARTITION BY question_group ORDER BY within_limits DESC, system_output_tokens_per_s DESC, num_devices, scenario
        ) AS rank
    FROM serving
    QUALIFY rank <= getvariable('top')
)
SELECT
    question_group, rank, device, plan, instances, instances * num_devices AS devices_used, users, system_output_tokens_per_s,
    system_requests_per_s, ttft_ms, tpot_ms, e2e_ms, memory_free_bytes, within_limits, probe
FROM ranked
ORDER BY question_group, rank;
