"""Distances from the rows of a block: to their own centre, and to all centres."""

from types import ModuleType

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dkmeans.kernels.block import Floats, Indices, Matrix, dense_rows
from dkmeans.kernels.exact import cut, grid_units, slice_count, total
from dkmeans.kernels.reference import (
    inner_products,
    squared_distances,
    stable_squares,
    to_distance,
)
from dkmeans.kernels.threads import tiles

MAX_PAIR_BYTES = 1 << 22  # work memory of the reference, as float64
CHUNK_VALUES = 1 << 17  # values of centres that are squared together: they stay in the cache


class OwnDistances:
    """Squared distance of each row to the centre of its label.

    Dense rows use the reference. For sparse rows, the sum visits the stored values only and adds
    the squares of the centre in all other columns; that part is a difference of exact sums, so
    there is no cancellation error. The terms are those of the reference in another order: the sum
    is rounded by `stable_squares`, and the reference replaces it where its error could change the
    rounded value. `stable_squares` of the result is therefore the same for dense and sparse rows.

    Parameters
    ----------
    centers : array of shape (k, d)
    sparse : bool
        Whether rows are sparse.
    loops : module, optional
        `kernels.loops`; NumPy is used if not given.
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
            k, d = centers.shape
            largest = float(max(centers.max(initial=0.0), -centers.min(initial=0.0)))
            units = grid_units(np.array([largest * largest]), d, slice_count(d, 106))
            self._units, self._totals = units, np.empty((len(units), k))
            # Error of the slices, and number of terms a centre adds to the reference's sum.
            self._lost, self._n_terms = np.empty(k), np.empty(k, dtype=np.intp)
            for part in tiles(k, max(1, CHUNK_VALUES // d)):
                squares = np.square(centers[part], dtype=np.float64)
                self._totals[:, part] = cut(squares, units).sum(axis=2)
                left_out = (squares > 0) & (squares < units[-1] * 2.0**52)
                self._lost[part] = np.count_nonzero(left_out, axis=1) * units[-1]
                self._n_terms[part] = np.count_nonzero(squares, axis=1)

    def __call__(
        self, X: Matrix, labels: Indices, out: Floats, rows: Indices | None = None
    ) -> None:
        """Write the squared distances of one tile.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d)
            IN.
        labels : array of shape (n,)
            IN.
        out : array of shape (n,)
            OUT.
        rows : array of shape (n,), optional
            IN. Which rows of `X` make up the tile; all if not given.
        """
        if self._loops is not None and not sp.issparse(X):
            rows = np.arange(len(X)) if rows is None else rows
            self._loops.squared_distances(X, rows, self._centers, labels, out)
            return
        X = X if rows is None else X[rows]
        if not sp.issparse(X):
            out[:] = squared_distances(X, self._centers[labels])
            return
        lengths = np.diff(X.indptr)
        owner = np.repeat(labels, lengths)
        filled = np.flatnonzero(lengths)
        elsewhere = self._totals[:, labels]
        out[:] = 0.0
        if len(filled):
            starts = X.indptr[filled]
            there = self._centers[owner, X.indices].astype(np.float64)
            difference = X.data.astype(np.float64) - there
            out[filled] = np.add.reduceat(difference * difference, starts)
            here = cut(np.square(there)[:, None], self._units)[:, :, 0]
            elsewhere[:, filled] -= np.add.reduceat(here, starts, axis=1)
        out += total(elsewhere)[0]
        n_terms = np.minimum(lengths + self._n_terms[labels], X.shape[1]) + lengths
        error = out * ((n_terms + 16) * 2.0**-53) + self._lost[labels]
        least, most = (stable_squares(end, X.shape[1]) for end in (out - error, out + error))
        doubtful = np.flatnonzero(least != most)
        most[doubtful] = reference_squares(X, doubtful, self._centers, labels[doubtful])
        out[:] = stable_squares(most, X.shape[1])


def reference_squares(
    X: Matrix, rows: Indices, centers: npt.NDArray[np.floating], labels: Indices
) -> Floats:
    """Compute squared reference distances of some rows, each to the centre of its label."""
    squares = np.empty(len(rows))
    step = max(1, MAX_PAIR_BYTES // (8 * X.shape[1]))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        squares[part] = squared_distances(dense_rows(X, rows[part]), centers[labels[part]])
    return squares


def paired_distances(
    X: Matrix,
    rows: Indices,
    points: npt.NDArray[np.floating],
    groups: Indices,
    loops: ModuleType | None = None,
) -> Floats:
    """Compute squared distances of some rows of `X`, each to the point of its group."""
    if loops is None or sp.issparse(X):
        return reference_squares(X, rows, points, groups)
    squares = np.empty(len(rows))
    loops.squared_distances(X, rows, points, groups, squares)
    return squares


class FarSide:
    """Tells which rows lie beyond the midpoint of their group, along its direction.

    Parameters
    ----------
    middles, directions : arrays of shape (g, d)
    sparse : bool
        Whether rows are sparse.
    loops : module, optional
        `kernels.loops`; NumPy is used if not given.
    """

    def __init__(
        self,
        middles: Floats,
        directions: Floats,
        *,
        sparse: bool,
        loops: ModuleType | None = None,
    ) -> None:
        self._middles, self._directions, self._loops = middles, directions, loops
        if sparse:
            self._offsets, self._offset_sizes = np.zeros((2, len(middles)))
            for g, (middle, direction) in enumerate(zip(middles, directions, strict=True)):
                products = middle * direction
                self._offsets[g] = products.sum()
                self._offset_sizes[g] = np.abs(products).sum()

    def __call__(self, X: Matrix, rows: Indices, groups: Indices) -> npt.NDArray[np.bool_]:
        """Return the answer for some rows.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d)
        rows : array of shape (m,)
            Indices of the rows to test.
        groups : array of shape (m,)
            The group of each row.
        """
        found = np.empty(len(rows), dtype=bool)
        middles, directions = self._middles, self._directions
        if sp.issparse(X):
            found[:], doubtful = self._from_stored_values(X[rows], groups)
        elif self._loops is not None:
            self._loops.sides(X, rows, middles, directions, groups, found)
            return found
        else:
            doubtful = np.arange(len(rows))
        step = max(1, MAX_PAIR_BYTES // (8 * X.shape[1])) if sp.issparse(X) else max(1, len(rows))
        for start in range(0, len(doubtful), step):
            part = doubtful[start : start + step]
            offsets = dense_rows(X, rows[part]).astype(np.float64) - middles[groups[part]]
            found[part] = inner_products(offsets, directions[groups[part]]) > 0
        return found

    def _from_stored_values(
        self, X: Matrix, groups: Indices
    ) -> tuple[npt.NDArray[np.bool_], Indices]:
        """Do the same from stored values only; also return the rows whose sign is not certain.

        Let A be the sum of the magnitudes of all terms. The sum over stored values and that of the
        reference, each of at most d terms, have an error of at most (d + 3) 2^-53 A, apart from
        second-order terms and underflow.
        """
        n, d = X.shape
        sums, sizes = np.zeros(n), np.zeros(n)
        lengths = np.diff(X.indptr)
        filled = np.flatnonzero(lengths)
        if len(filled):
            owner = np.repeat(groups, lengths)
            terms = X.data.astype(np.float64) * self._directions[owner, X.indices]
            sums[filled] = np.add.reduceat(terms, X.indptr[filled])
            sizes[filled] = np.add.reduceat(np.abs(terms), X.indptr[filled])
        sums -= self._offsets[groups]
        sizes += self._offset_sizes[groups]
        error = sizes * ((4 * d + 32) * 2.0**-53) + d * 2.0**-1060
        return sums > 0, np.flatnonzero(~(np.abs(sums) > error))


def all_distances(
    X: Matrix, centers: npt.NDArray[np.floating], out: npt.NDArray[np.floating]
) -> None:
    """Write the reference distance of each row to each centre, shape (n, k)."""
    dense = X.toarray() if sp.issparse(X) else X
    out[:] = to_distance(all_squares(dense, centers), out.dtype)


def all_squares(rows: npt.NDArray[np.floating], centers: npt.NDArray[np.floating]) -> Floats:
    """Compute squared reference distances of each row to each centre, shape (n, k)."""
    columns = np.ascontiguousarray(rows.T, dtype=np.float64)
    sums = np.zeros((len(rows), len(centers)))
    work = np.empty_like(sums)
    for column, coordinates in zip(columns, centers.T.astype(np.float64), strict=True):
        np.subtract(column[:, None], coordinates, out=work)
        np.multiply(work, work, out=work)
        sums += work
    return sums
