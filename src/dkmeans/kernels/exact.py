"""Sums that do not depend on the order of their terms.

Floating-point addition is not associative, so a plain sum changes with the order of rows, the
size of blocks and the number of threads. Here every value is first cut into a few slices, each a
multiple of a power of two (its *unit*) that is the same for a whole column. Units are so coarse
that adding the slices of all rows never rounds. The sum of each slice is therefore exact in any
order, and any routine may compute it, in any number of parts.

For n rows, a slice holds W = 51 - ceil(log2(n + 1)) bits, so that n slices stay below 2**52 units.
With enough slices for the range of a column's values, sums are exact.
"""

import math
from fractions import Fraction
from types import ModuleType

import numpy as np

from dkmeans.kernels.block import Floats
from dkmeans.kernels.compiled import loops_in_use

SPLITTER = 2.0**27 + 1.0  # Dekker's constant: splits a 53-bit number into two halves
MIN_EXPONENT = -1074  # exponent of the smallest positive double
CHUNK_SUMS = 1 << 15  # sums per chunk: work arrays stay in the cache
MIN_FILLED = 0.5  # share of sums that are not zero from which all are divided
PROBED_ROWS = 8  # one of so many rows is looked at for that
UNDERFLOW_ERROR = 2.0**-1070  # bound on the error of products that underflow


def slice_count(n_rows: int, bits: int) -> int:
    """Return the number of slices that hold `bits` bits below the largest value."""
    return math.ceil(bits / _slice_bits(n_rows))


def _slice_bits(n_rows: int) -> int:
    return 51 - int(n_rows).bit_length()


def rounding_units(bounds: Floats, n_rows: int, bits: int) -> Floats:
    """Choose units such that the finest does not depend on the number of rows.

    Rounding to `bits` bits below the bounds is then the same for any number of rows; only the
    number of slices differs.

    Returns
    -------
    units : array of shape (n_slices, n_columns)
        Powers of two, coarsest first.
    """
    _, exponents = np.frexp(bounds)
    steps = bits - _slice_bits(n_rows) * np.arange(slice_count(n_rows, bits))[::-1]
    return np.ldexp(1.0, np.maximum(exponents[None, :] - steps[:, None], MIN_EXPONENT))


def grid_units(bounds: Floats, n_rows: int, n_slices: int) -> Floats:
    """Choose the units for columns whose values stay within `bounds` in magnitude.

    Returns
    -------
    units : array of shape (n_slices, n_columns)
        Powers of two, coarsest first.
    """
    _, exponents = np.frexp(bounds)
    steps = _slice_bits(n_rows) * np.arange(1, n_slices + 1)
    return np.ldexp(1.0, np.maximum(exponents[None, :] - steps[:, None], MIN_EXPONENT))


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
        Multiples of the units. Their sum differs from the values by less than the finest unit.
    """
    slices = np.empty((len(units), *values.shape))
    remainder = values.copy()
    for level, unit in enumerate(units):
        # Adding and subtracting 1.5 * 2**52 units rounds to a multiple of the unit.
        anchor = unit * (1.5 * 2.0**52)
        piece = slices[level]
        np.add(remainder, anchor, out=piece)
        piece -= anchor
        remainder -= piece
        if rest is not None:
            # Move as much of the rest into the remainder as fits (Dekker's fast two-sum).
            both = remainder + rest
            rest = rest - (both - remainder)
            remainder = both
    return slices


def product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Multiply exactly: return the rounded product and its rounding error (Dekker)."""
    p = a * b
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(b)
    return p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low


def _halves(a: Floats) -> tuple[Floats, Floats]:
    c = SPLITTER * a
    high = c - (c - a)
    return high, a - high


def leading_bits(values: Floats, bits: int) -> Floats:
    """Round to a number of significant bits."""
    mantissas, exponents = np.frexp(values)
    return np.ldexp(np.rint(np.ldexp(mantissas, bits)), exponents - bits)


def max_significant_bits(values: Floats) -> int:
    """Return the largest number of significant bits among positive numbers."""
    whole = np.ldexp(np.frexp(values)[0], 53).astype(np.int64)
    lowest = whole & -whole
    return 54 - int(lowest.min(initial=1 << 53)).bit_length()


def total(slices: Floats) -> tuple[Floats, Floats]:
    """Add up slices, coarsest first along axis 0, into a leading and a trailing part."""
    parts = two_parts(slices)
    return parts[0], parts[1]


def two_parts(slices: Floats) -> Floats:
    """Do the same, with both parts in one array, along axis 0."""
    if len(slices) == 1:
        parts = np.zeros((2, *slices.shape[1:]))
        np.add(slices[0], 0.0, out=parts[0, ...])  # no -0.0
        return parts
    parts = np.empty((2, *slices.shape[1:]))
    flat, found = slices.reshape(len(slices), -1), parts.reshape(2, -1)
    for start in range(0, flat.shape[1], CHUNK_SUMS):
        part = slice(start, start + CHUNK_SUMS)
        found[0, part], found[1, part], _ = _sum_slices(flat[:, part])
    return parts


