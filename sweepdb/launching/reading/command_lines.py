"""Command lines of engines as servers.

By the tables that launch files are written with."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from store.errors import InputError
from sweepdb.launching.flag_tables import Flag, FlagTable, flag_table, versions
from sweepdb.launching.reading.found_server import FoundServer, mapping
from sweepdb.launching.reading.settings_files import SIZES, Files, read_into, read_named, role_of_file
from sweepdb.launching.server_command import Engine, Role

# Flags that change no predicted time, or that another flag decides.
_SILENT = {
    "vllm": (
        "--port", "--host", "--model", "--served-model-name", "--max-model-len", "--gpu-memory-utilization",
        "--kv-transfer-config", "--data-parallel-size-local", "--data-parallel-start-rank", "--data-parallel-address",
        "--data-parallel-rpc-port", "--nnodes", "--node-rank", "--master-addr", "--headless", "--trust-remote-code",
        "--max-cudagraph-capture-size", "--enable-prefix-caching", "--disable-prefix-caching",
        "--no-enable-prefix-caching", "--tool-call-parser", "--reasoning-parser", "--enable-auto-tool-choice",
        "--kv-offloading-backend",
    ),
    "sglang": (
        "--model-path", "--port", "--host", "--served-model-name", "--context-length", "--mem-fraction-static",
        "--disable-radix-cache", "--cuda-graph-max-bs-decode", "--cuda-graph-max-bs", "--disaggregation-mode",
        "--disaggregation-transfer-backend", "--disaggregation-bootstrap-port", "--nnodes", "--node-rank",
        "--skip-tokenizer-init",
        "--dist-init-addr", "--speculative-eagle-topk", "--speculative-num-draft-tokens", "--trust-remote-code",
        "--tool-call-parser", "--reasoning-parser", "--language-only", "--encoder-transfer-backend",
    ),
    "trtllm": (
        "--port", "--host", "--backend", "--tokenizer", "--custom_tokenizer", "--log_level", "--gpus_per_node",
        "--trust_remote_code", "--revision", "--reasoning_parser", "--tool_parser", "--metadata_server_config_file",
        "--disagg_cluster_uri", "--enable_chunked_prefill", "--chat_template", "--served_model_name",
    ),
}  # fmt: skip


_PROGRAMS: Mapping[str, Engine] = {
    "vllm serve": "vllm", "vllm.entrypoints.openai.api_server": "vllm", "dynamo.vllm": "vllm",
    "sglang serve": "sglang", "sglang.launch_server": "sglang", "launch_server": "sglang", "dynamo.sglang": "sglang",
    "trtllm-serve serve": "trtllm", "trtllm-serve": "trtllm", "dynamo.trtllm": "trtllm",
}  # fmt: skip
_OTHERS = ("", " disaggregated", " disaggregated_mpi_worker", " mm_embedding_serve")
_NOT_SERVING = {f"trtllm-serve{other}" for other in _OTHERS}

_LENGTH = re.compile(r"(\d+(?:\.\d+)?)([kK]?)")
_STATES = {"float32": "FP32", "bfloat16": "BF16"}  # which vLLM and SGLang name alike


def engine_of_words(words: Sequence[str]) -> tuple[Engine, int] | None:
    """With the place of what follows the program."""
    for place, word in enumerate(words):
        name = word.rpartition("/")[2]
        both = " ".join([name, *words[place + 1 : place + 2]])
        for started, after in ((both, place + 2), (name, place + 1)):
            if started in _PROGRAMS and both not in _NOT_SERVING:
                return _PROGRAMS[started], after
    return None


def read_words(words: Sequence[str], engine: Engine, where: str, files: Files) -> FoundServer:
    """Unmapped flags are named."""
    table = flag_table(engine)
    values, model, unknown = _values(words, table, where)
    server, said = FoundServer(where=where, engine=engine, model=model), _Said(values, where, files)
    _READERS[engine](server, said)
    server.not_mapped += [*unknown, *sorted(set(values) - said.read - set(_SILENT[engine]))]
    return server


class _Said:
    """By full names; what was looked at counts as read."""

    def __init__(self, values: Mapping[str, str | None], where: str, files: Files) -> None:
        self._values, self._where, self._files = values, where, files
        self.read: set[str] = set()

    def __contains__(self, name: str) -> bool:
        self.read.add(name)
        return name in self._values

    def text(self, name: str) -> str | None:
        return self._values[name] if name in self else None

    def whole(self, name: str) -> int | None:
        text = self.text(name)
        try:
            return None if text is None else int(text)
        except ValueError:
            raise InputError(f"{self._where}: {name} {text} is no whole number") from None

    def share(self, name: str) -> float | None:
        text = self.text(name)
        try:
            return None if text is None else float(text)
        except ValueError:
            raise InputError(f"{self._where}: {name} {text} is no number") from None

    def tokens(self, name: str) -> int | None:
        """4096, 4k (thousands) or 4K (of 1,024); None where an engine works it out."""
        found = _LENGTH.fullmatch(self.text(name) or "")
        return None if found is None else int(float(found[1]) * {"k": 1000, "K": 1024}.get(found[2], 1))

    def settings(self, name: str) -> dict[str, object]:
        try:
            found = json.loads(self.text(name) or "")
        except json.JSONDecodeError:
            return {}
        return found if isinstance(found, dict) else {}

    def file(self, name: str) -> tuple[dict[str, object], list[str]]:
        return read_named(self.text(name), self._files, self._where)

    def read_where(self, mapped: object, *names: str) -> None:
        """Counts flags as read only if something is mapped."""
        self.read = self.read | set(names) if mapped else self.read - set(names)


def _values(words: Sequence[str], table: FlagTable, where: str) -> tuple[dict[str, str | None], str | None, list[str]]:
    parts = list(_parts(words, table, where))
    values = {one.name: one.value for one in parts if one.name is not None}
    others = [one.words[0].partition("=")[0] for one in parts if one.name is None]
    model = next((word for word in others if not word.startswith("-")), None)
    return values, model, [word.replace("_", "-") for word in others if word.startswith("-")]


class _Part(NamedTuple):
    words: tuple[str, ...]
    name: str | None = None  # in full
    value: str | None = None


def _parts(words: Sequence[str], table: FlagTable, where: str) -> Iterator[_Part]:
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        name = table.spelled(name) if name.startswith("--") else name
        if not name.startswith("-"):
            yield _Part((word,))
            continue
        typed, flag = [word], _flag(table, name) or _of_older(table, name)
        if flag is None:
            if not equals and rest and not rest[0].startswith("-"):
                typed.append(rest.pop(0))
            yield _Part(tuple(typed))
            continue
        if flag.takes != "nothing" and not equals:
            if not rest:
                raise InputError(f"{where}: {name} lacks its value")
            typed.append(rest.pop(0))
            while flag.takes == "strs" and rest and not rest[0].startswith("-"):
                typed.append(rest.pop(0))
            value = " ".join(typed[1:])
        full = name if name in flag.names and name.startswith(("--no-", "--disable-")) else flag.names[0]
        yield _Part(tuple(typed), full, None if flag.takes == "nothing" else value)


_ENDS = {"&", "&&", "|", "||", ";", ">", ">>", "<"}


def changed_line(
    words: Sequence[str], changes: Mapping[str, str | None], without: Collection[str], model: Sequence[str] = ()
) -> str:
    """As typed, but for some flags, written in full at the end; then what only a file of settings says.

    Without leading variables, which may name devices, and without redirections."""
    engine, start = engine_of_words(list(words)) or ("", 0)
    table = flag_table(engine)
    flags = {flag: value for name, value in changes.items() if (flag := _flag_of(table, name)) is not None}
    left_out = {_flag_of(table, name) for name in without}
    of_file = [f"{name} {value}" for name, value in changes.items() if _flag_of(table, name) is None]
    of_file += [f"without {name}" for name in without if _flag_of(table, name) is None]
    first = next(place for place, word in enumerate(words) if "=" not in word or word.startswith("-"))
    ends = (place for place, word in enumerate(words) if word in _ENDS or word.startswith(("2>", "1>", ">")))
    last = next((place for place in ends if place >= start), len(words))
    kept = [
        word
        for part in _parts(words[start:last], table, "the command line")
        if part.name is None or part.name not in {*flags, *left_out}
        for word in part.words
    ]
    kept = [model[-1] if word in model else word for word in kept]
    added = [word for name, value in flags.items() for word in ([name] if value is None else [name, value])]
    line = shlex.join([*words[first:start], *kept, *added])
    return f"{line}; in its YAML: {', '.join(of_file)}" if of_file else line


def _flag_of(table: FlagTable, name: str) -> str | None:
    """Of a flag or a setting; None where only a file says it."""
    flag = table.flags.get(_OF_THE_CACHE.get(name, f"--{name}"))
    return name if name.startswith("--") else None if flag is None or flag.takes == "nothing" else flag.names[0]


def _flag(table: FlagTable, name: str) -> Flag | None:
    """By name or unique beginning, as parsers take it."""
    if name in table.flags:
        return table.flags[name]
    meant = {flag.names[0]: flag for known, flag in table.flags.items() if known.startswith(name)}
    return next(iter(meant.values())) if name.startswith("--") and len(meant) == 1 else None


def _of_older(table: FlagTable, name: str) -> Flag | None:
    """Of an older version, which somebody may run."""
    tables = (flag_table(table.engine, version) for version in versions(table.engine))
    return next((older.flags[name] for older in tables if name in older.flags), None)


def _read_vllm(server: FoundServer, said: _Said) -> None:
    server.model = said.text("--model") or server.model
    server.tp = said.whole("--tensor-parallel-size") or 1
    server.pp = said.whole("--pipeline-parallel-size") or 1
    server.dp = said.whole("--data-parallel-size") or 1
    server.pcp = said.whole("--prefill-context-parallel-size") or 1
    server.ep = server.tp * server.dp * server.pcp if "--enable-expert-parallel" in said else 1
    server.micro_batches = 2 if "--enable-dbo" in said else 1
    server.dcp = said.whole("--decode-context-parallel-size") or 1
    balanced = "--enable-eplb" in said
    copies = said.settings("--eplb-config").get("num_redundant_experts")
    server.redundant_experts = copies if balanced and isinstance(copies, int) else 0
    most = said.whole("--max-num-seqs")
    server.most_requests = None if most is None else max(most // server.pp, 1)
    server.token_budget = said.whole("--max-num-batched-tokens")
    server.memory_share, server.longest = said.share("--gpu-memory-utilization"), said.tokens("--max-model-len")
    server.attention = _cache(said, "--mamba-ssm-cache-dtype")
    server.linear = "FP8" if said.text("--quantization") == "fp8" else None
    server.compile = "--enforce-eager" not in said
    drafts = said.settings("--speculative-config")
    drafted = drafts.get("num_speculative_tokens")
    server.mtp_tokens = drafted if isinstance(drafted, int) else 0
    server.draft_model = _whole_draft(drafts)
    server.encoder_split = said.text("--mm-encoder-tp-mode")
    server.most_images = _most_images(said, "--limit-mm-per-prompt")
    transfer = said.settings("--kv-transfer-config")
    server.tiers = ("host",) if "--kv-offloading-size" in said else ()
    role = {"kv_producer": "prefill", "kv_consumer": "decode"}.get(str(transfer.get("kv_role")))
    if role is not None:
        server.role = "prefill" if role == "prefill" else "decode"
    own_drafts = drafts.get("method") in {"mtp", "deepseek_mtp"}
    for mapped, *names in (
        (server.micro_batches > 1, "--all2all-backend"),
        (server.redundant_experts, "--enable-eplb", "--eplb-config"),
        (server.linear, "--quantization"),
        (own_drafts or server.draft_model, "--speculative-config"),
    ):
        said.read_where(mapped, *names)


def _whole_draft(drafts: Mapping[str, object]) -> str | None:
    """vLLM's whole drafting model. Without a method its name may say that it is none."""
    name, method = drafts.get("model"), drafts.get("method")
    if not isinstance(name, str) or method not in {None, "draft_model"}:
        return None
    heads = ("eagle", "medusa", "mlp_speculator", "dflash", "dspark", "mtp")
    return None if method is None and any(head in name.lower() for head in heads) else name


