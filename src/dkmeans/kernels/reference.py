"""The distance that counts.

Every fast kernel settles its near-ties here, and `transform` returns nothing else, so labels never
depend on which kernel, block size or number of threads did the work.
"""

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.block import Floats
from dkmeans.kernels.exact import leading_bits


def squared_distances(rows: npt.NDArray[np.floating], centers: npt.NDArray[np.floating]) -> Floats:
    """Squared distances between paired rows, summed over features in order in float64.

    `np.add.accumulate` is sequential by definition; `np.sum` is not (it adds in pairs).
    """
    difference = rows.astype(np.float64)
    difference -= centers
    np.multiply(difference, difference, out=difference)
    np.add.accumulate(difference, axis=1, out=difference)
    return difference[:, -1].copy()


def stable_bits(n_features: int) -> int:
    """Tell how many leading bits of a squared distance hardly depend on the order of its terms.

    A sum of d squares in any order is off by d units of the 53rd bit at most. Seven bits more are
    left out, so that two such sums, rounded, differ for few rows; those are settled by the
    reference.
    """
    return 46 - (n_features + 3).bit_length()


def stable_squares(squares: Floats, n_features: int) -> Floats:
    """Round squared distances to bits that kernels for arrays and for CSR matrices agree on.

    Whatever is summed over rows or decides anything is made of these.
    """
    return leading_bits(squares, stable_bits(n_features))


def inner_products(rows: npt.NDArray[np.floating], others: npt.NDArray[np.floating]) -> Floats:
    """Inner products between paired rows, summed over features in order in float64."""
    terms = rows.astype(np.float64)
    terms *= others
    np.add.accumulate(terms, axis=1, out=terms)
    return terms[:, -1].copy()


def to_distance(squared: Floats, dtype: npt.DTypeLike) -> npt.NDArray[np.floating]:
    """Turn squared distances into what `transform` returns: the root, in the type of X."""
    return np.sqrt(squared).astype(dtype)
