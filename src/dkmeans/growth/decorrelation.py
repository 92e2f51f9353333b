"""A linear map that makes features depend less on each other.

Features of a table often depend on each other. Rows then vary far along some directions and hardly
along others, such as the difference of two features that are nearly the same. The latter may be
those that tell classes apart, and plain steps of a projection would take very long to stretch them.
"""

from typing import Self

import numpy as np

from dkmeans.kernels.block import Floats
from dkmeans.kernels.threads import single_threaded_blas

POWER = -1 / 6  # of the covariance; -1/2 would leave features uncorrelated
RIDGE = 0.03  # that is added to the covariance, relative to the mean variance of a feature


class Decorrelation:
    """A symmetric matrix by which features are multiplied, and its inverse.

    Parameters
    ----------
    matrix, inverse : array of shape (n_features, n_features), or None
        None stands for the identity.
    """

    def __init__(self, matrix: Floats | None = None, inverse: Floats | None = None) -> None:
        self._matrix, self._inverse = matrix, inverse

    @classmethod
    def of(cls, covariance: Floats) -> Self:
        """Return the map for features with a covariance.

        Examples
        --------
        >>> import numpy as np
        >>> found = Decorrelation.of(np.diag([16.0, 1.0]))
        >>> found(np.eye(2)).round(2)
        array([[0.9 , 0.  ],
               [0.  , 1.38]])
        """
        varying = np.count_nonzero(np.diag(covariance) > 0)
        if not varying:
            return cls()
        with single_threaded_blas:
            variances, axes = np.linalg.eigh(covariance)
            ratios = np.maximum(variances, 0.0) / (np.trace(covariance) / varying) + RIDGE
            scales = ratios**POWER
            return cls((axes * scales) @ axes.T, (axes / scales) @ axes.T)

    def __call__(self, values: Floats) -> Floats:
        """Multiply by the matrix."""
        return values if self._matrix is None else self._matrix @ values

    def inverse(self, values: Floats) -> Floats:
        """Multiply by the inverse."""
        return values if self._inverse is None else self._inverse @ values
