-- summary: every request of each load that keeps them (evaluate --keep-requests), in the order of arrival
-- column: load_id | none | integer key of the load
-- column: number | none | of the request: the same one at every rate and of every plan that was simulated with the stream
-- column: arrived_ms | ms | since the simulation began
-- column: prompt_tokens | tokens | of the prompt
-- column: answer_tokens | tokens | of the answer
-- column: ttft_ms | ms | time to the first token, outside_ms of its load in it; NULL: rejected
-- column: tpot_ms | ms | time per output token after the first; NULL: rejected
-- column: worst_gap_ms | ms | longest time between two of its tokens, that of being preempted among them; NULL: rejected
-- column: rejected | none | whether it was turned away
-- column: preempted | times | that it lost its keys
CREATE OR REPLACE VIEW load_request AS
SELECT
    load.load_id, number, arrival_us / 1000 AS arrived_ms, prompt AS prompt_tokens, answer AS answer_tokens,
    CASE WHEN ttft_us >= 0 THEN ttft_us / 1000 + load.outside_ms END AS ttft_ms,
    CASE WHEN ttft_us >= 0 THEN tpot_us / 1000 END AS tpot_ms,
    CASE WHEN ttft_us >= 0 THEN worst_gap_us / 1000 END AS worst_gap_ms,
    ttft_us < 0 AS rejected, raw.load_request.preempted
FROM raw.load_request
JOIN load ON load.load_id = raw.load_request.load_id;
