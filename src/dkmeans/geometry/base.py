"""The interface of a geometry."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.block import Floats, Matrix
from dkmeans.kernels.sphere import row_lengths


@dataclass(frozen=True)
class Geometry(ABC):
    """A space in which squared Euclidean distances compare rows with prototypes.

    Geometries are small, immutable and picklable, as they are sent to the workers of a cluster.
    """

    bounded: ClassVar[bool]  # whether mapped rows are so short that no square can overflow

    @abstractmethod
    def rows(self, X: Matrix, n_threads: int = 1) -> Matrix:
        """Map rows to this space, in the same dtype; `X` is not modified."""

    def dimension(self, n_features: int) -> int:
        """Return the dimension of this space, for rows of some number of features."""
        return n_features

    def inverse(self, points: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
        """Return rows of the input space that show points of this space, in the same dtype."""
        return points

    def displayed(self, X: Matrix) -> Matrix:
        """Return rows as they are shown beside the points that `inverse` returns."""
        return self.rows(X)

    @property
    def input_components(self) -> Floats | None:
        """Linear map from differences of input rows, shape (p, d), if the metric is learned."""
        return None

    @property
    def importances(self) -> Floats | None:
        """Share of each feature in squared distances, if it is learned."""
        return None

    @abstractmethod
    def centers(self, points: npt.NDArray[np.floating], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Convert points of this space, such as means, to valid centres of a dtype."""

    @abstractmethod
    def constrained(self, points: Floats, dtype: npt.DTypeLike) -> Floats:
        """Project points onto the set of valid centres, after a step of refinement."""

    def margin_parts(
        self,
        X: npt.NDArray[np.floating],
        own: npt.NDArray[np.floating],
        rival: npt.NDArray[np.floating],
    ) -> Floats:
        """Split rival minus own squared distance of input rows over the features, shape (n, d).

        Parameters
        ----------
        X : array of shape (n, d)
        own, rival : arrays of shape (n, p)
            Prototypes of each row, as points of this space.
        """
        rows, near, far = (values.astype(np.float64) for values in (self.rows(X), own, rival))
        return (near - far) * ((rows - near) + (rows - far))

    def row_sizes(self, rows: npt.NDArray[np.floating]) -> Floats:
        """Return what rounding errors grow with, for each input row: its length."""
        return row_lengths(rows)

    def normals(self, centers: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
        """Map centres to points whose differences are normal to the borders in the input space."""
        return centers

    @abstractmethod
    def margin_radii(
        self, own: Floats, rival: Floats, slopes: Floats, sizes: Floats, rounding: "Rounding"
    ) -> Floats:
        """Bound from below how far input rows may move before a rival becomes nearer.

        Parameters
        ----------
        own, rival : arrays that broadcast to shape (n, k)
            Squared distances to the own prototype and to the rival.
        slopes : array of shape (n, k)
            Bounds on the distance between the normals of the two prototypes, from `slopes`.
        sizes : array of shape (n, 1)
            Sizes of the input rows, from `row_sizes`.
        rounding : Rounding
        """

    @abstractmethod
    def slopes(self, gaps: Floats, own: Floats, rival: Floats, rounding: "Rounding") -> Floats:
        """Bound the distances between normals of prototypes from above.

        Parameters
        ----------
        gaps : array of shape (m, k)
            Computed distances, rounding included.
        own, rival : arrays of shapes (m, 1) and (k,)
            Half the squared lengths of the prototypes.
        rounding : Rounding
        """

    def rounding_of_rows(self, sizes: Floats, unit: float) -> Floats:
        """Bound how far rounding to a type of this unit roundoff moves two input rows."""
        return 2 * unit * sizes


@dataclass(frozen=True)
class Rounding:
    """Error bounds of the arithmetic behind a certified radius, which `certify` derives."""

    unit: float  # unit roundoff of the type of X
    relative: float  # of a squared distance
    absolute: float  # where squares underflow
    of_sums: float  # relative error of a sum over the features, in float64
    safety: float  # factor on every allowance
