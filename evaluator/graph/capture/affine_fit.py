"""Exact affine forms in (1, T, B, A, R): solved in rationals from five points, verified at a sixth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from evaluator.graph.operators import Affine, Rational
from store.errors import SweepdbError


class NotAffineError(SweepdbError):
    """A bug in a block, not in the input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """New tokens, rows of logits, attended pairs, keys read."""

    tokens: int
    sequences: int
    pairs: int
    keys: int


def trace_points(unit: int) -> tuple[Point, ...]:
    """A base, one step along each axis, and a point to verify at; tokens are multiples of `unit`."""
    base = Point(tokens=4 * unit, sequences=2, pairs=40 * unit, keys=8 * unit)
    return (
        base,
        Point(tokens=6 * unit, sequences=2, pairs=40 * unit, keys=8 * unit),
        Point(tokens=4 * unit, sequences=3, pairs=40 * unit, keys=8 * unit),
        Point(tokens=4 * unit, sequences=2, pairs=47 * unit, keys=8 * unit),
        Point(tokens=4 * unit, sequences=2, pairs=40 * unit, keys=9 * unit),
        Point(tokens=14 * unit, sequences=5, pairs=91 * unit, keys=29 * unit),
    )


def fitted(points: Sequence[Point], values: Sequence[Rational], what: str) -> Affine:
    """From the first five values; the sixth must agree exactly."""
    first = values[0]
    if values.count(first) == len(values):
        return Affine(first)
    base = points[0]
    tokens = _quotient(values[1] - first, points[1].tokens - base.tokens)
    sequences = _quotient(values[2] - first, points[2].sequences - base.sequences)
    pairs = _quotient(values[3] - first, points[3].pairs - base.pairs)
    keys = _quotient(values[4] - first, points[4].keys - base.keys)

    def above_constant(point: Point) -> Rational:
        return tokens * point.tokens + sequences * point.sequences + pairs * point.pairs + keys * point.keys

    constant = first - above_constant(base)
    if constant + above_constant(points[5]) != values[5]:
        raise NotAffineError(f"{what} is not affine in tokens, sequences, pairs and keys")
    return Affine(as_whole(constant), tokens, sequences, pairs, keys)


def _quotient(difference: Rational, step: int) -> Rational:
    # Integers stay integers: fractions cost tens of times more, and most slopes are whole.
    if isinstance(difference, int) and difference % step == 0:
        return difference // step
    return as_whole(Fraction(difference) / step)


def as_whole(value: Rational) -> Rational:
    return value.numerator if isinstance(value, Fraction) and value.denominator == 1 else value
