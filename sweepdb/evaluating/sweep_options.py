"""Every option of `evaluate`, declared once; command line, keywords and sweep files follow.

option_values reads values, requests gives them meaning (sweepdb.evaluating)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, get_args

from queries.asking import check_declared, image_size, one_of, option
from store.light_dataclass import dataclass
from store.schema import FORMULA_MODELS, Convention, Phase

Sizes = tuple[int, ...] | None  # None: not given; empty: powers of two up to the devices
BatchRange = tuple[int, int | None]
# Closed sets that the evaluator owns, restated because options are read where it must not be imported; mypy compares.
Search = Literal["launchable", "every", "tp"]
CostFamily = Literal["auto", "theoretical", "calibrated"]
KvAdmission = Literal["current", "reserved"]
PrefillPolicy = Literal["random", "load", "cache", "mooncake"]
Dispatch = Literal["random", "least"]
EncoderSplit = Literal["weights", "data"]

ARRIVING = "Requests that arrive"
# How an option of each heading of help is declared. `planned` ones are options of a plan, too.
_served = partial(option, heading="What is served", planned=True)
_devices = partial(option, heading="Devices")
_weights = partial(option, heading="Weights and graph", planned=True)
_plans = partial(option, heading="Plans and batches")
_engine = partial(option, heading="Engine and clients")
_arriving = partial(option, heading=ARRIVING)


def _at_least_one(value: int) -> str | None:
    return None if value >= 1 else f"must be at least 1, not {value}"


def _each(check: Callable[[str], str | None]) -> Callable[[Sequence[str]], str | None]:
    return lambda values: next((wrong for value in values if (wrong := check(value)) is not None), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    """Plain values; empty or None is left to device, model or engine."""

    models: tuple[str, ...] = _served(
        (), "id, directory or config.json; several by commas", keyword="model", planned=False
    )
    devices: tuple[str, ...] = _devices(
        (), "device names or profile files; several by commas", keyword="device", planned=True
    )
    num_devices: tuple[int, ...] = _devices(
        (), "devices of one instance; several sizes: 4,8,16 [default: 1]", unit="devices"
    )
    total_devices: int | None = _devices(
        None,
        "devices of all instances; instances of every size that divides them",
        unit="devices",
        check=_at_least_one,
        planned=True,
    )
    prefill_devices: tuple[int, ...] = _devices(
        (), "devices of a prefill instance", keyword="prefill_devices_per_instance", unit="devices"
    )
    decode_devices: tuple[int, ...] = _devices(
        (), "devices of a decode instance", keyword="decode_devices_per_instance", unit="devices"
    )
    input_length: str | None = _served(None, "prompt tokens, or a length distribution FILE", unit="tokens")
    output_length: float | None = _served(None, "generated tokens", unit="tokens")
    images: int | None = _served(
        None, "images of every request, beside the prompt tokens; needs `image_size`", unit="images",
        check=_at_least_one,
    )  # fmt: skip
    image_size: str | None = _served(
        None, "size of an image as it is sent, WIDTHxHEIGHT such as 1024x768", unit="pixels", check=image_size
    )
    encoder_split: EncoderSplit | None = _served(
        None,
        "what tensor parallel ranks of the image encoder share: weights, or data (the images of a step)"
        " [default: weights]",
        check=one_of(*get_args(EncoderSplit)),
    )
    workload_names: tuple[str, ...] = _served(
        (), "named workloads of the store, or a length distribution FILE, instead of lengths", keyword="workload"
    )
    prefix_cache_hit_rate: float = _served(0.0, "share of a prompt found in cache; from 0, below 1", unit="ratio")
    host_hit_rate: float = _served(0.0, "share of a prompt found in the hosts' memory, beside the cache", unit="ratio")
    ssd_hit_rate: float = _served(0.0, "share of a prompt found on the hosts' SSDs", unit="ratio")
    remote_hit_rate: float = _served(0.0, "share of a prompt found in a remote store", unit="ratio")
    host_gb_per_s: float | None = _served(
        None, "GB/s that one device reads of the hosts' memory [default: 0.8 of its profile's link]", unit="GB/s"
    )
    ssd_gb_per_s: float | None = _served(None, "GB/s that one device reads of its SSD", unit="GB/s")
    remote_gb_per_s: float | None = _served(
        None, "GB/s that one device reads of a remote store [default: its link to other hosts]", unit="GB/s"
    )
    max_batched_tokens: int | None = _served(
        None, "most tokens of one step of a replica [default: 8192, or the engine's]", unit="tokens",
        keyword="max_num_batched_tokens", was=("max_batched_tokens",),
    )  # fmt: skip
    linear: tuple[str, ...] = _weights(
        (), "format of linears; several by commas [default: NATIVE, as the weights are published]",
        keyword="quantization", was=("quantize_linear_action",),
    )  # fmt: skip
    experts: str | None = _weights(
        None,
        "format of experts [default: as named for linears, else NATIVE]",
        keyword="experts_quantization",
        was=("quantize_experts_action",),
    )
    mixers: str | None = _weights(
        None,
        "format of products of attention and linear states [default: as named for linears, else NATIVE]",
        keyword="mixers_quantization",
        was=("quantize_mixers_action",),
    )
    head: str | None = _weights(
        None,
        "format of the vocabulary head [default: BF16, or as published]",
        keyword="head_quantization",
        was=("quantize_head_action",),
    )
    drafts: str | None = _weights(
        None, "format of layers that draft [default: as the model's layers, or as published]",
        keyword="drafts_quantization", was=("quantize_drafts_action",),
    )  # fmt: skip
    attention: str | None = _weights(
        None,
        "KV cache: DISABLED, INT8 or FP8; behind it formats of linear states (FP32, BF16) and of an index' keys (BF16,"
        " FP8, FP4), as FP8+states=BF16+index=FP8 [default: NATIVE]",
        keyword="kv_cache_quantization",
        was=("quantize_attention_action",),
    )
    mxfp4_group_size: int = _weights(32, "weights that share one MXFP4 scale", unit="weights", planned=False)
    mtp_tokens: int = _served(0, "tokens drafted a step, 0-9", keyword="num_mtp_tokens", unit="tokens")
    mtp_acceptance: tuple[float, ...] | None = _served(
        None, "acceptance of each drafted token", keyword="mtp_acceptance_rate", unit="ratio"
    )
    speculative: str | None = _served(
        None,
        "drafts: as measured, NAME:k such as dsv4-pro-mtp:3 (sweepdb support lists them), of FILE.yaml:k, or of a whole"
        " model, MODEL:k beside mtp_acceptance_rate",
    )
    compile: bool = _weights(True, "compiled or eager graph [default: compile]", flag="--compile/--eager")
    convention: Convention = _weights(
        "physical", "physical or upstream", check=one_of(*get_args(Convention)), planned=False
    )
    modes: tuple[Phase, ...] = _plans(
        (), "prefill, decode, aggregated; several by commas [default: all]", keyword="mode",
        check=_each(one_of(*get_args(Phase))),
    )  # fmt: skip
    search: Search | None = _plans(
        None,
        "plans to try: launchable as one server, every, or tp; every legal one, tp by seed 001's rule"
        " [default: launchable; every without an engine]",
        check=one_of(*get_args(Search)),
        planned=True,
    )
    tp_sizes: Sizes = _plans(None, "tensor parallel sizes; none given: powers of two", unit="devices")
    pp_sizes: Sizes = _plans(
        None, "pipeline stages [default: 1, and nodes where weights exceed one]", unit="stages", planned=True
    )
    dp_sizes: Sizes = _plans(None, "data parallel replicas", unit="replicas")
    ep_sizes: Sizes = _plans(None, "expert parallel sizes", unit="devices")
    moe_tp_sizes: Sizes = _plans(None, "tensor parallel sizes inside experts", unit="devices")
    moe_dp_sizes: Sizes = _plans(None, "replicas of the expert group", unit="replicas")
    dcp_sizes: Sizes = _plans(
        None, "decode context parallel sizes, shares of a context; searched only when asked", unit="devices"
    )
    redundant_experts: Sizes = _plans(
        None, "copies of experts in a layer beside them; their load is evened out", unit="experts"
    )
    pcp_sizes: Sizes = _plans(
        None,
        "prefill context parallel sizes, groups of tp that divide prompts; searched only when asked",
        unit="groups",
    )
    micro_batches: Sizes = _plans(
        None, "2: halves of a batch, one exchanging rows of experts while the other computes", unit="batches"
    )
    encoder_devices: Sizes = _plans(
        None,
        "devices of their own that encode images, beside those of each instance; needs `images`",
        unit="devices",
        planned=True,
    )
    batch_range: BatchRange = _plans(
        (1, None), "[min] max batch size of a replica [default: what memory holds]", unit="requests"
    )
    serving_cost_ms: float = _engine(0.0, "fixed cost of delivery, ms", keyword="serving_cost", unit="ms")
    serving_models: tuple[str, ...] = _engine(
        (),
        "the engine: vllm, sglang, trtllm or its FILE.yaml; or formulas:"
        f" {', '.join(FORMULA_MODELS)}; several by commas [default: vllm where the device has it, else waves]",
        keyword="serving_model", also=("engine",), planned=True,
    )  # fmt: skip
    client_lengths: float | None = _engine(
        None,
        "shortest request as a share of the lengths [default: the engine's client]",
        unit="ratio",
        planned=True,
    )
    prompts_per_user: int | None = _engine(None, "requests that each user sends in turn", unit="requests")
    poll_steps: int | None = _engine(None, "decode steps between two looks for new requests", unit="steps")
    seats: int | None = _engine(
        None, "most requests of a replica in flight [default: all]", unit="requests",
        keyword="max_num_seqs", was=("seats",),
    )  # fmt: skip
    wait_steps: int | None = _engine(None, "decode steps that a prompt waits for others", unit="steps")
    routing: str | None = _engine(
        None, "tokens over experts: balanced, power_law_1.2, auto, or load_F where the busiest device gets F times"
        " the mean's, such as load_1.35 [default: auto]",
    )  # fmt: skip
    arrivals: str | None = _arriving(
        None,
        "simulate arrivals: poisson, constant, gamma:3, trace:FILE; gamma:CV by its coefficient of variation",
        planned=True,
    )
    rates: tuple[float, ...] | None = _arriving(
        None,
        "arrivals a second of one instance [default: auto, 24 below its saturation]",
        unit="requests/s",
        planned=True,
    )
    requests: int = _arriving(20_000, "arrivals of each rate", unit="requests", planned=True)
    seed: int = _arriving(1, "of arrivals and their lengths", planned=True)
    kv_admission: KvAdmission = _arriving(
        "current", "arrivals enter when their prompt fits (current) or their answer too (reserved)",
        check=one_of(*get_args(KvAdmission)),
    )  # fmt: skip
    dispatch: Dispatch = _arriving(
        "random",
        "the replica of an arrival: random, or that with the least requests",
        check=one_of(*get_args(Dispatch)),
    )
    reject_ttft: float | None = _arriving(None, "turn arrivals away whose predicted TTFT is longer, ms", unit="ms")
    reject_tbt: float | None = _arriving(
        None, "turn arrivals away whose predicted time between tokens is longer, ms", unit="ms"
    )
    keep_requests: bool = _arriving(
        False, "keep every request of each load, too: arrival, lengths, TTFT, TPOT, longest time between tokens"
    )
    prefill_policy: PrefillPolicy | None = _arriving(
        None, "simulate pools of prefill instances that cache prompts: random, load, cache or mooncake",
        check=one_of(*get_args(PrefillPolicy)),
    )  # fmt: skip
    prefill_instances: int = _arriving(4, "instances of a pool", unit="instances", check=_at_least_one)
    cache_blocks: int = _arriving(20_000, "blocks of 512 tokens that an instance of a pool caches", unit="blocks",
                               check=_at_least_one)  # fmt: skip
    trace_caches: str | None = _arriving(
        None,
        "where a log's shared prefixes are kept: device, and host:GB, ssd:GB, remote:GB for each replica, by commas,"
        " such as device,host:400; needs `hash_ids`",
    )
    balance_threshold: float = _arriving(
        1.3, "a pool's longest prefix over the own, above which mooncake fetches it", unit="ratio"
    )
    family: CostFamily = _devices(
        "auto", "auto, theoretical or calibrated cost model", check=one_of(*get_args(CostFamily))
    )

    def __post_init__(self) -> None:
        check_declared(self)
