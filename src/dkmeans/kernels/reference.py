"""The distance that counts.

Every fast kernel settles its near-ties here, and `transform` returns nothing else, so labels never
depend on which kernel, block size or number of threads did the work.
"""

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.block import Floats


def squared_distances(rows: npt.NDArray[np.floating], centers: npt.NDArray[np.floating]) -> Floats:
    """Squared distances between paired rows, summed over features in order in float64.

    `np.add.accumulate` is sequential by definition; `np.sum` is not (it adds in pairs).
    """
    difference = rows.astype(np.float64)
    difference -= centers
    np.multiply(difference, difference, out=difference)
    np.add.accumulate(difference, axis=1, out=difference)
    return difference[:, -1].copy()


def inner_products(rows: npt.NDArray[np.floating], others: npt.NDArray[np.floating]) -> Floats:
    """Inner products between paired rows, summed over features in order in float64."""
    terms = rows.astype(np.float64)
    terms *= others
    np.add.accumulate(terms, axis=1, out=terms)
    return terms[:, -1].copy()


def to_distance(squared: Floats, dtype: npt.DTypeLike) -> npt.NDArray[np.floating]:
    """Turn squared distances into what `transform` returns: the root, in the type of X."""
    return np.sqrt(squared).astype(dtype)
