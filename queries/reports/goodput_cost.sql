-- name: goodput-cost
-- summary: the cheapest plan of each device by the prices entered: requests within the limits per $ and per kWh, and break-even price
-- modes: aggregated, pd
-- answered by: goodput-cost-pairs | split
-- reads: loads | best_of_devices(getvariable('marginal'), getvariable('attainment'))
-- nearest: none
-- shows: rank, device, plan, goodput, goodput_per_device, requests_per_usd, usd_per_1000_requests, usd_slower, requests_per_kwh, break_even_usd_per_device_hour, usd_per_device_hour, price_from
-- column: question_group | none | group of model, workload, precision and convention
-- column: rank | none | 1 serves most requests per $; devices without a price come last
-- column: device | none | device by name
-- column: plan | none | the split that carries most requests a device
-- column: goodput | requests/s | of one instance: highest rate before the first at which the share is too small
-- column: goodput_per_device | requests/s | goodput / devices of the instance
-- column: requests_per_usd | requests/USD | at goodput
-- column: usd_per_1000_requests | USD | at goodput
-- column: usd_slower | USD | of 1,000 requests if every step takes longer by the expected error; NULL where nobody measured near
-- column: requests_per_kwh | requests/kWh | by the watts of the devices alone
-- column: break_even_usd_per_device_hour | USD/h | price at which it equals the cheapest other device
-- column: usd_per_device_hour | USD/h | price used
-- column: watts_per_device | W | power used
-- column: price_from | ISO date | since when the price is valid
-- column: attainment | ratio | share of requests that is wanted
-- column: num_devices | devices | of one instance
-- column: arrivals | none | process, requests and seed
-- column: scenario | none | content key of the scenario
WITH carried AS (
    SELECT
        ladder, max(goodput) FILTER (WHERE reading = 'predicted') AS goodput,
        max(goodput) FILTER (WHERE reading = 'slower') AS goodput_slower
    FROM goodputs('aggregated', getvariable('marginal'), getvariable('attainment'))
    GROUP BY ladder
),
winners AS (
    SELECT carried.*, question_group, device, num_devices, goodput / num_devices AS goodput_per_device
    FROM carried
    JOIN ladder USING (ladder)
    WHERE goodput > 0
    QUALIFY row_number() OVER (PARTITION BY question_group, device ORDER BY goodput_per_device DESC, ladder) = 1
),
valid_price AS (
    SELECT device_name, effective_from, usd_per_device_hour, watts_per_device
    FROM price
    WHERE getvariable('price_date') IS NULL OR effective_from <= getvariable('price_date')
    QUALIFY row_number() OVER (PARTITION BY device_name ORDER BY effective_from DESC) = 1
),
priced AS (
    SELECT
        winners.*, effective_from AS price_from, usd_per_device_hour, watts_per_device,
        goodput_per_device * 3600 / nullif(usd_per_device_hour, 0) AS requests_per_usd,
        goodput_per_device * 3600000 / nullif(watts_per_device, 0) AS requests_per_kwh
    FROM winners
    LEFT JOIN valid_price ON device_name = device
),
others AS (
    SELECT a.question_group, a.device, max(b.requests_per_usd) AS best_other
    FROM priced AS a
    JOIN priced AS b ON b.question_group = a.question_group AND b.device <> a.device
    GROUP BY a.question_group, a.device
),
ranked AS (
    SELECT
        priced.*, goodput_per_device * 3600 / best_other AS break_even_usd_per_device_hour,
        row_number() OVER (
            PARTITION BY priced.question_group ORDER BY requests_per_usd DESC NULLS LAST, priced.device, ladder
        ) AS rank
    FROM priced
    LEFT JOIN others ON others.question_group = priced.question_group AND others.device = priced.device
    QUALIFY rank <= getvariable('top')
)
SELECT
    ranked.question_group, rank, ranked.device, plan, goodput, goodput_per_device, requests_per_usd,
    1000 / requests_per_usd AS usd_per_1000_requests, 1000 / requests_per_usd * goodput / goodput_slower AS usd_slower,
    requests_per_kwh, break_even_usd_per_device_hour, usd_per_device_hour, watts_per_device, price_from,
    getvariable('attainment') AS attainment, ranked.num_devices, arrivals, scenario
FROM ranked
JOIN ladder USING (ladder)
ORDER BY ranked.question_group, rank;
