-- summary: scenarios simulated at rates of requests that arrive, a row a rate; voided scenarios are left out
-- column: load | none | short reference of the row
-- column: load_id | none | integer key of the load
-- column: plan | none | label of the split: tp8pp1dp1, with the expert split where there is one
-- column: load_share | ratio | arrivals_per_s / saturation_per_s
-- column: ttft_mean_ms | ms | mean time to the first token, outside_ms in it
-- column: stream | none | short content key of the stream of requests
-- column: process | none | how requests arrive
-- column: arrival_requests | requests | how many arrived
-- column: max_num_seqs | requests | most that a replica serves at once
-- column: play_seats | requests | old name of max_num_seqs, gone with the next release
-- column: hit_rate | ratio | of prompt tokens that a prefix cache held; NULL: no cache was simulated
-- column: prefill_policy | none | random, load, cache or mooncake; NULL: no pool was simulated
-- column: scenario_id | none | integer key of the scenario
CREATE OR REPLACE VIEW load AS
SELECT
    left(raw.load.key, 8) AS load, raw.scenario.scenario, raw.scenario.subject, raw.scenario.model,
    raw.scenario.device, raw.scenario.phase, raw.scenario.workload, raw.scenario.serving_model,
    {plan_label} AS plan,
    raw.scenario.num_devices, raw.scenario.formula_version,
    left(raw.arrival.key, 8) AS stream, raw.arrival.process, raw.arrival.cv, raw.arrival.seed, raw.arrival.requests AS arrival_requests,
    raw.load.arrivals_per_s, raw.load.saturation_per_s,
    raw.load.arrivals_per_s / raw.load.saturation_per_s AS load_share,
    raw.load.play_seats AS max_num_seqs, raw.load.play_seats, raw.load.kv_tokens, raw.load.kv_admission, raw.load.dispatch, raw.load.reject_ms, raw.load.reject_tbt_ms,
    raw.load.counted_requests, raw.load.rejected, raw.load.preempted, raw.load.load_status, raw.load.in_flight,
    raw.load.busy_share, raw.load.generated_per_s, raw.load.ttft_mean_ms + raw.load.outside_ms AS ttft_mean_ms,
    raw.load.load_tpot_mean_ms, raw.load.outside_ms, raw.load.hit_rate, raw.load.prefill_policy, raw.load.pool_instances,
    raw.load.cache_blocks, raw.load.balance_threshold, raw.load.rejected_prompt_share,
    raw.load.trace_caches, raw.load.device_prefix_share, raw.load.host_prefix_share, raw.load.ssd_prefix_share,
    raw.load.remote_prefix_share, raw.load.settings_key, raw.load.created_at,
    raw.load.id AS load_id, raw.load.scenario_id
FROM raw.load
JOIN raw.scenario ON raw.scenario.scenario_id = raw.load.scenario_id
JOIN raw.arrival ON raw.arrival.id = raw.load.arrival_id
WHERE NOT raw.scenario.voided;
