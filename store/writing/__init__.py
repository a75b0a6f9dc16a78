"""Writing a store: sweeps, scenarios and blocks, each acknowledged once it has committed; and what stands beside them.

Modules of measurements, calibrations, prices, operators and workloads also read back what they write."""

from store.writing.blocks import begin_sweep, finish_sweep, put_block, record_interval
from store.writing.scenarios import put_scenarios

__all__ = ["begin_sweep", "finish_sweep", "put_block", "put_scenarios", "record_interval"]