def _sum_slices(slices: Floats) -> tuple[Floats, Floats, Floats]:
    """Do the same for one chunk; also return a bound on the error of the two parts."""
    high, left_out = slices[0], np.zeros(slices.shape[1:])
    if len(slices) == 1:
        return high + 0.0, left_out, left_out  # no -0.0
    high, low = _two_sum(high, slices[1])
    low = low + 0.0
    for piece in slices[2:]:
        high, error = _two_sum(high, piece)
        low, error = _two_sum(low, error)
        left_out = left_out + np.abs(error)
    return *_two_sum(high, low), left_out


def _two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Add exactly: return the rounded sum and its rounding error (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Divide sums given as slices, with a single rounding.

    Parameters
    ----------
    numerator : array of shape (n_slices, ...)
    denominator : array of shape (m_slices, ...)
        Positive sums. All axes but the first are broadcast to those of the numerator.
    """
    shape = numerator.shape[1:]
    if len(numerator) == len(denominator) == 1:  # sums without rounding errors
        return numerator[0] / denominator[0] + 0.0  # no -0.0
    result = np.zeros(shape)
    if len(shape) == 2 and denominator.shape[1:] == (shape[0], 1):  # the usual case: means
        loops = loops_in_use()
        step = max(1, CHUNK_SUMS // max(1, shape[1]))
        for start in range(0, shape[0], step):
            part = slice(start, start + step)
            above, below = numerator[:, part], denominator[:, part]
            filled = above[:, ::PROBED_ROWS].any(axis=0)
            if np.count_nonzero(filled) <= MIN_FILLED * filled.size:
                result[part] = _sparse_ratio(above, below)
            elif loops is None:
                result[part] = _ratio(above, below)
            else:
                result[part] = _compiled_ratio(above, below, loops)
        return result
    return _sparse_ratio(numerator, denominator)


def _compiled_ratio(numerator: Floats, denominator: Floats, loops: ModuleType) -> Floats:
    """Do the same for one chunk of means, in compiled code where that is certain."""
    result = np.empty(numerator.shape[1:])
    unsure = np.empty(result.shape, dtype=bool)
    loops.divide(numerator, denominator[:, :, 0], result, unsure)
    if unsure.any():
        row, column = np.nonzero(unsure)
        result[row, column] = _ratio(numerator[:, row, column], denominator[:, row, 0])
    return result


def _sparse_ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Do the same where most sums are zero, as those of sparse rows are."""
    shape = numerator.shape[1:]
    result = np.zeros(shape)
    above = numerator.reshape(len(numerator), -1)
    below = np.broadcast_to(denominator, (len(denominator), *shape))
    there = np.flatnonzero(above.any(axis=0))
    for start in range(0, len(there), CHUNK_SUMS):
        part = there[start : start + CHUNK_SUMS]
        places = np.unravel_index(part, shape) if shape else ()
        under = np.array([level[places] for level in below]).reshape(len(below), -1)
        result.reshape(-1)[part] = _ratio(above[:, part], under)
    return result


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Do the same for one chunk."""
    n, n_low, n_left_out = _sum_slices(numerator)
    d, d_low, d_left_out = _sum_slices(denominator)
    q = n / d
    p, p_low = product(q, d)
    rest = (n - p) - p_low  # remainder of the division, exact
    missing = (rest + n_low) - q * d_low
    step = missing / d
    result = q + step
    # `error` bounds the error of the step. Where it could change the result, use fractions.
    rounding = np.abs(rest) + np.abs(n_low) + np.abs(q * d_low) + np.abs(missing)
    error = (rounding * 2.0**-51 + n_left_out + np.abs(q) * d_left_out + UNDERFLOW_ERROR) / d
    unsure = (q + (step - error) != q + (step + error)) & ((n != 0) | (n_left_out > 0))
    if unsure.any():
        # Skip quotients computed without rounding, such as a mean halfway between two doubles.
        both, lost = _two_sum(rest, n_low)
        back, back_low = product(step, d)
        exact = (lost == 0) & (back == both) & (back_low == 0)
        exact &= (d_low == 0) & (n_left_out == 0) & (d_left_out == 0)
        denominator = np.broadcast_to(denominator, (len(denominator), *result.shape))
        for at in zip(*np.nonzero(unsure & ~exact), strict=True):
            above, below = (
                sum(map(Fraction, slices[(slice(None), *at)].tolist()))
                for slices in (numerator, denominator)
            )
            result[at] = float(above / below)
    return result
