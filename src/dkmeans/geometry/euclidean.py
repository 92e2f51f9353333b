"""Euclidean geometry."""

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dkmeans.geometry.base import Geometry, Rounding
from dkmeans.kernels.block import Floats, Matrix


class Euclidean(Geometry):
    """Plain Euclidean distances."""

    bounded: ClassVar[bool] = False

    def rows(self, X: Matrix, n_threads: int = 1) -> Matrix:
        """Return the rows unchanged."""
        return X

    def centers(self, points: npt.NDArray[np.floating], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Round points to the dtype."""
        return points.astype(dtype)

    def constrained(self, points: Floats, dtype: npt.DTypeLike) -> Floats:
        """Return the points unchanged: every point is a valid centre."""
        return points

    def margin_radii(
        self, own: Floats, rival: Floats, slopes: Floats, sizes: Floats, rounding: Rounding
    ) -> Floats:
        """Compute the distance to the plane between two prototypes, less the rounding error."""
        allowance = (
            16 * rounding.relative * (own + rival) + rounding.absolute**2 / rounding.relative
        )
        gain = rival - own
        gain -= rounding.safety * allowance
        return gain / (2 * slopes)

    def slopes(self, gaps: Floats, own: Floats, rival: Floats, rounding: Rounding) -> Floats:
        """Return the distances: the border is a plane halfway between two prototypes."""
        return gaps
