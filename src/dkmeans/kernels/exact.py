"""Sums that do not depend on the order of their terms.

Floating-point addition is not associative, so a plain sum changes with the order of rows, the
size of blocks and the number of threads. Here every value is first cut into a few slices, each a
multiple of a power of two (a *unit*) that is the same for a whole column. The units are so coarse
that the slices of all rows can be added without a single rounding; the sum of each slice is
therefore exact, whatever the order, and may be taken by any routine, in any number of parts.

For n rows a slice holds W = 51 - ceil(log2(n + 1)) bits, so that n slices stay below 2**52 units.
With enough slices for the range of a column's values nothing is lost at all.
"""

import math
from fractions import Fraction

import numpy as np

from dkmeans.kernels.block import Floats

_SPLITTER = 2.0**27 + 1.0  # Dekker's constant: cuts a 53-bit number into two halves
_SMALLEST = -1074  # exponent of the smallest positive double
_TOGETHER = 1 << 15  # sums that are worked on at a time: work arrays stay in the cache
_UNDERFLOW = 2.0**-1070  # what products may lose to it


def slice_count(n_rows: int, bits: int) -> int:
    """Tell how many slices hold this many bits below the largest value."""
    return math.ceil(bits / _slice_bits(n_rows))


def _slice_bits(n_rows: int) -> int:
    return 51 - int(n_rows).bit_length()


def rounding_units(bounds: Floats, n_rows: int, bits: int) -> Floats:
    """Choose units of which the finest does not depend on the number of rows.

    So values are rounded to these bits below their bounds in the same way however many they are;
    only into how many slices they are cut for the sum differs.

    Returns
    -------
    units : array of shape (n_slices, n_columns)
        Powers of two, coarsest first.
    """
    _, exponents = np.frexp(bounds)
    steps = bits - _slice_bits(n_rows) * np.arange(slice_count(n_rows, bits))[::-1]
    return np.ldexp(1.0, np.maximum(exponents[None, :] - steps[:, None], _SMALLEST))


def grid_units(bounds: Floats, n_rows: int, n_slices: int) -> Floats:
    """Choose the units for columns whose values stay within `bounds` in magnitude.

    Returns
    -------
    units : array of shape (n_slices, n_columns)
        Powers of two, coarsest first.
    """
    _, exponents = np.frexp(bounds)
    steps = _slice_bits(n_rows) * np.arange(1, n_slices + 1)
    return np.ldexp(1.0, np.maximum(exponents[None, :] - steps[:, None], _SMALLEST))


def cut(values: Floats, units: Floats, rest: Floats | None = None) -> Floats:
    """Cut values into slices.

    Parameters
    ----------
    values : array of shape (n_rows, n_columns)
    units : array of shape (n_slices, n_columns)
    rest : array of shape (n_rows, n_columns), optional
        Low-order part of the values, as `product` returns it.

    Returns
    -------
    slices : array of shape (n_slices, n_rows, n_columns)
        Multiples of the units. They add up to the values, but for less than the finest unit.
    """
    slices = np.empty((len(units), *values.shape))
    remainder = values.copy()
    for level, unit in enumerate(units):
        # Adding and taking away 1.5 * 2**52 units rounds to a multiple of the unit.
        anchor = unit * (1.5 * 2.0**52)
        piece = slices[level]
        np.add(remainder, anchor, out=piece)
        piece -= anchor
        remainder -= piece
        if rest is not None:
            # Takes as much of the rest as it can hold (Dekker's fast two-sum).
            both = remainder + rest
            rest = rest - (both - remainder)
            remainder = both
    return slices


def product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Multiply without loss: the rounded product and what the rounding left out (Dekker)."""
    p = a * b
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(b)
    return p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low


def _halves(a: Floats) -> tuple[Floats, Floats]:
    c = _SPLITTER * a
    high = c - (c - a)
    return high, a - high


def leading_bits(values: Floats, bits: int) -> Floats:
    """Round to so many significant bits."""
    mantissas, exponents = np.frexp(values)
    return np.ldexp(np.rint(np.ldexp(mantissas, bits)), exponents - bits)


def most_bits(values: Floats) -> int:
    """Count the significant bits of positive numbers, and return the largest count."""
    whole = np.ldexp(np.frexp(values)[0], 53).astype(np.int64)
    lowest = whole & -whole
    return 54 - int(lowest.min(initial=1 << 53)).bit_length()


def total(slices: Floats) -> tuple[Floats, Floats]:
    """Add up slices, coarsest first along axis 0, into a leading and a trailing part."""
    parts = np.empty((2, *slices.shape[1:]))
    flat, found = slices.reshape(len(slices), -1), parts.reshape(2, -1)
    for start in range(0, flat.shape[1], _TOGETHER):
        part = slice(start, start + _TOGETHER)
        found[:, part] = _added(flat[:, part])[:2]
    return parts[0], parts[1]


def _added(slices: Floats) -> tuple[Floats, Floats, Floats]:
    """Do the same, and tell how much of the sum the two parts leave out at most."""
    high = slices[0]
    low, left_out = np.zeros_like(high), np.zeros_like(high)
    for piece in slices[1:]:
        high, error = _two_sum(high, piece)
        low, error = _two_sum(low, error)
        left_out = left_out + np.abs(error)
    return *_two_sum(high, low), left_out


def _two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Add without loss: the rounded sum and what the rounding left out (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Divide sums that are given in slices, and round once.

    Parameters
    ----------
    numerator : array of shape (n_slices, ...)
    denominator : array of shape (m_slices, ...)
        Positive sums. All axes but the first are broadcast to those of the numerator.
    """
    shape = numerator.shape[1:]
    result = np.zeros(shape)
    above = numerator.reshape(len(numerator), -1)
    below = np.broadcast_to(denominator, (len(denominator), *shape))
    # Sums of sparse rows are zeros for the most part.
    there = np.flatnonzero(above.any(axis=0))
    for start in range(0, len(there), _TOGETHER):
        part = there[start : start + _TOGETHER]
        places = np.unravel_index(part, shape) if shape else ()
        under = np.array([level[places] for level in below]).reshape(len(below), -1)
        result.reshape(-1)[part] = _ratio(above[:, part], under)
    return result


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Do the same for arrays of shapes (n_slices, n) and (m_slices, n)."""
    n, n_low, n_left_out = _added(numerator)
    d, d_low, d_left_out = _added(denominator)
    q = n / d
    p, p_low = product(q, d)
    rest = (n - p) - p_low  # of the division, which is exact
    missing = (rest + n_low) - q * d_low
    step = missing / d
    result = q + step
    # The step is off by less than this. Where that matters, fractions have the last word.
    rounding = np.abs(rest) + np.abs(n_low) + np.abs(q * d_low) + np.abs(missing)
    error = (rounding * 2.0**-51 + n_left_out + np.abs(q) * d_left_out + _UNDERFLOW) / d
    unsure = (q + (step - error) != q + (step + error)) & ((n != 0) | (n_left_out > 0))
    if unsure.any():
        # Not where nothing was rounded, as in the mean of two values that is half-way.
        both, lost = _two_sum(rest, n_low)
        back, back_low = product(step, d)
        exact = (lost == 0) & (back == both) & (back_low == 0)
        exact &= (d_low == 0) & (n_left_out == 0) & (d_left_out == 0)
        for at in np.flatnonzero(unsure & ~exact).tolist():
            above, below = (
                sum(map(Fraction, slices[:, at].tolist())) for slices in (numerator, denominator)
            )
            result[at] = float(above / below)
    return result
