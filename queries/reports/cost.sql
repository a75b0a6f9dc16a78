-- name: cost
-- summary: the cheapest configuration of each device by the prices entered: tokens per $ and per kWh, and break-even price
-- of loads: goodput-cost | by
-- of deployments: deployments | target_qps, target_users
-- modes: aggregated, decode, pd
-- timed: pairs
-- suffices: winners
-- leaves out: prefill_device, decode_device, prefill_devices_per_instance, decode_devices_per_instance, all_pairs
-- shows: rank, device, plan, rate, tokens_per_usd, usd_per_million_tokens, tokens_per_kwh, break_even_usd_per_device_hour, usd_per_device_hour, price_from, probe
-- column: question_group | none | group of model, workload, precision and convention
-- column: rank | none | 1 gives most tokens per $; devices without a price come last
-- column: device | none | device by name
-- column: tokens_per_usd | tokens/USD | generated tokens
-- column: usd_per_million_tokens | USD | of generated tokens
-- column: tokens_per_kwh | tokens/kWh | by the watts of the devices alone
-- column: break_even_usd_per_device_hour | USD/h | price at which it equals the cheapest other device
-- column: usd_per_device_hour | USD/h | price used
-- column: watts_per_device | W | power used
-- column: price_from | ISO date | since when the price is valid
-- column: rate | tokens/s | of one instance, or of a pair
-- column: rate_per_device | tokens/s | rate / devices
-- column: ttft_ms | ms | NULL for decode; of pairs with every wait
-- column: tpot_ms | ms | by the named definition
-- column: plan | none | parallel split; of pairs the instances and splits of both sides
-- column: batch_size | requests | per replica and stage
-- column: num_devices | devices | of one instance, or of a pair
-- column: prefill_utilisation | ratio | pairs: share of what the prefill instances pass; NULL elsewhere
-- column: decode_utilisation | ratio | pairs: share of what the decode instances pass at most; NULL elsewhere
-- column: prefill_probe | none | pairs: row of the prefill side; NULL elsewhere
-- column: probe | none | reference of the row
WITH single AS (
    SELECT
        question_group, device, scenario, probe, plan, batch_size, num_devices, rate, ttft_ms, tpot_ms
    FROM picked(getvariable('wanted_phase'), 'rate_per_device')
    WHERE NOT getvariable('split')
    QUALIFY row_number() OVER (
        PARTITION BY question_group, device ORDER BY objective DESC, latency_ms, batch_size, scenario
    ) = 1
),
paired AS (
    SELECT *
    FROM engine_pairs('budget', NULL, TRUE, 1, 'qps_per_device')
    WHERE getvariable('split')
    QUALIFY row_number() OVER (
        PARTITION BY question_group, decode_device ORDER BY qps_per_device DESC, prefill_rank, decode_rank
    ) = 1
),
winners AS (
    SELECT
        *, NULL::VARCHAR AS prefill_probe, NULL::DOUBLE AS prefill_utilisation, NULL::DOUBLE AS decode_utilisation
    FROM single
    UNION ALL
    SELECT
        question_group, decode_device, decode_scenario, decode_probe,
        concat(prefill_instances, ' x ', prefill_plan, ' + ', decode_instances, ' x ', decode_plan),
        decode_batch_size, devices_used, system_qps * answer_tokens, ttft_ms, tpot_ms, prefill_probe,
        prefill_utilisation, decode_utilisation
    FROM paired
),
valid_price AS (
    SELECT device_name, effective_from, usd_per_device_hour, watts_per_device
    FROM price
    WHERE getvariable('price_date') IS NULL OR effective_from <= getvariable('price_date')
    QUALIFY row_number() OVER (PARTITION BY device_name ORDER BY effective_from DESC) = 1
),
priced AS (
    SELECT
        w.*, w.rate / w.num_devices AS rate_per_device, p.effective_from AS price_from, p.usd_per_device_hour,
        p.watts_per_device, w.rate / w.num_devices * 3600 / nullif(p.usd_per_device_hour, 0) AS tokens_per_usd,
        w.rate / w.num_devices * 3600000 / nullif(p.watts_per_device, 0) AS tokens_per_kwh
    FROM winners AS w
    LEFT JOIN valid_price AS p ON p.device_name = w.device
),
others AS (
    SELECT a.question_group, a.device, max(b.tokens_per_usd) AS best_other
    FROM priced AS a
    JOIN priced AS b ON a.question_group = b.question_group AND a.device <> b.device
    GROUP BY a.question_group, a.device
),
ranked AS (
    SELECT
        priced.*, priced.rate_per_device * 3600 / others.best_other AS break_even_usd_per_device_hour,
        row_number() OVER (
            PARTITION BY priced.question_group ORDER BY tokens_per_usd DESC NULLS LAST, priced.device, scenario
        ) AS rank
    FROM priced
    LEFT JOIN others ON others.question_group = priced.question_group AND others.device = priced.device
)
SELECT
    question_group, rank, device, tokens_per_usd, 1e6 / tokens_per_usd AS usd_per_million_tokens, tokens_per_kwh,
    break_even_usd_per_device_hour, usd_per_device_hour, watts_per_device, price_from, rate, rate_per_device, ttft_ms,
    tpot_ms, plan, batch_size, num_devices, prefill_utilisation, decode_utilisation, prefill_probe, probe
FROM ranked
WHERE rank <= getvariable('top')
ORDER BY question_group, rank;
