"""A stored row as vLLM's flags.

Source: its parser, and docs.vllm.ai/en/latest/serving."""

from __future__ import annotations

import json
import math

from evaluator.inputs import Plan
from store.errors import InputError
from sweepdb.launching import server_command
from sweepdb.launching.flag_tables import flag_table
from sweepdb.launching.stored_instance import GIB, StoredInstance

_GRAPHS_TO = 512  # requests of the largest batch that is captured by default
_RPC_PORT = "13345"


def vllm_command(
    instance: StoredInstance, role: server_command.Role, instances: int, version: str | None
) -> server_command.ServerCommand:
    server_command.check_launchable("vllm", instance)
    table = flag_table("vllm", version)
    plan, workload = instance.plan, instance.workload
    flags = server_command.Flags(table=table)
    compiled = instance.scenario.launch.compile
    narrowed = instance.precision.linear.upper() == "FP8" and instance.model.native_linear.upper() in {"BF16", "FP16"}
    flags.add({
        "--port": server_command.PORTS[role],
        "--tensor-parallel-size": plan.tp,
        "--pipeline-parallel-size": plan.pp,
        "--data-parallel-size": plan.dp,
        **_experts_and_shares(plan, role, routed=instance.model.routed),
        "--max-num-seqs": instance.requests_a_replica,
        "--max-num-batched-tokens": workload.max_batched_tokens,
        "--max-model-len": instance.context_tokens,
        "--gpu-memory-utilization": f"{server_command.vllm_share(instance):.2f}",
        "--kv-cache-dtype": server_command.kv_format(instance, {"FP8": "fp8"}),
        "--mamba-ssm-cache-dtype": server_command.state_format(instance, {"FP32": "float32", "BF16": "bfloat16"}),
        "--quantization": "fp8" if narrowed else None,
    })  # fmt: skip
    if not server_command.caches_prompts(instance):
        flags.add({table.first("--no-enable-prefix-caching", "--disable-prefix-caching"): True})
    flags.add({**_tiers(instance), "--enforce-eager": not compiled})
    if compiled and instance.requests_a_replica > _GRAPHS_TO and table.has("--max-cudagraph-capture-size"):
        flags.add({"--max-cudagraph-capture-size": instance.requests_a_replica})
    flags.add(_images_and_drafts(instance))
    if role != "server":
        flags.add({"--kv-transfer-config": json.dumps({"kv_connector": "NixlConnector", "kv_role": "kv_both"})})
    prompts = f"prefill context {plan.pcp} x " if plan.pcp > 1 else ""
    return server_command.ServerCommand(
        role=role,
        instances=instances,
        instance=instance,
        engine="vllm",
        version=table.version,
        image=f"vllm/vllm-openai:v{table.version}",
        program=("vllm", "serve", instance.model_name),
        settings=flags.settings,
        of_nodes=_of_nodes(instance, flags),
        devices=f"tensor {plan.tp} x {prompts}pipeline {plan.pp} x data {plan.dp} = {instance.devices}",
    )


def _tiers(instance: StoredInstance) -> dict[str, object]:
    tiers = instance.workload.tiers
    beyond = any(tier.name != "host" for tier in tiers)
    return {
        "--kv-offloading-size": math.ceil(server_command.outside_bytes(instance) / GIB) if tiers else None,
        "--kv-offloading-backend": "lmcache" if beyond else None,
    }


def _images_and_drafts(instance: StoredInstance) -> dict[str, object]:
    workload, flags = instance.workload, dict[str, object]()
    if (images := workload.images) is not None:
        flags["--limit-mm-per-prompt"] = json.dumps({"image": images.count, "video": 0})
        flags["--mm-encoder-tp-mode"] = "data" if images.split == "data" else None
    if workload.mtp_tokens:
        own: dict[str, object] = {"method": "mtp"}
        method = "dspark" if instance.model.draft_block else "eagle3"
        method = method if instance.model.draft_model is None else "draft_model"
        beside: dict[str, object] = {"method": method, "model": instance.draft_model}
        drafts = (beside if instance.draft_model else own) | {"num_speculative_tokens": workload.mtp_tokens}
        flags["--speculative-config"] = json.dumps(drafts)
    return flags


def _experts_and_shares(plan: Plan, role: server_command.Role, *, routed: bool) -> dict[str, object]:
    """Of micro-batches, kernels exchange one half's rows beside the other's products."""
    balanced = {"num_redundant_experts": plan.redundant_experts}
    halves = "deepep_high_throughput" if role == "prefill" else "deepep_low_latency"
    return {
        "--enable-expert-parallel": routed and plan.ep > 1,
        "--enable-eplb": plan.redundant_experts > 0,
        "--eplb-config": json.dumps(balanced) if plan.redundant_experts else None,
        "--decode-context-parallel-size": plan.dcp if plan.dcp > 1 else None,
        "--prefill-context-parallel-size": plan.pcp if plan.pcp > 1 else None,
        "--enable-dbo": plan.micro_batches > 1,
        "--all2all-backend": halves if plan.micro_batches > 1 else None,
    }


def _of_nodes(instance: StoredInstance, flags: server_command.Flags) -> list[server_command.Settings]:
    if instance.nodes == 1:
        return []
    plan, hosts = instance.plan, range(instance.nodes)
    local = instance.devices_a_node // plan.replica_devices
    found: list[server_command.Settings] = []
    for host in hosts:
        own = server_command.Flags(table=flags.table)
        if local >= 1:
            own.add({
                "--data-parallel-size-local": local, "--data-parallel-start-rank": host * local,
                "--data-parallel-address": "${MASTER_ADDR}", "--data-parallel-rpc-port": _RPC_PORT,
            })  # fmt: skip
        elif plan.dp == 1:
            own.add({"--nnodes": instance.nodes, "--node-rank": host, "--master-addr": "${MASTER_ADDR}"})
        else:
            raise InputError(
                f"{instance.probe}: replicas of {plan.replica_devices} devices over hosts of {instance.devices_a_node}"
                " are not written for vLLM",
                hint="take a plan whose replicas fit one host",
            )
        own.add({"--headless": host > 0})
        found.append(own.settings)
    return found


COMMANDS = {"vllm": vllm_command}
