"""Files of measured points as typed records, a reader a format."""

from __future__ import annotations

from evaluator.ledger.readers.building import Problem, ReadResult
from evaluator.ledger.readers.reading import FORMATS, read_measurements

__all__ = ["FORMATS", "Problem", "ReadResult", "read_measurements"]
