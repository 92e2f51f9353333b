"""Find the nearest centre of every row of a block.

A matrix product gives all distances of a tile at once, but not to the last bit. Every candidate
within the error bound of its row's minimum is therefore computed again by the reference distance,
which decides; ties go to the lowest index. Labels are thus exactly those of the reference.

Write a = x - s and b = c - s for a shift s, which keeps data far from the origin accurate. Then
|x - c|^2 / 2 is, up to a term common to all centres, h = |b|^2 / 2 - a.b. With unit roundoff u
and d features, rounding a, b, the product and the sum costs at most

    (d + 4) u |a||b| + 4 u |b|^2 + (d/2) 2^-53 |b|^2,

the last for |b|^2 in float64; with |a||b| <= (|a|^2 + |b|^2) / 2 this is at most
(u (d/2 + 6) + 2^-53 d/2) (|a|^2 + |b|^2). The reference's own rounding (to float64 along the sum,
to the dtype of X at the end) can swap two distances only if they differ by less than a further
(3 u + (d + 6) 2^-53) (|a|^2 + |b|^2) each, plus a few units of the smallest subnormal number.
`pack.relative_error` adds these terms up with a safety margin.

Dense rows are scanned first, by `product.assign_by_product` or, for large data, by the compiled
`loops.scan`. Both only compare the two smallest scores of each row: if they differ by more than the
bound, the label is certain. The few other rows are resolved as described above.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dkmeans.kernels.block import Floats, Indices, Matrix, dense_rows
from dkmeans.kernels.pack import PackedCenters
from dkmeans.kernels.product import assign_by_product
from dkmeans.kernels.reference import squared_distances, to_distance

MAX_PAIR_BYTES = 1 << 22  # work memory of the reference, as float64
MAX_FEW_CENTERS = 4  # up to here, `scan_few` is faster than `scan`
MAX_FEW_ROWS = 256  # of which all scores may be in memory at a time
NO_DISTANCES = np.empty(0)  # tells the loops not to compute distances
SHORT_RUN = 128  # rows of a class, on average, up to which all classes are searched at once
CHUNK_SCORES = 1 << 20  # scores in memory at a time


def assign(
    X: Matrix,
    packed: PackedCenters,
    labels: Indices,
    rows: Indices | None = None,
    squares: Floats | None = None,
) -> bool:
    """Write the index of the nearest centre of each row.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        IN. One tile of rows.
    packed : PackedCenters
        IN.
    labels : array of shape (n,)
        OUT.
    rows : array of shape (n,), optional
        IN. Which rows of `X` make up the tile; all if not given.
    squares : array of shape (n,), optional
        OUT. Squared distances to the nearest centre; for dense rows only.

    Returns
    -------
    finite : bool
        False if the squared norm of some row is not finite: rows may hold NaN or infinity.
    """
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        if packed.panels is not None:
            finite = True
            doubtful = assign_by_scan(X, packed, labels, rows, squares=squares)
        else:
            X, rows = X if rows is None else X[rows], None
            # With fewer rows than centres, to prepare the centres takes longer than it saves.
            if sp.issparse(X) or len(labels) < min(len(packed.centers), MAX_FEW_ROWS):
                scores, lengths = _scores(X, packed)
                labels[:] = _nearest(X, packed, scores, lengths)
                finite, doubtful = bool(np.isfinite(lengths).all()), np.empty(0, dtype=np.intp)
            else:
                finite, doubtful = True, assign_by_product(X, packed, labels)
            if squares is not None:
                squares[:] = squared_distances(X, packed.centers[labels])
        for part in _chunks(doubtful, packed):
            taken = X[part if rows is None else rows[part]]
            scores, lengths = _scores(taken, packed)
            labels[part] = _nearest(taken, packed, scores, lengths)
            if squares is not None:
                squares[part] = squared_distances(taken, packed.centers[labels[part]])
            finite &= bool(np.isfinite(lengths).all())
    return finite


def assign_own_and_rival(
    X: Matrix,
    packed: PackedCenters,
    runs: list[tuple[slice, Indices]],
    own: Indices,
    rival: Indices,
    rows: Indices | None = None,
) -> None:
    """Write the nearest centre of each row's own class, and the nearest of all other classes.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        IN. One tile of rows.
    packed : PackedCenters
        IN.
    runs : list of (slice, array)
        IN. Runs of rows, and the centres of their class: at least one, and not all. If centres
        were packed by class, these must be all centres of one class.
    own, rival : arrays of shape (n,)
        OUT.
    rows : array of shape (n,), optional
        IN. Which rows of `X` make up the tile; all if not given.
    """
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        if packed.panels is None:
            X = X if rows is None else X[rows]
            scores, squares = _scores(X, packed)
            if len(own) <= SHORT_RUN * len(runs):
                is_mine = np.zeros(scores.shape, dtype=bool)
                for run, mine in runs:
                    is_mine[run, mine] = True
                own[:] = _nearest(X, packed, scores.copy(), squares, ~is_mine)
                rival[:] = _nearest(X, packed, scores, squares, is_mine)
                return
            for run, mine in runs:
                part = X[run], packed, scores[run], squares[run]
                own[run], rival[run] = _nearest_own_and_rival(*part, mine)
            return
        rows = np.arange(len(own)) if rows is None else rows
        owner = packed.panels.owner
        for run, mine in runs:
            of_mine = owner == owner[packed.panels.block_of(mine[0])]
            doubts = [
                assign_by_scan(X, packed, labels[run], rows[run], np.flatnonzero(blocks))
                for labels, blocks in ((own, of_mine), (rival, ~of_mine))
            ]
            for which in _chunks(np.union1d(*doubts), packed):
                taken = X[rows[run][which]]
                found = _nearest_own_and_rival(taken, packed, *_scores(taken, packed), mine)
                own[run][which], rival[run][which] = found


def _nearest_own_and_rival(
    X: Matrix,
    packed: PackedCenters,
    scores: npt.NDArray[np.floating],
    squares: Floats,
    mine: Indices,
) -> tuple[Indices, Indices]:
    own = np.full(len(scores), mine[0])
    if len(mine) > 1:
        own = mine[_nearest(X, packed.take(mine), scores[:, mine], squares)]
    barred = np.zeros(scores.shape[1], dtype=bool)
    barred[mine] = True
    return own, _nearest(X, packed, scores, squares, barred)


def assign_changed(
    X: npt.NDArray[np.floating],
    packed: PackedCenters,
    rows: Indices,
    own: Indices,
    near: Floats,
    labels: Indices,
) -> Indices:
    """Find the rows whose nearest centre is now one of the changed centres.

    Parameters
    ----------
    X : array of shape (n, d)
        IN.
    packed : PackedCenters
        IN. The changed centres, packed for the compiled loops.
    rows : array of shape (m,)
        IN. Rows for which no unchanged centre is nearer than their own.
    own : array of shape (m,)
        IN. Index of their own centre among the changed ones; -1 if it has not changed.
    near : array of shape (m,)
        IN. Squared distances to their own centre.
    labels : array of shape (m,)
        OUT. The nearest of the changed centres, or -1 for rows that stay.

    Returns
    -------
    in_doubt : array
        Positions in `rows` that need a full scan.
    """
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        scan = _scan(X, packed, labels, rows)
        squares = scan.squares.astype(np.float64)
        half = near * packed.scale * packed.scale
        # |x - c|^2 / 2 = |a|^2 / 2 + h gives the score of the own centre. `wrong` bounds its error
        # and the rounding of the reference.
        score = (half - squares) / 2
        d, u = packed.centers.shape[1], float(np.finfo(packed.centers.dtype).eps) / 2
        fixed, by_square, by_length = packed.errors
        wrong = ((d + 12) * u + (3 * d + 20) * 2.0**-53) * 3 * (squares + half)
        wrong += by_square * squares + 2 * (fixed + by_length * np.sqrt(squares))
        stays = (scan.scores - wrong > score) | (scan.certain & (labels == own))
        goes = scan.certain & (labels != own)
        goes &= scan.scores + packed.slack[labels] + wrong < score
        labels[stays] = -1
    return np.flatnonzero(~(stays | goes))


@dataclass(frozen=True)
class _Scan:
    """Result of a compiled scan of dense rows, besides the labels."""

    scores: npt.NDArray[np.floating]  # minimum of each row
    squares: npt.NDArray[np.floating]  # squared norms of the shifted and scaled rows
    certain: npt.NDArray[np.bool_]  # whether the label is certain


def _scan(
    X: Matrix,
    packed: PackedCenters,
    labels: Indices,
    rows: Indices | None,
    blocks: Indices | None = None,
    squares: Floats | None = None,
) -> _Scan:
    dtype, n = packed.centers.dtype, len(labels)
    found = _Scan(np.empty(n, dtype=dtype), np.empty(n, dtype=dtype), np.empty(n, dtype=bool))
    panels: Any = packed.panels
    few = blocks is None and len(packed.centers) <= MAX_FEW_CENTERS
    rows = np.arange(n) if rows is None else rows
    what = X, rows, packed.shift, dtype.type(packed.scale)
    bounds = packed.slack, np.array(packed.errors), found.scores, found.squares
    out = labels, found.certain, packed.centers, NO_DISTANCES if squares is None else squares
    if few:
        panels.loops.scan_few(*what, packed.points, packed.offsets, *bounds, *out)
    else:
        blocks = panels.all_blocks if blocks is None else blocks
        where = panels.values, panels.offsets, panels.columns, blocks
        panels.loops.scan(*what, *where, *bounds, np.empty(0, dtype=f"i{dtype.itemsize}"), *out)
    return found


def assign_by_scan(
    X: Matrix,
    packed: PackedCenters,
    labels: Indices,
    rows: Indices | None = None,
    blocks: Indices | None = None,
    squares: Floats | None = None,
) -> Indices:
    """Write the labels found by a compiled scan, and return the rows whose label is not certain.

    Parameters
    ----------
    X, packed, labels, rows, squares
        See `assign`. The centres are packed for the compiled loops.
    blocks : array, optional
        IN. Blocks of centres to search; all if not given.
    """
    if not sp.issparse(X):
        return np.flatnonzero(~_scan(X, packed, labels, rows, blocks, squares).certain)
    if X.indices.dtype != np.int32:
        X, rows = X if rows is None else X[rows], None
    indices = X.indices.astype(np.int32, copy=False)
    if rows is None:
        firsts, ends = X.indptr[:-1], X.indptr[1:]
    else:
        firsts, ends = X.indptr[rows], X.indptr[rows + 1]
    certain = np.empty(len(labels), dtype=bool)
    dtype = packed.centers.dtype
    panels: Any = packed.panels
    blocks = panels.all_blocks if blocks is None else blocks
    panels.loops.scan_sparse(
        *(X.data, indices, firsts, ends, dtype.type(packed.scale)),
        *(panels.values, panels.offsets, panels.columns, blocks),
        *(packed.slack, np.array(packed.errors), np.empty(0, dtype=f"i{dtype.itemsize}")),
        *(labels, certain),
    )
    return np.flatnonzero(~certain)


def _chunks(rows: Indices, packed: PackedCenters) -> list[Indices]:
    """Split a list of rows so that the scores of each part fit in little memory."""
    step = max(1, CHUNK_SCORES // len(packed.centers))
    return [rows[i : i + step] for i in range(0, len(rows), step)]


def _nearest(
    X: Matrix,
    packed: PackedCenters,
    scores: npt.NDArray[np.floating],
    squares: Floats,
    barred: npt.NDArray[np.bool_] | None = None,
) -> Indices:
    """Find the nearest centre that is not barred, for all rows or one, from approximate scores.

    Overwrites scores.
    """
    if barred is not None:
        barred = np.broadcast_to(barred, scores.shape)
        np.copyto(scores, np.inf, where=barred)
    rows = np.arange(len(scores))
    labels = scores.argmin(axis=1)
    best = scores[rows, labels]
    fixed, by_square, by_length = packed.errors
    lengths = np.sqrt(squares)
    limit = best + packed.slack[labels] + fixed + by_square * squares + by_length * lengths
    # Scores are meaningless where products may have overflowed.
    overflowed = ~np.isfinite(best)
    overflowed |= lengths * packed.reach > float(np.finfo(packed.centers.dtype).max) / 8
    limit[overflowed] = np.inf
    # The minimum of the other scores decides: one pass, where a comparison of all takes three. The
    # negations make NaN scores (of very distant rows) candidates for the reference.
    scores[rows, labels] = np.inf
    undecided = np.flatnonzero(~(scores.min(axis=1) > limit))
    if len(undecided):
        scores[undecided, labels[undecided]] = best[undecided]
        near = ~(scores[undecided] > limit[undecided, None])
        if barred is not None:
            near &= ~barred[undecided]
        labels[undecided] = _nearest_by_reference(X, packed.centers, undecided, near)
    return labels


def _scores(X: Matrix, packed: PackedCenters) -> tuple[npt.NDArray[np.floating], Floats]:
    """Compute |b|^2 / 2 - a.b for all pairs, and |a|^2."""
    scale = packed.centers.dtype.type(packed.scale)
    if sp.issparse(X):
        a = X * scale
        squares = np.zeros(a.shape[0])
        filled = np.flatnonzero(np.diff(a.indptr))
        if len(filled):
            squares[filled] = np.add.reduceat(a.data.astype(np.float64) ** 2, a.indptr[filled])
        scores = _sparse_product(a, packed)
    else:
        a = (X - packed.shift) * scale
        squares = np.einsum("ij,ij->i", a, a, dtype=np.float64)
        scores = a @ packed.directions
    np.subtract(packed.offsets, scores, out=scores)
    return scores, squares


def _sparse_product(a: Any, packed: PackedCenters) -> npt.NDArray[np.floating]:
    """Multiply CSR rows by all centres; of few rows, only the columns that they have."""
    if a.nnz >= a.shape[1]:
        return np.asarray(a @ packed.directions)
    columns, at = np.unique(a.indices, return_inverse=True)
    few = sp.csr_array((a.data, at, a.indptr), shape=(a.shape[0], len(columns)))
    return np.asarray(few @ np.ascontiguousarray(packed.points[:, columns].T))


def _nearest_by_reference(
    X: Matrix,
    centers: npt.NDArray[np.floating],
    rows: Indices,
    candidates: npt.NDArray[np.bool_],
) -> Indices:
    """Find the nearest of each row's candidates by the reference distance."""
    which, columns = np.nonzero(candidates)
    distances = np.empty(len(which), dtype=centers.dtype)
    step = max(1, MAX_PAIR_BYTES // (8 * centers.shape[1]))
    for start in range(0, len(which), step):
        part = slice(start, start + step)
        pairs = squared_distances(dense_rows(X, rows[which[part]]), centers[columns[part]])
        distances[part] = to_distance(pairs, centers.dtype)
    distances[np.isnan(distances)] = np.inf  # rows with NaN get an arbitrary label
    # Pairs are sorted by row, then by column, so the first minimum has the lowest index.
    starts = np.searchsorted(which, np.arange(len(rows)))
    smallest = np.flatnonzero(distances == np.minimum.reduceat(distances, starts)[which])
    _, first = np.unique(which[smallest], return_index=True)
    return columns[smallest[first]]
