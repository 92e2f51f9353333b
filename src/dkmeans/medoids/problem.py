"""What a search for medoids works on: distances, classes and integer weights."""

import math
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.medoid_costs import Distances, Ints

# Costs have 20 bits, so that sums over all rows stay below 2^62.
_WEIGHT_BITS = 26  # of the sum of all weights
_CLASS_BITS = 14  # of class weights
_COPIED_ROWS = 64  # rows of a matrix that are read at once for a sample


class DistanceMatrix(Protocol):
    """Distances between all rows, in memory or not."""

    n: int
    largest: float  # of all distances

    def rows(self, which: slice | Indices) -> Distances:
        """Return the distances from some rows to all rows, shape (m, n)."""


class SampledMatrix:
    """Distances between some rows, copied.

    Parameters
    ----------
    whole : DistanceMatrix
    rows : array of shape (m,)
    """

    def __init__(self, whole: DistanceMatrix, rows: Indices) -> None:
        self.n, self.largest = len(rows), whole.largest
        parts = (rows[i : i + _COPIED_ROWS] for i in range(0, len(rows), _COPIED_ROWS))
        self._D = np.concatenate([whole.rows(part)[:, rows] for part in parts])

    def rows(self, which: slice | Indices) -> Distances:
        """Return the distances from some rows of the sample to all of them."""
        return self._D[which]


@dataclass(frozen=True)
class Problem:
    """Rows to summarize by medoids.

    Attributes
    ----------
    distances : DistanceMatrix
    classes : array of shape (n,)
        Classes by number.
    weights : array of shape (n,)
        Integers; a row of weight 0 is no candidate, and has no cost.
    weight_unit : float
        A weight of 1 here, in the user's weights.
    n_threads : int
    """

    distances: DistanceMatrix
    classes: Indices
    weights: Ints
    weight_unit: float = 1.0
    n_threads: int = 1

    @property
    def candidates(self) -> Indices:
        """Rows that can be medoids."""
        return np.flatnonzero(self.weights > 0)

    @property
    def total_weight(self) -> int:
        """Sum of all weights."""
        return int(self.weights.sum())

    def without(self, held_out: npt.NDArray[np.bool_]) -> Self:
        """Give some rows the weight 0."""
        return replace(self, weights=np.where(held_out, 0, self.weights))

    def of(self, rows: Indices) -> Self:
        """Keep some rows only."""
        return replace(
            self,
            distances=SampledMatrix(self.distances, rows),
            classes=self.classes[rows],
            weights=self.weights[rows],
        )


def integer_weights(weights: Floats | None, factors: Floats | None, classes: Indices) -> Ints:
    """Convert weights to integers, so that sums of costs are exact.

    Weights are multiplied by a power of two and rounded to 26 bits of their sum, class weights to
    14 bits of the largest. So a weight of 3 equals the row three times, to the last bit, as long
    as the sum of integer weights has at most 26 bits; and a factor on all weights that is a power
    of two changes nothing. No positive weight is rounded to 0.

    Parameters
    ----------
    weights : array of shape (n,) or None
        Sample weights >= 0; None means ones.
    factors : array of shape (n_classes,) or None
        Class weights >= 0.
    classes : array of shape (n,)
    """
    if weights is None:
        whole = np.ones(len(classes), dtype=np.int64)
    else:
        near_one = np.ldexp(weights, -int(np.frexp(weights.max())[1]))  # sums do not overflow
        exponent = _WEIGHT_BITS - int(np.frexp(math.fsum(near_one))[1])
        whole = _rounded(np.ldexp(near_one, exponent), weights > 0)
    if factors is None:
        return whole
    relative = factors / factors.max()
    return whole * _rounded(np.ldexp(relative, _CLASS_BITS), factors > 0)[classes]


def _rounded(values: Floats, positive: npt.NDArray[np.bool_]) -> Ints:
    return np.maximum(np.rint(values).astype(np.int64), positive)
