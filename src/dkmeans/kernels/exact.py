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

import numpy as np

from dkmeans.kernels.block import Floats

_SPLITTER = 2.0**27 + 1.0  # Dekker's constant: cuts a 53-bit number into two halves
_SMALLEST = -1074  # exponent of the smallest positive double


def slice_count(n_rows: int, bits: int) -> int:
    """Tell how many slices hold this many bits below the largest value."""
    return math.ceil(bits / _slice_bits(n_rows))


def _slice_bits(n_rows: int) -> int:
    return 51 - int(n_rows).bit_length()


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
        if level == 0 and rest is not None:
            remainder += rest
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
    """Round to so many significant bits, the nearest such number (Veltkamp)."""
    scaled = values * (2.0 ** (53 - bits) + 1.0)
    return scaled - (scaled - values)


def total(slices: Floats) -> tuple[Floats, Floats]:
    """Add up slices, coarsest first along axis 0, into a leading and a trailing part."""
    high = slices[0]
    low = np.zeros_like(high)
    for piece in slices[1:]:
        s = high + piece
        t = s - high
        low = low + ((high - (s - t)) + (piece - t))  # Knuth's two-sum
        high = s
    s = high + low
    return s, low - (s - high)


def ratio(numerator: tuple[Floats, Floats], denominator: tuple[Floats, Floats]) -> Floats:
    """Divide two totals and round once, or very nearly so.

    The mean of equal values is that value to the last bit.
    """
    (n, n_low), (d, d_low) = numerator, denominator
    q = n / d
    p, p_low = product(q, np.broadcast_to(d, q.shape))
    return q + ((((n - p) - p_low) + n_low) - q * d_low) / d
