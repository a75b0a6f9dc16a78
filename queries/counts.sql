-- Whole numbers of instances by arithmetic: how many of each side a budget holds or a rate takes. Nothing here lists every
-- number, so an answer about 100,000 devices takes as long as one about 100. Rates in requests/s, of one instance.
-- The smallest whole number of instances that carries a rate; the quotient may be off by one, the products decide.
CREATE OR REPLACE TEMP MACRO least_count(qps, target_qps) AS
    CASE
        WHEN ceil(target_qps / qps) > 1 AND (ceil(target_qps / qps) - 1) * qps >= target_qps
            THEN ceil(target_qps / qps)::BIGINT - 1
        WHEN ceil(target_qps / qps) * qps >= target_qps THEN greatest(ceil(target_qps / qps)::BIGINT, 1)
        ELSE ceil(target_qps / qps)::BIGINT + 1
    END;

-- Of so many instances of two sides, those that are needed: the fewest of either side that keep up with the other.
CREATE OR REPLACE TEMP MACRO needed_prefills(prefills, decodes, prefill_requests_per_s, decode_requests_per_s) AS
    CASE
        WHEN prefills * prefill_requests_per_s <= decodes * decode_requests_per_s THEN prefills
        ELSE least_count(prefill_requests_per_s, decodes * decode_requests_per_s)
    END;
CREATE OR REPLACE TEMP MACRO needed_decodes(prefills, decodes, prefill_requests_per_s, decode_requests_per_s) AS
    CASE
        WHEN prefills * prefill_requests_per_s <= decodes * decode_requests_per_s THEN least_count(decode_requests_per_s, prefills * prefill_requests_per_s)
        ELSE decodes
    END;

-- What two sides would carry if instances could be divided.
CREATE OR REPLACE TEMP MACRO divided_qps(devices, prefill_size, decode_size, prefill_requests_per_s, decode_requests_per_s) AS
    devices / (prefill_size / prefill_requests_per_s + decode_size / decode_requests_per_s);

-- Whole numbers of both sides around the place where they carry the same, where the best within so many devices lie: some of
-- either side, and of the other what there is room for. `exact` leaves no device idle, so only every few numbers do.
CREATE OR REPLACE TEMP MACRO next_to(place, least, most) AS
    [least(greatest(place + beside, least), most) FOR beside IN [-2, -1, 0, 1, 2]];
CREATE OR REPLACE TEMP MACRO counts_around(devices, prefill_size, decode_size, prefill_requests_per_s, decode_requests_per_s) AS
    [{'prefills': x, 'decodes': (devices - x * prefill_size) // decode_size} FOR x IN next_to(
        floor(divided_qps(devices, prefill_size, decode_size, prefill_requests_per_s, decode_requests_per_s) / prefill_requests_per_s)::BIGINT, 1,
        (devices - decode_size) // prefill_size
    )] || [{'prefills': (devices - y * decode_size) // prefill_size, 'decodes': y} FOR y IN next_to(
        floor(divided_qps(devices, prefill_size, decode_size, prefill_requests_per_s, decode_requests_per_s) / decode_requests_per_s)::BIGINT, 1,
        (devices - prefill_size) // decode_size
    )];
CREATE OR REPLACE TEMP MACRO exact_counts(devices, prefill_size, decode_size, prefill_requests_per_s, decode_requests_per_s) AS
    flatten([
        [{'prefills': first + (decode_size // gcd(prefill_size, decode_size)) * turn, 'decodes': (devices - (first + (decode_size // gcd(prefill_size, decode_size)) * turn) * prefill_size) // decode_size}
            FOR turn IN next_to(
                floor(
                    (divided_qps(devices, prefill_size, decode_size, prefill_requests_per_s, decode_requests_per_s) / prefill_requests_per_s - first) / (decode_size // gcd(prefill_size, decode_size))
                )::BIGINT, 0, ((devices - decode_size) // prefill_size - first) // (decode_size // gcd(prefill_size, decode_size))
            )]
        FOR first IN range(1, least(decode_size, (devices - decode_size) // prefill_size) + 1)
        IF (devices - first * prefill_size) % decode_size = 0
    ][:1]);

-- The largest of 0 .. most for which a condition holds that holds of every smaller number, too, is found by halving: these
-- are the steps.
CREATE OR REPLACE TEMP MACRO halving_steps(most) AS
    list_transform(range(floor(log2(greatest(most, 1)))::BIGINT, -1, -1), lambda power: 1::BIGINT << power);

-- How many of the numbers first, first + step, ... (`most` of them) of decode instances a budget holds within the limits,
-- with as many prefill instances beside them as there is room for: a pair that holds does so with fewer decode instances.
CREATE OR REPLACE TEMP MACRO held_decodes(
    devices, first, step, most, prefill_size, decode_size, qps, unqueued_ms, answer_ms, service_ms, servers_each,
    first_share, limit_ms
) AS
    list_reduce(
        halving_steps(most),
        lambda held, more: CASE
            WHEN held + more <= most AND pair_holds(
                (first + (held + more - 1) * step) * qps / 1000.0, unqueued_ms, answer_ms, service_ms,
                (devices - (first + (held + more - 1) * step) * decode_size) // prefill_size * servers_each,
                first_share, limit_ms
            ) THEN held + more
            ELSE held
        END,
        0::BIGINT
    );

-- The fewest of `fewest` .. `most` prefill instances with which a pair holds, NULL for none: one that holds does so with more.
CREATE OR REPLACE TEMP MACRO held_prefills(
    fewest, most, decode_instances, qps, unqueued_ms, answer_ms, service_ms, servers_each, first_share, limit_ms
) AS
    nullif(
        fewest + list_reduce(
            halving_steps(most - fewest + 1),
            lambda missed, more: CASE
                WHEN missed + more <= most - fewest + 1 AND NOT coalesce(pair_holds(
                    decode_instances * qps / 1000.0, unqueued_ms, answer_ms, service_ms,
                    (fewest + missed + more - 1) * servers_each, first_share, limit_ms
                ), false) THEN missed + more
                ELSE missed
            END,
            0::BIGINT
        ),
        greatest(most, fewest - 1) + 1
    );

-- Prefill instances that the requests of so many decode ones take at least, or one less: the quotient is rounded.
CREATE OR REPLACE TEMP MACRO busy_prefills(decode_instances, qps, service_ms, servers_each) AS
    floor(decode_instances * qps / 1000.0 * service_ms / servers_each)::BIGINT;

-- Devices that one of many decode instances takes at least, the prefill instances for its requests included: prompts keep
-- up, and first ones, which come all at once, find servers within the limit.
CREATE OR REPLACE TEMP MACRO least_devices_each(
    prefill_size, decode_size, qps, unqueued_ms, answer_ms, service_ms, servers_each, first_share, limit_ms
) AS
    decode_size + prefill_size * (1 - 1e-9) * qps / 1000.0 / servers_each * greatest(
        service_ms,
        coalesce(
            (unqueued_ms + answer_ms) / (
                1.0 + 2.0 * greatest(limit_ms - unqueued_ms, 0.0)
                    / nullif(first_share * service_ms, 0.0)
            ),
            0.0
        )
    );
