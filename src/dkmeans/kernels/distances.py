"""Distances from the rows of a block: to their own centre, and to all centres."""

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dkmeans.kernels.block import Floats, Indices, Matrix
from dkmeans.kernels.reference import squared_distances, to_distance


def own_squared_distances(
    X: Matrix, centers: npt.NDArray[np.floating], labels: Indices, out: Floats
) -> None:
    """Write each row's squared distance to the centre with its label.

    Dense rows take the reference's sum. Sparse rows visit their stored values only; the result
    is the same but for rounding, and no label depends on it.
    """
    if not sp.issparse(X):
        out[:] = squared_distances(X, centers[labels])
        return
    norms = np.einsum("ij,ij->i", centers, centers, dtype=np.float64)
    lengths = np.diff(X.indptr)
    values = X.data.astype(np.float64)
    own = centers[np.repeat(labels, lengths), X.indices]
    terms = values * (values - 2.0 * own)
    out[:] = norms[labels]
    filled = np.flatnonzero(lengths)
    if len(filled):
        out[filled] += np.add.reduceat(terms, X.indptr[filled])
    np.maximum(out, 0.0, out=out)


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
