"""A stored row as `trtllm-serve`'s YAML.

Source: LLM API, nvidia.github.io/TensorRT-LLM/llm-api/reference.html; its parser needs a GPU."""

from __future__ import annotations

import math

from store.errors import InputError
from sweepdb.launching import server_command
from sweepdb.launching.stored_instance import StoredInstance

VERSIONS = ("1.3.0rc25", "1.3.0rc23")  # the newest first
TOKENS_A_BLOCK = 32
DRAFT_TARGET = "Draft_Target"  # how drafts of a whole model are called


def trtllm_command(
    instance: StoredInstance, role: server_command.Role, instances: int, version: str | None
) -> server_command.ServerCommand:
    _check(instance, version)
    version = version or VERSIONS[0]
    plan, workload = instance.plan, instance.workload
    most = instance.requests_a_replica // plan.pp  # its limit is of a micro-batch, of which each stage has one
    budget = math.ceil(workload.max_batched_tokens / TOKENS_A_BLOCK) * TOKENS_A_BLOCK
    config: dict[str, object] = {
        "backend": "pytorch",
        "tensor_parallel_size": plan.tp * plan.dp,
        "pipeline_parallel_size": plan.pp,
        "max_batch_size": most,
        "max_num_tokens": budget,
        "max_seq_len": instance.context_tokens,
        "enable_chunked_prefill": True,
        "disable_overlap_scheduler": role == "prefill" or instance.model.draft_model is not None,
        "kv_cache_config": {
            "dtype": server_command.kv_format(instance, {"FP8": "fp8"}) or "auto",
            "free_gpu_memory_fraction": server_command.trtllm_share(instance),
            "tokens_per_block": TOKENS_A_BLOCK,
            "enable_block_reuse": server_command.caches_prompts(instance),
            **({"host_cache_size": server_command.outside_bytes(instance)} if workload.tiers else {}),
        },
    }
    if instance.model.routed:
        config |= {
            "enable_attention_dp": plan.dp > 1,
            "moe_expert_parallel_size": plan.ep,
            "moe_tensor_parallel_size": plan.moe_tp,
        }
    graphs = {"max_batch_size": most, "enable_padding": True}
    config["cuda_graph_config"] = graphs if instance.scenario.launch.compile else None  # unsaid, it captures them
    if workload.mtp_tokens:
        config["speculative_config"] = _drafts(instance)
    if role != "server":
        config["cache_transceiver_config"] = {"backend": "DEFAULT", "max_tokens_in_buffer": instance.context_tokens}
    return server_command.ServerCommand(
        role=role,
        instances=instances,
        instance=instance,
        engine="trtllm",
        version=version,
        image=f"nvcr.io/nvidia/tensorrt-llm/release:{version}",
        program=("trtllm-serve", instance.model_name),
        settings={
            "--port": str(server_command.PORTS[role]),
            "--extra_llm_api_options": f"{role}-{server_command.CONFIG_FILE}",
        },
        config=config,
        devices=f"tensor {plan.tp} x attention replicas {plan.dp} x pipeline {plan.pp} = {instance.devices}",
    )


def _check(instance: StoredInstance, version: str | None) -> None:
    server_command.check_launchable("trtllm", instance)
    if version not in {None, *VERSIONS}:
        raise InputError(f"keys of TensorRT-LLM {version} are not known", hint=f"known: {', '.join(VERSIONS)}")
    if instance.model.draft_states:
        raise InputError(
            "TensorRT-LLM's settings for a draft that reads the model's states are not written",
            hint="`engine=vllm` or sglang",
        )
    if instance.workload.images is not None and instance.workload.images.split == "data":
        raise InputError(
            "TensorRT-LLM has no settings for an encoder whose ranks share images", hint="`engine=vllm` or sglang"
        )
    server_command.state_format(instance, {})


def _drafts(instance: StoredInstance) -> dict[str, object]:
    drafts = instance.workload.mtp_tokens
    if instance.draft_model is None:
        return {"decoding_type": "MTP", "num_nextn_predict_layers": drafts}
    return {"decoding_type": DRAFT_TARGET, "max_draft_len": drafts, "speculative_model": instance.draft_model}


COMMANDS = {"trtllm": trtllm_command}
