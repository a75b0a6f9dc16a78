"""Records that cross the store's border: plain and frozen, no SQLAlchemy, no numpy.

Keys are sha256 hex digests of canonical JSON, made by whoever builds the record; the store only compares them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import TYPE_CHECKING

from store.light_dataclass import dataclass
from store.schema.declaring import Convention, Family, Phase, Status, SweepKind
from store.schema.plan_columns import IF_SET, PlanRecord
from store.schema.service_columns import Served

if TYPE_CHECKING:
    import numpy as np

_IN_NO_KEY = {"in_no_key": True}
_IF_SET = {IF_SET: True}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRecord:
    """A model by its normalised hyper-parameters; `name` is the alias it was asked by."""

    key: str
    name: str
    architecture: str
    parameters: int
    active_parameters: int
    spec: str  # canonical JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRecord:
    """The snapshot of a device profile that produced numbers. Rates are effective: peak times efficiency."""

    key: str
    name: str
    vendor: str
    family: Family
    matrix_flops_per_s: float
    vector_flops_per_s: float
    memory_bytes: int
    memory_bandwidth_bytes_per_s: float
    grid: str  # "256 x 8", outermost first
    link_bandwidths: str  # bytes/s of each grid level, "35e9 | 137.2e9", as the grid
    spec: str  # canonical JSON
    calibration_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionRecord:
    key: str
    linear_quantization: str
    experts_quantization: str
    attention_quantization: str
    mxfp4_group_size: int
    spec: str
    mixers_quantization: str | None = None
    head_quantization: str | None = None
    drafts_quantization: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadBinRecord:
    min_input_length: int
    max_input_length: int
    input_length: float  # representative
    output_length: float  # representative
    weight: float  # normalised
    prefix_cache_hit_rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadRecord:
    """Lengths and token budget. `label` is derived (`3500/1500`), `name` is the user's."""

    key: str
    label: str
    name: str | None
    input_length: int | None
    input_length_mean: float
    output_length: float
    prefix_cache_hit_rate: float
    max_batched_tokens: int
    mtp_tokens: int
    mtp_acceptance: str  # JSON list
    spec: str
    bins: tuple[WorkloadBinRecord, ...] = ()
    images: int | None = None  # of a request; None: text alone
    image_width: int | None = None
    image_height: int | None = None
    image_patches: int | None = None  # of one image
    image_tokens: int | None = None
    encoder_split: str | None = None
    host_hit_rate: float = 0.0
    ssd_hit_rate: float = 0.0
    remote_hit_rate: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectRecord(Served):
    """The subject that a row is about: what two sweeps have in common when they can be compared."""

    key: str
    model: ModelRecord
    device_name: str
    precision: PrecisionRecord
    plan: PlanRecord
    workload: WorkloadRecord
    phase: Phase
    convention: Convention
    compile: bool
    serving_model: str
    serving_cost_ms: float
    unusual_service: str | None = None  # which of these are not as where nothing is said, joined by commas


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioRecord:
    """Everything that determines numbers: a subject, the device profile and the formula version.

    A scenario that failed is a scenario, too."""

    key: str
    subject: SubjectRecord
    device: DeviceRecord
    formula_version: int
    status: Status = "ok"
    reason: str | None = None
    assumptions: str | None = None  # one sentence a line: dtypes widened, operators without a formula
    launchable_by: str | None = None  # engines that launch the plan as one server, by comma; "" none, None not known


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioRef:
    """A stored scenario: `known` are the batch intervals already there, `status` and `reason` what is stored of it."""

    id: int
    key: str
    known: tuple[tuple[int, int], ...] = ()
    status: Status = "ok"
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRecord:
    """The probes of one scenario over one batch interval: arrays of equal length, batch sizes ascending, contiguous.

    `columns` holds every name of store.schema.tables.MEASURES; NaN (or a masked absence) means NULL. `composition` is
    (batch_size, bin_index, samples) for distribution workloads, None otherwise."""

    batch_sizes: np.ndarray
    columns: Mapping[str, np.ndarray | None]
    composition: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRecord:
    key: str
    arguments: str  # JSON
    program_version: str
    started_at: datetime
    label: str | None = None
    kind: SweepKind = "request"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSetRecord:
    """Operators by content key, of models and plans that may not ship with a later program."""

    key: str
    payload: str  # canonical JSON of the operators
    torch_version: str = "none"  # of a program that traced with torch; its column is older than that none is needed


