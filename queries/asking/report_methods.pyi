# fmt: off
"""The methods of queries.asking.report_methods for type checkers; `python -m tools.keyword_types` writes this file."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal, Required, TypedDict, Unpack

from queries.asking.question import Answer

class ScopeKeywords(TypedDict, total=False):
    """Which stored rows a question is about."""
    model: str | Sequence[str] | None
    device: str | Sequence[str] | None
    sweep: str | None
    last: bool | None
    all: bool | None
    workload: str | None
    input_length: int | str | None
    output_length: float | None
    prefix_cache_hit_rate: float | None
    max_num_batched_tokens: int | None
    images: int | None
    image_size: str | None
    encoder_split: str | None
    quantization: str | None
    kv_cache_quantization: str | None
    convention: str | None
    family: str | None
    serving_model: str | None
    engine: str | None
    serving_cost: float | None
    num_mtp_tokens: int | None
    compile: bool | None
    eager: bool | None
    shortest_length: float | None
    prompts_per_user: int | None
    poll_steps: int | None
    max_num_seqs: int | None
    wait_steps: int | None
    routing: str | None
    instance_devices: int | None
    all_versions: bool | None

class AttainmentKeywords(ScopeKeywords, total=False):
    ttft_limit: float | None
    tpot_limit: float | None
    tbt_limit: float | None
    e2e_limit: float | None
    confidence: float | None
    tuned_servers: bool | None
    num_devices: int | None
    mode: Literal["aggregated", "prefill", "decode"] | None
    attainment: float | None
    rate: float | None
    scale: bool | None
    marginal: bool | None
    as_predicted: bool | None
    top: int | None
    preset: Literal["sweepdb", "upstream", "seed000", "seed001"] | None

class BestKeywords(ScopeKeywords, total=False):
    ttft_limit: float | None
    tpot_limit: float | None
    tbt_limit: float | None
    e2e_limit: float | None
    min_tokens_per_s_per_user: float | None
    reserved_memory_gb: float | None
    confidence: float | None
    tuned_servers: bool | None
    tpot_definition: Literal["inclusive", "exclusive"] | None
    prefill_rate: Literal["capacity", "ttft"] | None
    decode_rate: Literal["minus-one", "full"] | None
    throughput: Literal["once", "twice"] | None
    kv_charge: Literal["full", "mean"] | None
    num_devices: int | None
    kv_transfer_gb_per_s: float | None
    mode: Literal["aggregated", "prefill", "decode", "pd"] | None
    rank_by: str | None
    attainment: float | None
    by: str | None
    marginal: bool | None
    as_predicted: bool | None
    rows: Literal["predicted", "measured", "both"] | None
    top: int | None
    preset: Literal["sweepdb", "upstream", "seed000", "seed001"] | None

class ByLengthKeywords(ScopeKeywords, total=False):
    ttft_limit: float | None
    tpot_limit: float | None
    e2e_limit: float | None
    min_tokens_per_s_per_user: float | None
    reserved_memory_gb: float | None
    confidence: float | None
    tuned_servers: bool | None
    tpot_definition: Literal["inclusive", "exclusive"] | None
    prefill_rate: Literal["capacity", "ttft"] | None
    decode_rate: Literal["minus-one", "full"] | None
    throughput: Literal["once", "twice"] | None
    kv_charge: Literal["full", "mean"] | None
    num_devices: int | None
    prefill_device: str | None
    decode_device: str | None
    prefill_devices_per_instance: int | None
    decode_devices_per_instance: int | None
    kv_transfer_gb_per_s: float | None
    prefill_degradation: float | None
    decode_degradation: float | None
    as_predicted: bool | None
    top: int | None
    preset: Literal["sweepdb", "upstream", "seed000", "seed001"] | None

class CapacityKeywords(ScopeKeywords, total=False):
    ttft_limit: float | None
    tpot_limit: float | None
    tbt_limit: float | None
    e2e_limit: float | None
    min_tokens_per_s_per_user: float | None
    reserved_memory_gb: float | None
    confidence: float | None
    tuned_servers: bool | None
    tpot_definition: Literal["inclusive", "exclusive"] | None
    prefill_rate: Literal["capacity", "ttft"] | None
    decode_rate: Literal["minus-one", "full"] | None
    throughput: Literal["once", "twice"] | None
    kv_charge: Literal["full", "mean"] | None
    num_devices: int | None
    target_rate: float | None
    least_latency: bool | None
    prefill_device: str | None
    decode_device: str | None
    prefill_devices_per_instance: int | None
    decode_devices_per_instance: int | None
    kv_transfer_gb_per_s: float | None
    prefill_degradation: float | None
    decode_degradation: float | None
    price_date: str | None
    attainment: float | None
    rate: float | None
    by: str | None
    marginal: bool | None
    as_predicted: bool | None
    top: int | None
    preset: Literal["sweepdb", "upstream", "seed000", "seed001"] | None

class CompareKeywords(ScopeKeywords, total=False):
    ttft_limit: float | None
    tpot_limit: float | None
    tbt_limit: float | None
    e2e_limit: float | None
    min_tokens_per_s_per_user: float | None
    reserved_memory_gb: float | None
    confidence: float | None
    tuned_servers: bool | None
    tpot_definition: Literal["inclusive", "exclusive"] | None
    prefill_rate: Literal["capacity", "ttft"] | None
    decode_rate: Literal["minus-one", "full"] | None
    throughput: Literal["once", "twice"] | None
    kv_charge: Literal["full", "mean"] | None
    num_devices: Required[int]
    least_latency: bool | None
    prefill_device: str | None
    decode_device: str | None
    prefill_devices_per_instance: int | None
    decode_devices_per_instance: int | None
    kv_transfer_gb_per_s: float | None
    prefill_degradation: float | None
    decode_degradation: float | None
    attainment: float | None
    by: str | None
    marginal: bool | None
    as_predicted: bool | None
    rows: Literal["predicted", "measured", "both"] | None
    top: int | None
    preset: Literal["sweepdb", "upstream", "seed000", "seed001"] | None

class ConcurrencyKeywords(ScopeKeywords, total=False):
    ttft_limit: float | None
    tpot_limit: float | None
    e2e_limit: float | None
    min_tokens_per_s_per_user: float | None
    reserved_memory_gb: float | None
    confidence: float | None
    tuned_servers: bool | None
    tpot_definition: Literal["inclusive", "exclusive"] | None
    prefill_rate: Literal["capacity", "ttft"] | None
    decode_rate: Literal["minus-one", "full"] | None
    throughput: Literal["once", "twice"] | None
    kv_charge: Literal["full", "mean"] | None
    num_devices: int | None
    concurrency: Required[float]
    as_predicted: bool | None
    top: int | None
    preset: Literal["sweepdb", "upstream", "seed000", "seed001"] | None

class CostKeywords(ScopeKeywords, total=False):
    ttft_limit: float | None
    tpot_limit: float | None
    tbt_limit: float | None
    e2e_limit: float | None
    min_tokens_per_s_per_user: float | None
    reserved_memory_gb: float | None
    confidence: float | None
    tuned_servers: bool | None
    tpot_definition: Literal["inclusive", "exclusive"] | None
    prefill_rate: Literal["capacity", "ttft"] | None
    decode_rate: Literal["minus-one", "full"] | None
    throughput: Literal["once", "twice"] | None
    kv_charge: Literal["full", "mean"] | None
    num_devices: int | None
    budgets: str | Sequence[str] | None
    target_rate: float | None
    concurrency: float | None
    least_latency: bool | None
    prefill_devices_per_instance: int | None
    decode_devices_per_instance: int | None
    kv_transfer_gb_per_s: float | None
    prefill_degradation: float | None
    decode_degradation: float | None
    mode: Literal["aggregated", "decode", "pd"] | None
    price_date: str | None
    attainment: float | None
    by: str | None
    marginal: bool | None
    as_predicted: bool | None
    rows: Literal["predicted", "measured", "both"] | None
    top: int | None
    preset: Literal["sweepdb", "upstream", "seed000", "seed001"] | None

class CoverageKeywords(ScopeKeywords, total=False):
    num_devices: int | None
    top: int | None
    preset: Literal["sweepdb", "upstream", "seed000", "seed001"] | None

class CurveKeywords(ScopeKeywords, total=False):
    reserved_memory_gb: float | None
    tuned_servers: bool | None
    tpot_definition: Literal["inclusive", "exclusive"] | None
    prefill_rate: Literal["capacity", "ttft"] | None
    decode_rate: Literal["minus-one", "full"] | None
    throughput: Literal["once", "twice"] | None
    kv_charge: Literal["full", "mean"] | None
    num_devices: int | None
    mode: Literal["aggregated", "prefill", "decode"] | None
    as_predicted: bool | None
    rows: Literal["predicted", "measured", "both"] | None
    top: int | None
    preset: Literal["sweepdb", "upstream", "seed000", "seed001"] | None

class DecodeKeywords(ScopeKeywords, total=False):
    ttft_limit: float | None
    tpot_limit: float | None
    e2e_limit: float | None
    min_tokens_per_s_per_user: float | None
    reserved_memory_gb: float | None
    confidence: float | None
    tuned_servers: bool | None
    tpot_definition: Literal["inclusive", "exclusive"] | None
    prefill_rate: Literal["capacity", "ttft"] | None
    decode_rate: Literal["minus-one", "full"] | None
    throughput: Literal["once", "twice"] | None
    kv_charge: Literal["full", "mean"] | None
    num_devices: int | None
    rank_by: str | None
    as_predicted: bool | None
    top: int | None
    preset: Literal["sweepdb", "upstream", "seed000", "seed001"] | None

class DeploymentsKeywords(ScopeKeywords, total=False):
    ttft_limit: float | None
    tpot_limit: float | None
    e2e_limit: float | None
    min_tokens_per_s_per_user: float | None
    reserved_memory_gb: float | None
    confidence: float | None
    tuned_servers: bool | None
    tpot_definition: Literal["inclusive", "exclusive"] | None
    prefill_rate: Literal["capacity", "ttft"] | None
    decode_rate: Literal["minus-one", "full"] | None
    throughput: Literal["once", "twice"] | None
    kv_charge: Literal["full", "mean"] | None
    num_devices: int | None
    budgets: str | Sequence[str] | None
    target_rate: float | None
    concurrency: float | None
    least_latency: bool | None
    prefill_devices_per_instance: int | None
    decode_devices_per_instance: int | None
    kv_transfer_gb_per_s: float | None
    prefill_degradation: float | None
    decode_degradation: float | None
    price_date: str | None
    as_predicted: bool | None
    top: int | None
    preset: Literal["sweepdb", "upstream", "seed000", "seed001"] | None

class DeviceProfilesKeywords(ScopeKeywords, total=False):
    num_devices: int | None
    top: int | None
    preset: Literal["sweepdb", "upstream", "seed000", "seed001"] | None

class DevicesKeywords(ScopeKeywords, total=False):
    ttft_limit: float | None
    tpot_limit: float | None
    tbt_limit: float | None
    e2e_limit: float | None
    min_tokens_per_s_per_user: float | None
    reserved_memory_gb: float | None
    confidence: float | None
    tuned_servers: bool | None
    tpot_definition: Literal["inclusive", "exclusive"] | None
    prefill_rate: Literal["capacity", "ttft"] | None
    decode_rate: Literal["minus-one", "full"] | None
    throughput: Literal["once", "twice"] | None
    allocation: Literal["budget", "exact"] | None
    kv_charge: Literal["full", "mean"] | None
    num_devices: int | None
    prefill_device: str | None
    decode_device: str | None
    prefill_devices_per_instance: int | None
    decode_devices_per_instance: int | None
    kv_transfer_gb_per_s: float | None
    all_pairs: bool | None
    prefill_degradation: float | None
    decode_degradation: float | None
    mode: Literal["aggregated", "prefill", "decode", "pd"] | None
    rank_by: str | None
    attainment: float | None
    by: str | None
    marginal: bool | None
    as_predicted: bool | None
    rows: Literal["predicted", "measured", "both"] | None
    top: int | None
    preset: Literal["sweepdb", "upstream", "seed000", "seed001"] | None

class DiffKeywords(TypedDict, total=False):
    sweeps: Required[tuple[str, str] | list[str]]
    ttft_limit: float | None
    tpot_limit: float | None
    e2e_limit: float | None
    min_tokens_per_s_per_user: float | None
    reserved_memory_gb: float | None
    confidence: float | None
    tuned_servers: bool | None
    tpot_definition: Literal["inclusive", "exclusive"] | None
    prefill_rate: Literal["capacity", "ttft"] | None
    decode_rate: Literal["minus-one", "full"] | None
    throughput: Literal["once", "twice"] | None
    kv_charge: Literal["full", "mean"] | None
    num_devices: int | None
    as_predicted: bool | None
    rows: Literal["predicted", "measured", "both"] | None
    top: int | None
    preset: Literal["sweepdb", "upstream", "seed000", "seed001"] | None

class MixKeywords(ScopeKeywords, total=False):
    ttft_limit: float | None
    tpot_limit: float | None
    e2e_limit: float | None
    min_tokens_per_s_per_user: float | None
    reserved_memory_gb: float | None
    confidence: float | None
    tuned_servers: bool | None
    tpot_definition: Literal["inclusive", "exclusive"] | None
    prefill_rate: Literal["capacity", "ttft"] | None
    decode_rate: Literal["minus-one", "full"] | None
    throughput: Literal["once", "twice"] | None
    kv_charge: Literal["full", "mean"] | None
    num_devices: Required[int]
    mode: Literal["aggregated", "prefill", "decode"] | None
    mix: Required[Sequence[tuple[str, float]]]
    as_predicted: bool | None
    top: int | None
    preset: Literal["sweepdb", "upstream", "seed000", "seed001"] | None

class NearestKeywords(ScopeKeywords, total=False):
    ttft_limit: float | None
    tpot_limit: float | None
    e2e_limit: float | None
    min_tokens_per_s_per_user: float | None
    reserved_memory_gb: float | None
    confidence: float | None
    tuned_servers: bool | None
    tpot_definition: Literal["inclusive", "exclusive"] | None
    prefill_rate: Literal["capacity", "ttft"] | None
    decode_rate: Literal["minus-one", "full"] | None
    throughput: Literal["once", "twice"] | None
    kv_charge: Literal["full", "mean"] | None
    num_devices: int | None
    mode: Literal["aggregated", "prefill", "decode"] | None
    as_predicted: bool | None
    top: int | None
    preset: Literal["sweepdb", "upstream", "seed000", "seed001"] | None

class ParetoKeywords(ScopeKeywords, total=False):
    ttft_limit: float | None
    tpot_limit: float | None
    tbt_limit: float | None
    e2e_limit: float | None
    min_tokens_per_s_per_user: float | None
    reserved_memory_gb: float | None
    confidence: float | None
    tuned_servers: bool | None
    tpot_definition: Literal["inclusive", "exclusive"] | None
    prefill_rate: Literal["capacity", "ttft"] | None
    decode_rate: Literal["minus-one", "full"] | None
    throughput: Literal["once", "twice"] | None
    kv_charge: Literal["full", "mean"] | None
    num_devices: int | None
    kv_transfer_gb_per_s: float | None
    mode: Literal["aggregated", "decode"] | None
    attainment: float | None
    by: str | None
    marginal: bool | None
    by_device: bool | None
    max_points: int | None
    as_predicted: bool | None
    rows: Literal["predicted", "measured", "both"] | None
    top: int | None
    preset: Literal["sweepdb", "upstream", "seed000", "seed001"] | None

class PdCountsKeywords(ScopeKeywords, total=False):
    ttft_limit: float | None
    tpot_limit: float | None
    e2e_limit: float | None
    min_tokens_per_s_per_user: float | None
    reserved_memory_gb: float | None
    confidence: float | None
    tuned_servers: bool | None
    tpot_definition: Literal["inclusive", "exclusive"] | None
    prefill_rate: Literal["capacity", "ttft"] | None
    decode_rate: Literal["minus-one", "full"] | None
    throughput: Literal["once", "twice"] | None
    allocation: Literal["budget", "exact"] | None
    kv_charge: Literal["full", "mean"] | None
    num_devices: Required[int]
    prefill_device: str | None
    decode_device: str | None
    prefill_devices_per_instance: int | None
    decode_devices_per_instance: int | None
    kv_transfer_gb_per_s: float | None
    all_pairs: bool | None
    prefill_degradation: float | None
    decode_degradation: float | None
    rank_by: str | None
    as_predicted: bool | None
    top: int | None
    preset: Literal["sweepdb", "upstream", "seed000", "seed001"] | None

class PdRatioKeywords(ScopeKeywords, total=False):
    ttft_limit: float | None
    tpot_limit: float | None
    e2e_limit: float | None
    min_tokens_per_s_per_user: float | None
    reserved_memory_gb: float | None
    confidence: float | None
    tuned_servers: bool | None
    tpot_definition: Literal["inclusive", "exclusive"] | None
    prefill_rate: Literal["capacity", "ttft"] | None
    decode_rate: Literal["minus-one", "full"] | None
    throughput: Literal["once", "twice"] | None
    allocation: Literal["budget", "exact"] | None
    kv_charge: Literal["full", "mean"] | None
    num_devices: int | None
    prefill_device: str | None
    decode_device: str | None
    prefill_devices_per_instance: int | None
    decode_devices_per_instance: int | None
    kv_transfer_gb_per_s: float | None
    all_pairs: bool | None
    prefill_degradation: float | None
    decode_degradation: float | None
    rank_by: str | None
    as_predicted: bool | None
    top: int | None
    preset: Literal["sweepdb", "upstream", "seed000", "seed001"] | None

class PercentilesKeywords(ScopeKeywords, total=False):
    num_devices: int | None
    mode: Literal["aggregated", "prefill", "decode"] | None
    rate: Required[float]
    as_predicted: bool | None
    top: int | None
    preset: Literal["sweepdb", "upstream", "seed000", "seed001"] | None

class PrefillKeywords(ScopeKeywords, total=False):
    ttft_limit: float | None
    tpot_limit: float | None
    e2e_limit: float | None
    min_tokens_per_s_per_user: float | None
    reserved_memory_gb: float | None
    confidence: float | None
    tuned_servers: bool | None
    tpot_definition: Literal["inclusive", "exclusive"] | None
    prefill_rate: Literal["capacity", "ttft"] | None
    decode_rate: Literal["minus-one", "full"] | None
    throughput: Literal["once", "twice"] | None
    kv_charge: Literal["full", "mean"] | None
    num_devices: int | None
    rank_by: str | None
    as_predicted: bool | None
    top: int | None
    preset: Literal["sweepdb", "upstream", "seed000", "seed001"] | None

class ProfileKeywords(ScopeKeywords, total=False):
    ttft_limit: float | None
    tpot_limit: float | None
    e2e_limit: float | None
    min_tokens_per_s_per_user: float | None
    reserved_memory_gb: float | None
    confidence: float | None
    tuned_servers: bool | None
    tpot_definition: Literal["inclusive", "exclusive"] | None
    prefill_rate: Literal["capacity", "ttft"] | None
    decode_rate: Literal["minus-one", "full"] | None
    throughput: Literal["once", "twice"] | None
    kv_charge: Literal["full", "mean"] | None
    num_devices: int | None
    mode: Literal["aggregated", "prefill", "decode"] | None
    price_date: str | None
    as_predicted: bool | None
    top: int | None
    preset: Literal["sweepdb", "upstream", "seed000", "seed001"] | None

class SensitivityKeywords(ScopeKeywords, total=False):
    ttft_limit: float | None
    tpot_limit: float | None
    tbt_limit: float | None
    e2e_limit: float | None
    min_tokens_per_s_per_user: float | None
    reserved_memory_gb: float | None
    confidence: float | None
    tuned_servers: bool | None
    tpot_definition: Literal["inclusive", "exclusive"] | None
    prefill_rate: Literal["capacity", "ttft"] | None
    decode_rate: Literal["minus-one", "full"] | None
    throughput: Literal["once", "twice"] | None
    kv_charge: Literal["full", "mean"] | None
    num_devices: int | None
    mode: Literal["aggregated", "prefill", "decode"] | None
    vary: Required[str | Sequence[str]]
    steps: int | None
    attainment: float | None
    by: str | None
    marginal: bool | None
    as_predicted: bool | None
    rows: Literal["predicted", "measured", "both"] | None
    top: int | None
    preset: Literal["sweepdb", "upstream", "seed000", "seed001"] | None

class WhyKeywords(TypedDict, total=False):
    probes: Required[tuple[str, str] | list[str]]
    ttft_limit: float | None
    tpot_limit: float | None
    e2e_limit: float | None
    min_tokens_per_s_per_user: float | None
    reserved_memory_gb: float | None
    confidence: float | None
    tuned_servers: bool | None
    tpot_definition: Literal["inclusive", "exclusive"] | None
    prefill_rate: Literal["capacity", "ttft"] | None
    decode_rate: Literal["minus-one", "full"] | None
    throughput: Literal["once", "twice"] | None
    kv_charge: Literal["full", "mean"] | None
    num_devices: int | None
    as_predicted: bool | None
    top: int | None
    preset: Literal["sweepdb", "upstream", "seed000", "seed001"] | None

class ReportMethods(ABC):
    """Every report as a method. Each returns the answer; a keyword that is not given, or None, takes its default."""

    @abstractmethod
    def report(self, name: str, **options: object) -> Answer:
        """Any report by its name."""

    def attainment(self, **options: Unpack[AttainmentKeywords]) -> Answer:
        """The share of requests that meets the limits at every rate that was simulated."""

    def best(self, **options: Unpack[BestKeywords]) -> Answer:
        """The best batch size of each aggregated plan under the limits, ranked by generated tokens/s, per device where
        sizes differ."""

    def by_length(self, **options: Unpack[ByLengthKeywords]) -> Answer:
        """How the best aggregated plan and the best P:D ratio change with input length: one line a stored workload."""

    def capacity(self, **options: Unpack[CapacityKeywords]) -> Answer:
        """The most requests/s each number of devices carries, aggregated or split, and the fewest that carry a
        target."""

    def compare(self, **options: Unpack[CompareKeywords]) -> Answer:
        """The best aggregated deployment against the best split one on the same devices and limits, with the gain."""

    def concurrency(self, **options: Unpack[ConcurrencyKeywords]) -> Answer:
        """What so many users get of each aggregated plan: its row of as many, the most tokens/s first."""

    def cost(self, **options: Unpack[CostKeywords]) -> Answer:
        """The cheapest configuration of each device by the prices entered: tokens per $ and per kWh, and break-even
        price."""

    def coverage(self, **options: Unpack[CoverageKeywords]) -> Answer:
        """Which model, device, workload, precision and phase are stored, how densely, and with how many failures."""

    def curve(self, **options: Unpack[CurveKeywords]) -> Answer:
        """Throughput against concurrency and latency for every plan: no latency limits, without rows that do not
        fit."""

    def decode(self, **options: Unpack[DecodeKeywords]) -> Answer:
        """The best batch size of each decode plan under the limits, ranked by generated tokens/s, per device where
        sizes differ."""

    def deployments(self, **options: Unpack[DeploymentsKeywords]) -> Answer:
        """The best whole deployment of each device, aggregated and disaggregated, within a budget or for a rate, with
        what it costs."""

    def device_profiles(self, **options: Unpack[DeviceProfilesKeywords]) -> Answer:
        """The device profiles of the question's scope: effective rates, memory and interconnect."""

    def devices(self, **options: Unpack[DevicesKeywords]) -> Answer:
        """The best configuration of each device in one phase, ranked as best ranks: by what a device makes where sizes
        differ."""

    def diff(self, **options: Unpack[DiffKeywords]) -> Answer:
        """What changed between two sweeps of the same subjects, a row a subject and batch size, changed winners
        first."""

    def mix(self, **options: Unpack[MixKeywords]) -> Answer:
        """A weighted blend of workloads on a device budget: one configuration for all, or the devices split between
        them."""

    def nearest(self, **options: Unpack[NearestKeywords]) -> Answer:
        """The closest configurations when nothing satisfies the limits: which limit binds, and how far to relax it."""

    def pareto(self, **options: Unpack[ParetoKeywords]) -> Answer:
        """Configurations that no other beats in both tokens/s/device and tokens/s/user, aggregated and
        disaggregated."""

    def pd_counts(self, **options: Unpack[PdCountsKeywords]) -> Answer:
        """Numbers of prefill and decode instances within the budget, for the best pair of plans, and what each carries:
        all, or the 10,000 that carry most."""

    def pd_ratio(self, **options: Unpack[PdRatioKeywords]) -> Answer:
        """Prefill and decode instances paired, each plan at its best batch size under its limits, with instance
        counts."""

    def percentiles(self, **options: Unpack[PercentilesKeywords]) -> Answer:
        """TTFT and TPOT at a rate of requests that arrive, for each plan that was simulated: mean, median, 90th and
        99th percentile."""

    def prefill(self, **options: Unpack[PrefillKeywords]) -> Answer:
        """The best batch size of each prefill plan under the limits, ranked by prompt tokens/s, per device where sizes
        differ."""

    def profile(self, **options: Unpack[ProfileKeywords]) -> Answer:
        """Every stored batch of each plan by its lengths, with its share of the KV cache: what planners of running
        clusters interpolate between."""

    def sensitivity(self, **options: Unpack[SensitivityKeywords]) -> Answer:
        """The best throughput as a step function of one limit, ranked as best ranks: where the winner changes and what
        one more unit buys."""

    def why(self, **options: Unpack[WhyKeywords]) -> Answer:
        """Two probes side by side: margins, knobs that differ, slack to each limit here and at the next batch size,
        step splits."""
