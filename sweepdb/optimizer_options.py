"""Options of the seeds' command, checked values only. Not here: its parser (cli.inference.parser)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from evaluator.inputs import (
    LengthBin,
    PlanSearch,
    Workload,
    effective_input_length,
    load_distribution,
    mean_output_length,
    workload_of,
)
from store.errors import SweepdbError
from sweepdb.evaluating.workloads import stored_workload


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerOptions:
    """The options given to the seeds' command."""

    model: str
    devices: tuple[str, ...]
    num_devices: int | None
    input_length: str
    output_length: int
    reserved_memory_gb: float
    compile: bool
    mtp_tokens: tuple[int, ...]
    mtp_acceptance: tuple[float, ...] | None
    linear: str
    experts: str | None
    attention: str
    mxfp4_group_size: int
    search: PlanSearch
    ttft_limit_ms: float | None
    tpot_limit_ms: float | None
    max_batched_tokens: int | None
    prefix_cache_hit_rate: float
    batch_range: tuple[int, int | None]
    serving_cost_ms: float
    disagg: bool
    jobs: int
    pd_ratio: bool
    prefill_devices: int | None
    decode_devices: int | None
    dump_original_results: bool
    log_level: str
    wide: bool
    prefill_rule: str
    most_combinations: int | None

    @property
    def is_distribution(self) -> bool:
        """Whether the input length is a file of length bins, or the name of a stored workload that has some."""
        return not self.input_length.isdecimal()

    def budgets(self) -> tuple[int, ...]:
        """Token budgets to try: the one given, or four times the prompt, then twice and once where memory is short."""
        if self.max_batched_tokens is not None:
            return (self.max_batched_tokens,)
        length = int(effective_input_length(self._workload(1, self.mtp_tokens[0])))
        length = length if self.is_distribution else int(self.input_length)
        return tuple(factor * length for factor in (4, 2, 1))

    def workloads(self, budget: int) -> tuple[Workload, ...]:
        """The workloads that were asked for: one for each number of drafts."""
        return tuple(self._workload(budget, drafts) for drafts in self.mtp_tokens)

    def _workload(self, budget: int, drafts: int) -> Workload:
        common = {
            "max_batched_tokens": budget,
            "prefix_cache_hit_rate": self.prefix_cache_hit_rate,
            "mtp_tokens": drafts,
            "mtp_acceptance": self.mtp_acceptance,
        }
        if not self.is_distribution:
            return workload_of(input_length=int(self.input_length), output_length=self.output_length, **common)  # type: ignore[arg-type]
        bins = _bins_of(self.input_length, self.output_length)
        return workload_of(input_length=None, output_length=mean_output_length(bins), bins=bins, **common)  # type: ignore[arg-type]


def named_workload(name: str) -> Workload | None:
    """The stored workload of that name; None where there is none, or no store yet."""
    try:
        return stored_workload(name, None)
    except SweepdbError:
        return None


def _bins_of(text: str, output_length: float) -> tuple[LengthBin, ...]:
    """The bins of a file, or of a named workload, which brings its own output lengths."""
    named = None if Path(text).exists() else named_workload(text)
    return load_distribution(Path(text), output_length=output_length) if named is None else named.bins
