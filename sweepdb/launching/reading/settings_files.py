"""Files of TensorRT-LLM's settings as servers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import yaml

from evaluator.inputs import shortened
from store.errors import InputError
from sweepdb.launching.reading.found_server import FoundServer, mapping, number, role_of
from sweepdb.launching.server_command import Role
from sweepdb.launching.trtllm_config import DRAFT_TARGET

Files = Callable[[str], str | None]  # the text of a file that a command names
_SETTINGS_FILE = re.compile(r"(server|prefill|decode)-engine\.yaml$")  # as `launch` calls them
SIZES = (
    "tensor_parallel_size", "pipeline_parallel_size", "moe_expert_parallel_size", "max_batch_size", "max_num_tokens",
    "max_seq_len",
)  # fmt: skip
_SETTINGS = {
    *SIZES, "enable_attention_dp", "kv_cache_config", "speculative_config", "moe_tensor_parallel_size",
    "cuda_graph_config", "backend", "enable_chunked_prefill", "disable_overlap_scheduler", "cache_transceiver_config",
}  # fmt: skip


def read_named(named: str | None, files: Files, where: str) -> tuple[dict[str, object], list[str]]:
    """The YAML that a command names, and what to say if it is not there."""
    if named is None:
        return {}, []
    if (text := files(named)) is None:
        return {}, [f"{named}, which was not found"]
    try:
        return mapping(yaml.safe_load(text)), []
    except yaml.YAMLError as error:
        raise InputError(f"{where}: {named} is no YAML: {shortened(' '.join(str(error).split()))}") from None


def role_of_file(name: str) -> Role:
    match = _SETTINGS_FILE.search(name)
    return role_of(match[1] if match else "server")


def read_settings(document: Mapping[str, object], where: str) -> FoundServer:
    """A file of the LLM API."""
    server = FoundServer(where=where, engine="trtllm", role=role_of_file(where))
    read_into(server, document)
    return server


def read_into(server: FoundServer, document: Mapping[str, object]) -> None:
    """Keys of the LLM API: the tensor group holds attention replicas where these are on."""
    group = number(document.get("tensor_parallel_size"), 1)
    apart = bool(document.get("enable_attention_dp"))
    cache, drafts = mapping(document.get("kv_cache_config")), mapping(document.get("speculative_config"))
    server.tp, server.dp = (1, group) if apart else (group, 1)
    server.pp = number(document.get("pipeline_parallel_size"), 1)
    server.ep = number(document.get("moe_expert_parallel_size"), 1)
    server.moe_tp = number(document.get("moe_tensor_parallel_size"), max(group // server.ep, 1))
    most = number(document.get("max_batch_size"), 0)  # of each pipeline stage
    server.most_requests = most or None
    server.token_budget = number(document.get("max_num_tokens"), 0) or None
    server.longest, share = number(document.get("max_seq_len"), 0) or None, cache.get("free_gpu_memory_fraction")
    server.memory_share = float(share) if isinstance(share, int | float) else None
    server.attention = "FP8" if cache.get("dtype") == "fp8" else None
    server.tiers = ("host",) if number(cache.get("host_cache_size"), 0) else ()
    server.compile = document.get("cuda_graph_config", {}) is not None  # captured unless it is null
    server.mtp_tokens = number(drafts.get("num_nextn_predict_layers"), 0)
    if drafts.get("decoding_type") == DRAFT_TARGET:
        server.mtp_tokens = number(drafts.get("max_draft_len"), 0)
        server.draft_model = str(drafts.get("speculative_model") or drafts.get("speculative_model_dir"))
    server.not_mapped += sorted(set(document) - _SETTINGS)
