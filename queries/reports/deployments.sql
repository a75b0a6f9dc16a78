-- summary: the best whole deployment of each device, aggregated and disaggregated, within a budget or for a rate, with what it costs
-- scope: devices
-- needs: prefill, decode
-- needs: aggregated
-- allocates: instances
-- refuses: prefill_device, decode_device
-- shows: budget if budgets, rank, device, mode, deployment, devices_used, system_requests_per_s, carries_target if target_rate or concurrency, users, output_tokens_per_s, output_tokens_per_s_per_device, ttft_ms, tpot_ms, e2e_ms, usd_per_hour, usd_per_million_output_tokens, probe, prefill_probe, decode_probe
-- reads: narrow, winners
-- shows with target_rate: budget if budgets, rank, device, mode, deployment, devices_used, carries_target, system_requests_per_s, ttft_ms, tpot_ms, usd_per_hour, usd_per_month, usd_per_million_input_tokens, usd_per_million_uncached_tokens, usd_per_million_output_tokens, probe, prefill_probe, decode_probe
-- shows with concurrency: budget if budgets, rank, device, mode, deployment, devices_used, carries_target, users, system_requests_per_s, ttft_ms, tpot_ms, usd_per_hour, usd_per_month, usd_per_million_input_tokens, usd_per_million_uncached_tokens, usd_per_million_output_tokens, probe, prefill_probe, decode_probe
-- column: question_group, device, mode, instances, prefill_instances, decode_instances, plan, prefill_plan, decode_plan, devices_used
-- column: system_requests_per_s, carries_target, output_tokens_per_s, ttft_ms, tpot_ms, e2e_ms, prefill_utilisation, decode_utilisation
-- column: memory_free_bytes, usd_per_device_hour, price_from, probe, prefill_probe, decode_probe
-- column: rank | none | within a budget: 1 carries most; of a rate or of users the cheapest that carries them, by devices where a price is missing
-- column: deployment | none | instances and their splits; of pd the prefill side first
-- column: devices_idle | devices | of the budget; NULL without one
-- column: budget | devices | that it is the best within; NULL without one
-- column: served_requests_per_s | requests/s | of these, those that are asked for: the target where it is carried, else all
-- column: users | requests | in flight at system_requests_per_s: what the instances were evaluated with, of pd those of a loop that has settled, first requests left out; NULL of pd under formulas
-- column: output_tokens_per_s_per_device | tokens/s | by the devices used
-- column: usd_per_hour | USD/h | of the devices used; without a rate or users asked for of the whole budget, idle ones too
-- column: usd_per_month | USD | 730 hours
-- column: usd_per_million_output_tokens | USD | the whole cost over generated tokens, at served_requests_per_s
-- column: usd_per_million_input_tokens | USD | the whole cost over prompt tokens, cached ones too
-- column: usd_per_million_uncached_tokens | USD | the whole cost over prompt tokens that are computed
WITH budgets AS (
    -- what is looked at within many devices holds what is the best within fewer
    SELECT unnest(coalesce(getvariable('budgets'), [getvariable('num_devices')])) AS budget
),
carrying AS (
    SELECT
        *, question_group AS lot,
        CASE
            WHEN coalesce(getvariable('target_qps'), getvariable('target_users')) IS NOT NULL
                THEN (getvariable('target_qps') IS NULL OR system_requests_per_s >= getvariable('target_qps'))
                    AND (getvariable('target_users') IS NULL OR coalesce(users >= getvariable('target_users'), false))
        END AS carries_target
    FROM deployments(
        getvariable('target_qps'), getvariable('target_users'), TRUE, getvariable('budgets'), FALSE
    )
    JOIN budgets ON budget IS NULL OR devices <= budget
),
chosen AS (
    SELECT
        *, CASE WHEN coalesce(carries_target, false) AND NOT getvariable('least_latency') THEN devices ELSE 0 END AS enough
    FROM carrying
    QUALIFY row_number() OVER (
        PARTITION BY lot, mode, budget
        -- of users the shortest whole request: more users than asked for wait longer
        ORDER BY carries_target DESC NULLS LAST, enough,
            CASE WHEN carries_target AND getvariable('target_users') IS NOT NULL THEN round(users / system_requests_per_s, 9) END,
            CASE WHEN getvariable('least_latency') THEN devices END, system_requests_per_s DESC, devices, prefill_instances, first_key,
            second_key
    ) = 1
),
priced AS (
    SELECT
        d.*, coalesce(d.device, d.prefill_device) AS any_device, p.usd_per_device_hour, p.effective_from AS price_from,
        CASE WHEN carries_target THEN least(system_requests_per_s, coalesce(getvariable('target_qps'), system_requests_per_s)) ELSE system_requests_per_s END
            AS served_requests_per_s,
        p.usd_per_device_hour
            * CASE WHEN carries_target IS NULL THEN coalesce(budget, devices) ELSE devices END
            AS usd_per_hour,
        bool_and(p.usd_per_device_hour IS NOT NULL) OVER (PARTITION BY lot // 1000, budget) AS all_priced
    FROM chosen AS d
    LEFT JOIN valid_prices() AS p ON p.device_name = coalesce(d.device, d.prefill_device)
)
SELECT
    lot // 1000 AS question_group,
    row_number() OVER (
        PARTITION BY lot // 1000, budget
        ORDER BY
            carries_target DESC NULLS LAST, CASE WHEN getvariable('least_latency') THEN users / system_requests_per_s END,
            CASE WHEN carries_target AND all_priced THEN usd_per_hour END,
            CASE WHEN carries_target THEN devices END,
            system_requests_per_s DESC, devices, any_device, mode, first_key
    ) AS rank,
    any_device AS device, mode,
    CASE mode
        WHEN 'pd' THEN concat(prefill_instances, ' x ', prefill_plan, ' + ', decode_instances, ' x ', decode_plan)
        ELSE concat(instances, ' x ', plan)
    END AS deployment,
    instances, prefill_instances, decode_instances, plan, prefill_plan, decode_plan, devices AS devices_used,
    budget - devices AS devices_idle, budget, system_requests_per_s, served_requests_per_s, carries_target, users,
    system_requests_per_s * answer_tokens AS output_tokens_per_s,
    system_requests_per_s * answer_tokens / devices AS output_tokens_per_s_per_device, ttft_ms, tpot_ms, e2e_ms,
    prefill_utilisation, decode_utilisation, memory_free_bytes, usd_per_device_hour, price_from, usd_per_hour,
    usd_per_hour * 730 AS usd_per_month, usd_per_hour / 0.0036 / (served_requests_per_s * answer_tokens) AS usd_per_million_output_tokens,
    usd_per_hour / 0.0036 / (served_requests_per_s * prompt_tokens) AS usd_per_million_input_tokens,
    usd_per_hour / 0.0036 / nullif(served_requests_per_s * prompt_tokens * (1 - prefix_cache_hit_rate), 0)
        AS usd_per_million_uncached_tokens,
    probe, prefill_probe, decode_probe
FROM priced
ORDER BY question_group, budget, rank;
