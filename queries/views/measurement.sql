-- summary: measured serving points; their family says that nothing of ours predicted them
-- column: family | none | measured, or predicted elsewhere: what another program printed; never theoretical or calibrated
-- column: ttft_ms | ms | time to first token, queueing included: the mean where the source has it, else its median
-- column: tpot_exclusive_ms | ms | time between tokens after the first: the mean where the source has it, else its median
-- column: e2e_ms | ms | arrival to last token: the mean where the source has it, else its median
-- column: output_tokens_per_s | tokens/s | generated tokens a second of the whole deployment
-- column: requests_per_s | requests/s | finished requests a second of the whole deployment
-- column: server_failed | none | why a server gave no numbers: it did not start, ran out of memory or crashed; NULL for a measured point
CREATE OR REPLACE VIEW measurement AS
WITH stored AS (
    -- one path at a time reads the text once for each
    SELECT *, CAST(json_extract_string(metrics, [
        '$.ttft_ms_mean', '$.ttft_ms_p50', '$.tpot_exclusive_ms_mean', '$.tpot_exclusive_ms_p50', '$.e2e_ms_mean',
        '$.e2e_ms_p50', '$.output_tokens_per_s', '$.requests_per_s'
    ]) AS DOUBLE[]) AS told
    FROM raw.measurement
)
SELECT
    * EXCLUDE (told),
    CASE WHEN contains(definitions, 'predicted by') THEN 'predicted elsewhere' ELSE 'measured' END AS family,
    coalesce(told[1], told[2]) AS ttft_ms,
    coalesce(told[3], told[4]) AS tpot_exclusive_ms,
    coalesce(told[5], told[6]) AS e2e_ms,
    told[7] AS output_tokens_per_s,
    told[8] AS requests_per_s,
    extra ->> '$.server_failed' AS server_failed
FROM stored;
