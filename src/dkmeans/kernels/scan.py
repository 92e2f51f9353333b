"""Rows against centres, compiled by numba: a quick scan for the nearest, and the distance itself.

A scan keeps the two least scores of every row, over tiles that stay in registers and cache. It only
tells for which rows the nearest centre is beyond doubt, so it may compute as it likes within the
error bound of `kernels.assign`. A distance is that of the reference, bit for bit.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.jit import compiled
from dkmeans.kernels.register_sums import ABREAST, FEATURES, add_squares
from dkmeans.kernels.register_tile import (
    ROWS,
    VECTORS,
    lanes,
    update_two_least,
    update_two_least_sparse,
)

_ROOM = 1.06  # more than rounding can take from a sum of squares, where the bound holds at all
_TILE_BYTES = 3 << 15  # of rows that are scanned together: they stay in the second cache


def width(itemsize: int) -> int:
    """Tell how many centres make up a block of `scan`, for numbers of so many bytes."""
    return VECTORS * lanes(itemsize)


@compiled
def squared_distances(
    X: npt.NDArray[np.floating],
    rows: Indices,
    centers: npt.NDArray[np.floating],
    labels: Indices,
    out: Floats,
) -> None:
    """Write the squared distance of some rows of `X`, each to the centre with its label."""
    d, size = X.shape[1], X.itemsize
    side_by_side = X.strides[1] == size and centers.strides[1] == size and centers.itemsize == size
    even = d - d % FEATURES if side_by_side else 0
    x_at, c_at = np.empty(ABREAST, dtype=np.int64), np.empty(ABREAST, dtype=np.int64)
    totals = np.zeros(ABREAST)
    for start in range(0, len(rows), ABREAST):
        m = min(ABREAST, len(rows) - start)
        if even:
            for r in range(ABREAST):
                i = start + min(r, m - 1)  # the last one again, where there are not enough
                x_at[r] = X.ctypes.data + rows[i] * X.strides[0]
                c_at[r] = centers.ctypes.data + labels[i] * centers.strides[0]
            addresses = x_at.ctypes.data, c_at.ctypes.data
            add_squares(centers[0, 0], addresses[0], addresses[1], even, totals.ctypes.data)
        for r in range(m):
            row, center, total = X[rows[start + r]], centers[labels[start + r]], totals[r]
            for j in range(even, d):
                difference = np.float64(row[j]) - np.float64(center[j])
                total += difference * difference
            out[start + r] = total


def _prepare(
    X: npt.NDArray[np.floating],
    rows: Indices,
    shift: npt.NDArray[np.floating],
    scale: Any,
    out: npt.NDArray[np.floating],
    squares: npt.NDArray[np.floating],
) -> None:
    """Shift and scale some rows, and sum their squares, which serve a bound only."""
    for i in range(len(rows)):
        row, place = X[rows[i]], out[i]  # views, whose loops the compiler can vectorise
        total = scale - scale
        for j in range(len(row)):
            value = (row[j] - shift[j]) * scale
            place[j] = value
            total += value * value
        squares[i] = total


@compiled
def _is_certain(best: float, following: float, slack: float, errors: Floats, square: float) -> bool:
    """Tell whether the next score is too large to be the least; never if a number is not finite."""
    limit = best + slack + errors[0] + errors[1] * _ROOM * square + errors[2] * np.sqrt(square)
    return best < np.inf and following > limit


# The order in which squares are added up does not matter to a bound.
_prepare = compiled(_prepare, fastmath={"reassoc"})


@compiled
def _two_least(
    low: npt.NDArray[np.floating],
    second: npt.NDArray[np.floating],
    where: npt.NDArray[np.signedinteger],
) -> tuple[Any, Any, Any]:
    """Find the two least scores over all lanes, and the place of the least."""
    best, best_lane, following = low[0], 0, second[0]
    for lane in range(1, len(low)):
        value = low[lane]
        if value < best:
            following = min(following, best)
            best, best_lane = value, lane
        else:
            following = min(following, value)
        following = min(following, second[lane])
    return best, following, where[best_lane] * len(low) + best_lane


@compiled
def scan(
    X: npt.NDArray[np.floating],
    rows: Indices,
    shift: npt.NDArray[np.floating],
    scale: Any,
    panels: npt.NDArray[np.floating],
    offsets: npt.NDArray[np.floating],
    columns: Indices,
    blocks: Indices,
    slack: Floats,
    errors: Floats,
    scores: npt.NDArray[np.floating],
    squares: npt.NDArray[np.floating],
    work: npt.NDArray[np.signedinteger],
    labels: Indices,
    certain: npt.NDArray[np.bool_],
    centers: npt.NDArray[np.floating],
    distances: Floats,
) -> None:
    """Find the centre with the least score of some rows, and whether it is the nearest for sure.

    Parameters
    ----------
    X : array of shape (n, d)
        IN.
    rows : array of shape (m,)
        IN. Which of them.
    shift, scale : array of shape (d,), float
        IN. A row less the shift, times the scale, is what is multiplied with the centres.
    panels : array of shape (n_blocks, d, width)
        IN. Centres with the sign turned, in blocks that the registers hold.
    offsets : array of shape (n_blocks, width)
        IN. What is added to the products, infinite where a block is not full.
    columns : array of shape (n_blocks * width,)
        IN. Which centre is where.
    blocks : array
        IN. Which blocks count.
    slack, errors : arrays of shape (k,) and (3,)
        IN. By how much another centre's score must be larger: the slack of the best, plus three
        errors, the second times the squared length of the row, the third times its length.
    scores, squares : arrays of shape (m,)
        OUT. The least score, and the squared length of the row, both as rounding left them.
    work : array
        Of whole numbers of the size of the others; only its type matters.
    labels, certain : arrays of shape (m,)
        OUT.
    centers : array of shape (k, d)
        IN. The centres as they are.
    distances : array of shape (m,) or (0,)
        OUT. Squared distances to the centres found, if there is room for them.
    """
    d, n_columns = X.shape[1], panels.shape[2]
    n_lanes = n_columns // VECTORS
    size = panels.itemsize
    n_tile = min(192, max(ROWS, _TILE_BYTES // (d * size) // ROWS * ROWS))
    a = np.zeros((n_tile, d), dtype=X.dtype)
    low = np.empty((n_tile, n_lanes), dtype=X.dtype)
    second = np.empty((n_tile, n_lanes), dtype=X.dtype)
    where = np.empty((n_tile, n_lanes), dtype=work.dtype)
    for start in range(0, len(rows), n_tile):
        part = rows[start : start + n_tile]
        m = len(part)
        _prepare(X, part, shift, scale, a, squares[start : start + m])
        low[:] = np.inf
        second[:] = np.inf
        where[:] = 0
        for block in blocks:
            panel = panels.ctypes.data + block * d * n_columns * size
            offset = offsets.ctypes.data + block * n_columns * size
            for row in range(0, m, ROWS):
                state = row * n_lanes * size
                update_two_least(
                    scale,
                    a.ctypes.data + row * d * size,
                    d,
                    panel,
                    offset,
                    block * VECTORS,
                    low.ctypes.data + state,
                    second.ctypes.data + state,
                    where.ctypes.data + state,
                )
        for row in range(m):
            best, following, place = _two_least(low[row], second[row], where[row])
            label = columns[place]
            labels[start + row], scores[start + row] = label, best
            square = squares[start + row]
            certain[start + row] = _is_certain(best, following, slack[label], errors, square)
        if len(distances):  # now, while the rows are in the cache
            found = labels[start : start + m]
            squared_distances(X, part, centers, found, distances[start : start + m])


def _dot(a: npt.NDArray[np.floating], b: npt.NDArray[np.floating]) -> Any:
    """Add up products in any order."""
    total = a[0] - a[0]
    for j in range(len(a)):
        total += a[j] * b[j]
    return total


_dot = compiled(_dot, fastmath={"reassoc", "contract"})


@compiled
def scan_few(
    X: npt.NDArray[np.floating],
    rows: Indices,
    shift: npt.NDArray[np.floating],
    scale: Any,
    points: npt.NDArray[np.floating],
    offsets: npt.NDArray[np.floating],
    slack: Floats,
    errors: Floats,
    scores: npt.NDArray[np.floating],
    squares: npt.NDArray[np.floating],
    labels: Indices,
    certain: npt.NDArray[np.bool_],
    centers: npt.NDArray[np.floating],
    distances: Floats,
) -> None:
    """Do the same as `scan` where there are fewer centres than a vector has lanes.

    Parameters
    ----------
    points : array of shape (k, d)
        IN. Shifted and scaled centres.
    offsets : array of shape (k,)
        IN. What products are taken from.
    X, rows, shift, scale, slack, errors, scores, squares, labels, certain, centers, distances
        See `scan`.
    """
    n_tile = 64
    a = np.zeros((n_tile, X.shape[1]), dtype=X.dtype)
    for start in range(0, len(rows), n_tile):
        part = rows[start : start + n_tile]
        m = len(part)
        _prepare(X, part, shift, scale, a, squares[start : start + m])
        for row in range(m):
            best, following, label = offsets[0] - _dot(a[row], points[0]), np.inf, 0
            for c in range(1, len(points)):
                score = offsets[c] - _dot(a[row], points[c])
                if score < best:
                    best, following, label = score, best, c
                elif score < following:
                    following = score
            at = start + row
            labels[at], scores[at] = label, best
            certain[at] = _is_certain(best, following, slack[label], errors, squares[at])
        if len(distances):
            found = labels[start : start + m]
            squared_distances(X, part, centers, found, distances[start : start + m])


@compiled
def scan_sparse(
    data: npt.NDArray[np.floating],
    indices: npt.NDArray[np.int32],
    firsts: npt.NDArray[np.signedinteger],
    ends: npt.NDArray[np.signedinteger],
    scale: Any,
    panels: npt.NDArray[np.floating],
    offsets: npt.NDArray[np.floating],
    columns: Indices,
    blocks: Indices,
    slack: Floats,
    errors: Floats,
    work: npt.NDArray[np.signedinteger],
    labels: Indices,
    certain: npt.NDArray[np.bool_],
) -> None:
    """Do the same for the rows of a CSR matrix, which are not shifted.

    Parameters
    ----------
    data, indices : arrays
        IN. The matrix.
    firsts, ends : arrays of shape (m,)
        IN. Where the values of each row begin and end.
    scale : float
        IN. What values are multiplied with first.
    panels, offsets, columns, blocks, slack, errors, work, labels, certain : arrays
        See `scan`.
    """
    d, n_columns = panels.shape[1], panels.shape[2]
    n_lanes = n_columns // VECTORS
    size = panels.itemsize
    n = len(firsts)
    # One block of centres at a time stays in the cache, while many rows go by.
    n_tile = max(1, min(n, 1024))
    low = np.empty((n_tile, n_lanes), dtype=data.dtype)
    second = np.empty((n_tile, n_lanes), dtype=data.dtype)
    where = np.empty((n_tile, n_lanes), dtype=work.dtype)
    for start in range(0, n, n_tile):
        m = min(n_tile, n - start)
        low[:] = np.inf
        second[:] = np.inf
        where[:] = 0
        for block in blocks:
            panel = panels.ctypes.data + block * d * n_columns * size
            offset = offsets.ctypes.data + block * n_columns * size
            for row in range(m):
                first = firsts[start + row]
                state = row * n_lanes * size
                update_two_least_sparse(
                    scale,
                    data.ctypes.data + first * size,
                    indices.ctypes.data + first * 4,
                    ends[start + row] - first,
                    panel,
                    offset,
                    block * VECTORS,
                    low.ctypes.data + state,
                    second.ctypes.data + state,
                    where.ctypes.data + state,
                )
        for row in range(m):
            square = scale - scale  # in the type of the data: it overflows before products do
            for at in range(firsts[start + row], ends[start + row]):
                value = data[at] * scale
                square += value * value
            best, following, place = _two_least(low[row], second[row], where[row])
            label = columns[place]
            labels[start + row] = label
            certain[start + row] = _is_certain(best, following, slack[label], errors, square)
