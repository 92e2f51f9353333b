"""Matrices of distances between all rows: in memory, memory-mapped, symmetrised; and checks."""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dkmeans.data.memory_maps import give_back
from dkmeans.data.system_memory import total_memory
from dkmeans.kernels.block import Indices
from dkmeans.kernels.threads import for_each

Symmetrize = Literal["mean", "min", "max"]
SYMMETRIZE: tuple[Symmetrize, ...] = ("mean", "min", "max")

TILE = 512  # rows and columns that are checked together
_MAX_DISTANCE = 1e150  # squares of distances must not overflow,
_MIN_LARGEST = 1e-140  # nor all of them underflow
_RELATIVE_ASYMMETRY = {4: 1e-4, 8: 1e-7}  # to the largest distance, by bytes: rounding errors
_Array = npt.NDArray[np.floating]


class Matrix:
    """A square matrix in memory.

    Parameters
    ----------
    D : array of shape (n, n)
    largest : float
        The largest distance.
    """

    def __init__(self, D: _Array, largest: float) -> None:
        self._D, self.largest = D, largest
        self.n = len(D)

    def rows(self, which: slice | Indices) -> _Array:
        """Return the distances from some rows to all rows."""
        return self._D[which]


class MappedMatrix(Matrix):
    """A memory-mapped matrix. Rows are copied, and their pages given back to the system."""

    def rows(self, which: slice | Indices) -> _Array:
        """Return the distances from some rows to all rows."""
        found = np.array(self._D[which])
        assert isinstance(self._D, np.memmap)
        give_back(self._D)
        return found


class SymmetrizedMatrix(Matrix):
    """Combines D and its transpose wherever rows are read; D itself is not changed."""

    def __init__(self, D: _Array, largest: float, how: Symmetrize) -> None:
        super().__init__(D, largest)
        self._how = how

    def rows(self, which: slice | Indices) -> _Array:
        """Return the symmetrised distances from some rows to all rows."""
        return combine(self._D[which], self._D[:, which].T, self._how)


def combine(forth: _Array, back: _Array, how: Symmetrize) -> _Array:
    """Make one distance of those in both directions."""
    if how == "mean":
        return forth / 2 + back / 2
    return np.minimum(forth, back) if how == "min" else np.maximum(forth, back)


def checked_matrix(D: _Array, symmetrize: Symmetrize | None, n_threads: int) -> Matrix:
    """Check a given matrix of distances, which is not changed."""
    largest = _check(D, symmetrize is None, n_threads)
    if symmetrize is not None:
        return SymmetrizedMatrix(D, largest, symmetrize)
    return (MappedMatrix if isinstance(D, np.memmap) else Matrix)(D, largest)


def _check(D: _Array, symmetric: bool, n_threads: int) -> float:
    """Check that distances are finite, not negative, 0 on the diagonal and symmetric."""
    n = len(D)
    starts = range(0, n, TILE)
    pairs = [(a, b) for a in starts for b in starts if a <= b]
    tops, gaps = np.zeros(len(pairs)), np.zeros(len(pairs))

    def task(part: slice) -> None:
        a, b = pairs[part.start]
        forth, back = D[a : a + TILE, b : b + TILE], D[b : b + TILE, a : a + TILE].T
        for tile, (row, column) in ((forth, (a, b)), (back.T, (b, a))):
            if not (tile >= 0).all() or not (tile < np.inf).all():
                raise ValueError(_describe_value(tile, row, column))
        tops[part.start] = max(float(forth.max()), float(back.max()))
        if symmetric:
            gaps[part.start] = float(np.abs(forth - back).max())
        if isinstance(D, np.memmap):
            give_back(D)

    for_each(task, [slice(i, i + 1) for i in range(len(pairs))], n_threads)
    largest = float(tops.max(initial=0.0))
    allowed = _RELATIVE_ASYMMETRY[D.dtype.itemsize] * largest
    check_range(largest)
    diagonal = np.abs(np.diagonal(D))
    if diagonal.max(initial=0.0) > allowed:
        row = int(diagonal.argmax())
        raise ValueError(
            f"X has {D[row, row]:.6g} in row {row}, column {row}, but the distance of a row to "
            "itself must be 0: pass distances, not similarities, with zeros on the diagonal."
        )
    if gaps.max(initial=0.0) > allowed:
        a, b = pairs[int(gaps.argmax())]
        gap = np.abs(D[a : a + TILE, b : b + TILE] - D[b : b + TILE, a : a + TILE].T)
        row, column = (int(i) for i in np.unravel_index(gap.argmax(), gap.shape))
        row, column = a + row, b + column
        raise ValueError(
            f"X is not symmetric: it has {D[row, column]:.6g} in row {row}, column {column}, and "
            f"{D[column, row]:.6g} in row {column}, column {row}: correct it, or pass "
            "symmetrize='mean', 'min' or 'max'."
        )
    return largest


def check_range(largest: float) -> None:
    """Refuse distances whose squares overflow or underflow."""
    if largest > _MAX_DISTANCE or 0 < largest < _MIN_LARGEST:
        raise ValueError(
            f"The largest distance is {largest:.3g}, whose square is not a normal number: multiply "
            "all distances by a constant."
        )


def _describe_value(tile: _Array, row: int, column: int) -> str:
    at = np.argwhere(~((tile >= 0) & (tile < np.inf)))[0]
    value = tile[tuple(at)]
    where = f"in row {row + at[0]}, column {column + at[1]}"
    if value < 0 and np.isfinite(value):
        return (
            f"Negative values in data passed to X: it has {value:.6g} {where}, but "
            "metric='precomputed' needs distances, which are at least 0."
        )
    name = "NaN" if np.isnan(value) else "infinity (inf)"
    return (
        f"Input X contains {name} {where}: distances must be finite numbers; compute it again, or "
        "drop the row and its column."
    )


def check_room(n: int, dtype: Any, memory_mb: float | None) -> None:
    """Refuse a matrix of distances that does not fit into the memory."""
    needed = n * n * np.dtype(dtype).itemsize
    room = total_memory() if memory_mb is None else memory_mb * 2**20
    if needed > room:
        limit = "the memory of this machine" if memory_mb is None else f"memory_mb={memory_mb!r}"
        raise ValueError(
            f"The distances between {n} rows take {needed / 2**20:,.0f} MB as "
            f"{np.dtype(dtype).name}, more than {limit}: pass float32 rows, a memory-mapped matrix "
            "with metric='precomputed', or use dkmeans.Landmarks and DiscriminativeKMeans."
        )
