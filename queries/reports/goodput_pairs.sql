-- name: goodput-pairs
-- summary: prefill and decode instances paired from loads of each side alone: counts with the highest rate at which the wanted share meets both limits
-- part of: goodput
-- reads: loads | best_of_sizes(getvariable('marginal'), getvariable('attainment'))
-- nearest: none
-- shows: rank, prefill_plan, decode_plan, prefill_instances, decode_instances, devices_used, goodput, goodput_slower, goodput_faster, goodput_per_device, goodput_least, goodput_most, combined, kv_transfer_ms, colocated_plan, colocated_goodput, advantage, said, arrivals
-- column: question_group | none | results are ranked within a group of model, workload, precision and convention
-- column: rank | none | 1 has the highest goodput within the device budget, without one the highest a device; ties go to the content keys
-- column: prefill_device | none | device of the prefill side
-- column: prefill_plan | none | label of its split
-- column: decode_device | none | device of the decode side
-- column: decode_plan | none | label of its split
-- column: prefill_instances | instances | within the budget; up to 8 without one
-- column: decode_instances | instances | as prefill_instances
-- column: devices_used | devices | by both sides
-- column: goodput | requests/s | of all of them: the share that both sides make (`combined`) reaches the wanted one, from sides played with arrivals of their own
-- column: goodput_slower | requests/s | if every step takes longer by the expected error of its side; NULL where nobody measured near
-- column: goodput_faster | requests/s | if every step is shorter by as much
-- column: goodput_per_device | requests/s | goodput / devices_used
-- column: goodput_least | requests/s | however the two times of a request depend on each other: both shares less 1
-- column: goodput_most | requests/s | if the same requests meet both: the smaller share; also each limit by itself
-- column: combined | none | how both sides make a share: shares multiplied, or requests joined by their number (bursts that keep every request)
-- column: kv_transfer_ms | ms | part of each TTFT: moving a prompt, and receiving the request on the decode side
-- column: colocated_plan | none | best plan that does both, of the same group and stream; NULL where none was played
-- column: colocated_goodput | requests/s | of its copies on as many devices
-- column: advantage | ratio | goodput / colocated_goodput: above 1 separation pays
-- column: said | none | separation pays, or does not; below the lowest rate played of a side; >= X: the highest, so that it may pay
-- column: attainment | ratio | share of requests that is wanted
-- column: kv_transfer_gb_per_s | GB/s | between instances, as it was given; NULL: the outermost link of the devices that hold a prompt
-- column: arrivals | none | process, requests and seed
-- column: prefill_scenario | none | content key of the prefill side
-- column: decode_scenario | none | content key of the decode side
-- column: prefill_settings | sha256 | content key of what its loads have in common
-- column: decode_settings | sha256 | that of the decode side
-- column: colocated_settings | sha256 | that of the plan that does both
-- column: colocated_instances | instances | its copies on as many devices
WITH ranked AS MATERIALIZED (
    SELECT * FROM goodput_pairs(getvariable('marginal'), getvariable('attainment'), getvariable('top'))
),
-- Of plans that do both, the goodput of one instance.
together AS (
    SELECT ladder, goodput
    FROM goodputs('aggregated', getvariable('marginal'), getvariable('attainment'))
    WHERE reading = 'predicted'
),
asked AS (
    SELECT DISTINCT ranked.question_group, stream, devices_used
    FROM ranked JOIN ladder ON ladder.ladder = prefill_ladder
),
beside AS (
    SELECT
        question_group, stream, devices_used, ladder, plan, settings_key,
        floor(devices_used / num_devices)::INTEGER AS colocated_instances, colocated_instances * goodput AS colocated_goodput
    FROM asked JOIN ladder USING (question_group, stream) JOIN together USING (ladder)
    QUALIFY row_number() OVER (
        PARTITION BY question_group, stream, devices_used ORDER BY colocated_goodput DESC NULLS LAST, ladder
    ) = 1
)
SELECT
    ranked.question_group, ranked.rank, p.device AS prefill_device, p.plan AS prefill_plan, d.device AS decode_device,
    d.plan AS decode_plan, prefill_instances, decode_instances, ranked.devices_used, nullif(ranked.goodput, 0) AS goodput,
    goodput_slower, goodput_faster, nullif(ranked.goodput, 0) / ranked.devices_used AS goodput_per_device, goodput_least,
    most AS goodput_most, combined, moved.beside_ms AS kv_transfer_ms, beside.plan AS colocated_plan, colocated_goodput,
    nullif(ranked.goodput, 0) / nullif(colocated_goodput, 0) AS advantage,
    CASE
        WHEN ranked.goodput = 0 THEN 'below the lowest rate played'
        WHEN ranked.goodput > colocated_goodput THEN 'separation pays'
        WHEN ranked.goodput >= least(prefill_instances * moved.highest, decode_instances * received.highest) * (1 - 1e-9)
            THEN format('>= {:.4g}, the highest rate played of a side', ranked.goodput)
        WHEN colocated_goodput IS NOT NULL THEN 'separation does not pay'
    END AS said,
    getvariable('attainment') AS attainment, getvariable('kv_transfer_bytes_per_s') / 1e9 AS kv_transfer_gb_per_s,
    p.arrivals, p.scenario AS prefill_scenario, d.scenario AS decode_scenario, p.settings_key AS prefill_settings,
    d.settings_key AS decode_settings, beside.settings_key AS colocated_settings, colocated_instances
FROM ranked
JOIN ladder AS p ON p.ladder = prefill_ladder
JOIN ladder AS d ON d.ladder = decode_ladder
JOIN (
    SELECT ladder, any_value(beside_ms) AS beside_ms, max(arrivals_per_s) AS highest FROM played GROUP BY ladder
) AS moved ON moved.ladder = prefill_ladder
JOIN (SELECT ladder, max(arrivals_per_s) AS highest FROM played GROUP BY ladder) AS received
    ON received.ladder = decode_ladder
LEFT JOIN beside ON beside.question_group = ranked.question_group AND beside.stream = p.stream
    AND beside.devices_used = ranked.devices_used
ORDER BY ranked.question_group, ranked.rank;
