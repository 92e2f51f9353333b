"""Compiled division of exact sums, with the operations of `kernels.exact` in the same order."""

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.block import Floats
from dkmeans.kernels.exact import SPLITTER, UNDERFLOW_ERROR
from dkmeans.kernels.jit import compiled


@compiled
def _two_sum(a: float, b: float) -> tuple[float, float]:
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


@compiled
def _halves(a: float) -> tuple[float, float]:
    c = SPLITTER * a
    high = c - (c - a)
    return high, a - high


@compiled
def _add_up(slices: Floats, high: Floats, low: Floats, left_out: Floats) -> None:
    """Add up slices of a row of sums, coarsest first."""
    high[:] = slices[0]
    low[:] = 0.0
    left_out[:] = 0.0
    for level in range(1, len(slices)):
        for j in range(len(high)):
            high[j], error = _two_sum(high[j], slices[level, j])
            low[j], error = _two_sum(low[j], error)
            left_out[j] += abs(error)
    for j in range(len(high)):
        high[j], low[j] = _two_sum(high[j], low[j])


@compiled
def divide(
    numerator: Floats, denominator: Floats, out: Floats, unsure: npt.NDArray[np.bool_]
) -> None:
    """Divide rows of sums by one sum each.

    Parameters
    ----------
    numerator : array of shape (n_slices, g, d)
        IN.
    denominator : array of shape (m_slices, g)
        IN. Positive.
    out : array of shape (g, d)
        OUT. Quotients, rounded once.
    unsure : array of shape (g, d)
        OUT. Where quotients may not be correct to the last bit.
    """
    n_groups, n_columns = out.shape
    n, n_low, n_left_out = np.empty(n_columns), np.empty(n_columns), np.empty(n_columns)
    whole, whole_low, whole_left_out = np.empty(n_groups), np.empty(n_groups), np.empty(n_groups)
    _add_up(denominator, whole, whole_low, whole_left_out)
    for g in range(n_groups):
        _add_up(numerator[:, g], n, n_low, n_left_out)
        d, d_low, d_left_out = whole[g], whole_low[g], whole_left_out[g]
        d_high, d_rest = _halves(d)
        row, doubts = out[g], unsure[g]
        for j in range(n_columns):
            q = n[j] / d
            p = q * d
            high, rest = _halves(q)
            p_low = ((high * d_high - p) + high * d_rest + rest * d_high) + rest * d_rest
            remainder = (n[j] - p) - p_low
            missing = (remainder + n_low[j]) - q * d_low
            step = missing / d
            rounding = abs(remainder) + abs(n_low[j]) + abs(q * d_low) + abs(missing)
            error = (
                rounding * 2.0**-51 + n_left_out[j] + abs(q) * d_left_out + UNDERFLOW_ERROR
            ) / d
            row[j] = q + step
            doubts[j] = (q + (step - error) != q + (step + error)) & (
                (n[j] != 0.0) | (n_left_out[j] > 0.0)
            )
