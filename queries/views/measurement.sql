-- summary: measured serving points; their family says that nothing of ours predicted them
-- column: family | none | measured, or predicted elsewhere: what another program printed; never theoretical or calibrated
-- column: ttft_ms | ms | time to first token, queueing included: the mean where the source has it, else its median
-- column: tpot_exclusive_ms | ms | time between tokens after the first: the mean where the source has it, else its median
-- column: e2e_ms | ms | arrival to last token: the mean where the source has it, else its median
-- column: output_tokens_per_s | tokens/s | generated tokens a second of the whole deployment
-- column: requests_per_s | requests/s | finished requests a second of the whole deployment
-- column: server_failed | none | why a server gave no numbers: it did not start, ran out of memory or crashed; NULL for a measured point
CREATE OR REPLACE VIEW measurement AS
SELECT
    stored.*,
    CASE WHEN contains(definitions, 'predicted by') THEN 'predicted elsewhere' ELSE 'measured' END AS family,
    CAST(coalesce(metrics ->> '$.ttft_ms_mean', metrics ->> '$.ttft_ms_p50') AS DOUBLE) AS ttft_ms,
    CAST(coalesce(metrics ->> '$.tpot_exclusive_ms_mean', metrics ->> '$.tpot_exclusive_ms_p50') AS DOUBLE)
        AS tpot_exclusive_ms,
    CAST(coalesce(metrics ->> '$.e2e_ms_mean', metrics ->> '$.e2e_ms_p50') AS DOUBLE) AS e2e_ms,
    CAST(metrics ->> '$.output_tokens_per_s' AS DOUBLE) AS output_tokens_per_s,
    CAST(metrics ->> '$.requests_per_s' AS DOUBLE) AS requests_per_s,
    extra ->> '$.server_failed' AS server_failed
FROM raw.measurement AS stored;
