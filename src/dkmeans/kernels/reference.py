"""Reference distance.

Every fast kernel resolves near-ties by it, and `transform` returns it, so labels do not depend on
the kernel, the block size or the number of threads.
"""

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.block import Floats
from dkmeans.kernels.exact import leading_bits


def squared_distances(rows: npt.NDArray[np.floating], centers: npt.NDArray[np.floating]) -> Floats:
    """Compute squared distances between paired rows, summed over features in order in float64.

    `np.add.accumulate` is sequential by definition; `np.sum` is not (it adds in pairs).
    """
    difference = rows.astype(np.float64)
    difference -= centers
    np.multiply(difference, difference, out=difference)
    np.add.accumulate(difference, axis=1, out=difference)
    return difference[:, -1].copy()


def stable_bits(n_features: int) -> int:
    """Return how many leading bits of a squared distance rarely depend on the order of its terms.

    A sum of d squares, in any order, has an error of at most d units of the 53rd bit. Seven more
    bits are dropped, so that two such sums, rounded, differ for few rows; the reference resolves
    those.
    """
    return 46 - (n_features + 3).bit_length()


def stable_squares(squares: Floats, n_features: int) -> Floats:
    """Round squared distances to the bits on which dense and sparse kernels agree.

    Only rounded values are summed over rows or compared.
    """
    return leading_bits(squares, stable_bits(n_features))


def inner_products(rows: npt.NDArray[np.floating], others: npt.NDArray[np.floating]) -> Floats:
    """Compute inner products of paired rows, summed over features in order in float64."""
    terms = rows.astype(np.float64)
    terms *= others
    np.add.accumulate(terms, axis=1, out=terms)
    return terms[:, -1].copy()


def to_distance(squared: Floats, dtype: npt.DTypeLike) -> npt.NDArray[np.floating]:
    """Convert squared distances to the distances that `transform` returns, in the dtype of X."""
    return np.sqrt(squared).astype(dtype)
