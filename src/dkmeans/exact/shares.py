"""Share of the weight of some rows in that of all, summed part by part without rounding."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.block import Floats

_STEP = 1 << 16  # numbers that are summed at once: more would be a long list of Python objects


@dataclass(frozen=True)
class WeightShare:
    """Weight of the chosen rows, and of all rows; the share does not depend on the parts.

    Attributes
    ----------
    chosen, total : list of float
        A few numbers whose exact sum is the weight.
    """

    chosen: list[float]
    total: list[float]

    @classmethod
    def of(cls, chosen: npt.NDArray[np.bool_], weights: Floats | None) -> "WeightShare":
        """Sum the weights of the rows of a part; None means ones."""
        if weights is None:
            return cls([float(np.count_nonzero(chosen))], [float(len(chosen))])
        return cls(_exact_terms(weights[chosen]), _exact_terms(weights))

    @classmethod
    def merged(cls, parts: "list[WeightShare]") -> "WeightShare":
        """Add up the weights of several parts."""
        return cls(
            [term for part in parts for term in part.chosen],
            [term for part in parts for term in part.total],
        )

    @property
    def value(self) -> float:
        """The share."""
        total = math.fsum(self.total)
        if not total:
            raise ValueError(
                "sample_weight is zero for every row, or sums to zero: at least one weight must be "
                "positive."
            )
        return math.fsum(self.chosen) / total


def _exact_terms(values: Floats) -> list[float]:
    """Return a few numbers with the same exact sum: the rounded sum, and what it lacks."""
    terms: list[float] = []
    for start in range(0, len(values), _STEP):
        left, terms = [*terms, *values[start : start + _STEP].tolist()], []
        while term := math.fsum(left):
            terms.append(term)
            left.append(-term)
    return terms
