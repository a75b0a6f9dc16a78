-- By how much prompts took longer than predicted, of runs whose prefill and decode instances are apart (waits.sql): `factor` is
-- the one at which a pair with prompts as much longer has the measured TTFT at the measured rate. `apart_run` holds the runs.
-- Between 1/32 and 32 times, halved until it is known to a millionth.
WITH RECURSIVE
outermost AS (
    SELECT key, any_value(string_split(link_bandwidths, ' | ')[1])::DOUBLE AS link_bytes_per_s FROM device GROUP BY key
),
observed AS (
    SELECT
        number, run.ttft_ms, answer_ms, rate, instances * dp AS servers, slot_wait_ms,
        mean_length(shortest_length) * makespan_ms + 2 * (prompts.ttft_ms - makespan_ms) AS lone_ms,
        mean_length(shortest_length) * prompt_service_ms AS service_ms,
        mean_length(shortest_length) * 1000.0 * kv_bytes_per_request
            / (tp * pp * moving_bytes_per_s(link_bytes_per_s)) AS transfer_ms,
        1.0 / coalesce(run.prompts_per_user, prompts.prompts_per_user, 10) AS first_share
    FROM apart_run AS run
    JOIN main.probe AS prompts ON prompts.scenario_id = run.scenario_id AND batch_size = 1
    JOIN outermost ON outermost.key = device_key
    WHERE prompt_service_ms > 0
),
halved AS (
    SELECT *, ln(1 / 32) AS low, ln(32) AS high, 0 AS times FROM observed
    UNION ALL
    SELECT
        * EXCLUDE (longer) REPLACE (
            CASE WHEN longer THEN low ELSE (low + high) / 2 END AS low,
            CASE WHEN longer THEN (low + high) / 2 ELSE high END AS high, times + 1 AS times
        )
    FROM (
        SELECT
            *, rate * exp((low + high) / 2) * service_ms >= servers OR pair_ttft_ms(
                rate, exp((low + high) / 2) * lone_ms + transfer_ms + slot_wait_ms, answer_ms,
                exp((low + high) / 2) * service_ms, servers, first_share
            ) > ttft_ms AS longer
        FROM halved
        WHERE times < 23
    )
)
SELECT number, (low + high) / 2 AS factor FROM halved WHERE times = 23 ORDER BY number;
