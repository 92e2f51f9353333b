"""Share of the weight of some rows in that of all, summed part by part without rounding."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.block import Floats

_STEP = 1 << 16  # numbers that are summed at once: more would be a long list of Python objects
_LARGE = 2.0**900  # sums of numbers above this may overflow: they are divided by a power of two
_DIVISOR = 2**64


@dataclass(frozen=True)
class WeightShare:
    """Weight of the chosen rows, and of all rows; the share does not depend on the parts."""

    chosen: Fraction
    total: Fraction

    @classmethod
    def of(cls, chosen: npt.NDArray[np.bool_], weights: Floats | None) -> "WeightShare":
        """Sum the weights of the rows of a part; None means ones."""
        if weights is None:
            return cls(Fraction(int(np.count_nonzero(chosen))), Fraction(len(chosen)))
        return cls(_exact_sum(weights[chosen]), _exact_sum(weights))

    @classmethod
    def merged(cls, parts: "list[WeightShare]") -> "WeightShare":
        """Add up the weights of several parts."""
        return cls(
            sum((part.chosen for part in parts), Fraction()),
            sum((part.total for part in parts), Fraction()),
        )

    @property
    def value(self) -> float:
        """The share."""
        if not self.total:
            raise ValueError(
                "sample_weight is zero for every row, or sums to zero: at least one weight must be "
                "positive."
            )
        divisor = _DIVISOR if max(abs(self.chosen), abs(self.total)) > _LARGE else 1
        return float(self.chosen / divisor) / float(self.total / divisor)


def _exact_sum(values: Floats) -> Fraction:
    """Add up numbers of any magnitude."""
    large = np.abs(values) > _LARGE
    if not large.any():
        return _sum_of_small(values)
    return _sum_of_small(values[~large]) + _DIVISOR * _sum_of_small(values[large] / _DIVISOR)


def _sum_of_small(values: Floats) -> Fraction:
    """Add up the rounded sum, what it lacks, what that lacks, and so on."""
    total = Fraction()
    for start in range(0, len(values), _STEP):
        left = values[start : start + _STEP].tolist()
        while term := math.fsum(left):
            total += Fraction(term)
            left.append(-term)
    return total
