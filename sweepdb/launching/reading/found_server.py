"""A server as its file describes it, and what was not understood."""

from __future__ import annotations

from dataclasses import dataclass, field

from evaluator.inputs import load_model, measured_for, missing_draft
from store.errors import InputError
from store.schema import Phase
from sweepdb.launching.server_command import Engine, Role

PHASES: dict[Role, Phase] = {"server": "aggregated", "prefill": "prefill", "decode": "decode"}


@dataclass(slots=True, kw_only=True)
class FoundServer:
    """Experts' sizes None: the engine's choice. Others None: not said."""

    where: str  # the file, and the part of it
    engine: Engine
    words: tuple[str, ...] = ()  # of its command line, where it has one
    role: Role = "server"
    instances: int = 1
    model: str | None = None
    device: str | None = None
    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int | None = None
    moe_tp: int | None = None
    dcp: int = 1
    redundant_experts: int = 0
    pcp: int = 1
    micro_batches: int = 1
    batch_sizes: tuple[int, ...] = ()  # requests of one replica and stage that were measured
    most_requests: int | None = None  # that a replica and stage serves at once: an upper bound
    token_budget: int | None = None
    memory_share: float | None = None  # of the engine's own kind: vLLM's of a device, TensorRT-LLM's of what is free
    longest: int | None = None  # tokens of a request that it lets in
    linear: str | None = None
    experts: str | None = None
    attention: str | None = None
    compile: bool = True
    mtp_tokens: int = 0
    speculative: str | None = None  # the table that says what they gain, where one does
    draft_model: str | None = None  # a whole model that drafts
    input_length: int | None = None
    output_length: float | None = None
    prefix_cache_hit_rate: float | None = None
    encoder_split: str | None = None  # read where images are asked for
    encoder_devices: int = 0  # the same
    most_images: int | None = None  # a request may have
    tiers: tuple[str, ...] = ()  # where keys of prompts lie outside the devices: host, ssd, remote
    hit_rates: dict[str, float] = field(default_factory=dict)  # keywords of what lies there, where the file says so
    not_mapped: list[str] = field(default_factory=list)

    def options(self) -> dict[str, object]:
        """Keywords of `evaluate`. An unread model is refused by its reader."""
        if self.model is None:
            hint = "name it as well: sweepdb plan MODEL `from_deployment=FILE`"
            raise InputError(f"{self.where} names no model", hint=hint)
        routed = load_model(self.model)[1].routed
        first, last = min(self.batch_sizes, default=1), max(self.batch_sizes, default=self.most_requests)
        self.measured_drafts()
        group = self.tp * self.dp * self.pcp
        ep = (1 if self.ep is None else self.ep) if routed else 1
        moe_tp = (max(group // ep, 1) if self.moe_tp is None else self.moe_tp) if routed else 1
        said: dict[str, object] = {
            "model": self.model,
            "device": self.device,
            "num_devices": group * self.pp,
            "tp_sizes": self.tp,
            "pp_sizes": self.pp,
            "dp_sizes": self.dp,
            "ep_sizes": ep,
            "moe_tp_sizes": moe_tp,
            "moe_dp_sizes": 1 if routed else None,
            "dcp_sizes": self.dcp if self.dcp > 1 else None,
            "redundant_experts": self.redundant_experts or None,
            "pcp_sizes": self.pcp if self.pcp > 1 else None,
            "micro_batches": self.micro_batches if self.micro_batches > 1 else None,
            "batch_range": None if last is None else (first, last),
            "max_num_batched_tokens": self.token_budget,
            "quantization": self.linear,
            "experts_quantization": self.experts,
            "kv_cache_quantization": self.attention,
            "compile": self.compile,
            **self._drafts(),
            "input_length": self.input_length,
            "output_length": self.output_length,
            "prefix_cache_hit_rate": self.prefix_cache_hit_rate,
            **self.hit_rates,
            "serving_model": self.engine,
            "mode": PHASES[self.role],
        }
        return {keyword: value for keyword, value in said.items() if value is not None}

    def measured_drafts(self) -> None:
        """From its model's table; a whole model's gains are stated by who asks.

        Drafts without a price are named as unmapped."""
        if self.draft_model is not None and self.mtp_tokens:
            self.speculative, self.mtp_tokens = f"{self.draft_model}:{self.mtp_tokens}", 0
        found = measured_for(self.model, self.mtp_tokens) if self.model and self.mtp_tokens else None
        if found is None or self.model is None:
            return
        missing = missing_draft(found.table, load_model(self.model)[1])
        if missing is None:
            self.speculative = found.label
        else:
            self.not_mapped.append(f"drafts of {found.table.name}, evaluated without: {missing}")
        self.mtp_tokens = 0

    def _drafts(self) -> dict[str, object]:
        return {"speculative": self.speculative} if self.speculative else {"num_mtp_tokens": self.mtp_tokens}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadDeployment:
    """And parts that are none, with reasons."""

    servers: tuple[FoundServer, ...]
    refused: tuple[str, ...] = ()


def mapping(value: object) -> dict[str, object]:
    return {str(key): one for key, one in value.items()} if isinstance(value, dict) else {}


def number(value: object, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def role_of(name: str) -> Role:
    return "prefill" if name == "prefill" else "decode" if name == "decode" else "server"
