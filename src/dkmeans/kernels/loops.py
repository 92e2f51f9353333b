"""The inner loops, compiled by numba: what NumPy does in several passes over its work arrays.

Those that find results give the same bits as the NumPy code that they stand in for: the same
operations in the same order, without fused or reordered ones. Those that only *scan*, to tell for
which rows the nearest centre is beyond doubt, may compute as they like within the error bound of
`kernels.assign`. `kernels.compiled` decides when they are used.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
import numpy.typing as npt

from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.register_tile import (
    ROWS,
    VECTORS,
    lanes,
    update_two_least,
    update_two_least_sparse,
)
from dkmeans.kernels.rowhash import MIXER

_Function = TypeVar("_Function", bound=Callable[..., Any])
_ANCHOR = 1.5 * 2.0**52  # adding it times a unit, and taking it away, rounds to that unit


_SPLITTER = 2.0**27 + 1.0  # Dekker's constant, see `kernels.exact`
_ROOM = 1.06  # more than rounding can take from a sum of squares, where the bound holds at all
_TILE_BYTES = 3 << 15  # of rows that are scanned together: they stay in the second cache


def width(itemsize: int) -> int:
    """Tell how many centres make up a block of `scan`, for numbers of so many bytes."""
    return VECTORS * lanes(itemsize)


def _compiled(function: _Function, **options: Any) -> _Function:
    """Compile lazily, without the GIL, and keep the result on disk if there is a place for it."""
    try:
        jitted = numba.njit(nogil=True, cache=True, **options)(function)
    except RuntimeError:  # nowhere to write
        jitted = numba.njit(nogil=True, **options)(function)
    return jitted


@_compiled
def squared_distances(
    X: npt.NDArray[np.floating],
    rows: Indices,
    centers: npt.NDArray[np.floating],
    labels: Indices,
    out: Floats,
) -> None:
    """Write the squared distance of some rows of `X`, each to the centre with its label.

    Each sum must be taken in order, so one addition waits for the other. Four rows at a time keep
    the processor busy meanwhile.
    """
    n, d = len(rows), X.shape[1]
    for i in range(0, n - n % 4, 4):
        x0, x1, x2, x3 = X[rows[i]], X[rows[i + 1]], X[rows[i + 2]], X[rows[i + 3]]
        c0, c1 = centers[labels[i]], centers[labels[i + 1]]
        c2, c3 = centers[labels[i + 2]], centers[labels[i + 3]]
        t0 = t1 = t2 = t3 = 0.0
        for j in range(d):
            e0 = np.float64(x0[j]) - np.float64(c0[j])
            e1 = np.float64(x1[j]) - np.float64(c1[j])
            e2 = np.float64(x2[j]) - np.float64(c2[j])
            e3 = np.float64(x3[j]) - np.float64(c3[j])
            t0 += e0 * e0
            t1 += e1 * e1
            t2 += e2 * e2
            t3 += e3 * e3
        out[i], out[i + 1], out[i + 2], out[i + 3] = t0, t1, t2, t3
    for i in range(n - n % 4, n):
        row, center = X[rows[i]], centers[labels[i]]
        total = 0.0
        for j in range(d):
            difference = np.float64(row[j]) - np.float64(center[j])
            total += difference * difference
        out[i] = total


@_compiled
def sides(
    X: npt.NDArray[np.floating],
    rows: Indices,
    middles: Floats,
    directions: Floats,
    groups: Indices,
    out: npt.NDArray[np.bool_],
) -> None:
    """Tell on which side of its group's middle, along the group's direction, each row is."""
    for i in range(len(rows)):
        row, group = X[rows[i]], groups[i]
        middle, direction = middles[group], directions[group]
        total = 0.0
        for j in range(len(row)):
            total += (np.float64(row[j]) - middle[j]) * direction[j]
        out[i] = total > 0


@_compiled
def group_sums(
    X: npt.NDArray[np.floating], order: Indices, ends: Indices, units: Floats, out: Floats
) -> None:
    """Add up slices of rows, group by group; see `kernels.tally.group_sums`."""
    n_slices, d = units.shape
    rest, anchors = np.empty(d), _ANCHOR * units
    start = 0
    for g in range(len(ends)):
        for at in range(start, ends[g]):
            row = X[order[at]]
            first, sums, anchor = rest[:d], out[0, g], anchors[0]
            for j in range(d):
                value = np.float64(row[j])
                piece = (value + anchor[j]) - anchor[j]
                sums[j] += piece
                first[j] = value - piece
            for s in range(1, n_slices):
                _add_slice(rest, units[s], out[s, g])
        start = ends[g]


@_compiled
def weighted_group_sums(
    X: npt.NDArray[np.floating],
    weights: Floats,
    order: Indices,
    ends: Indices,
    units: Floats,
    out: Floats,
) -> None:
    """Do the same for rows times weights; the products are exact, in two parts (Dekker)."""
    n_slices, d = units.shape
    rest, low = np.empty(d), np.empty(d)
    start = 0
    for g in range(len(ends)):
        for at in range(start, ends[g]):
            row, w = X[order[at]], weights[order[at]]
            c = _SPLITTER * w
            w_high = c - (c - w)
            w_low = w - w_high
            for j in range(d):
                x = np.float64(row[j])
                c = _SPLITTER * x
                x_high = c - (c - x)
                x_low = x - x_high
                p = x * w
                low[j] = ((x_high * w_high - p) + x_high * w_low + x_low * w_high) + x_low * w_low
                rest[j] = p
            _add_slice(rest, units[0], out[0, g])
            for j in range(d):
                rest[j] += low[j]
            for s in range(1, n_slices):
                _add_slice(rest, units[s], out[s, g])
        start = ends[g]


@_compiled
def _add_slice(rest: Floats, units: Floats, sums: Floats) -> None:
    """Round to the units, add that to the sums, and leave the rest."""
    for j in range(len(rest)):
        anchor = _ANCHOR * units[j]
        piece = (rest[j] + anchor) - anchor
        sums[j] += piece
        rest[j] -= piece


@_compiled
def rounded_sums(
    X: npt.NDArray[np.floating],
    shift: Floats,
    coefficients: Floats,
    weights: Floats,
    order: Indices,
    ends: Indices,
    units: Floats,
    out: Floats,
) -> None:
    """Add up coefficients times rows less a shift, rounded; see `kernels.tally.rounded_sums`."""
    anchors = _ANCHOR * units
    start = 0
    for g in range(len(ends)):
        sums = out[g]
        for at in range(start, ends[g]):
            row = X[order[at]]
            coefficient, weight = coefficients[order[at]], weights[order[at]]
            for j in range(len(row)):
                term = (np.float64(row[j]) - shift[j]) * coefficient
                sums[j] += ((term + anchors[j]) - anchors[j]) * weight
        start = ends[g]


@_compiled
def hash_rows(
    bits: npt.NDArray[np.unsignedinteger],
    limit: Any,
    keys: npt.NDArray[np.uint64],
    out: npt.NDArray[np.uint64],
) -> None:
    """Hash rows by the bits of their values; see `kernels.rowhash`.

    Magnitudes up to the limit, as bits, count as zero. All numbers are unsigned of 64 bits.
    """
    sign = np.uint64(1) << np.uint64(8 * bits.itemsize - 1)
    half, mixer, least = np.uint64(32), np.uint64(MIXER), np.uint64(limit)
    for i in range(bits.shape[0]):
        row, total = bits[i], np.uint64(0)
        for j in range(len(row)):
            value = np.uint64(row[j])
            if value & ~sign <= least:
                value = np.uint64(0)
            value ^= value >> half
            value *= keys[j]
            value ^= value >> half
            value *= mixer
            total += value ^ (value >> half)
        out[i] = total


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


@_compiled
def _is_certain(best: float, following: float, slack: float, errors: Floats, square: float) -> bool:
    """Tell whether the next score is too large to be the least; never if a number is not finite."""
    limit = best + slack + errors[0] + errors[1] * _ROOM * square + errors[2] * np.sqrt(square)
    return best < np.inf and following > limit


# The order in which squares are added up does not matter to a bound.
_prepare = _compiled(_prepare, fastmath={"reassoc"})


@_compiled
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


@_compiled
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


@_compiled
def scan_sparse(
    data: npt.NDArray[np.floating],
    indices: npt.NDArray[np.int32],
    indptr: npt.NDArray[np.signedinteger],
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
    data, indices, indptr : arrays
        IN. The matrix, its values scaled.
    scale : float
        IN. Only its type matters.
    panels, offsets, columns, blocks, slack, errors, work, labels, certain : arrays
        See `scan`.
    """
    d, n_columns = panels.shape[1], panels.shape[2]
    n_lanes = n_columns // VECTORS
    size = panels.itemsize
    n = len(indptr) - 1
    # One block of centres at a time stays in the cache, while many rows go by.
    n_tile = max(1, min(n, 2048))
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
                first = indptr[start + row]
                state = row * n_lanes * size
                update_two_least_sparse(
                    scale,
                    data.ctypes.data + first * size,
                    indices.ctypes.data + first * 4,
                    indptr[start + row + 1] - first,
                    panel,
                    offset,
                    block * VECTORS,
                    low.ctypes.data + state,
                    second.ctypes.data + state,
                    where.ctypes.data + state,
                )
        for row in range(m):
            square = scale - scale  # in the type of the data: it overflows before products do
            for at in range(indptr[start + row], indptr[start + row + 1]):
                square += data[at] * data[at]
            best, following, place = _two_least(low[row], second[row], where[row])
            label = columns[place]
            labels[start + row] = label
            certain[start + row] = _is_certain(best, following, slack[label], errors, square)
