-- summary: the best batch size of each aggregated plan under the limits, ranked by generated tokens/s, per device where sizes differ
-- needs: aggregated
-- shows: rank, device, plan, batch_size, concurrency, output_tokens_per_s, output_tokens_per_s_per_device if sized, instances if num_devices, system_output_tokens_per_s if num_devices, ttft_ms, tpot_ms, num_devices, memory_free_gib, launchable, e2e_ms if e2e_limit or ttft_intervals, tokens_per_s_per_user if min_tokens_per_s_per_user, probe
-- refuses: mode | ask sweepdb query prefill, decode or pd-ratio
-- reads: narrow, winners, measured
-- column: question_group, rank, ranked_by, output_tokens_per_s_per_device, instances, devices_used, system_output_tokens_per_s, requests_per_s
-- column: tpot_ms, memory_free_bytes
-- column: output_tokens_per_s | tokens/s | generated tokens of one instance, as throughput_rule counts them
SELECT instances.*
FROM best_instances('aggregated') AS instances
ORDER BY instances.question_group, instances.rank;

-- when: by | best by goodput
-- summary: the highest rate of requests that arrive at which the wanted share meets the limits, for each plan that was simulated
-- modes: aggregated, prefill, decode, pd
-- reads: loads | promising(getvariable('wanted_phase'), getvariable('marginal'), getvariable('attainment'))
-- verdict: separation
-- shows: rank, device, plan, instances if num_devices, goodput, goodput_low, goodput_high, goodput_slower, goodput_faster, goodput_per_device, system_goodput if num_devices, binding_limit, ttft_p90_ms, tpot_p90_ms, said, num_devices, load
-- column: question_group, device, plan, phase, goodput_low, goodput_high, goodput_slower, goodput_faster, goodput_per_device, instances, attainment
-- column: num_devices, arrivals, scenario
-- column: rank | none | 1 has the highest goodput a device, or of the budget; ties go to the content key
-- column: goodput | requests/s | of one instance: highest rate before the first at which the share is too small, between neighbours on a line in the logit of the share; NULL where the lowest simulated has too small a share
-- column: step_error | ratio | expected error of step times: median of the nearest measurements
-- column: system_goodput | requests/s | of all copies
-- column: binding_limit | none | limit that fewer requests meet at the first rate with too small a share: ttft, tpot, or tbt
-- column: ttft_p50_ms | ms | median at the highest rate simulated that is not above goodput
-- column: ttft_p90_ms | ms | 90th percentile there
-- column: ttft_p99_ms | ms | 99th percentile there
-- column: tpot_p50_ms | ms | median after the first token, there
-- column: tpot_p90_ms | ms | 90th percentile there
-- column: tpot_p99_ms | ms | 99th percentile there
-- column: said | none | >= X: the highest rate simulated, goodput may be higher; saturated at the lowest rate, or below it: it is lower; not monotone: a higher rate meets the share again
-- column: max_num_seqs | requests | most that a replica serves at once
-- column: kv_admission | none | current or reserved
-- column: dispatch | none | random or least
-- column: load | none | load that the percentiles are of
WITH ranked AS (
    SELECT
        *, row_number() OVER (
            PARTITION BY question_group ORDER BY ladder_worth(goodput, num_devices) DESC NULLS LAST, ladder
        ) AS rank
    FROM carried(getvariable('wanted_phase'))
    QUALIFY rank <= getvariable('top')
),
placed AS MATERIALIZED (
    -- The load at or below goodput, else the lowest.
    SELECT
        ranked.*, coalesce(
            max_by(load_id, arrivals_per_s) FILTER (WHERE arrivals_per_s <= goodput), min_by(load_id, arrivals_per_s)
        ) AS load_id
    FROM ranked
    JOIN played USING (ladder)
    GROUP BY ALL
)
SELECT
    question_group, rank, device, plan, phase,
    floor(getvariable('num_devices') / num_devices)::INTEGER AS instances, goodput, goodput_low, goodput_high,
    goodput_slower, goodput_faster, step_error, goodput / num_devices AS goodput_per_device,
    floor(getvariable('num_devices') / num_devices) * goodput AS system_goodput, getvariable('attainment') AS attainment,
    binding_limit, ttft_p50_ms, ttft_p90_ms, ttft_p99_ms, tpot_p50_ms, tpot_p90_ms, tpot_p99_ms,
    CASE
        WHEN binding_limit = 'ttft' AND goodput IS NULL AND ttft_p50_ms > getvariable('ttft_limit_ms')
            THEN format('saturated at the lowest rate: a lone request takes {:.3g} ms to its first token', ttft_p50_ms)
        WHEN binding_limit = 'tpot' AND goodput IS NULL AND tpot_p50_ms > getvariable('tpot_limit_ms')
            THEN format('saturated at the lowest rate: a lone request takes {:.3g} ms a token', tpot_p50_ms)
        WHEN goodput IS NULL THEN 'below the lowest rate simulated'
        WHEN at_least THEN format('>= {:.4g}, the highest rate simulated', goodput)
        WHEN recrosses THEN 'not monotone'
    END AS said,
    num_devices, arrivals, seats AS max_num_seqs, kv_admission, dispatch, load, scenario
