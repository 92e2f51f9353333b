"""Ranks of split conformal prediction, shared by rejection and prediction sets."""

import math
from fractions import Fraction

import numpy as np

from dkmeans.kernels.block import Floats


def rows_beyond(n: int, rate: float) -> int:
    """Return j: a new row is above the j-th largest of n scores with a probability <= rate."""
    return math.floor(exact_rate(rate) * (n + 1))


def threshold(ordered: Floats, rate: float) -> float:
    """Return the score that a new row exceeds at a rate of at most `rate`, of ascending scores.

    It is infinite if there are too few scores.
    """
    beyond = rows_beyond(len(ordered), rate)
    return float(ordered[-beyond]) if beyond else np.inf


def least_rows(rate: float) -> int:
    """Return the number of rows that a group needs so that their largest score is a threshold."""
    return math.ceil(1 / exact_rate(rate)) - 1


def exact_rate(rate: float) -> Fraction:
    """Return the rate as it was written: 0.07 is exactly 7 / 100."""
    return Fraction(str(float(rate)))
