"""Serving formulas: from step times to TTFT, TPOT, makespan.

Not here: step times (evaluator.pricing.step), workload files."""
