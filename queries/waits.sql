-- The waits of a pair of prefill and decode instances under an engine, and whether it meets its limits. The formulas are those
-- of evaluator/serving/pairs.py, which says why; times in ms, rates in requests/ms.
-- Mean wait for a server that is busy a share `load` of the time (Pollaczek 1930, Khinchine 1932).
CREATE OR REPLACE TEMP MACRO queueing_ms(load, service_ms) AS 0.5 * load / (1.0 - load) * service_ms;

-- The wait behind the other users' prompts: of users = rate x time, one does not wait for itself.
CREATE OR REPLACE TEMP MACRO pair_wait_ms(rate, unqueued_ms, answer_ms, service_ms, servers) AS
    queueing_ms(
        greatest(rate * (unqueued_ms + answer_ms) - 1.0, 0.0) / (rate * (unqueued_ms + answer_ms))
            * (rate * service_ms / servers),
        service_ms
    );

-- The wait of first requests, which come all at once.
CREATE OR REPLACE TEMP MACRO pair_burst_ms(users, service_ms, servers) AS
    service_ms * greatest(0.5 * (users / servers - 1.0), 0.0);

-- The mean TTFT where `first_share` of the requests are first ones; only where rate x service < servers.
CREATE OR REPLACE TEMP MACRO pair_ttft_ms(rate, unqueued_ms, answer_ms, service_ms, servers, first_share) AS
    unqueued_ms + (1.0 - first_share) * pair_wait_ms(rate, unqueued_ms, answer_ms, service_ms, servers)
        + first_share * pair_burst_ms(
            rate * (unqueued_ms + pair_wait_ms(rate, unqueued_ms, answer_ms, service_ms, servers) + answer_ms),
            service_ms, servers
        );

-- The limit on the end-to-end time of pairs, where limits are read with a confidence: both parts of the time stay
-- within their own ratio of measured to predicted. It admits nothing where a ratio is not known.
CREATE OR REPLACE TEMP MACRO pair_e2e_limit_ms(answer_ms, answer_ratio, ttft_ratio) AS
    CASE
        WHEN getvariable('e2e_limit_ms') IS NULL OR (ttft_ratio = 1.0 AND answer_ratio = 1.0)
            THEN getvariable('e2e_limit_ms')
        ELSE coalesce((getvariable('e2e_limit_ms') - answer_ms * answer_ratio) / ttft_ratio + answer_ms, -1e300)
    END;

-- The longest TTFT of a pair within both limits; 1e300 where neither is given. It is a column of its rows: what tries counts
-- of instances compares with it, and would repeat what it is made of.
CREATE OR REPLACE TEMP MACRO pair_ttft_limit_ms(answer_ms, ttft_ratio, answer_ratio) AS
    least(
        coalesce(getvariable('ttft_limit_ms') / ttft_ratio, 1e300),
        coalesce(pair_e2e_limit_ms(answer_ms, answer_ratio, ttft_ratio), 1e300) - answer_ms
    );

-- Whether a pair keeps up and meets its limits. DuckDB evaluates every branch: no division by 0.
CREATE OR REPLACE TEMP MACRO pair_holds(rate, unqueued_ms, answer_ms, service_ms, servers, first_share, limit_ms) AS
    rate * service_ms < servers
    AND (
        limit_ms > 1e299
        OR pair_ttft_ms(rate, unqueued_ms, answer_ms, service_ms, servers, first_share) <= limit_ms
    );

-- The most requests/s that a prefill instance of a pair takes: no more than `qps`, and so few users that the wait of
-- first requests leaves the limit, were there no other wait.
CREATE OR REPLACE TEMP MACRO pair_qps_bound(
    qps, unqueued_ms, answer_ms, service_ms, servers, first_share, limit_ms
) AS
    greatest(1e-300, least(
        qps,
        1000.0 * servers / (unqueued_ms + answer_ms) * (
            1.0 + 2.0 * (limit_ms - unqueued_ms)
                / nullif(first_share * service_ms, 0)
        )
    ));
