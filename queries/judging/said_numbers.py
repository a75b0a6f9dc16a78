"""Numbers in sentences: four figures, and thousands whole and parted.

Not here: numbers in tables (cli.render.rows)."""

from __future__ import annotations


def four_figures(value: float) -> str:
    """A number as a sentence says it: 0.1235, 671, 1,044 and 30,528, never with an exponent of ten."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
