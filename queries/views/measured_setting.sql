-- summary: measured points by what was run: one row a setting, with the median of its repeated runs and how far they spread
-- column: runs | none | measured points of this setting; each stays a row of measurement
-- column: ttft_ms | ms | time to first token, median of the runs
-- column: ttft_spread | ratio | standard deviation of the runs over their mean; NULL of one run
-- column: tpot_exclusive_ms | ms | time between tokens after the first, median of the runs
-- column: tpot_spread | ratio | standard deviation of the runs over their mean; NULL of one run
-- column: output_tokens_per_s | tokens/s | generated tokens a second of the whole deployment, median of the runs
-- column: output_spread | ratio | standard deviation of the runs over their mean; NULL of one run
-- column: e2e_ms | ms | arrival to last token, median of the runs
-- column: requests_per_s | requests/s | finished requests a second of the whole deployment, median of the runs
-- column: failed_requests | requests | requests that got no answer, of all runs
-- column: first_measured_at | UTC | the oldest run that says when it was measured
-- column: last_measured_at | UTC | the newest run that says when it was measured
-- column: last_imported_at | UTC | when the newest of its runs was imported
-- column: measurements | sha256 | content keys of the runs, in the order of keys
-- column: first_measurement | sha256 | content key of one of the runs: the first of them in the order of keys
CREATE OR REPLACE VIEW measured_setting AS
SELECT
    model,
    device,
    engine,
    engine_version,
    mode,
    precision,
    kv_precision,
    num_devices,
    prefill_instances,
    prefill_tp,
    decode_instances,
    decode_tp,
    decode_pp,
    decode_dp,
    decode_ep,
    input_length,
    output_length,
    concurrency,
    request_rate,
    count(*) AS runs,
    median(ttft_ms) AS ttft_ms,
    stddev_samp(ttft_ms) / avg(ttft_ms) AS ttft_spread,
    median(tpot_exclusive_ms) AS tpot_exclusive_ms,
    stddev_samp(tpot_exclusive_ms) / avg(tpot_exclusive_ms) AS tpot_spread,
    median(output_tokens_per_s) AS output_tokens_per_s,
    stddev_samp(output_tokens_per_s) / avg(output_tokens_per_s) AS output_spread,
    median(e2e_ms) AS e2e_ms,
    median(requests_per_s) AS requests_per_s,
    sum(failed_requests) AS failed_requests,
    min(measured_at) AS first_measured_at,
    max(measured_at) AS last_measured_at,
    max(imported_at) AS last_imported_at,
    list(key ORDER BY key) AS measurements,
    min(key) AS first_measurement
FROM measurement
WHERE family = 'measured'
GROUP BY ALL;
