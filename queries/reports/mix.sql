-- summary: a weighted blend of workloads on a device budget: one configuration for all, or the devices split between them
-- modes: aggregated, prefill, decode
-- scope: blend
-- allocates: instances
-- requires: mix | mix blends two workloads or more | add `mix=chat=0.6` `mix=retrieval=0.4`
-- requires: num_devices | report mix needs a device budget | add `num_devices=N`
-- shows: choice, workload, weight, device, plan, batch_size, requests_per_s, time_share, instances, devices_used, system_requests_per_s, against_other, reason, probe
-- column: workload, workload_key, plan, devices_used, probe
-- column: question_group | none | group of model, precision and convention
-- column: choice | none | single: one device, plan and serving model for every workload, each at its own best batch size by requests/s, time shared; split: each workload has instances of its own, all of one configuration
-- column: weight | ratio | share of the requests
-- column: device | none | device of the instances that serve this workload; NULL where the choice is impossible
-- column: instance_devices | devices | of one instance
-- column: batch_size | requests | best batch size for this workload in that plan
-- column: requests_per_s | requests/s | of one instance that serves this workload alone
-- column: time_share | ratio | of an instance's time that this workload takes: single: (weight / requests_per_s) / sum of weight / requests_per_s; split: weight x system_requests_per_s / (instances x requests_per_s)
-- column: instances | instances | single: floor(budget / instance devices), shared by all; split: of this workload alone
-- column: system_requests_per_s | requests/s | of the whole blend. single: instances / (sum of weight / requests_per_s); split: the least of instances x requests_per_s / weight. Each the highest within the budget; ties use fewer devices
-- column: against_other | ratio | system_requests_per_s / system_requests_per_s of the other choice: below 1 is what this choice costs
-- column: reason | none | why the choice is impossible
WITH blend AS (
    SELECT unnest(getvariable('mix_workloads')) AS workload_key, unnest(getvariable('mix_weights')) AS weight
),
scenarios AS (
    SELECT DISTINCT
        scenario_id, workload, workload_key,
        concat_ws('/', device_key, plan, serving_model, serving_cost_ms, compile) AS configuration
    FROM scoped
),
-- What one instance of a configuration carries of each workload.
offers AS (
    SELECT
        picked.question_group, s.workload, s.workload_key, blend.weight, s.configuration, picked.device, picked.plan,
        picked.num_devices AS size, picked.batch_size, picked.qps, picked.probe, picked.scenario
    FROM picked(getvariable('wanted_phase'), 'qps') AS picked
    JOIN scenarios AS s ON s.scenario_id = picked.scenario_id
    JOIN blend ON blend.workload_key = s.workload_key
    QUALIFY row_number() OVER (
        PARTITION BY picked.question_group, s.workload_key, s.configuration
        ORDER BY picked.qps DESC, picked.latency_ms, picked.batch_size, picked.scenario
    ) = 1
),
served AS (
    SELECT question_group FROM offers
    GROUP BY question_group
    HAVING count(DISTINCT workload_key) = len(getvariable('mix_workloads'))
),
shared AS (
    SELECT
        question_group, configuration, any_value(size) AS size, sum(weight / qps) AS seconds_per_request,
        getvariable('num_devices') // any_value(size) AS instances
    FROM offers
    GROUP BY question_group, configuration
    HAVING count(*) = len(getvariable('mix_workloads'))
),
single AS (
    SELECT *, instances / seconds_per_request AS system_requests_per_s, instances * size AS devices_used
    FROM shared
    WHERE instances > 0
    QUALIFY row_number() OVER (
        PARTITION BY question_group ORDER BY instances / seconds_per_request DESC, instances * size, configuration
    ) = 1
),
-- Of each size only the configuration with the most requests/s can be in the best split.
sized AS (
    SELECT *, qps / weight AS blend_qps
    FROM offers
    WHERE size <= getvariable('num_devices')
    QUALIFY row_number() OVER (
        PARTITION BY question_group, workload_key, size ORDER BY qps DESC, configuration
    ) = 1
),
-- The best split carries exactly what some workload's instances carry, so these rates are all that need be tried.
-- It carries no more than divided instances would, nor less than such with one instance less of each workload.
divided AS (
    SELECT
        question_group, getvariable('num_devices') / sum(devices_each) AS most_target,
        (getvariable('num_devices') - sum(size)) / sum(devices_each) AS least_target
    FROM (
        SELECT
            question_group, workload_key, min(size / blend_qps) AS devices_each, arg_min(size, size / blend_qps) AS size
        FROM sized
        GROUP BY question_group, workload_key
    )
    GROUP BY question_group
),
counted AS (
    SELECT
        sized.question_group, blend_qps,
        unnest(range(
            greatest(floor(least_target / blend_qps)::BIGINT, 1),
            least(getvariable('num_devices') // size, ceil(most_target / blend_qps)::BIGINT + 1) + 1
        )) AS instances
    FROM sized
    JOIN divided ON divided.question_group = sized.question_group
),
targets AS (
    SELECT DISTINCT question_group, instances * blend_qps AS target FROM counted
),
fewest AS (
    SELECT
        targets.question_group, target, workload_key, configuration, size,
        least_count(blend_qps, target) AS instances, least_count(blend_qps, target) * size AS devices
    FROM targets
    JOIN sized ON sized.question_group = targets.question_group
    QUALIFY row_number() OVER (
        PARTITION BY targets.question_group, target, workload_key
        ORDER BY least_count(blend_qps, target) * size, least_count(blend_qps, target) * blend_qps DESC, configuration
    ) = 1
),
split AS (
    SELECT question_group, target AS system_requests_per_s, sum(devices)::BIGINT AS devices_used
    FROM fewest
    GROUP BY question_group, target
    HAVING sum(devices) <= getvariable('num_devices') AND count(*) = len(getvariable('mix_workloads'))
    QUALIFY row_number() OVER (PARTITION BY question_group ORDER BY target DESC) = 1
),
least AS (
    SELECT question_group, sum(size)::BIGINT AS devices
    FROM (SELECT question_group, workload_key, min(size) AS size FROM offers GROUP BY question_group, workload_key)
    GROUP BY question_group
),
least_shared AS (
    SELECT question_group, min(size) AS devices FROM shared GROUP BY question_group
),
named AS (
    SELECT DISTINCT o.question_group, o.workload, o.workload_key, o.weight
    FROM offers AS o
    JOIN served ON served.question_group = o.question_group
),
choices AS (
    SELECT
        n.*, 'single' AS choice, s.configuration, s.instances, s.devices_used, s.system_requests_per_s,
        o.system_requests_per_s AS other_qps, n.weight / s.seconds_per_request AS share_of_qps,
        CASE
            WHEN s.question_group IS NOT NULL THEN NULL
            WHEN l.devices IS NULL THEN 'no configuration serves every workload under the limits'
            ELSE concat('one instance needs ', l.devices, ' devices')
        END AS reason
    FROM named AS n
    LEFT JOIN single AS s ON s.question_group = n.question_group
    LEFT JOIN split AS o ON o.question_group = n.question_group
    LEFT JOIN least_shared AS l ON l.question_group = n.question_group
    UNION ALL
    SELECT
        n.*, 'split', f.configuration, f.instances, s.devices_used, s.system_requests_per_s, o.system_requests_per_s,
        n.weight * s.system_requests_per_s / f.instances,
        CASE
            WHEN s.question_group IS NULL
                THEN concat('one instance of each workload needs ', l.devices, ' devices')
        END
    FROM named AS n
    LEFT JOIN split AS s ON s.question_group = n.question_group
    LEFT JOIN fewest AS f
        ON f.question_group = n.question_group AND f.target = s.system_requests_per_s AND f.workload_key = n.workload_key
    LEFT JOIN single AS o ON o.question_group = n.question_group
    LEFT JOIN least AS l ON l.question_group = n.question_group
)
SELECT
    c.question_group, c.choice, c.workload, c.workload_key, c.weight, o.device, o.plan, o.size AS instance_devices,
    o.batch_size, o.qps AS requests_per_s, c.share_of_qps / o.qps AS time_share, c.instances, c.devices_used, c.system_requests_per_s,
    c.system_requests_per_s / c.other_qps AS against_other, c.reason, o.probe
FROM choices AS c
LEFT JOIN offers AS o
    ON o.question_group = c.question_group AND o.workload_key = c.workload_key AND o.configuration = c.configuration
ORDER BY c.question_group, c.system_requests_per_s DESC NULLS LAST, c.choice, c.weight DESC, c.workload_key;
