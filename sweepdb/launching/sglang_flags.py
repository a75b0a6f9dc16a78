"""A stored row as SGLang's flags.

Source: its parser, and docs.sglang.io on server arguments and disaggregation."""

from __future__ import annotations

import json

from evaluator.inputs import Plan, Workload
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
    sglang_share,
    state_format,
)
from sweepdb.launching.stored_instance import StoredInstance

_INIT_PORT = 20000
ENCODER_PORT = 8300


def sglang_command(instance: StoredInstance, role: Role, instances: int, version: str | None) -> ServerCommand:
    """Its tensor group counts attention replicas' devices, and divides batch and token budget among them."""
    check_launchable("sglang", instance)
    table = flag_table("sglang", version)
    plan, workload, routed = instance.plan, instance.workload, instance.model.routed
    flags = Flags(table=table)
    flags.add("--model-path", instance.model_name)
    flags.add("--port", PORTS[role])
    shared = plan.dp if routed else 1  # replicas inside the tensor group
    flags.add("--tp-size", plan.tp * plan.pcp * shared)
    flags.add("--pp-size", plan.pp)
    _add_experts_and_shares(flags, plan, routed=routed)
    if plan.dp > 1:
        _add_replicas(flags, plan.dp, routed=routed)
    flags.add("--max-running-requests", instance.requests_a_replica * shared)
    flags.add("--chunked-prefill-size", workload.max_batched_tokens * shared)
    flags.add("--context-length", instance.context_tokens)
    flags.add("--mem-fraction-static", f"{sglang_share(instance):.2f}")
    if (kept := kv_format(instance, {"FP8": "fp8_e4m3"})) is not None:
        flags.add("--kv-cache-dtype", kept)
    if (states := state_format(instance, {"FP32": "float32", "BF16": "bfloat16"})) is not None:
        flags.add("--mamba-ssm-dtype", states)
    if not caches_prompts(instance):
        flags.add("--disable-radix-cache")
    _add_tiers(flags, [tier.name for tier in workload.tiers])
    if instance.scenario.launch.compile:
        flags.add(table.first("--cuda-graph-max-bs-decode", "--cuda-graph-max-bs"), instance.requests_a_replica)
    elif table.has("--cuda-graph-backend-decode"):
        flags.add("--cuda-graph-backend-decode", "disabled")
    else:
        flags.add("--disable-cuda-graph")
    _add_images(flags, workload)
    _add_encoders(flags, plan.encoder_devices)
    _add_drafts(flags, instance)
    if role != "server":
        flags.add("--disaggregation-mode", role)
        flags.add("--disaggregation-transfer-backend", "nixl")
    product = f"tensor {plan.tp} x attention replicas {plan.dp}" if routed else f"tensor {plan.tp} x data {plan.dp}"
    product += f" x prefill context {plan.pcp}" if plan.pcp > 1 else ""
    encoders = f", and {plan.encoder_devices} that encode its images" if plan.encoder_devices else ""
    return ServerCommand(
        role=role,
        instances=instances,
        instance=instance,
        engine="sglang",
        version=table.version,
        image=f"lmsysorg/sglang:v{table.version}",
        program=("python3", "-m", "sglang.launch_server"),
        settings=flags.settings,
        of_nodes=_of_nodes(instance, flags),
        devices=f"{product} x pipeline {plan.pp} = {plan.language_devices}{encoders}",
    )


def _add_drafts(flags: Flags, instance: StoredInstance) -> None:
    if instance.model.draft_block:
        hint = "`engine=vllm`; SGLang reads another draft of such blocks"
        raise InputError("SGLang's flags for drafts of a whole block in one pass are not written", hint=hint)
    if drafts := instance.workload.mtp_tokens:
        whole = instance.model.draft_model is not None
        if whole and instance.model.routed and instance.plan.dp > 1:
            hint = "a plan with dp 1, or `engine=vllm`"
            raise InputError("SGLang drafts with no whole model beside attention replicas inside its group", hint=hint)
        algorithm = "STANDALONE" if whole else "EAGLE3" if instance.draft_model else "NEXTN"
        flags.add("--speculative-algorithm", algorithm)
        if instance.draft_model:
            flags.add("--speculative-draft-model-path", instance.draft_model)
        flags.add("--speculative-num-steps", drafts)
        flags.add("--speculative-eagle-topk", 1)
        flags.add("--speculative-num-draft-tokens", drafts + 1)


def _add_images(flags: Flags, workload: Workload) -> None:
    if workload.images is None:
        return
    flags.add("--limit-mm-data-per-request", json.dumps({"image": workload.images.count}))
    if workload.images.split == "data":
        flags.add("--mm-enable-dp-encoder")


def _add_encoders(flags: Flags, number: int) -> None:
    """By their hosts' names: docs.sglang.io, EPD Disaggregation."""
    if number:
        flags.add("--language-only")
        flags.add("--encoder-urls", " ".join(f"http://{name}:{port}" for name, port in encoder_places(number)))
        flags.add("--encoder-transfer-backend", "auto")


def encoder_places(number: int) -> list[tuple[str, int]]:
    return [(f"ENCODER_{place}", ENCODER_PORT + place) for place in range(number)]


def encoder_settings(instance: StoredInstance, version: str) -> Settings:
    flags = Flags(table=flag_table("sglang", version))
    flags.add("--model-path", instance.model_name)
    flags.add("--encoder-only")
    flags.add("--encoder-transfer-backend", "auto")
    return flags.settings


def _add_experts_and_shares(flags: Flags, plan: Plan, *, routed: bool) -> None:
    if routed:
        flags.add("--ep-size", plan.ep)
    if plan.redundant_experts:
        flags.add("--enable-eplb")
        flags.add("--ep-num-redundant-experts", plan.redundant_experts)
    if plan.dcp > 1:
        flags.add("--dcp-size", plan.dcp)
    if plan.pcp > 1:
        flags.add("--attn-cp-size", plan.pcp)
        flags.add("--enable-prefill-cp")
        flags.add("--cp-strategy", "zigzag")
    if plan.micro_batches > 1:
        flags.add("--moe-a2a-backend", "deepep")
        flags.add("--enable-two-batch-overlap")


def _add_tiers(flags: Flags, names: list[str]) -> None:
    """Their size is the engine's own ratio to the devices' cache."""
    if names:
        flags.add("--enable-hierarchical-cache")
    if {"ssd", "remote"} & set(names):
        flags.add("--hicache-storage-backend", "mooncake" if "remote" in names else "file")


def _add_replicas(flags: Flags, replicas: int, *, routed: bool) -> None:
    if not routed:
        flags.add("--dp-size", replicas)
    elif flags.table.has("--attn-dp-size"):
        flags.add("--attn-dp-size", replicas)
    else:
        flags.add("--dp-size", replicas)
        flags.add("--enable-dp-attention")


def _of_nodes(instance: StoredInstance, flags: Flags) -> list[Settings]:
    found: list[Settings] = []
    for host in range(instance.nodes if instance.nodes > 1 else 0):
        own = Flags(table=flags.table)
        own.add("--nnodes", instance.nodes)
        own.add("--node-rank", host)
        own.add("--dist-init-addr", f"${{MASTER_ADDR}}:{_INIT_PORT}")
        found.append(own.settings)
    return found


COMMANDS = {"sglang": sglang_command}
