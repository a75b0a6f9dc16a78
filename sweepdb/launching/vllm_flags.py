"""A stored row as vLLM's flags.

Source: its parser, and docs.vllm.ai/en/latest/serving."""

from __future__ import annotations

import json
import math

from evaluator.inputs import Plan
from store.errors import InputError
from sweepdb.launching.flag_tables import flag_table
from sweepdb.launching.server_command import (
    PORTS,
    Flags,
    Role,
    ServerCommand,
    Settings,
    caches_prompts,
    check_launchable,
    kv_format,
    outside_bytes,
    state_format,
    vllm_share,
)
from sweepdb.launching.stored_instance import GIB, StoredInstance

_GRAPHS_TO = 512  # requests of the largest batch that is captured by default
_RPC_PORT = "13345"


def vllm_command(instance: StoredInstance, role: Role, instances: int, version: str | None) -> ServerCommand:
    check_launchable("vllm", instance)
    table = flag_table("vllm", version)
    plan, workload = instance.plan, instance.workload
    flags = Flags(table=table)
    flags.add("--port", PORTS[role])
    flags.add("--tensor-parallel-size", plan.tp)
    flags.add("--pipeline-parallel-size", plan.pp)
    flags.add("--data-parallel-size", plan.dp)
    _add_experts_and_shares(flags, plan, routed=instance.model.routed)
    _add_micro_batches(flags, plan, role)
    flags.add("--max-num-seqs", instance.requests_a_replica)
    flags.add("--max-num-batched-tokens", workload.max_batched_tokens)
    flags.add("--max-model-len", instance.context_tokens)
    flags.add("--gpu-memory-utilization", f"{vllm_share(instance):.2f}")
    if (kept := kv_format(instance, {"FP8": "fp8"})) is not None:
        flags.add("--kv-cache-dtype", kept)
    if (states := state_format(instance, {"FP32": "float32", "BF16": "bfloat16"})) is not None:
        flags.add("--mamba-ssm-cache-dtype", states)
    if instance.precision.linear.upper() == "FP8" and instance.model.native_linear.upper() in {"BF16", "FP16"}:
        flags.add("--quantization", "fp8")
    if not caches_prompts(instance):
        flags.add(table.first("--no-enable-prefix-caching", "--disable-prefix-caching"))
    _add_tiers(flags, instance)
    if not instance.scenario.launch.compile:
        flags.add("--enforce-eager")
    elif instance.requests_a_replica > _GRAPHS_TO and table.has("--max-cudagraph-capture-size"):
        flags.add("--max-cudagraph-capture-size", instance.requests_a_replica)
    _add_images_and_drafts(flags, instance)
    if role != "server":
        flags.add("--kv-transfer-config", json.dumps({"kv_connector": "NixlConnector", "kv_role": "kv_both"}))
    prompts = f"prefill context {plan.pcp} x " if plan.pcp > 1 else ""
    return ServerCommand(
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


def _add_tiers(flags: Flags, instance: StoredInstance) -> None:
    if tiers := instance.workload.tiers:
        flags.add("--kv-offloading-size", math.ceil(outside_bytes(instance) / GIB))
        if any(tier.name != "host" for tier in tiers):
            flags.add("--kv-offloading-backend", "lmcache")


def _add_images_and_drafts(flags: Flags, instance: StoredInstance) -> None:
    workload = instance.workload
    if (images := workload.images) is not None:
        flags.add("--limit-mm-per-prompt", json.dumps({"image": images.count, "video": 0}))
        if images.split == "data":
            flags.add("--mm-encoder-tp-mode", "data")
    if workload.mtp_tokens:
        own: dict[str, object] = {"method": "mtp"}
        method = "dspark" if instance.model.draft_block else "eagle3"
        method = method if instance.model.draft_model is None else "draft_model"
        beside: dict[str, object] = {"method": method, "model": instance.draft_model}
        drafts = (beside if instance.draft_model else own) | {"num_speculative_tokens": workload.mtp_tokens}
        flags.add("--speculative-config", json.dumps(drafts))


def _add_experts_and_shares(flags: Flags, plan: Plan, *, routed: bool) -> None:
    if routed and plan.ep > 1:
        flags.add("--enable-expert-parallel")
    if plan.redundant_experts:
        flags.add("--enable-eplb")
        flags.add("--eplb-config", json.dumps({"num_redundant_experts": plan.redundant_experts}))
    if plan.dcp > 1:
        flags.add("--decode-context-parallel-size", plan.dcp)
    if plan.pcp > 1:
        flags.add("--prefill-context-parallel-size", plan.pcp)


def _add_micro_batches(flags: Flags, plan: Plan, role: Role) -> None:
    """Kernels exchange one half's rows beside the other's products."""
    if plan.micro_batches > 1:
        flags.add("--enable-dbo")
        flags.add("--all2all-backend", "deepep_high_throughput" if role == "prefill" else "deepep_low_latency")


def _of_nodes(instance: StoredInstance, flags: Flags) -> list[Settings]:
    if instance.nodes == 1:
        return []
    plan, hosts = instance.plan, range(instance.nodes)
    local = instance.devices_a_node // plan.replica_devices
    found: list[Settings] = []
    for host in hosts:
        own = Flags(table=flags.table)
        if local >= 1:
            own.add("--data-parallel-size-local", local)
            own.add("--data-parallel-start-rank", host * local)
            own.add("--data-parallel-address", "${MASTER_ADDR}")
            own.add("--data-parallel-rpc-port", _RPC_PORT)
        elif plan.dp == 1:
            own.add("--nnodes", instance.nodes)
            own.add("--node-rank", host)
            own.add("--master-addr", "${MASTER_ADDR}")
        else:
            raise InputError(
                f"{instance.probe}: replicas of {plan.replica_devices} devices over hosts of {instance.devices_a_node}"
                " are not written for vLLM",
                hint="take a plan whose replicas fit one host",
            )
        if host:
            own.add("--headless")
        found.append(own.settings)
    return found


COMMANDS = {"vllm": vllm_command}
