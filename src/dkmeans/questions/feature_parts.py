"""The margin of a row, split over its features.

The margin is R^2 - D^2, with D and R the distances to the nearest prototype and to its rival. For
Euclidean and cosine distances it is a sum over the features. A learned metric gives

    R^2 - D^2 = 2 (z - m).(w - r),   z - m = (s - u) A

with w and r the two prototypes, m the point midway, s the standardised row and u the standardised
pre-image of m. So feature j adds 2 (s_j - u_j) (A (w - r))_j: how far the row is from the border
along that feature, times what the feature counts between the two prototypes.

Parts are rounded to a grid so coarse that float64 adds them without rounding, in any order: they
add up exactly. Before, what rounding errors left of R^2 - D^2 is added to the largest part.
"""

import numpy as np
import numpy.typing as npt

from dkmeans.fitted import Predictor
from dkmeans.kernels.block import Floats, Indices, Matrix, dense_rows
from dkmeans.kernels.reference import squared_distances
from dkmeans.kernels.threads import for_each, tiles

_TILE_VALUES = 1 << 19  # of rows at a time
_SUM_BITS = 52  # bits of a sum of parts


def split_margins(
    model: Predictor, X: Matrix, nearest: Indices, rival: Indices, n_threads: int
) -> Floats:
    """Split R^2 - D^2 over the features, shape (n, d); NaN for rows without a rival.

    Parameters
    ----------
    model : Predictor
    X : array or CSR matrix of shape (n, d)
        Rows as the user gave them, in the type of the centres.
    nearest, rival : arrays of shape (n,)
        Prototypes of each row; -1 for no rival.
    n_threads : int
    """
    n, d = X.shape
    centers, parts = model.prototypes.centers, np.full((n, d), np.nan)

    def task(tile: slice) -> None:
        there = np.arange(tile.start, tile.stop)[rival[tile] >= 0]
        if not len(there):
            return
        rows = dense_rows(X, there)
        own, other = centers[nearest[there]], centers[rival[there]]
        mapped = model.geometry.rows(rows)
        margins = squared_distances(mapped, other) - squared_distances(mapped, own)
        parts[there] = _adding_up(model.geometry.margin_parts(rows, own, other), margins)

    for_each(task, tiles(n, max(1, _TILE_VALUES // d)), n_threads)
    return parts


def _adding_up(parts: Floats, margins: Floats) -> Floats:
    """Round parts so that float64 adds them up exactly, to the margins but for rounding."""
    everyone, largest = np.arange(len(parts)), np.abs(parts).argmax(axis=1)
    parts[everyone, largest] += margins - parts.sum(axis=1)
    _, exponents = np.frexp(np.abs(parts).sum(axis=1, keepdims=True))
    units = np.ldexp(1.0, np.maximum(exponents + 1 - _SUM_BITS, -1000))
    return np.rint(parts / units) * units + 0.0


def sum_parts(parts: npt.NDArray[np.float64]) -> Floats:
    """Add up the parts of each row; infinite for rows without a rival."""
    sums = parts.sum(axis=1)
    return np.where(np.isnan(sums), np.inf, sums)
