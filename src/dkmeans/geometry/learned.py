"""Learned geometry: standardised features, projected."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from dkmeans.geometry.base import Geometry, Rounding
from dkmeans.kernels.block import Floats, Matrix
from dkmeans.kernels.compiled import loops_for
from dkmeans.kernels.projection import (
    GRID,
    SATURATION,
    project_rows,
    round_projection,
    standardise,
)
from dkmeans.kernels.reference import inner_products
from dkmeans.kernels.threads import for_each, single_threaded_blas, tiles

MAX_FEATURES = 4096  # as the covariance of all pairs of features is computed
MIN_DEVIATION = 2.0**-480  # below it a feature counts as constant
MIN_SLOPE = 2.0**-500  # shorter normals are not told from 0, as their squares underflow
TILE_VALUES = 1 << 15  # standardised at a time: as many as stay in the cache
MIN_TILE_ROWS = 64
# The projection is rounded, so that directions much shorter than its longest are noise.
RANK_TOLERANCE = 2.0**-20


@dataclass(frozen=True, eq=False)
class Learned(Geometry):
    """Rows compared by ``((X - shift) / scale) @ components``.

    The projected rows have the same bits for any blocks, threads and BLAS, dense or CSR, and do
    not change if a feature and its shift and scale are multiplied by a power of two. Features of
    scale 0 are ignored.

    Use `of_features` and `with_components` to make one: they round the projection so that its
    products are exact. The fields must come from there, or from a file that kept them.
    """

    shift: Floats  # shape (d,): 0 where the range of a feature includes 0, so that CSR stays sparse
    scale: Floats  # shape (d,): standard deviations; 0 for constant features
    center: Floats  # shape (d,): means; only `inverse` needs them
    components: Floats  # shape (d, p), on the grid of `kernels.projection`

    bounded: ClassVar[bool] = True

    def __eq__(self, other: object) -> bool:
        """Return whether all rows have the same images."""
        if not isinstance(other, Learned):
            return NotImplemented
        names = ("shift", "scale", "center", "components")
        return self is other or all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in names
        )

    def __hash__(self) -> int:
        """Hash the projection."""
        return hash(self.components.tobytes())

    @classmethod
    def of_features(
        cls,
        means: Floats,
        deviations: Floats,
        lowest: npt.NDArray[np.floating],
        highest: npt.NDArray[np.floating],
        components: npt.NDArray[np.floating],
    ) -> Self:
        """Standardise features of known means, standard deviations and ranges.

        Parameters
        ----------
        means, deviations, lowest, highest : arrays of shape (d,)
            The deviation of a constant feature must be 0.
        components : array of shape (d, p)
            Projection of standardised features, such as their principal axes; it is rounded.

        Examples
        --------
        >>> import numpy as np
        >>> X = np.array([[0.0, 10.0], [2.0, 12.0]])
        >>> stats = X.mean(axis=0), X.std(axis=0), X.min(axis=0), X.max(axis=0)
        >>> Learned.of_features(*stats, np.eye(2)).rows(X)
        array([[ 0., -1.],
               [ 2.,  1.]])
        """
        shift = np.where((lowest <= 0) & (highest >= 0), 0.0, means)
        scale = np.where(deviations < MIN_DEVIATION, 0.0, deviations)
        nothing = np.zeros((len(shift), 0))
        return cls(shift, scale, np.array(means), nothing).with_components(components)

    def with_components(self, components: npt.NDArray[np.floating]) -> Self:
        """Return this geometry with another projection; it is rounded, 0 for ignored features."""
        counting = np.where(self.scale[:, None] > 0, components, 0.0)
        return replace(self, components=round_projection(counting))

    def standardised(self, X: Matrix) -> Matrix:
        """Return rows in standard deviations, in float64 and rounded to multiples of 2**-16.

        CSR rows stay sparse if there is no shift.
        """
        return standardise(X, self.shift, self.scale)

    def rows(self, X: Matrix, n_threads: int = 1) -> Matrix:
        """Standardise and project rows."""
        n, d = X.shape
        result = np.empty((n, self.components.shape[1]), dtype=X.dtype)
        loops = loops_for(X)

        def task(tile: slice) -> None:
            result[tile] = project_rows(X[tile], self.shift, self.scale, self.components, loops)

        for_each(task, tiles(n, max(MIN_TILE_ROWS, TILE_VALUES // d)), n_threads)
        return result

    def dimension(self, n_features: int) -> int:
        """Return the rank of the projection, or more."""
        return int(self.components.shape[1])

    def inverse(self, points: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
        """Find the input rows nearest to the mean row, in standard deviations, with these images.

        If the projection is not injective, many rows have the same image: this is the least-norm
        solution relative to the mean row. It is for display; mapped again, it gives the points
        but for rounding (or the nearest possible ones, if the projection is not surjective).
        """
        steps = self._steps_from_center(points.astype(np.float64))
        return (self.center + steps * self.scale).astype(points.dtype)

    def _steps_from_center(self, points: Floats) -> Floats:
        """Return the shortest steps from the mean row, in standard deviations, to these images."""
        origin = project_rows(self.center[None], self.shift, self.scale, self.components)
        with single_threaded_blas:
            return (points - origin) @ self._pseudoinverse

    def displayed(self, X: Matrix) -> Matrix:
        """Return the rows unchanged: points are shown in the input space."""
        return X

    @property
    def input_components(self) -> Floats:
        """Linear map from differences of input rows to this space, shape (p, d)."""
        scale = self.scale[:, None]
        shape = np.zeros_like(self.components)
        return np.divide(self.components, scale, out=shape, where=scale > 0).T

    @property
    def importances(self) -> Floats:
        """Diagonal of the metric of standardised features, normalised to a sum of 1."""
        squares = np.square(self.components).sum(axis=1)
        return squares / (squares.sum() or 1.0)

    def centers(self, points: npt.NDArray[np.floating], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Round points to the dtype."""
        return points.astype(dtype)

    def constrained(self, points: Floats, dtype: npt.DTypeLike) -> Floats:
        """Return the points unchanged: every point is a valid centre."""
        return points

    def margin_parts(
        self,
        X: npt.NDArray[np.floating],
        own: npt.NDArray[np.floating],
        rival: npt.NDArray[np.floating],
    ) -> Floats:
        """Split by the distance from the point midway, in each standardised feature."""
        near, far = own.astype(np.float64), rival.astype(np.float64)
        middle = self.standardised(self.center[None]) + self._steps_from_center((near + far) / 2)
        with single_threaded_blas:
            weights = (near - far) @ self.components.T
        return 2 * (self.standardised(X) - middle) * weights

    def row_sizes(self, rows: npt.NDArray[np.floating]) -> Floats:
        """Bound what rounding errors of projected rows grow with; infinite for saturated rows."""
        values = rows.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            sizes = inner_products(
                np.abs(values) + np.abs(self.shift), self._feature_norms[None, :]
            )
            saturated = np.abs(standardise(values, self.shift, self.scale)) > SATURATION / 2
        return np.where(saturated.any(axis=1), np.inf, sizes)

    def normals(self, centers: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
        """Map centres to the input space, by the transpose of the projection."""
        return centers.astype(np.float64) @ self.input_components

    def margin_radii(
        self, own: Floats, rival: Floats, slopes: Floats, sizes: Floats, rounding: Rounding
    ) -> Floats:
        """Compute the distance to the border in the input space, less the rounding error."""
        gain = rival - own
        steepest = float(np.linalg.norm(self._feature_norms))
        farthest = np.maximum(gain, 0) / (2 * slopes) * steepest  # no projected row moves farther
        # Errors of the projected row, as it is and after a move.
        n_features = len(self.scale)
        errors = np.sqrt(n_features) * GRID * self._norm
        errors = errors + (2 * rounding.unit + (n_features + 8) * 2.0**-53) * (2 * sizes + farthest)
        allowance = 16 * rounding.relative * (own + rival + np.square(farthest + errors))
        allowance += rounding.absolute**2 / rounding.relative
        allowance += 2 * (np.sqrt(own) + np.sqrt(rival)) * errors
        radii = (gain - rounding.safety * allowance) / (2 * slopes)
        return np.minimum(
            radii, SATURATION / 2 * np.min(self.scale[self.scale > 0], initial=np.inf)
        )

    def slopes(self, gaps: Floats, own: Floats, rival: Floats, rounding: Rounding) -> Floats:
        """Add the rounding errors of the normals."""
        lengths = np.sqrt(2 * own) + np.sqrt(2 * rival)
        steepest = float(np.linalg.norm(self._feature_norms))
        gaps += rounding.safety * rounding.of_sums * steepest * lengths + MIN_SLOPE
        return gaps

    def rounding_of_rows(self, sizes: Floats, unit: float) -> Floats:
        """Return 0: `margin_radii` includes it, feature by feature."""
        return np.zeros_like(sizes)

    @cached_property
    def _feature_norms(self) -> Floats:
        """Length of the image of a unit step along each feature."""
        return np.linalg.norm(self.input_components, axis=0).astype(np.float64)

    @cached_property
    def _norm(self) -> float:
        """Bound on the largest singular value of the projection."""
        with single_threaded_blas:
            return 1.001 * float(np.linalg.norm(self.components, 2))

    @cached_property
    def _pseudoinverse(self) -> Floats:
        with single_threaded_blas:
            return np.linalg.pinv(self.components, rcond=RANK_TOLERANCE).astype(np.float64)
