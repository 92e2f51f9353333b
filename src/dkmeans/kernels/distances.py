"""Distances from the rows of a block: to their own centre, and to all centres."""

from types import ModuleType

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dkmeans.kernels.block import Floats, Indices, Matrix
from dkmeans.kernels.exact import cut, grid_units, slice_count, total
from dkmeans.kernels.reference import squared_distances, to_distance


class OwnDistances:
    """Squared distance of rows to the centre with their label.

    Dense rows take the reference's sum. Sparse rows visit their stored values only, and add the
    squares of the centre in all other columns; that part is a difference of exact sums, so
    nothing is lost where it is small. The result is the same but for rounding.

    Parameters
    ----------
    centers : array of shape (k, d)
    sparse : bool
        Of what kind the rows will be.
    loops : module, optional
        `kernels.loops`, where it is to be used.
    """

    def __init__(
        self,
        centers: npt.NDArray[np.floating],
        *,
        sparse: bool,
        loops: ModuleType | None = None,
    ) -> None:
        self._centers, self._loops = centers, loops
        if sparse:
            squares = np.square(centers, dtype=np.float64)
            d = centers.shape[1]
            units = grid_units(np.array([squares.max()]), d, slice_count(d, 106))
            self._slices = cut(squares, units)
            self._totals = self._slices.sum(axis=2)

    def __call__(self, X: Matrix, labels: Indices, out: Floats) -> None:
        """Write the squared distances of one tile.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d)
            IN.
        labels : array of shape (n,)
            IN.
        out : array of shape (n,)
            OUT.
        """
        if not sp.issparse(X):
            if self._loops is not None:
                self._loops.squared_distances(X, self._centers, labels, out)
            else:
                out[:] = squared_distances(X, self._centers[labels])
            return
        lengths = np.diff(X.indptr)
        owner = np.repeat(labels, lengths)
        filled = np.flatnonzero(lengths)
        elsewhere = self._totals[:, labels]
        out[:] = 0.0
        if len(filled):
            starts = X.indptr[filled]
            difference = X.data.astype(np.float64) - self._centers[owner, X.indices]
            out[filled] = np.add.reduceat(difference * difference, starts)
            here = self._slices[:, owner, X.indices]
            elsewhere[:, filled] -= np.add.reduceat(here, starts, axis=1)
        out += total(elsewhere)[0]


def all_distances(
    X: Matrix, centers: npt.NDArray[np.floating], out: npt.NDArray[np.floating]
) -> None:
    """Write the reference distance of each row to each centre, shape (n, k)."""
    dense = X.toarray() if sp.issparse(X) else X
    columns = np.ascontiguousarray(dense.T, dtype=np.float64)
    sums = np.zeros(out.shape)
    work = np.empty(out.shape)
    for column, coordinates in zip(columns, centers.T.astype(np.float64), strict=True):
        np.subtract(column[:, None], coordinates, out=work)
        np.multiply(work, work, out=work)
        sums += work
    out[:] = to_distance(sums, out.dtype)
