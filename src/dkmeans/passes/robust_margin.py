"""The cost of a row near a class border, averaged over noise.

A row is at squared distances a from the nearest prototype of its class, w+, and b from the nearest
of another class, w-. Without noise it costs sigmoid(slope * (a - b) / (a + b)). Averaged over
Gaussian noise on the row, of a given variance in each of d features, that is about

    f = sigmoid(slope * (a - b) / R),    R = sqrt(S^2 + tau h),    S = a + b + c,
    c = 2 d variance,    tau = (pi / 2) variance slope^2,    h = |w+ - w-|^2:

noise adds c to the expected value of a + b, and moves a - b by a Gaussian whose variance grows with
the gap h between the two prototypes (the probit approximation of the average of a sigmoid). So a
border that is right for the training rows costs less where it has more room.
"""

from dataclasses import dataclass, replace
from types import ModuleType
from typing import Self

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from dkmeans.kernels.block import Floats
from dkmeans.kernels.distances import paired_distances
from dkmeans.kernels.reference import stable_squares
from dkmeans.passes.row_state import RowMargins


@dataclass(frozen=True)
class Pulls:
    """Derivatives of the cost of each row."""

    own: Floats  # with respect to a
    rival: Floats  # with respect to b
    gap: Floats  # with respect to h
    length: Floats  # scale of the distances


@dataclass(frozen=True)
class RobustCost:
    """Cost of rows with noise.

    Attributes
    ----------
    slope : float
    variance : float
        Of the noise, in each feature.
    n_features : int
    least : float
        Sums of two squared distances, noise included, below this count as this.
    """

    slope: float
    variance: float
    n_features: int
    least: float

    def at(self, slope: float) -> Self:
        """Return the cost with another slope."""
        return replace(self, slope=slope)

    @property
    def floor(self) -> float:
        """Smallest value of S."""
        return max(self._offset, self.least)

    @property
    def largest_pull(self) -> float:
        """Bound on the derivatives with respect to squared distances to rows."""
        return self.slope / (2 * self.floor)

    @property
    def largest_gap_pull(self) -> float:
        """Bound on the derivative with respect to the squared gap between prototypes."""
        return self.slope * (self._smoothing / self.floor) / (8 * self.floor)

    def values(self, found: RowMargins, gaps: Floats) -> Floats:
        """Return the cost of each row.

        Parameters
        ----------
        found : RowMargins
        gaps : array of shape (n,)
            Squared distance between the two prototypes of each row.
        """
        near, far = found.sides
        return self._cost(near, far, self._root(self._sums(near, far), gaps))

    def pulls(self, found: RowMargins, gaps: Floats) -> Pulls:
        """Return the derivatives of the cost of each row."""
        near, far = found.sides
        sums, difference = self._sums(near, far), near - far
        root = self._root(sums, gaps)
        f = self._cost(near, far, root)
        steep = self.slope * f * (1 - f) / root
        tilt = difference / root
        level = tilt * (sums / root)
        gap = -steep * tilt * (self._smoothing / (2 * root))
        return Pulls(steep * (1 - level), -steep * (1 + level), gap, np.sqrt(sums))

    @property
    def _offset(self) -> float:
        return 2 * self.n_features * self.variance

    @property
    def _smoothing(self) -> float:
        return np.pi / 2 * self.variance * self.slope**2

    def _sums(self, near: Floats, far: Floats) -> Floats:
        return np.maximum(near + far + self._offset, self.least)

    def _root(self, sums: Floats, gaps: Floats) -> Floats:
        # Fourth powers of lengths could overflow.
        root: Floats = sums * np.sqrt(1 + (self._smoothing / sums) * (gaps / sums))
        return root

    def _cost(self, near: Floats, far: Floats, root: Floats) -> Floats:
        costs: Floats = expit(self.slope * ((near - far) / root))
        return costs


def squared_gaps(
    found: RowMargins, centers: npt.NDArray[np.floating], loops: ModuleType | None
) -> Floats:
    """Compute the squared distance between the own prototype of each row and its rival."""
    k, d = centers.shape
    pairs, index = np.unique(found.own.astype(np.intp) * k + found.rival, return_inverse=True)
    squares = paired_distances(centers, pairs // k, centers, pairs % k, loops)
    return stable_squares(squares, d)[index]
