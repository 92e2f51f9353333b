"""The interface of a geometry."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.block import Floats, Matrix


@dataclass(frozen=True)
class Geometry(ABC):
    """A space in which squared Euclidean distances compare rows with prototypes.

    Geometries are small, immutable and picklable, as they are sent to the workers of a cluster.
    """

    bounded: ClassVar[bool]  # whether mapped rows are so short that no square can overflow

    @abstractmethod
    def rows(self, X: Matrix) -> Matrix:
        """Map rows to this space, in the same dtype; `X` is not modified."""

    @abstractmethod
    def centers(self, points: npt.NDArray[np.floating], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Convert points of this space, such as means, to valid centres of a dtype."""

    @abstractmethod
    def constrained(self, points: Floats, dtype: npt.DTypeLike) -> Floats:
        """Project points onto the set of valid centres, after a step of refinement."""

    @abstractmethod
    def margin_radii(
        self, own: Floats, rival: Floats, slopes: Floats, lengths: Floats, rounding: "Rounding"
    ) -> Floats:
        """Bound from below how far input rows may move before a rival becomes nearer.

        Parameters
        ----------
        own, rival : arrays that broadcast to shape (n, k)
            Squared distances to the own prototype and to the rival.
        slopes : array of shape (n, k)
            Bounds on the distance between the two prototypes, from `slopes`.
        lengths : array of shape (n, 1)
            Lengths of the input rows.
        rounding : Rounding
        """

    @abstractmethod
    def slopes(self, gaps: Floats, own: Floats, rival: Floats, rounding: "Rounding") -> Floats:
        """Bound the distances between prototypes from above.

        Parameters
        ----------
        gaps : array of shape (m, k)
            Computed distances, rounding included.
        own, rival : arrays of shapes (m, 1) and (k,)
            Half the squared lengths of the prototypes.
        rounding : Rounding
        """


@dataclass(frozen=True)
class Rounding:
    """Error bounds of the arithmetic behind a certified radius, which `certify` derives."""

    relative: float  # of a squared distance
    absolute: float  # where squares underflow
    of_sums: float  # relative error of a sum over the features, in float64
    safety: float  # factor on every allowance
