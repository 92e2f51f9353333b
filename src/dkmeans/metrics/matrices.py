"""Matrices of distances between all rows: in memory, memory-mapped, symmetrised; and checks."""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dkmeans.data.memory_maps import give_back
from dkmeans.data.system_memory import total_memory
from dkmeans.kernels.block import Indices
from dkmeans.kernels.threads import for_each, tiles

Symmetrize = Literal["mean", "min", "max"]
SYMMETRIZE: tuple[Symmetrize, ...] = ("mean", "min", "max")

TILE = 256  # rows and columns that are checked together
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
        found = combine(np.asarray(self._D[which]), np.asarray(self._D[:, which]).T, self._how)
        if isinstance(self._D, np.memmap):
            give_back(self._D)
        return found


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
    slabs = tiles(n, TILE)
    tops, lows = np.zeros(len(slabs)), np.zeros(len(slabs))
    gaps = np.zeros((len(slabs), len(slabs)))  # above the diagonal

    def task(part: slice) -> None:
        at = part.start
        slab = D[slabs[at]]
        tops[at], lows[at] = slab.max(), slab.min()  # NaN if there is one
        with np.errstate(invalid="ignore", over="ignore"):  # values are reported below
            for to in range(at, len(slabs)) if symmetric else ():
                gaps[at, to] = np.abs(slab[:, slabs[to]] - D[slabs[to], slabs[at]].T).max()
        if isinstance(D, np.memmap):
            give_back(D)

    for_each(task, tiles(len(slabs), 1), n_threads)
    wrong = np.flatnonzero(~((lows >= 0) & (tops < np.inf)))
    if len(wrong):
        slab = slabs[wrong[0]]
        raise ValueError(_describe_value(D[slab], slab.start))
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
        rows, columns = (slabs[at] for at in np.unravel_index(gaps.argmax(), gaps.shape))
        gap = np.abs(D[rows, columns] - D[columns, rows].T)
        row, column = (int(i) for i in np.unravel_index(gap.argmax(), gap.shape))
        row, column = rows.start + row, columns.start + column
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


def _describe_value(slab: _Array, start: int) -> str:
    """Describe the first value that is no distance, in rows from `start` on."""
    row, column = np.argwhere(~((slab >= 0) & (slab < np.inf)))[0]
    value = slab[row, column]
    where = f"in row {start + row}, column {column}"
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
