-- name: attainment
-- summary: the share of requests that meets the limits at every rate that was played
-- modes: aggregated, prefill, decode
-- reads: loads | ladder
-- variant: attainment-scale | scale
-- nearest: none
-- layout: long
-- shows: device, plan, arrivals_per_s, load_share, attained, half_width, ttft_attained, tpot_attained, tbt_attained if tbt_limits, load_status, load
-- column: question_group | none | group of model, workload, precision and convention
-- column: device | none | device by name
-- column: plan | none | label of the split
-- column: arrivals_per_s | requests/s | offered to one instance
-- column: load_share | ratio | arrivals_per_s over the instance's saturation
-- column: attained | ratio | share of requests within both limits, or within the limit that fewer meet
-- column: half_width | ratio | half of the 95 % interval of the joint share, from five batches of requests
-- column: ttft_attained | ratio | share within the limit of TTFT
-- column: tpot_attained | ratio | share within the limit of TPOT
-- column: tbt_attained | ratio | share of times between tokens within their limit; 1 without one
-- column: load_status | none | stable or saturated
-- column: in_flight | requests | mean number in one instance
-- column: process | none | how requests arrive
-- column: settings_key | sha256 | content key of all of that but the rate
-- column: load | none | reference of the row
SELECT
    question_group, ladder.device, ladder.plan, shares.arrivals_per_s, load_share, share AS attained, half_width,
    share_ttft AS ttft_attained, share_tpot AS tpot_attained, share_tbt AS tbt_attained, load_status, in_flight, ladder.process, ladder.settings_key, load
FROM load_shares(getvariable('wanted_phase'), getvariable('marginal')) AS shares
JOIN ladder USING (ladder)
JOIN load ON load.load_id = shares.load_id
WHERE reading = 'predicted'
ORDER BY question_group, ladder.device, ladder.plan, ladder.settings_key, shares.arrivals_per_s, shares.load_id;
