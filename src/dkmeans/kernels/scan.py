"""Compiled scans for the nearest centre, and compiled reference distances.

A scan keeps the two smallest scores of every row, over tiles that stay in registers and cache. It
only finds the rows whose nearest centre is certain, so it may round differently within the error
bound of `kernels.assign`. Distances are those of the reference, bit for bit.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.jit import compiled
from dkmeans.kernels.prefetch import prefetch
from dkmeans.kernels.register_sums import FEATURES_AT_ONCE, ROWS_AT_ONCE, add_squares
from dkmeans.kernels.register_tile import (
    ROWS,
    VECTORS,
    lanes,
    update_two_least,
    update_two_least_sparse,
)

SQUARE_SUM_SLACK = 1.06  # covers the rounding of a sum of squares wherever the bound holds
TILE_BYTES = 3 << 15  # rows of a tile: they stay in the L2 cache


def width(itemsize: int) -> int:
    """Return the number of centres in a block of `scan`, for numbers of `itemsize` bytes."""
    return VECTORS * lanes(itemsize)


@compiled
def squared_distances(
    X: npt.NDArray[np.floating],
    rows: Indices,
    centers: npt.NDArray[np.floating],
    labels: Indices,
    out: Floats,
) -> None:
    """Write the squared distances of some rows of `X`, each to the centre of its label."""
    d, size = X.shape[1], X.itemsize
    side_by_side = X.strides[1] == size and centers.strides[1] == centers.itemsize
    even = d - d % FEATURES_AT_ONCE if side_by_side else 0
    x_at, c_at = np.empty(ROWS_AT_ONCE, dtype=np.int64), np.empty(ROWS_AT_ONCE, dtype=np.int64)
    totals = np.zeros(ROWS_AT_ONCE)
    for start in range(0, len(rows), ROWS_AT_ONCE):
        m = min(ROWS_AT_ONCE, len(rows) - start)
        if even:
            for i in range(start + ROWS_AT_ONCE, min(start + 2 * ROWS_AT_ONCE, len(rows))):
                prefetch(X.ctypes.data + rows[i] * X.strides[0], d * size)
            for r in range(ROWS_AT_ONCE):
                i = start + min(r, m - 1)  # repeat the last row if there are too few
                x_at[r] = X.ctypes.data + rows[i] * X.strides[0]
                c_at[r] = centers.ctypes.data + labels[i] * centers.strides[0]
            addresses = x_at.ctypes.data, c_at.ctypes.data, totals.ctypes.data
            add_squares(X[0, 0], centers[0, 0], addresses[0], addresses[1], even, addresses[2])
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
    """Shift and scale some rows, and sum their squares for the error bound."""
    for i in range(len(rows)):
        row, place = X[rows[i]], out[i]  # views, so that the compiler can vectorise the loop
        total = scale - scale
        for j in range(len(row)):
            value = (row[j] - shift[j]) * scale
            place[j] = value
            total += value * value
        squares[i] = total


@compiled
def _is_certain(best: float, following: float, slack: float, errors: Floats, square: float) -> bool:
    """Return whether the best score is certain; False if a number is not finite."""
    limit = (
        best
        + slack
        + errors[0]
        + errors[1] * SQUARE_SUM_SLACK * square
        + errors[2] * np.sqrt(square)
    )
    return best < np.inf and following > limit


# The order of the sum does not matter for a bound.
_prepare = compiled(_prepare, fastmath={"reassoc"})


@compiled
def _two_least(
    low: npt.NDArray[np.floating],
    second: npt.NDArray[np.floating],
    where: npt.NDArray[np.signedinteger],
) -> tuple[Any, Any, Any]:
    """Find the two smallest scores over all lanes, and the position of the smallest."""
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
    """Find the centre with the smallest score of some rows, and whether it is certainly nearest.

    Parameters
    ----------
    X : array of shape (n, d)
        IN.
    rows : array of shape (m,)
        IN. Indices of the rows to scan.
    shift, scale : array of shape (d,), float
        IN. Centres are multiplied by (row - shift) * scale.
    panels : array of shape (n_blocks, d, width)
        IN. Negated centres, in blocks that fit in registers.
    offsets : array of shape (n_blocks, width)
        IN. Added to the products; infinite in unused columns.
    columns : array of shape (n_blocks * width,)
        IN. Index of the centre in each column.
    blocks : array
        IN. Blocks to search.
    slack, errors : arrays of shape (k,) and (3,)
        IN. The best score is certain if every other one is larger by more than the slack of the
        best plus three errors, the second times the squared norm of the row, the third times its
        norm.
    scores, squares : arrays of shape (m,)
        OUT. Smallest score and squared norm of the row, both rounded.
    work : array
        Integers of the same size as the other numbers; only the type matters.
    labels, certain : arrays of shape (m,)
        OUT.
    centers : array of shape (k, d)
        IN. The original centres.
    distances : array of shape (m,) or (0,)
        OUT. Squared distances to the centres found; not computed if the array is empty.
    """
    d, n_columns = X.shape[1], panels.shape[2]
    n_lanes = n_columns // VECTORS
    size = panels.itemsize
    n_tile = min(192, max(ROWS, TILE_BYTES // (d * size) // ROWS * ROWS))
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
        if len(distances):  # computed here because the rows are still in the cache
            found = labels[start : start + m]
            squared_distances(X, part, centers, found, distances[start : start + m])


def _dot(a: npt.NDArray[np.floating], b: npt.NDArray[np.floating]) -> Any:
    """Compute an inner product, summed in any order."""
    total = a[0] - a[0]
    for j in range(len(a)):
        total += a[j] * b[j]
    return total


_dot = compiled(_dot, fastmath={"reassoc", "contract"})


def _square_and_dots(
    row: npt.NDArray[np.floating],
    shift: npt.NDArray[np.floating],
    scale: Any,
    first: npt.NDArray[np.floating],
    second: npt.NDArray[np.floating],
) -> tuple[Any, Any, Any]:
    """Shift and scale a row; compute its squared norm and two inner products, in any order."""
    square = scale - scale
    to_first = to_second = square
    for j in range(len(row)):
        value = (row[j] - shift[j]) * scale
        square += value * value
        to_first += value * first[j]
        to_second += value * second[j]
    return square, to_first, to_second


_square_and_dots = compiled(_square_and_dots, fastmath={"reassoc", "contract"})


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
    """Do the same as `scan` for fewer centres than a vector has lanes.

    Parameters
    ----------
    points : array of shape (k, d)
        IN. Shifted and scaled centres.
    offsets : array of shape (k,)
        IN. The products are subtracted from them.
    X, rows, shift, scale, slack, errors, scores, squares, labels, certain, centers, distances
        See `scan`.
    """
    n_tile = 64
    a = np.zeros((n_tile, X.shape[1]), dtype=X.dtype)
    for start in range(0, len(rows), n_tile):
        part = rows[start : start + n_tile]
        m = len(part)
        if len(points) != 2:
            _prepare(X, part, shift, scale, a, squares[start : start + m])
        for row in range(m):
            at = start + row
            if len(points) == 2:  # the most common case, bound by memory: one pass over each row
                squares[at], to_first, to_second = _square_and_dots(
                    X[part[row]], shift, scale, points[0], points[1]
                )
                best, following, label = offsets[0] - to_first, offsets[1] - to_second, 0
                if following < best:
                    best, following, label = following, best, 1
            else:
                best, following, label = offsets[0] - _dot(a[row], points[0]), np.inf, 0
                for c in range(1, len(points)):
                    score = offsets[c] - _dot(a[row], points[c])
                    if score < best:
                        best, following, label = score, best, c
                    elif score < following:
                        following = score
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
        IN. Start and end of the values of each row.
    scale : float
        IN. Factor of the values.
    panels, offsets, columns, blocks, slack, errors, work, labels, certain : arrays
        See `scan`.
    """
    d, n_columns = panels.shape[1], panels.shape[2]
    n_lanes = n_columns // VECTORS
    size = panels.itemsize
    n = len(firsts)
    # One block of centres stays in the cache during the loop over the rows of a tile.
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
            square = scale - scale  # in the dtype of the data: it overflows before products do
            for at in range(firsts[start + row], ends[start + row]):
                value = data[at] * scale
                square += value * value
            best, following, place = _two_least(low[row], second[row], where[row])
            label = columns[place]
            labels[start + row] = label
            certain[start + row] = _is_certain(best, following, slack[label], errors, square)
