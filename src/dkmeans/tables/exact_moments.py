"""Exact sums of numbers and of their squares, whatever the order and the blocks they come in."""

from collections import defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_SIGNIFICAND_BITS = 53
_LOW_BITS = 26
_MAX_ADDENDS = 1 << 25  # as many halves of significands add up without rounding in float64
_EXPONENT_OFFSET = 1100  # makes binary exponents of float64 non-negative
_SPLITTER = 2.0**27 + 1  # splits a float64 into two halves of 26 bits
_MAX_INTEGER = 2.0**22  # integers below it, squared, add up in int64 over _MAX_INTEGERS rows
_MAX_INTEGERS = 1 << 18


class ExactSum:
    """A sum of float64 values without any rounding.

    Values are added up as integers, separately for every binary exponent.

    Examples
    --------
    >>> total = ExactSum()
    >>> total.add(np.array([1e300, 1.0, -1e300]))
    >>> total.value
    Fraction(1, 1)
    """

    def __init__(self) -> None:
        self._by_exponent: defaultdict[int, int] = defaultdict(int)

    @property
    def value(self) -> Fraction:
        """The sum."""
        items = self._by_exponent.items()
        return sum((total * Fraction(2) ** exponent for exponent, total in items), Fraction(0))

    def add(self, values: Floats) -> None:
        """Add finite values."""
        for start in range(0, len(values), _MAX_ADDENDS):
            self._add_some(values[start : start + _MAX_ADDENDS])

    def add_integer(self, value: int) -> None:
        """Add an integer."""
        self._by_exponent[0] += value

    def _add_some(self, values: Floats) -> None:
        fractions, exponents = np.frexp(values)
        integers = np.ldexp(fractions, _SIGNIFICAND_BITS).astype(np.int64)
        high = integers >> _LOW_BITS
        low = integers & ((1 << _LOW_BITS) - 1)
        bins = exponents + _EXPONENT_OFFSET
        highs, lows = np.bincount(bins, high), np.bincount(bins, low)
        for at in np.flatnonzero((highs != 0) | (lows != 0)).tolist():
            total = (int(highs[at]) << _LOW_BITS) + int(lows[at])
            self._by_exponent[at - _EXPONENT_OFFSET - _SIGNIFICAND_BITS] += total


class ExactMoments:
    """Count, mean and variance of values, rounded once.

    Examples
    --------
    >>> moments = ExactMoments()
    >>> moments.add(np.array([1.0, 2.0, 4.0]))
    >>> moments.mean_and_variance()[0] == 7 / 3
    True
    """

    def __init__(self) -> None:
        self.count = 0
        self._sum, self._squares = ExactSum(), ExactSum()

    def add(self, values: Floats) -> None:
        """Add finite values whose squares are finite."""
        self.count += len(values)
        for start in range(0, len(values), _MAX_INTEGERS):
            some = values[start : start + _MAX_INTEGERS]
            if (np.abs(some) < _MAX_INTEGER).all() and (some == np.rint(some)).all():
                integers = some.astype(np.int64)
                self._sum.add_integer(int(integers.sum()))
                self._squares.add_integer(int((integers * integers).sum()))
            else:
                self._sum.add(some)
                for part in _exact_squares(some):
                    self._squares.add(part)

    def mean_and_variance(self, n_more: int = 0, more: Any = 0) -> tuple[float, float]:
        """Return the mean and the variance, with `n_more` further values that all are `more`."""
        count, value = self.count + n_more, Fraction(more)
        mean = (self._sum.value + n_more * value) / count
        variance = (self._squares.value + n_more * value**2) / count - mean**2
        # Squares of values below 1e-150 underflow, so that a variance could fall below zero.
        return float(mean), max(0.0, float(variance))


def _exact_squares(values: Floats) -> tuple[Floats, Floats, Floats]:
    """Return three arrays whose sums are the squares, without rounding."""
    scaled = values * _SPLITTER
    high = scaled - (scaled - values)
    low = values - high
    return high * high, 2 * high * low, low * low