FROM placed
JOIN (SELECT DISTINCT load_id, load FROM played) AS named USING (load_id)
LEFT JOIN load_percentiles((SELECT list(load_id) FROM placed)) AS percentiles ON percentiles.load_id = placed.load_id
ORDER BY question_group, rank;

-- when: split | best by goodput, pairs
-- summary: prefill and decode instances paired from loads of each side alone: counts with the highest rate at which the wanted share meets both limits
-- reads: loads | best_of_sizes(getvariable('marginal'), getvariable('attainment'))
-- shows: rank, prefill_plan, decode_plan, prefill_instances, decode_instances, devices_used, goodput, goodput_slower, goodput_faster, goodput_per_device, goodput_least, goodput_most, combined, kv_transfer_ms, colocated_plan, colocated_goodput, advantage, said, arrivals
-- column: question_group, prefill_device, prefill_plan, decode_device, decode_plan, devices_used, goodput_faster, combined, attainment
-- column: kv_transfer_gb_per_s, arrivals, prefill_scenario, decode_scenario
-- column: rank | none | 1 has the highest goodput within the device budget, without one the highest a device; ties go to the content keys
-- column: prefill_instances | instances | within the budget; up to 8 without one
-- column: decode_instances | instances | as prefill_instances
-- column: goodput | requests/s | of all of them: the share that both sides make (`combined`) reaches the wanted one, from sides simulated with arrivals of their own
-- column: goodput_slower | requests/s | if every step takes longer by the expected error of its side; NULL where nobody measured near
-- column: goodput_per_device | requests/s | goodput / devices_used
-- column: goodput_least | requests/s | however the two times of a request depend on each other: both shares less 1
-- column: goodput_most | requests/s | if the same requests meet both: the smaller share; also each limit by itself
-- column: kv_transfer_ms | ms | part of each TTFT: moving a prompt, and receiving the request on the decode side
-- column: colocated_plan | none | best plan that does both, of the same group and stream; NULL where none was simulated
-- column: colocated_goodput | requests/s | of its copies on as many devices
-- column: advantage | ratio | goodput / colocated_goodput: above 1 separation pays
-- column: said | none | separation pays, or does not; below the lowest rate simulated of a side; >= X: the highest, so that it may pay
-- column: prefill_settings | sha256 | content key of what its loads have in common
-- column: decode_settings | sha256 | that of the decode side
-- column: colocated_settings | sha256 | that of the plan that does both
-- column: colocated_instances | instances | its copies on as many devices
WITH ranked AS MATERIALIZED (
    SELECT * FROM goodput_pairs(getvariable('marginal'), getvariable('attainment'), getvariable('top'))
),
asked AS (
    SELECT DISTINCT ranked.question_group, stream, devices_used
    FROM ranked JOIN ladder ON ladder.ladder = prefill_ladder
),
beside AS (
    SELECT
        question_group, stream, devices_used, ladder, plan, settings_key,
        floor(devices_used / num_devices)::INTEGER AS colocated_instances, colocated_instances * goodput AS colocated_goodput
    FROM asked JOIN carried('aggregated') USING (question_group, stream)
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
        WHEN ranked.goodput = 0 THEN 'below the lowest rate simulated'
        WHEN ranked.goodput > colocated_goodput THEN 'separation pays'
        WHEN ranked.goodput >= least(prefill_instances * moved.highest, decode_instances * received.highest) * (1 - 1e-9)
            THEN format('>= {:.4g}, the highest rate simulated of a side', ranked.goodput)
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
