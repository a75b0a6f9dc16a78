-- summary: the cheapest configuration of each device by the prices entered: tokens per $ and per kWh, and break-even price
-- when: target_rate, concurrency | deployments
-- modes: aggregated, decode, pd
-- reads: winners, measured
-- refuses: prefill_device, decode_device, prefill_devices_per_instance, decode_devices_per_instance, all_pairs
-- shows: rank, device, plan, output_tokens_per_s, output_tokens_per_s_per_device, tokens_per_usd, usd_per_million_tokens, tokens_per_kwh, break_even_usd_per_device_hour, usd_per_device_hour, price_from, probe
-- column: question_group, device, break_even_usd_per_device_hour, usd_per_device_hour, watts_per_device, price_from, output_tokens_per_s_per_device
-- column: ttft_ms, tpot_ms, batch_size, prefill_utilisation, decode_utilisation, prefill_probe, probe
-- column: rank | none | 1 gives most tokens per $; devices without a price come last
-- column: tokens_per_usd | tokens/USD | generated tokens
-- column: usd_per_million_tokens | USD | of generated tokens
-- column: tokens_per_kwh | tokens/kWh | by the watts of the devices alone
-- column: output_tokens_per_s | tokens/s | of one instance, or of a pair
-- column: plan | none | parallel split; of pairs the instances and splits of both sides
-- column: num_devices | devices | of one instance, or of a pair
SELECT
    question_group, rank, device, per_usd AS tokens_per_usd, 1e6 / per_usd AS usd_per_million_tokens,
    per_kwh AS tokens_per_kwh,
    break_even_usd_per_device_hour, usd_per_device_hour, watts_per_device, price_from, rate AS output_tokens_per_s,
    rate_per_device AS output_tokens_per_s_per_device, ttft_ms, tpot_ms, plan, batch_size, num_devices, prefill_utilisation, decode_utilisation, prefill_probe, probe
FROM priced_points()
ORDER BY question_group, rank;

-- when: by | cost by goodput
-- summary: the cheapest plan of each device by the prices entered: requests within the limits per $ and per kWh, and break-even price
-- modes: aggregated, pd
-- reads: loads | best_of_devices(getvariable('marginal'), getvariable('attainment'))
-- shows: rank, device, plan, goodput, goodput_per_device, requests_per_usd, usd_per_1000_requests, usd_slower, requests_per_kwh, break_even_usd_per_device_hour, usd_per_device_hour, price_from
-- column: question_group, device, goodput, goodput_per_device, requests_per_usd, usd_per_1000_requests, usd_slower, requests_per_kwh
-- column: break_even_usd_per_device_hour, usd_per_device_hour, watts_per_device, price_from, attainment, num_devices, arrivals, scenario
-- column: rank | none | 1 serves most requests per $; devices without a price come last
-- column: plan | none | the split that carries most requests a device
SELECT
    question_group, rank, device, plan, rate AS goodput, rate_per_device AS goodput_per_device, per_usd AS requests_per_usd,
    1000 / per_usd AS usd_per_1000_requests, 1000 / per_usd * rate / goodput_slower AS usd_slower,
    per_kwh AS requests_per_kwh, break_even_usd_per_device_hour, usd_per_device_hour, watts_per_device, price_from,
    getvariable('attainment') AS attainment, num_devices, arrivals, scenario
FROM priced_points()
ORDER BY question_group, rank;

-- when: split | cost by goodput, pairs
-- summary: the cheapest prefill and decode instances of each two devices by the prices entered: requests within the limits per $ and per kWh
-- reads: loads | best_of_sizes(getvariable('marginal'), getvariable('attainment'))
-- shows: rank, prefill_device, decode_device, plan, goodput, goodput_per_device, requests_per_usd, usd_per_1000_requests, usd_slower, requests_per_kwh, usd_per_hour, price_from
-- column: question_group, prefill_device, decode_device, goodput_per_device, requests_per_usd, usd_per_1000_requests, usd_slower, requests_per_kwh
-- column: attainment, combined, kv_transfer_gb_per_s, arrivals, prefill_scenario, decode_scenario
-- column: rank | none | 1 serves most requests per $; devices without a price come last
-- column: plan | none | instances and splits of both sides: of the fifty pairs that carry most, the cheapest of these devices
-- column: goodput | requests/s | of all instances together
-- column: usd_per_hour | USD/h | of all devices together
-- column: watts | W | of all devices together
-- column: price_from | ISO date | since when the prices are valid, of two the later
-- column: num_devices | devices | of both sides
WITH pairs AS MATERIALIZED (
    SELECT * FROM goodput_pairs(getvariable('marginal'), getvariable('attainment'), 50)
),
priced AS (
    SELECT
        pairs.*, p.device AS prefill_device, d.device AS decode_device, p.scenario AS prefill_scenario,
        d.scenario AS decode_scenario, p.arrivals,
        concat(prefill_instances, ' x ', p.plan, ' + ', decode_instances, ' x ', d.plan) AS plan,
        prefill_instances * p.num_devices AS prefill_devices, decode_instances * d.num_devices AS decode_devices,
        prefill_devices * a.usd_per_device_hour + decode_devices * b.usd_per_device_hour AS usd_per_hour,
        prefill_devices * a.watts_per_device + decode_devices * b.watts_per_device AS watts,
        greatest(a.effective_from, b.effective_from) AS price_from,
        goodput * 3600 / nullif(usd_per_hour, 0) AS requests_per_usd
    FROM pairs
    JOIN ladder AS p ON p.ladder = prefill_ladder
    JOIN ladder AS d ON d.ladder = decode_ladder
    LEFT JOIN valid_prices() AS a ON a.device_name = p.device
    LEFT JOIN valid_prices() AS b ON b.device_name = d.device
    WHERE goodput > 0
    QUALIFY row_number() OVER (
        PARTITION BY pairs.question_group, p.device, d.device
        ORDER BY requests_per_usd DESC NULLS LAST, goodput / devices_used DESC, prefill_ladder, decode_ladder
    ) = 1
),
ranked AS (
    SELECT
        priced.* EXCLUDE (rank),
        row_number() OVER (
            PARTITION BY question_group
            ORDER BY requests_per_usd DESC NULLS LAST, prefill_device, decode_device, prefill_ladder, decode_ladder
        ) AS rank
    FROM priced
    QUALIFY rank <= getvariable('top')
)
SELECT
    question_group, rank, prefill_device, decode_device, plan, goodput, goodput / devices_used AS goodput_per_device,
    requests_per_usd, 1000 / requests_per_usd AS usd_per_1000_requests,
    1000 / requests_per_usd * goodput / nullif(goodput_slower, 0) AS usd_slower,
    goodput * 3600000 / nullif(watts, 0) AS requests_per_kwh, usd_per_hour, watts, price_from,
    getvariable('attainment') AS attainment, devices_used AS num_devices, combined,
    getvariable('kv_transfer_bytes_per_s') / 1e9 AS kv_transfer_gb_per_s, arrivals, prefill_scenario, decode_scenario
FROM ranked
ORDER BY question_group, rank;
