-- What reports ask of points: probes at a batch size, or loads at a rate. `sellers` and `frontier_points` are of either kind
-- (queries/points/probes.sql, queries/points/loads.sql), so that one report answers for both.

-- The prices of the date that is asked for.
CREATE OR REPLACE TEMP MACRO valid_prices() AS TABLE
SELECT device_name, effective_from, usd_per_device_hour, watts_per_device
FROM price
WHERE getvariable('price_date') IS NULL OR effective_from <= getvariable('price_date')
QUALIFY row_number() OVER (PARTITION BY device_name ORDER BY effective_from DESC) = 1;

-- What a second of each seller costs; devices without a price come last.
CREATE OR REPLACE TEMP MACRO priced_points() AS TABLE
WITH priced AS (
    SELECT
        w.*, w.rate / w.num_devices AS rate_per_device, p.effective_from AS price_from, p.usd_per_device_hour,
        p.watts_per_device, w.rate / w.num_devices * 3600 / nullif(p.usd_per_device_hour, 0) AS per_usd,
        w.rate / w.num_devices * 3600000 / nullif(p.watts_per_device, 0) AS per_kwh
    FROM sellers() AS w
    LEFT JOIN valid_prices() AS p ON p.device_name = w.device
),
others AS (
    SELECT a.question_group, a.device, max(b.per_usd) AS best_other
    FROM priced AS a
    JOIN priced AS b ON a.question_group = b.question_group AND a.device <> b.device
    GROUP BY a.question_group, a.device
)
SELECT
    priced.*, priced.rate_per_device * 3600 / others.best_other AS break_even_usd_per_device_hour,
    row_number() OVER (
        PARTITION BY priced.question_group ORDER BY per_usd DESC NULLS LAST, priced.device
    ) AS rank
FROM priced
LEFT JOIN others ON others.question_group = priced.question_group AND others.device = priced.device
QUALIFY rank <= getvariable('top');

-- The points that no other beats both in `pace` and in `yield`: of all devices, or of each by itself.
CREATE OR REPLACE TEMP MACRO unbeaten_points() AS TABLE
WITH points AS (
    SELECT *, frontier_of_point(device, point) AS frontier_of FROM frontier_points()
),
-- Points that a much faster one reaches or beats cannot stay: few are left to be looked at one by one.
speeds AS (
    SELECT
        question_group, mode, frontier_of, coalesce(floor(sqrt(pace) * 16), -1) AS speed,
        max(yield) AS most
    FROM points
    GROUP BY ALL
),
bars AS (
    SELECT
        question_group, mode, frontier_of, speed,
        max(most) OVER (
            PARTITION BY question_group, mode, frontier_of ORDER BY speed DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS most_faster
    FROM speeds
),
likely AS (
    SELECT points.*
    FROM points
    JOIN bars
        ON bars.question_group = points.question_group AND bars.mode = points.mode AND bars.frontier_of = points.frontier_of
        AND bars.speed = coalesce(floor(sqrt(points.pace) * 16), -1)
    WHERE most_faster IS NULL OR yield > most_faster
),
-- A point stays when no user at least as fast gets more a device, and every faster one gets less. Equals both stay.
frontier AS (
    SELECT
        *,
        max(yield) OVER as_fast AS best_as_fast,
        max(yield) OVER faster AS best_faster
    FROM likely
    WINDOW
        as_fast AS (
            PARTITION BY question_group, mode, frontier_of ORDER BY pace DESC
            RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ),
        faster AS (
            PARTITION BY question_group, mode, frontier_of ORDER BY pace DESC
            RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE GROUP
        )
),
stays AS (
    SELECT *
    FROM frontier
    WHERE yield = best_as_fast
        AND (best_faster IS NULL OR yield > best_faster)
),
-- Where a picture has room for fewer points: of each width of its logarithmic axis the one with the most a device.
placed AS (
    SELECT
        *,
        floor(
            (ln(pace) - min(ln(pace)) OVER whole)
            / nullif(max(ln(pace)) OVER whole - min(ln(pace)) OVER whole, 0)
            * (getvariable('max_points') - 1)
        ) AS width
    FROM stays
    WINDOW whole AS (PARTITION BY question_group, mode, frontier_of)
)
SELECT *
FROM placed
QUALIFY getvariable('max_points') IS NULL OR row_number() OVER (
    PARTITION BY question_group, mode, frontier_of, width ORDER BY yield DESC, point, other_point
) = 1;
