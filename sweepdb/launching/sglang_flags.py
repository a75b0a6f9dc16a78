"""A stored row as SGLang's flags.

Source: its parser, and docs.sglang.io on server arguments and disaggregation."""

from __future__ import annotations

import json

from evaluator.inputs import Plan, Workload
from store.errors import InputError
from sweepdb.launching import server_command
from sweepdb.launching.flag_tables import flag_table
from sweepdb.launching.stored_instance import StoredInstance

_INIT_PORT = 20000
ENCODER_PORT = 8300


def sglang_command(
    instance: StoredInstance, role: server_command.Role, instances: int, version: str | None
) -> server_command.ServerCommand:
    """Its tensor group counts attention replicas' devices, and divides batch and token budget among them."""
    server_command.check_launchable("sglang", instance)
    table = flag_table("sglang", version)
    plan, workload, routed = instance.plan, instance.workload, instance.model.routed
    flags = server_command.Flags(table=table)
    shared = plan.dp if routed else 1  # replicas inside the tensor group
    flags.add({
        "--model-path": instance.model_name,
        "--port": server_command.PORTS[role],
        "--tp-size": plan.tp * plan.pcp * shared,
        "--pp-size": plan.pp,
        **_experts_and_shares(plan, routed=routed),
        **_replicas(flags, plan.dp, routed=routed),
        "--max-running-requests": instance.requests_a_replica * shared,
        "--chunked-prefill-size": workload.max_batched_tokens * shared,
        "--context-length": instance.context_tokens,
        "--mem-fraction-static": f"{server_command.sglang_share(instance):.2f}",
        "--kv-cache-dtype": server_command.kv_format(instance, {"FP8": "fp8_e4m3"}),
        "--mamba-ssm-dtype": server_command.state_format(instance, {"FP32": "float32", "BF16": "bfloat16"}),
        "--disable-radix-cache": not server_command.caches_prompts(instance),
        **_tiers({tier.name for tier in workload.tiers}),
    })  # fmt: skip
    if instance.scenario.launch.compile:
        graphs = table.first("--cuda-graph-max-bs-decode", "--cuda-graph-max-bs")
        flags.add({graphs: instance.requests_a_replica})
    elif table.has("--cuda-graph-backend-decode"):
        flags.add({"--cuda-graph-backend-decode": "disabled"})
    else:
        flags.add({"--disable-cuda-graph": True})
    flags.add({**_images(workload), **_encoders(plan.encoder_devices), **_drafts(instance)})
    if role != "server":
        flags.add({"--disaggregation-mode": role, "--disaggregation-transfer-backend": "nixl"})
    product = f"tensor {plan.tp} x attention replicas {plan.dp}" if routed else f"tensor {plan.tp} x data {plan.dp}"
    product += f" x prefill context {plan.pcp}" if plan.pcp > 1 else ""
    encoders = f", and {plan.encoder_devices} that encode its images" if plan.encoder_devices else ""
    return server_command.ServerCommand(
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


def _drafts(instance: StoredInstance) -> dict[str, object]:
    if instance.model.draft_block:
        hint = "`engine=vllm`; SGLang reads another draft of such blocks"
        raise InputError("SGLang's flags for drafts of a whole block in one pass are not written", hint=hint)
    if not (drafts := instance.workload.mtp_tokens):
        return {}
    whole = instance.model.draft_model is not None
    if whole and instance.model.routed and instance.plan.dp > 1:
        hint = "a plan with dp 1, or `engine=vllm`"
        raise InputError("SGLang drafts with no whole model beside attention replicas inside its group", hint=hint)
    return {
        "--speculative-algorithm": "STANDALONE" if whole else "EAGLE3" if instance.draft_model else "NEXTN",
        "--speculative-draft-model-path": instance.draft_model or None,
        "--speculative-num-steps": drafts,
        "--speculative-eagle-topk": 1,
        "--speculative-num-draft-tokens": drafts + 1,
    }


def _images(workload: Workload) -> dict[str, object]:
    if workload.images is None:
        return {}
    most = json.dumps({"image": workload.images.count})
    return {"--limit-mm-data-per-request": most, "--mm-enable-dp-encoder": workload.images.split == "data"}


def _encoders(number: int) -> dict[str, object]:
    """By their hosts' names: docs.sglang.io, EPD Disaggregation."""
    if not number:
        return {}
    urls = " ".join(f"http://{name}:{port}" for name, port in encoder_places(number))
    return {"--language-only": True, "--encoder-urls": urls, "--encoder-transfer-backend": "auto"}


def encoder_places(number: int) -> list[tuple[str, int]]:
    return [(f"ENCODER_{place}", ENCODER_PORT + place) for place in range(number)]


def encoder_settings(instance: StoredInstance, version: str) -> server_command.Settings:
    flags = server_command.Flags(table=flag_table("sglang", version))
    flags.add({"--model-path": instance.model_name, "--encoder-only": True, "--encoder-transfer-backend": "auto"})
    return flags.settings


def _experts_and_shares(plan: Plan, *, routed: bool) -> dict[str, object]:
    return {
        "--ep-size": plan.ep if routed else None,
        "--enable-eplb": plan.redundant_experts > 0,
        "--ep-num-redundant-experts": plan.redundant_experts or None,
        "--dcp-size": plan.dcp if plan.dcp > 1 else None,
        "--attn-cp-size": plan.pcp if plan.pcp > 1 else None,
        "--enable-prefill-cp": plan.pcp > 1,
        "--cp-strategy": "zigzag" if plan.pcp > 1 else None,
        "--moe-a2a-backend": "deepep" if plan.micro_batches > 1 else None,
        "--enable-two-batch-overlap": plan.micro_batches > 1,
    }


def _tiers(names: set[str]) -> dict[str, object]:
    """Their size is the engine's own ratio to the devices' cache."""
    kept = "mooncake" if "remote" in names else "file" if "ssd" in names else None
    return {"--enable-hierarchical-cache": bool(names), "--hicache-storage-backend": kept}


def _replicas(flags: server_command.Flags, replicas: int, *, routed: bool) -> dict[str, object]:
    if replicas == 1:
        return {}
    if routed and flags.table.has("--attn-dp-size"):
        return {"--attn-dp-size": replicas}
    return {"--dp-size": replicas, "--enable-dp-attention": routed}


def _of_nodes(instance: StoredInstance, flags: server_command.Flags) -> list[server_command.Settings]:
    found: list[server_command.Settings] = []
    for host in range(instance.nodes if instance.nodes > 1 else 0):
        own = server_command.Flags(table=flags.table)
        place = f"${{MASTER_ADDR}}:{_INIT_PORT}"
        own.add({"--nnodes": instance.nodes, "--node-rank": host, "--dist-init-addr": place})
        found.append(own.settings)
    return found


COMMANDS = {"sglang": sglang_command}
