-- name: goodput-cost-pairs
-- summary: the cheapest prefill and decode instances of each two devices by the prices entered: requests within the limits per $ and per kWh
-- part of: goodput-cost
-- reads: loads | best_of_sizes(getvariable('marginal'), getvariable('attainment'))
-- nearest: none
-- shows: rank, prefill_device, decode_device, plan, goodput, goodput_per_device, requests_per_usd, usd_per_1000_requests, usd_slower, requests_per_kwh, usd_per_hour, price_from
-- column: question_group | none | group of model, workload, precision and convention
-- column: rank | none | 1 serves most requests per $; devices without a price come last
-- column: prefill_device | none | of the prefill side
-- column: decode_device | none | of the decode side
-- column: plan | none | instances and splits of both sides: of the fifty pairs that carry most, the cheapest of these devices
-- column: goodput | requests/s | of all instances together
-- column: goodput_per_device | requests/s | goodput / num_devices
-- column: requests_per_usd | requests/USD | at goodput
-- column: usd_per_1000_requests | USD | at goodput
-- column: usd_slower | USD | of 1,000 requests if every step takes longer by the expected error; NULL where nobody measured near
-- column: requests_per_kwh | requests/kWh | by the watts of the devices alone
-- column: usd_per_hour | USD/h | of all devices together
-- column: watts | W | of all devices together
-- column: price_from | ISO date | since when the prices are valid, of two the later
-- column: attainment | ratio | share of requests that is wanted
-- column: num_devices | devices | of both sides
-- column: combined | none | how both sides make a share: shares multiplied, or requests joined by their number (bursts that keep every request)
-- column: kv_transfer_gb_per_s | GB/s | between instances, as it was given; NULL: the outermost link of the devices that hold a prompt
-- column: arrivals | none | process, requests and seed
-- column: prefill_scenario | none | content key of the prefill side
-- column: decode_scenario | none | content key of the decode side
WITH valid_price AS (
    SELECT device_name, effective_from, usd_per_device_hour, watts_per_device
    FROM price
    WHERE getvariable('price_date') IS NULL OR effective_from <= getvariable('price_date')
    QUALIFY row_number() OVER (PARTITION BY device_name ORDER BY effective_from DESC) = 1
),
pairs AS MATERIALIZED (
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
    LEFT JOIN valid_price AS a ON a.device_name = p.device
    LEFT JOIN valid_price AS b ON b.device_name = d.device
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
