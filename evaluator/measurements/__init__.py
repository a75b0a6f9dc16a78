"""Files of measured serving points as typed records: pure readers, one a format.

Not here: storing records (store.writing.measurements), and comparing them (evaluator.measured.scoring)."""

from __future__ import annotations

from evaluator.measurements.building import Problem, ReadResult
from evaluator.measurements.reading import FORMATS, read_measurements

__all__ = ["FORMATS", "Problem", "ReadResult", "read_measurements"]