@dataclass(frozen=True, slots=True, kw_only=True)
class SideRecord:
    """One side of a measured deployment: the only side when aggregated, prefill and decode when disaggregated."""

    instances: int | None = None
    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    ep: int | None = None
    moe_tp: int | None = None
    moe_dp: int | None = None
    batch_size: float | None = None
    dcp: int | None = field(default=None, metadata=_IF_SET)
    pcp: int | None = field(default=None, metadata=_IF_SET)
    micro_batches: int | None = field(default=None, metadata=_IF_SET)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """The run that measured a point: who and on what, and how it went. In no key: it says nothing of the setting."""

    measured_by: str | None = None
    engine_commit: str | None = None
    image: str | None = None
    host: str | None = None
    driver: str | None = None
    flags: str | None = None  # as the server was started
    git_revision: str | None = None  # of the user's own project
    tags: str | None = None  # parted by commas, in the order of the alphabet
    completed_requests: int | None = None
    failed_requests: int | None = None
    accept_length: float | None = None  # tokens a step, where drafts are accepted
    cached_share: float | None = None  # of prompt tokens, that a prefix cache held


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementRecord:
    """One measured point with its configuration; what a source does not say stays None."""

    key: str
    source: str
    source_format: str
    model: str | None
    device: str | None
    engine: str | None
    engine_version: str | None
    mode: str | None  # aggregated, disaggregated, prefill, decode
    precision: str | None
    kv_precision: str | None
    num_devices: int | None
    input_length: float | None
    output_length: float | None
    concurrency: float | None
    request_rate: float | None
    prefill: SideRecord = field(default_factory=SideRecord)
    decode: SideRecord = field(default_factory=SideRecord)
    metrics: Mapping[str, float] = field(default_factory=dict)  # our names with units and statistic: ttft_ms_mean ...
    definitions: Mapping[str, str] = field(
        default_factory=dict
    )  # metric -> how the source defines it, and what was converted
    extra: str = "{}"  # JSON: every field we do not interpret, kept
    measured_at: datetime | None = None
    run: RunRecord = field(default_factory=RunRecord, metadata=_IN_NO_KEY)
    file: str | None = field(default=None, metadata=_IN_NO_KEY)  # digest of the path it was read from
    read_as: str | None = field(
        default=None, metadata=_IN_NO_KEY
    )  # key of what its file alone says, where more is known


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationRecord:
    """A fitted profile: coefficients, held-out errors and the kernel measurements they come from."""

    key: str
    device_name: str
    version: int
    spec: str  # canonical JSON of the coefficients
    errors: str  # JSON: held-out error per kind
    kernels: bytes | None = None  # the measured kernel table, zstd Parquet
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRecord:
    """The price of a device and the power that it draws, from a date on."""

    device_name: str
    effective_from: str  # ISO date
    usd_per_device_hour: float | None
    watts_per_device: float | None
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationRecord:
    """A measured value beside the prediction of the same configuration, both in the metric's unit."""

    measurement_key: str
    metric: str
    scenario_key: str
    batch_size: int
    measured: float
    predicted: float
    device: str | None = None
    kind: str | None = None  # dense or moe
    engine: str | None = None
    mode: str | None = None
    batch_region: str | None = None
    length_region: str | None = None
    knowledge: str | None = None  # asked, known, or both where they are one scenario

    @property
    def signed_error(self) -> float:
        """(predicted - measured) / measured."""
        return (self.predicted - self.measured) / self.measured
