"""Settings of TensorRT-LLM as a server. Not here: where they are found (deployment_files, dynamo)."""

from __future__ import annotations

from collections.abc import Mapping

from sweepdb.launching.reading.found_server import FoundServer
from sweepdb.launching.reading.plain_values import mapping, number, role_of
from sweepdb.launching.trtllm_config import DRAFT_TARGET


def read_settings(document: Mapping[str, object], where: str, role: str) -> FoundServer:
    """Keys of the LLM API: the tensor group holds attention replicas where these are on."""
    group = number(document.get("tensor_parallel_size"), 1)
    apart = bool(document.get("enable_attention_dp"))
    cache, drafts = mapping(document.get("kv_cache_config")), mapping(document.get("speculative_config"))
    server = FoundServer(where=where, engine="trtllm", role=role_of(role))
    server.tp, server.dp = (1, group) if apart else (group, 1)
    server.pp = number(document.get("pipeline_parallel_size"), 1)
    server.ep = number(document.get("moe_expert_parallel_size"), 1)
    server.moe_tp = number(document.get("moe_tensor_parallel_size"), max(group // server.ep, 1))
    most = number(document.get("max_batch_size"), 0)
    server.batch_sizes = (max(most // server.pp, 1),) if most else ()
    server.token_budget = number(document.get("max_num_tokens"), 0) or None
    server.attention = "FP8" if cache.get("dtype") == "fp8" else None
    server.tiers = ("host",) if number(cache.get("host_cache_size"), 0) else ()
    server.compile = "cuda_graph_config" in document
    server.mtp_tokens = number(drafts.get("num_nextn_predict_layers"), 0)
    if drafts.get("decoding_type") == DRAFT_TARGET:
        server.mtp_tokens = number(drafts.get("max_draft_len"), 0)
        server.draft_model = str(drafts.get("speculative_model") or drafts.get("speculative_model_dir"))
    known = {
        "tensor_parallel_size", "enable_attention_dp", "kv_cache_config", "speculative_config",
        "pipeline_parallel_size", "moe_expert_parallel_size", "moe_tensor_parallel_size", "max_batch_size",
        "max_num_tokens", "max_seq_len", "cuda_graph_config", "backend", "enable_chunked_prefill",
        "disable_overlap_scheduler", "cache_transceiver_config",
    }  # fmt: skip
    server.not_mapped = sorted(set(document) - known)
    return server
