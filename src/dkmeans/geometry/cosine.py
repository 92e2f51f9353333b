"""Cosine geometry: rows are compared by direction only."""

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dkmeans.geometry.base import Geometry, Rounding
from dkmeans.kernels.block import Floats, Matrix
from dkmeans.kernels.sphere import unit_rows, unit_vectors


class Cosine(Geometry):
    """Rows and prototypes scaled to length one: D^2 = 2 - 2 cos."""

    bounded: ClassVar[bool] = True

    def rows(self, X: Matrix, n_threads: int = 1) -> Matrix:
        """Scale each row to length one; zero rows stay zero."""
        return unit_rows(X)

    def centers(self, points: npt.NDArray[np.floating], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Scale points to length one."""
        return unit_vectors(points, dtype)

    def constrained(self, points: Floats, dtype: npt.DTypeLike) -> Floats:
        """Scale points to length one."""
        return self.centers(points, dtype).astype(np.float64)

    def margin_radii(
        self, own: Floats, rival: Floats, slopes: Floats, sizes: Floats, rounding: Rounding
    ) -> Floats:
        """Compute the distance to a border through the origin, less the rounding error."""
        f = rounding.safety * 50 * rounding.relative
        return ((rival - own) / 2 - f) / (slopes + f) * sizes

    def slopes(self, gaps: Floats, own: Floats, rival: Floats, rounding: Rounding) -> Floats:
        """Add the error of prototypes whose length is not exactly one."""
        gaps += np.abs(own - rival) + rounding.of_sums
        return gaps
