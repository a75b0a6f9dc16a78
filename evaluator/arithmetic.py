"""Sums of products, logarithms, powers and a solver, with the same bits on every processor.

Made of additions, products, quotients and exponent shifts, which IEEE 754 fixes. A BLAS, and numpy's log, exp and
power, round by processor. Errors are below two units of the last digit."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_LN2_HIGH = 0.6931471803691238  # ln 2 cut after 32 bits, so that a whole number times it is exact
_LN2_LOW = 1.9082149292705877e-10  # and the rest
_LOG2_E = 1.4426950408889634
_EXPONENT_BITS, _BIAS = 52, 1023
_ROOT_HALF = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)
_TABLE_BITS = 8  # of a fraction that a table is asked with: the rest is so small that three terms of a series do
_DROPPED = _EXPONENT_BITS - _TABLE_BITS
_PER_OCTAVE = 1 << _TABLE_BITS
_FIRST = _ROOT_HALF >> _DROPPED
_BLOCK = 4096  # numbers worked on together
_LARGEST_POWER = 708.0  # of e, in a float64; the smallest is cut at the same distance


def dot(rows: npt.ArrayLike, weights: npt.ArrayLike) -> FloatArray:
    products = np.multiply(rows, weights, order="C", dtype=np.float64)
    return np.asarray(np.add.reduce(products, axis=-1))


def log(values: npt.ArrayLike) -> FloatArray:
    return _by_blocks(_log, values)


def exp(values: npt.ArrayLike) -> FloatArray:
    return _by_blocks(_exp, values)


def power(base: npt.ArrayLike, exponent: float) -> FloatArray:
    return _by_blocks(lambda block: _power(block, exponent), base)


def log2(values: npt.ArrayLike) -> FloatArray:
    return np.asarray(log(values) * _LOG2_E)


def log1p(values: npt.ArrayLike) -> FloatArray:
    """log(1 + x) for small x, too: a ratio restores what 1 + x lost.

    Kahan: N. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 1.14.1."""
    given = np.asarray(values, dtype=np.float64)
    raised = 1.0 + given
    kept = np.where(raised == 1.0, 1.0, raised - 1.0)
    return np.asarray(np.where(raised == 1.0, given, log(raised) * (given / kept)))


def expm1(values: npt.ArrayLike) -> FloatArray:
    """exp(x) - 1 for small x, too: Higham, section 1.14.1."""
    given = np.asarray(values, dtype=np.float64)
    raised = exp(given)
    near = (raised > 0.5) & (raised < 2.0) & (raised != 1.0)
    slope = given / log(np.where(near, raised, 2.0))
    return np.asarray(np.where(raised == 1.0, given, np.where(near, (raised - 1.0) * slope, raised - 1.0)))


def solve(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """Small positive definite systems, by elimination without row exchanges.

    They need none: G. Golub and C. Van Loan, Matrix Computations, 4th ed., section 4.2."""
    table = np.column_stack((matrix, right)).astype(np.float64)
    for column in range(right.size):
        table[column] /= table[column, column]
        factors = table[:, column].copy()
        factors[column] = 0.0
        table -= factors[:, None] * table[column]
    return np.asarray(table[:, -1].copy())


def _by_blocks(function: Callable[[FloatArray], FloatArray], values: npt.ArrayLike) -> FloatArray:
    """In blocks that fit a processor's cache: three times faster."""
    given = np.asarray(values, dtype=np.float64)
    if given.size <= _BLOCK:
        return function(given.ravel()).reshape(given.shape)
    flat, found = given.ravel(), np.empty(given.size)
    for start in range(0, flat.size, _BLOCK):
        found[start : start + _BLOCK] = function(flat[start : start + _BLOCK])
    return found.reshape(given.shape)


def _power(base: FloatArray, exponent: float) -> FloatArray:
    logarithms = _log(base)
    logarithms *= exponent
    raised = _exp(logarithms)
    if base.size and base.min() <= 0:
        raised = np.where(base > 0, raised, 0.0)
    return raised


def _log(given: FloatArray) -> FloatArray:
    """2^e (c + d), c of nine digits: ln = e ln 2 + ln c + 2 (s + s^3/3 + s^5/5), s = d / (2 c + d).

    Computed in place where inputs are no longer needed."""
    whole = np.ascontiguousarray(given).view(np.int64)
    shifts = whole - _ROOT_HALF
    shifts >>= _EXPONENT_BITS
    exponent = shifts.astype(np.float64)
    shifts <<= _EXPONENT_BITS
    bits = np.subtract(whole, shifts, out=shifts)
    place = bits + (1 << (_DROPPED - 1))
    place >>= _DROPPED
    fraction, coarse = bits.view(np.float64), (place << _DROPPED).view(np.float64)
    small = fraction - coarse
    coarse += fraction
    small /= coarse
    square = small * small
    series = square * 0.2
    series += 1.0 / 3.0
    series *= square
    series += 1.0
    small *= 2.0
    series *= small
    np.multiply(exponent, _LN2_LOW, out=square)
    series += square
    place -= _FIRST
    series += _LOGARITHMS.take(place)
    exponent *= _LN2_HIGH
    exponent += series
    return exponent


def _exp(given: FloatArray) -> FloatArray:
    """(k + j/256) ln 2 + r: e^x = 2^k 2^(j/256) (1 + r + r^2/2 + r^3/6 + r^4/24), in place."""
    rest = np.minimum(given, _LARGEST_POWER)
    np.maximum(rest, -_LARGEST_POWER, out=rest)
    whole = rest * (_PER_OCTAVE * _LOG2_E)
    np.rint(whole, out=whole)
    scale = whole.astype(np.int64)
    coarse = _POWERS.take(scale & (_PER_OCTAVE - 1))
    rest -= whole * (_LN2_HIGH / _PER_OCTAVE)
    whole *= _LN2_LOW / _PER_OCTAVE
    rest -= whole
    series = rest * (1.0 / 24.0)
    series += 1.0 / 6.0
    series *= rest
    series += 0.5
    series *= rest
    series += 1.0
    series *= rest
    series *= coarse
    series += coarse
    scale >>= _TABLE_BITS
    scale += _BIAS
    scale <<= _EXPONENT_BITS
    series *= scale.view(np.float64)
    return series


def _logarithms() -> FloatArray:
    """The series ln c = 2 (s + s^3/3 + s^5/5 + ...). s = (c - 1) / (c + 1), |s| <= 0.172."""
    places = np.arange(_FIRST, _FIRST + _PER_OCTAVE + 2)
    coarse = (places << _DROPPED).view(np.float64)
    ratio = (coarse - 1.0) / (coarse + 1.0)
    return 2.0 * ratio * _polynomial(tuple(1.0 / (2 * term + 1) for term in range(12)), ratio * ratio)


def _powers() -> FloatArray:
    """2^(j/256), by the series of e^r, r <= ln 2."""
    rest = np.arange(_PER_OCTAVE) * (_LN2_HIGH / _PER_OCTAVE) + np.arange(_PER_OCTAVE) * (_LN2_LOW / _PER_OCTAVE)
    return _polynomial(tuple(1.0 / math.factorial(term) for term in range(20)), rest)


def _polynomial(coefficients: tuple[float, ...], x: FloatArray) -> FloatArray:
    total = np.full(x.shape, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = total * x + coefficient
    return total


_LOGARITHMS, _POWERS = _logarithms(), _powers()
