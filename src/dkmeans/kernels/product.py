"""Find the nearest centres of dense rows by matrix products, without compiled loops.

Rows are taken in tiles that stay in the cache. The scores of a tile are laid out with one line per
centre, so that NumPy compares whole lines at once; with many centres this no longer pays, and there
is one line per row. Labels are final only for rows whose nearest centre is certain within the error
bound of `kernels.assign`, which is a little larger here where that saves work.
"""

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.block import Indices
from dkmeans.kernels.pack import Factors, PackedCenters, rows_together

TILE_BYTES = 1 << 20  # rows and scores of a tile: they stay in the L2 cache
TILE_ROWS = 256  # the number of rows of a tile is a multiple of this
MAX_LINES = 64  # centres up to which scores are laid out with one line per centre


def assign_by_product(
    X: npt.NDArray[np.floating], packed: PackedCenters, labels: Indices
) -> Indices:
    """Write the nearest centres of dense rows, and return the rows whose label is not certain.

    Parameters
    ----------
    X : array of shape (n, d)
        IN.
    packed : PackedCenters
        IN.
    labels : array of shape (n,)
        OUT. Indices of centres, of doubtful rows too.

    Returns
    -------
    doubtful : array
        Rows that need a full comparison; among them all whose squared norm is not finite.
    """
    factors = packed.factors
    n, d = X.shape
    if not factors.fixed < np.inf:
        labels[:] = 0
        return np.arange(n)
    k, together = len(packed.centers), rows_together(n, d)
    step = min(n, max(TILE_BYTES // (X.itemsize * (d + 2 * k)) // TILE_ROWS, 1) * TILE_ROWS)
    # Allocated once: fresh memory would cost more than the comparisons.
    products = np.empty((step, k), dtype=X.dtype)
    lines = np.empty((k, step), dtype=X.dtype) if k <= MAX_LINES else products
    doubtful: list[Indices] = []
    for start in range(0, n, step):
        a = _prepared(X[start : start + step], factors)
        squares = _bounds_of_squares(a, min(together, len(a)))
        if not squares.max() <= factors.max_square:
            labels[start : start + step] = 0
            doubtful.append(np.arange(start, start + len(a)))
            continue
        squares *= X.dtype.type(factors.by_square)
        squares += X.dtype.type(factors.fixed)
        if len(squares) < len(a):
            squares = np.repeat(squares, together)[: len(a)]
        here = labels[start : start + step]
        if k == 2:
            found = _of_two(a, factors, squares, here)
        elif k <= MAX_LINES:
            found = _by_lines(a, factors, squares, here, products, lines)
        else:
            found = _by_rows(a, factors, squares, here, products)
        doubtful.append(start + found)
    return np.concatenate(doubtful) if len(doubtful) != 1 else doubtful[0]


def _prepared(x: npt.NDArray[np.floating], factors: Factors) -> npt.NDArray[np.floating]:
    """Shift and scale rows if necessary, and put the values of a row side by side."""
    if factors.shift is None:
        return np.ascontiguousarray(x)
    a = np.subtract(x, factors.shift, order="C")
    if factors.scale != 1:
        a *= x.dtype.type(factors.scale)
    return a


def _bounds_of_squares(a: npt.NDArray[np.floating], together: int) -> npt.NDArray[np.floating]:
    """Return the squared norm of each group of so many rows: a bound for each row of it."""
    n, d = a.shape
    whole = n - n % together
    groups = a[:whole].reshape(-1, 1, together * d)
    squares = np.empty((-(-n // together), 1, 1), dtype=a.dtype)
    np.matmul(groups, groups.transpose(0, 2, 1), out=squares[: len(groups)])
    if whole < n:
        rest = a[whole:].ravel()
        squares[-1] = rest @ rest
    return squares.ravel()


def _of_two(
    a: npt.NDArray[np.floating],
    factors: Factors,
    margins: npt.NDArray[np.floating],
    labels: Indices,
) -> Indices:
    """Label the rows of a tile by the difference of the scores of two centres."""
    ahead = a @ (factors.directions[:, 1] - factors.directions[:, 0])
    ahead -= factors.offsets[1] - factors.offsets[0]
    np.copyto(labels, ahead > 0)
    np.abs(ahead, out=ahead)
    return np.flatnonzero(ahead <= margins)


def _by_lines(
    a: npt.NDArray[np.floating],
    factors: Factors,
    margins: npt.NDArray[np.floating],
    labels: Indices,
    products: npt.NDArray[np.floating],
    lines: npt.NDArray[np.floating],
) -> Indices:
    """Label the rows of a tile, by scores with one line per centre."""
    products, scores = products[: len(a)], lines[:, : len(a)]
    np.matmul(a, factors.directions, out=products)
    np.subtract(factors.offsets[:, None], products.T, out=scores)
    limits = np.minimum.reduce(scores, axis=0)
    limits += margins
    # Of a row that is certain, one centre is within the limit: its number is the largest of them.
    within = (scores <= limits).view(np.uint8)
    counts = np.add.reduce(within, axis=0, dtype=np.uint8)
    within *= np.arange(len(scores), dtype=np.uint8)[:, None]
    np.copyto(labels, np.maximum.reduce(within, axis=0))
    return np.flatnonzero(counts != 1)


def _by_rows(
    a: npt.NDArray[np.floating],
    factors: Factors,
    margins: npt.NDArray[np.floating],
    labels: Indices,
    products: npt.NDArray[np.floating],
) -> Indices:
    """Label the rows of a tile, by scores with one line per row."""
    scores, rows = products[: len(a)], np.arange(len(a))
    np.matmul(a, factors.directions, out=scores)
    np.subtract(factors.offsets, scores, out=scores)
    np.argmin(scores, axis=1, out=labels)
    limits = scores[rows, labels] + margins
    scores[rows, labels] = np.inf
    # `argmin` takes half the time of `min`.
    return np.flatnonzero(~(scores[rows, scores.argmin(axis=1)] > limits))
