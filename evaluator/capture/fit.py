"""Exact affine forms of traced numbers: solved in rationals from five points and verified at a sixth.

An extent that is not affine in (1, T, B, A, R) is an error here, never an approximation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from evaluator.operators import Affine, Rational
from store.errors import SweepdbError


class NotAffineError(SweepdbError):
    """A traced extent does not follow the affine form that the other points fixed: a bug in a block, not in the
    input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One traced batch: new tokens, rows of logits, attended pairs, keys read."""

    tokens: int
    sequences: int
    pairs: int
    keys: int


def trace_points(unit: int) -> tuple[Point, ...]:
    """A base point, one step along each axis, and a further point to verify at; tokens are multiples of `unit`."""
    base = Point(tokens=4 * unit, sequences=2, pairs=40 * unit, keys=8 * unit)
    return (
        base,
        Point(tokens=6 * unit, sequences=2, pairs=40 * unit, keys=8 * unit),
        Point(tokens=4 * unit, sequences=3, pairs=40 * unit, keys=8 * unit),
        Point(tokens=4 * unit, sequences=2, pairs=47 * unit, keys=8 * unit),
        Point(tokens=4 * unit, sequences=2, pairs=40 * unit, keys=9 * unit),
        Point(tokens=14 * unit, sequences=5, pairs=91 * unit, keys=29 * unit),
    )


def _whole(value: Fraction) -> Rational:
    return value.numerator if value.denominator == 1 else value


def fitted(points: Sequence[Point], values: Sequence[Rational], what: str) -> Affine:
    """The affine form through the first five values; the sixth must agree exactly."""
    if all(value == values[0] for value in values):
        return Affine(values[0])
    base = points[0]
    slopes = (
        Fraction(values[1] - values[0]) / (points[1].tokens - base.tokens),
        Fraction(values[2] - values[0]) / (points[2].sequences - base.sequences),
        Fraction(values[3] - values[0]) / (points[3].pairs - base.pairs),
        Fraction(values[4] - values[0]) / (points[4].keys - base.keys),
    )
    constant = values[0] - _dot(slopes, base)
    if constant + _dot(slopes, points[5]) != values[5]:
        raise NotAffineError(f"{what} is not affine in tokens, sequences, pairs and keys")
    return Affine(_whole(Fraction(constant)), *(_whole(slope) for slope in slopes))


def _dot(slopes: tuple[Fraction, Fraction, Fraction, Fraction], point: Point) -> Fraction:
    return slopes[0] * point.tokens + slopes[1] * point.sequences + slopes[2] * point.pairs + slopes[3] * point.keys
