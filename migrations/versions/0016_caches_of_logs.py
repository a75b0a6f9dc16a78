"""Keep with loads of logs which caches their prompts were found in, and how much of them in each.

Self-contained: columns and views stand here as they were at this revision. Loads that are there have none."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"

ADDED = {
    "trace_caches": "where prefixes of a log's prompts were kept: device,host:400; NULL: shares, if any, were stated"
    " [none]",
    **{
        f"{tier}_prefix_share": f"of a log's prompt tokens, those found in {where}; NULL: all new [ratio]"
        for tier, where in {
            "device": "devices",
            "host": "the hosts' memory",
            "ssd": "the hosts' SSDs",
            "remote": "a remote store",
        }.items()
    },
}
VIEWS = {
    "probes": (
        "SELECT (substr(scenario, 1, 8) || ':' || batch_size) AS probe, subject, scenario, first_sweep, "
        "stored_at, formula_version, family, model, architecture, device, device_key, vendor, "
        "device_memory_bytes, tp, pp, dp, ep, moe_tp, moe_dp, dcp, redundant_experts, pcp, micro_batches, "
        "encoder_devices, num_devices, linear_quantization, experts_quantization, attention_quantization, "
        "mxfp4_group_size, mixers_quantization, head_quantization, drafts_quantization, compile, convention, "
        "serving_model, serving_cost_ms, shortest_length, prompts_per_user, poll_steps, seats, wait_steps, "
        "routing, unusual_service, launchable, workload, workload_key, input_length, input_length_mean, "
        "output_length, prefix_cache_hit_rate, host_hit_rate, ssd_hit_rate, remote_hit_rate, max_batched_tokens, "
        "mtp_tokens, phase, batch_size, concurrency, ttft_ms, prefill_step_ms, prefill_chunks, makespan_ms, "
        "decode_step_ms, tokens_per_step, tpot_inclusive_ms, tpot_exclusive_ms, e2e_ms, weight_bytes, "
        "kv_cache_bytes, kv_cache_mean_bytes, activation_bytes, kv_bytes_per_request, prefill_step_matrix_ms, "
        "prefill_step_vector_ms, prefill_step_memory_ms, prefill_step_communication_ms, prefill_step_overhead_ms, "
        "decode_step_matrix_ms, decode_step_vector_ms, decode_step_memory_ms, decode_step_communication_ms, "
        "decode_step_overhead_ms, realised_input_length_mean, decode_step_p50_ms, decode_step_p90_ms, "
        "decode_step_p99_ms, prompt_service_ms, ttft_in_step_ms, ('tp' || tp || 'pp' || pp || 'dp' || dp || "
        "coalesce(CASE WHEN ep > 1 OR moe_tp > 1 OR moe_dp > 1 THEN ('ep' || ep || 'moetp' || moe_tp || 'moedp' "
        "|| moe_dp) END, '') || coalesce(CASE WHEN redundant_experts > 0 THEN ('red' || redundant_experts) END, "
        "'') || coalesce(CASE WHEN dcp > 1 THEN ('dcp' || dcp) END, '') || coalesce(CASE WHEN pcp > 1 THEN ('pcp' "
        "|| pcp) END, '') || coalesce(CASE WHEN micro_batches > 1 THEN ('mb' || micro_batches) END, '') || "
        "coalesce(CASE WHEN encoder_devices > 0 THEN ('enc' || encoder_devices) END, '')) AS plan, CASE WHEN "
        "phase = 'prefill' THEN (1000.0 * concurrency / nullif(makespan_ms, 0) * "
        "(coalesce(realised_input_length_mean / input_length_mean, 1))) END AS prefill_capacity_qps, CASE WHEN "
        "phase = 'prefill' THEN 1000.0 * concurrency / nullif(ttft_ms, 0) * (coalesce(realised_input_length_mean "
        "/ input_length_mean, 1)) END AS prefill_ttft_qps, CASE WHEN phase = 'decode' THEN (concurrency * 1000.0 "
        "/ nullif(tpot_exclusive_ms, 0)) / (CASE WHEN output_length - 1 > 1 THEN output_length - 1 ELSE 1 END) "
        "END AS decode_minus_one_qps, CASE WHEN phase = 'decode' THEN (concurrency * 1000.0 / "
        "nullif(tpot_exclusive_ms, 0)) / output_length END AS decode_full_qps, CASE phase WHEN 'prefill' THEN "
        "(1000.0 * concurrency / nullif(makespan_ms, 0) * (coalesce(realised_input_length_mean / "
        "input_length_mean, 1))) WHEN 'decode' THEN (concurrency * 1000.0 / nullif(tpot_exclusive_ms, 0)) / (CASE "
        "WHEN output_length - 1 > 1 THEN output_length - 1 ELSE 1 END) ELSE (1000.0 * concurrency / nullif(e2e_ms "
        "+ (CASE convention WHEN 'upstream' THEN 0 ELSE ttft_ms * (1 / (coalesce(realised_input_length_mean / "
        "input_length_mean, 1)) - 1) END), 0)) END AS requests_per_s, CASE phase WHEN 'prefill' THEN (1000.0 * "
        "concurrency / nullif(makespan_ms, 0) * (coalesce(realised_input_length_mean / input_length_mean, 1))) "
        "WHEN 'aggregated' THEN (1000.0 * concurrency / nullif(e2e_ms + (CASE convention WHEN 'upstream' THEN 0 "
        "ELSE ttft_ms * (1 / (coalesce(realised_input_length_mean / input_length_mean, 1)) - 1) END), 0)) END * "
        "input_length_mean AS input_tokens_per_s, CASE phase WHEN 'decode' THEN (concurrency * 1000.0 / "
        "nullif(tpot_exclusive_ms, 0)) WHEN 'aggregated' THEN (1000.0 * concurrency / nullif(e2e_ms + (CASE "
        "convention WHEN 'upstream' THEN 0 ELSE ttft_ms * (1 / (coalesce(realised_input_length_mean / "
        "input_length_mean, 1)) - 1) END), 0)) * output_length END AS output_tokens_per_s, CASE WHEN phase = "
        "'aggregated' THEN 1000.0 * concurrency * output_length / (ttft_ms + tpot_inclusive_ms * output_length + "
        "2 * (CASE convention WHEN 'upstream' THEN 0 ELSE ttft_ms * (1 / (coalesce(realised_input_length_mean / "
        "input_length_mean, 1)) - 1) END)) END AS output_tokens_per_s_twice, CASE phase WHEN 'decode' THEN "
        "(concurrency * 1000.0 / nullif(tpot_exclusive_ms, 0)) WHEN 'aggregated' THEN (1000.0 * concurrency / "
        "nullif(e2e_ms + (CASE convention WHEN 'upstream' THEN 0 ELSE ttft_ms * (1 / "
        "(coalesce(realised_input_length_mean / input_length_mean, 1)) - 1) END), 0)) * output_length END / "
        "num_devices AS output_tokens_per_s_per_device, 1000.0 / nullif(tpot_exclusive_ms, 0) AS "
        "tokens_per_s_per_user, realised_input_length_mean / input_length_mean - 1 AS input_length_bias, "
        "scenario_id, block_id FROM (SELECT sc.id AS scenario_id, b.id AS block_id, sj.key AS subject, sc.key AS "
        "scenario, sw.key AS first_sweep, b.created_at AS stored_at, sc.formula_version AS formula_version, "
        "d.family AS family, m.name AS model, m.architecture AS architecture, d.name AS device, d.key AS "
        "device_key, d.vendor AS vendor, d.memory_bytes AS device_memory_bytes, p.tp AS tp, p.pp AS pp, p.dp AS "
        "dp, p.ep AS ep, p.moe_tp AS moe_tp, p.moe_dp AS moe_dp, p.dcp AS dcp, p.redundant_experts AS "
        "redundant_experts, p.pcp AS pcp, p.micro_batches AS micro_batches, p.encoder_devices AS encoder_devices, "
        "p.num_devices AS num_devices, pr.linear_quantization AS linear_quantization, pr.experts_quantization AS "
        "experts_quantization, pr.attention_quantization AS attention_quantization, pr.mxfp4_group_size AS "
        "mxfp4_group_size, pr.mixers_quantization AS mixers_quantization, pr.head_quantization AS "
        "head_quantization, pr.drafts_quantization AS drafts_quantization, sj.compile AS compile, sj.convention "
        "AS convention, sj.serving_model AS serving_model, sj.serving_cost_ms AS serving_cost_ms, "
        "sj.shortest_length AS shortest_length, sj.prompts_per_user AS prompts_per_user, sj.poll_steps AS "
        "poll_steps, sj.seats AS seats, sj.wait_steps AS wait_steps, sj.routing AS routing, sj.unusual_service AS "
        "unusual_service, sc.launchable_by AS launchable, COALESCE(w.name, w.label) AS workload, w.key AS "
        "workload_key, w.input_length AS input_length, w.input_length_mean AS input_length_mean, w.output_length "
        "AS output_length, w.prefix_cache_hit_rate AS prefix_cache_hit_rate, w.host_hit_rate AS host_hit_rate, "
        "w.ssd_hit_rate AS ssd_hit_rate, w.remote_hit_rate AS remote_hit_rate, w.max_batched_tokens AS "
        "max_batched_tokens, w.mtp_tokens AS mtp_tokens, sj.phase AS phase, pb.batch_size AS batch_size, "
        "pb.concurrency AS concurrency, pb.ttft_ms AS ttft_ms, pb.prefill_step_ms AS prefill_step_ms, "
        "pb.prefill_chunks AS prefill_chunks, pb.makespan_ms AS makespan_ms, pb.decode_step_ms AS decode_step_ms, "
        "pb.tokens_per_step AS tokens_per_step, pb.tpot_inclusive_ms AS tpot_inclusive_ms, pb.tpot_exclusive_ms "
        "AS tpot_exclusive_ms, pb.e2e_ms AS e2e_ms, pb.weight_bytes AS weight_bytes, pb.kv_cache_bytes AS "
        "kv_cache_bytes, pb.kv_cache_mean_bytes AS kv_cache_mean_bytes, pb.activation_bytes AS activation_bytes, "
        "pb.kv_bytes_per_request AS kv_bytes_per_request, pb.prefill_step_matrix_ms AS prefill_step_matrix_ms, "
        "pb.prefill_step_vector_ms AS prefill_step_vector_ms, pb.prefill_step_memory_ms AS "
        "prefill_step_memory_ms, pb.prefill_step_communication_ms AS prefill_step_communication_ms, "
        "pb.prefill_step_overhead_ms AS prefill_step_overhead_ms, pb.decode_step_matrix_ms AS "
        "decode_step_matrix_ms, pb.decode_step_vector_ms AS decode_step_vector_ms, pb.decode_step_memory_ms AS "
        "decode_step_memory_ms, pb.decode_step_communication_ms AS decode_step_communication_ms, "
        "pb.decode_step_overhead_ms AS decode_step_overhead_ms, pb.realised_input_length_mean AS "
        "realised_input_length_mean, pb.decode_step_p50_ms AS decode_step_p50_ms, pb.decode_step_p90_ms AS "
        "decode_step_p90_ms, pb.decode_step_p99_ms AS decode_step_p99_ms, pb.prompt_service_ms AS "
        "prompt_service_ms, pb.ttft_in_step_ms AS ttft_in_step_ms FROM block b JOIN sweep sw ON sw.id = "
        "b.sweep_id JOIN scenario sc ON sc.id = b.scenario_id JOIN subject sj ON sj.id = sc.subject_id JOIN model "
        "m ON m.id = sj.model_id JOIN device d ON d.id = sc.device_id JOIN plan p ON p.id = sj.plan_id JOIN "
        "precision pr ON pr.id = sj.precision_id JOIN workload w ON w.id = sj.workload_id JOIN probe pb ON "
        "pb.scenario_id = b.scenario_id AND pb.batch_size BETWEEN b.first_batch_size AND b.last_batch_size WHERE "
        "NOT (EXISTS (SELECT 1 FROM tombstone t WHERE t.lifted_at IS NULL AND t.scenario_id = sc.id) OR (EXISTS "
        "(SELECT 1 FROM sweep_interval i WHERE i.scenario_id = sc.id AND i.sweep_id IN (SELECT sweep_id FROM "
        "tombstone WHERE lifted_at IS NULL AND sweep_id IS NOT NULL)) AND NOT EXISTS (SELECT 1 FROM "
        "sweep_interval i WHERE i.scenario_id = sc.id AND i.sweep_id NOT IN (SELECT sweep_id FROM tombstone WHERE "
        "lifted_at IS NULL AND sweep_id IS NOT NULL))) OR (EXISTS (SELECT 1 FROM sweep_interval i WHERE "
        "i.scenario_id = sc.id AND i.sweep_id IN (SELECT sweep_id FROM tombstone WHERE lifted_at IS NULL AND "
        "sweep_id IS NOT NULL) AND pb.batch_size BETWEEN i.first_batch_size AND i.last_batch_size) AND NOT EXISTS "
        "(SELECT 1 FROM sweep_interval i WHERE i.scenario_id = sc.id AND i.sweep_id NOT IN (SELECT sweep_id FROM "
        "tombstone WHERE lifted_at IS NULL AND sweep_id IS NOT NULL) AND pb.batch_size BETWEEN i.first_batch_size "
        "AND i.last_batch_size)))) AS stored"
    ),
    "scenarios": (
        "SELECT sc.id AS scenario_id, sj.key AS subject, sc.key AS scenario, sc.formula_version AS "
        "formula_version, d.family AS family, m.name AS model, m.architecture AS architecture, d.name AS device, "
        "d.key AS device_key, d.vendor AS vendor, d.memory_bytes AS device_memory_bytes, p.tp AS tp, p.pp AS pp, "
        "p.dp AS dp, p.ep AS ep, p.moe_tp AS moe_tp, p.moe_dp AS moe_dp, p.dcp AS dcp, p.redundant_experts AS "
        "redundant_experts, p.pcp AS pcp, p.micro_batches AS micro_batches, p.encoder_devices AS encoder_devices, "
        "p.num_devices AS num_devices, pr.linear_quantization AS linear_quantization, pr.experts_quantization AS "
        "experts_quantization, pr.attention_quantization AS attention_quantization, pr.mxfp4_group_size AS "
        "mxfp4_group_size, pr.mixers_quantization AS mixers_quantization, pr.head_quantization AS "
        "head_quantization, pr.drafts_quantization AS drafts_quantization, sj.compile AS compile, sj.convention "
        "AS convention, sj.serving_model AS serving_model, sj.serving_cost_ms AS serving_cost_ms, "
        "sj.shortest_length AS shortest_length, sj.prompts_per_user AS prompts_per_user, sj.poll_steps AS "
        "poll_steps, sj.seats AS seats, sj.wait_steps AS wait_steps, sj.routing AS routing, sj.unusual_service AS "
        "unusual_service, sc.launchable_by AS launchable, COALESCE(w.name, w.label) AS workload, w.key AS "
        "workload_key, w.input_length AS input_length, w.input_length_mean AS input_length_mean, w.output_length "
        "AS output_length, w.prefix_cache_hit_rate AS prefix_cache_hit_rate, w.host_hit_rate AS host_hit_rate, "
        "w.ssd_hit_rate AS ssd_hit_rate, w.remote_hit_rate AS remote_hit_rate, w.max_batched_tokens AS "
        "max_batched_tokens, w.mtp_tokens AS mtp_tokens, sj.phase AS phase, sc.status AS status, sc.reason AS "
        "reason, sc.assumptions AS assumptions, sc.created_at AS created_at, (EXISTS (SELECT 1 FROM tombstone t "
        "WHERE t.lifted_at IS NULL AND t.scenario_id = sc.id) OR (EXISTS (SELECT 1 FROM sweep_interval i WHERE "
        "i.scenario_id = sc.id AND i.sweep_id IN (SELECT sweep_id FROM tombstone WHERE lifted_at IS NULL AND "
        "sweep_id IS NOT NULL)) AND NOT EXISTS (SELECT 1 FROM sweep_interval i WHERE i.scenario_id = sc.id AND "
        "i.sweep_id NOT IN (SELECT sweep_id FROM tombstone WHERE lifted_at IS NULL AND sweep_id IS NOT NULL)))) "
        "AS voided FROM scenario sc JOIN subject sj ON sj.id = sc.subject_id JOIN model m ON m.id = sj.model_id "
        "JOIN device d ON d.id = sc.device_id JOIN plan p ON p.id = sj.plan_id JOIN precision pr ON pr.id = "
        "sj.precision_id JOIN workload w ON w.id = sj.workload_id"
    ),
    "models": (
        "SELECT id AS id, key AS key, name AS name, architecture AS architecture, parameters AS parameters, "
        "active_parameters AS active_parameters, spec AS spec FROM model"
    ),
    "devices": (
        "SELECT id AS id, key AS key, name AS name, vendor AS vendor, family AS family, matrix_flops_per_s AS "
        "matrix_flops_per_s, vector_flops_per_s AS vector_flops_per_s, memory_bytes AS memory_bytes, "
        "memory_bandwidth_bytes_per_s AS memory_bandwidth_bytes_per_s, grid AS grid, link_bandwidths AS "
        "link_bandwidths, calibration_key AS calibration_key, spec AS spec FROM device"
    ),
    "prices": (
        "SELECT device_name AS device_name, effective_from AS effective_from, usd_per_device_hour AS "
        "usd_per_device_hour, watts_per_device AS watts_per_device, source AS source FROM price"
    ),
    "sweeps": (
        "SELECT id AS id, key AS key, label AS label, arguments AS arguments, program_version AS program_version, "
        "started_at AS started_at, finished_at AS finished_at, status AS status, probes_stored AS probes_stored, "
        "probes_known AS probes_known, scenarios_failed AS scenarios_failed, kind AS kind, CASE WHEN id IN "
        "(SELECT sweep_id FROM tombstone WHERE lifted_at IS NULL AND sweep_id IS NOT NULL) THEN 1 ELSE 0 END AS "
        "voided FROM sweep"
    ),
    "sweep_intervals": (
        "SELECT sw.key AS sweep, i.scenario_id, i.first_batch_size, i.last_batch_size FROM sweep_interval i JOIN "
        "sweep sw ON sw.id = i.sweep_id"
    ),
}


def upgrade() -> None:
    """Add the columns. No view shows loads, so all stay."""
    for name, comment in ADDED.items():
        type_ = sa.String(120) if name == "trace_caches" else sa.Double()
        op.add_column("load", sa.Column(name, type_, nullable=True, comment=comment))


def downgrade() -> None:
    """Drop them."""
    for name in reversed(ADDED):
        op.drop_column("load", name)