def _most_images(said: _Said, limit: str) -> int | None:
    most = said.settings(limit).get("image")
    most = most.get("count") if isinstance(most, dict) else most
    if "--language-model-only" in said:
        return 0
    return most if isinstance(most, int) else None


def _read_sglang(server: FoundServer, said: _Said) -> None:
    server.model = said.text("--model-path") or server.model
    group = said.whole("--tp-size") or 1
    replicas = said.whole("--attn-dp-size") or 1
    copies = said.whole("--dp-size") or 1
    if "--enable-dp-attention" in said:
        replicas, copies = max(replicas, copies), 1
    server.pcp = said.whole("--attn-cp-size") or 1
    server.micro_batches = 2 if "--enable-two-batch-overlap" in said else 1
    server.tp, server.dp = max(group // (replicas * server.pcp), 1), replicas * copies
    server.pp = said.whole("--pp-size") or 1
    server.ep = said.whole("--ep-size") or 1
    server.moe_tp = max(group // server.ep, 1)
    server.dcp = said.whole("--dcp-size") or 1
    server.redundant_experts = said.whole("--ep-num-redundant-experts") or 0
    most = said.whole("--max-running-requests")
    server.most_requests = None if most is None else max(most // (replicas * server.pp), 1)
    server.memory_share, server.longest = said.share("--mem-fraction-static"), said.tokens("--context-length")
    budget = said.whole("--chunked-prefill-size")
    server.token_budget = None if budget is None else budget // replicas
    server.attention = _cache(said, "--mamba-ssm-dtype")
    graphs = said.text("--cuda-graph-backend-decode")
    server.compile = "--disable-cuda-graph" not in said and graphs != "disabled"
    server.mtp_tokens = said.whole("--speculative-num-steps") or 0
    server.encoder_split = "data" if "--mm-enable-dp-encoder" in said else None
    server.encoder_devices = len(str(said.text("--encoder-urls") or "").split())
    server.most_images = _most_images(said, "--limit-mm-data-per-request")
    stores = {"file": ("ssd",), None: ()}
    if "--enable-hierarchical-cache" in said:
        server.tiers = ("host", *stores.get(said.text("--hicache-storage-backend"), ("remote",)))
    role = said.text("--disaggregation-mode")
    if role in {"prefill", "decode"}:
        server.role = "prefill" if role == "prefill" else "decode"
    algorithm = said.text("--speculative-algorithm")
    if algorithm == "STANDALONE":
        server.draft_model = said.text("--speculative-draft-model-path")
    for mapped, *names in (
        (server.tiers, "--hicache-ratio", "--hicache-size", "--hicache-io-backend", "--hicache-mem-layout",
         "--hicache-write-policy"),
        (server.pcp > 1, "--enable-prefill-cp", "--cp-strategy"),
        (server.micro_batches > 1, "--moe-a2a-backend"),
        (server.redundant_experts, "--enable-eplb"),
        (algorithm in {None, "NEXTN", "EAGLE"} or server.draft_model, "--speculative-algorithm"),
    ):  # fmt: skip
        said.read_where(mapped, *names)


def _cache(said: _Said, flag: str) -> str | None:
    """With the linear states' format, where a flag says one."""
    cache = "FP8" if str(said.text("--kv-cache-dtype")).startswith("fp8") else None
    states = _STATES.get(str(said.text(flag)))
    said.read_where(states, flag)
    return cache if states is None else f"{cache or 'NATIVE'}+states={states}"


_ROLES: Mapping[str, Role] = {"context": "prefill", "generation": "decode"}  # of TensorRT-LLM
_OF_THE_CACHE = {
    "kv_cache_config.free_gpu_memory_fraction": "--free_gpu_memory_fraction",
    "kv_cache_config.dtype": "--kv_cache_dtype",
}


def _read_trtllm(server: FoundServer, said: _Said) -> None:
    """Flags win over the file, as since github.com/NVIDIA/TensorRT-LLM/pull/14812; before, the file did."""
    document, server.not_mapped = said.file("--config")
    server.role = role_of_file(said.text("--config") or "")
    server.role = _ROLES.get(str(said.text("--server_role")).lower(), server.role)
    own: dict[str, object] = {key: size for key in SIZES if (size := said.whole(f"--{key}")) is not None}
    if "--enable_attention_dp" in said:
        own["enable_attention_dp"] = True
    cache = mapping(document.get("kv_cache_config"))
    for name, flag in _OF_THE_CACHE.items():
        if (value := said.text(flag)) is not None:
            cache[name.partition(".")[2]] = said.share(flag) if flag.endswith("fraction") else value
    own["kv_cache_config"] = cache
    read_into(server, {**document, **own})


_READERS: Mapping[Engine, Callable[[FoundServer, _Said], None]] = {
    "vllm": _read_vllm,
    "sglang": _read_sglang,
    "trtllm": _read_trtllm,
}
