"""Rows compared by their directions only."""

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dkmeans.geometry.base import Geometry, Rounding
from dkmeans.kernels.block import Floats, Matrix
from dkmeans.kernels.sphere import unit_rows, unit_vectors


class Cosine(Geometry):
    """Rows and prototypes scaled to length one: D^2 = 2 - 2 cos."""

    bounded: ClassVar[bool] = True

    def rows(self, X: Matrix) -> Matrix:
        """Scale each row to length one; a row of zeros stays as it is."""
        return unit_rows(X)

    def centers(self, points: npt.NDArray[np.floating], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Scale points to length one."""
        return unit_vectors(points, dtype)

    def constrained(self, points: Floats, dtype: npt.DTypeLike) -> Floats:
        """Scale points to length one."""
        return self.centers(points, dtype).astype(np.float64)

    def margin_radii(
        self, own: Floats, rival: Floats, slopes: Floats, lengths: Floats, rounding: Rounding
    ) -> Floats:
        """Distance of the input row to a border through the origin, less what rounding may add."""
        f = rounding.safety * 50 * rounding.relative
        return ((rival - own) / 2 - f) / (slopes + f) * lengths

    def slopes(self, gaps: Floats, own: Floats, rival: Floats, rounding: Rounding) -> Floats:
        """Add what prototypes of not quite length one may add."""
        gaps += np.abs(own - rival) + rounding.of_sums
        return gaps
