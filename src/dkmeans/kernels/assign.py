"""Nearest centre of every row of a block.

A matrix product gives all distances of a tile at once, but not to the last bit. Every entry that
lies within the error bound of its row's smallest is therefore computed again by the reference, and
the reference decides; a tie goes to the lowest index. So the labels are those of the reference.

Write a = x - s and b = c - s for a shift s, which keeps data far from the origin accurate. Then
|x - c|^2 / 2 is, but for a term that all centres share, h = |b|^2 / 2 - a.b. With unit roundoff u
and d features, rounding a, b, the product and the sum costs at most

    (d + 4) u |a||b| + 4 u |b|^2 + (d/2) 2^-53 |b|^2,

the last for |b|^2 in float64; with |a||b| <= (|a|^2 + |b|^2) / 2 this is at most
(u (d/2 + 6) + 2^-53 d/2) (|a|^2 + |b|^2). The reference's own rounding (to float64 along the sum,
to the type of X at its end) lets two distances compare the wrong way round only if they differ by
less than a further (3 u + (d + 6) 2^-53) (|a|^2 + |b|^2) each, and a few units of the smallest
subnormal number. `pack.relative_error` adds these up with a margin.

For large data the compiled `loops.scan` takes the place of the product. It keeps the two smallest
scores of a row only: if they lie further apart than the bound, the label is certain; the few other
rows go the way described above.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dkmeans.kernels.block import Floats, Indices, Matrix, dense_rows
from dkmeans.kernels.pack import PackedCenters
from dkmeans.kernels.reference import squared_distances, to_distance

_PAIR_BYTES = 1 << 22  # float64 bytes of candidate pairs that are settled at a time
_FEW = 4  # centres for which vectors of features are quicker than vectors of centres
_NO_ROOM = np.empty(0)  # for distances
_CHUNK = 1 << 20  # scores that rows in doubt need at a time


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
        OUT. Squared distances to the nearest centre; of arrays only.

    Returns
    -------
    finite : bool
        Whether the squares of all rows were; if not, there may be NaN or infinity among them.
    """
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        if packed.panels is None:
            X = X if rows is None else X[rows]
            scores, lengths = _scores(X, packed)
            labels[:] = _lowest(X, packed, scores, lengths)
            if squares is not None:
                squares[:] = squared_distances(X, packed.centers[labels])
            return bool(np.isfinite(lengths).all())
        doubtful = assign_nearly(X, packed, labels, rows, squares=squares)
        finite = True
        for part in _chunks(doubtful, packed):
            taken = X[part if rows is None else rows[part]]
            scores, lengths = _scores(taken, packed)
            labels[part] = _lowest(taken, packed, scores, lengths)
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
    """Write the nearest among some centres of each row, and the nearest among the others.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        IN. One tile of rows.
    packed : PackedCenters
        IN.
    runs : list of (slice, array)
        IN. Runs of rows, and which centres count as theirs: at least one, and not all. They are
        those of one class, if the centres were packed by class.
    own, rival : arrays of shape (n,)
        OUT.
    rows : array of shape (n,), optional
        IN. Which rows of `X` make up the tile; all if not given.
    """
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        if packed.panels is None:
            X = X if rows is None else X[rows]
            scores, squares = _scores(X, packed)
            for run, mine in runs:
                part = X[run], packed, scores[run], squares[run]
                own[run], rival[run] = _lowest_own_and_rival(*part, mine)
            return
        rows = np.arange(len(own)) if rows is None else rows
        owner = packed.panels.owner
        for run, mine in runs:
            of_mine = owner == owner[packed.panels.block_of(mine[0])]
            doubts = [
                assign_nearly(X, packed, labels[run], rows[run], np.flatnonzero(blocks))
                for labels, blocks in ((own, of_mine), (rival, ~of_mine))
            ]
            for which in _chunks(np.union1d(*doubts), packed):
                taken = X[rows[run][which]]
                found = _lowest_own_and_rival(taken, packed, *_scores(taken, packed), mine)
                own[run][which], rival[run][which] = found


def _lowest_own_and_rival(
    X: Matrix,
    packed: PackedCenters,
    scores: npt.NDArray[np.floating],
    squares: Floats,
    mine: Indices,
) -> tuple[Indices, Indices]:
    own = mine[_lowest(X, packed.take(mine), scores[:, mine], squares)]
    return own, _lowest(X, packed, scores, squares, barred=mine)


def assign_changed(
    X: npt.NDArray[np.floating],
    packed: PackedCenters,
    rows: Indices,
    own: Indices,
    near: Floats,
    labels: Indices,
) -> Indices:
    """Find which rows leave their centre for one of those that have changed.

    Parameters
    ----------
    X : array of shape (n, d)
        IN.
    packed : PackedCenters
        IN. The centres that have changed, packed for compiled loops.
    rows : array of shape (m,)
        IN. Rows to which no centre that has not changed is nearer than their own.
    own : array of shape (m,)
        IN. Their own centre among those that have changed; -1 if it is not one of them.
    near : array of shape (m,)
        IN. Squared distances to their own centre.
    labels : array of shape (m,)
        OUT. The nearest of the changed centres, or -1 for rows that stay.

    Returns
    -------
    in_doubt : array
        Where in `rows` only a full scan can tell.
    """
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        scan = _scan(X, packed, labels, rows)
        squares = scan.squares.astype(np.float64)
        half = near * packed.scale * packed.scale
        # From |x - c|^2 / 2 = |a|^2 / 2 + h: what the own centre would score, and how wrong that,
        # or the reference's own rounding, may be.
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
    """What a compiled scan of dense rows found, beside labels."""

    scores: npt.NDArray[np.floating]  # the least of each row
    squares: npt.NDArray[np.floating]  # squared lengths of the rows, shifted and scaled
    certain: npt.NDArray[np.bool_]  # whether the label is beyond doubt


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
    few = blocks is None and len(packed.centers) <= _FEW
    rows = np.arange(n) if rows is None else rows
    what = X, rows, packed.shift, dtype.type(packed.scale)
    bounds = packed.slack, np.array(packed.errors), found.scores, found.squares
    out = labels, found.certain, packed.centers, _NO_ROOM if squares is None else squares
    if few:
        panels.loops.scan_few(*what, packed.points, packed.offsets, *bounds, *out)
    else:
        blocks = panels.everywhere if blocks is None else blocks
        where = panels.values, panels.offsets, panels.columns, blocks
        panels.loops.scan(*what, *where, *bounds, np.empty(0, dtype=f"i{dtype.itemsize}"), *out)
    return found


def assign_nearly(
    X: Matrix,
    packed: PackedCenters,
    labels: Indices,
    rows: Indices | None = None,
    blocks: Indices | None = None,
    squares: Floats | None = None,
) -> Indices:
    """Write what a compiled scan finds, and return where that may be wrong.

    Parameters
    ----------
    X, packed, labels, rows, squares
        See `assign`. The centres are packed for compiled loops.
    blocks : array, optional
        IN. Which blocks of centres count.
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
    blocks = panels.everywhere if blocks is None else blocks
    panels.loops.scan_sparse(
        *(X.data, indices, firsts, ends, dtype.type(packed.scale)),
        *(panels.values, panels.offsets, panels.columns, blocks),
        *(packed.slack, np.array(packed.errors), np.empty(0, dtype=f"i{dtype.itemsize}")),
        *(labels, certain),
    )
    return np.flatnonzero(~certain)


def _chunks(rows: Indices, packed: PackedCenters) -> list[Indices]:
    """Cut a list of rows so that the scores of each part take little memory."""
    step = max(1, _CHUNK // len(packed.centers))
    return [rows[i : i + step] for i in range(0, len(rows), step)]


def _lowest(
    X: Matrix,
    packed: PackedCenters,
    scores: npt.NDArray[np.floating],
    squares: Floats,
    barred: Indices | None = None,
) -> Indices:
    """Find the nearest centre that is not barred, from scores that are not quite exact.

    Scores of barred centres are overwritten.
    """
    if barred is not None:
        scores[:, barred] = np.inf
    labels = scores.argmin(axis=1)
    best = scores[np.arange(len(labels)), labels]
    fixed, by_square, by_length = packed.errors
    lengths = np.sqrt(squares)
    limit = best + packed.slack[labels] + fixed + by_square * squares + by_length * lengths
    # Where products may have overflowed, scores say nothing.
    unfit = ~np.isfinite(best)
    unfit |= lengths * packed.reach > float(np.finfo(packed.centers.dtype).max) / 8
    limit[unfit] = np.inf
    # Written so that NaN, from rows very far away, counts as near: the reference decides.
    near = ~(scores > limit[:, None])
    if barred is not None:
        near[:, barred] = False
    undecided = np.flatnonzero(np.count_nonzero(near, axis=1) > 1)
    if len(undecided):
        labels[undecided] = _settle(X, packed.centers, undecided, near[undecided])
    if barred is not None:
        # One candidate only, but all scores were infinite.
        astray = np.flatnonzero(~near[np.arange(len(labels)), labels])
        labels[astray] = near[astray].argmax(axis=1)
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
    else:
        a = (X - packed.shift) * scale
        squares = np.einsum("ij,ij->i", a, a, dtype=np.float64)
    scores = a @ packed.directions
    np.subtract(packed.offsets, scores, out=scores)
    return scores, squares


def _settle(
    X: Matrix,
    centers: npt.NDArray[np.floating],
    rows: Indices,
    candidates: npt.NDArray[np.bool_],
) -> Indices:
    """Choose among each row's candidates by the reference distance."""
    which, columns = np.nonzero(candidates)
    distances = np.empty(len(which), dtype=centers.dtype)
    step = max(1, _PAIR_BYTES // (8 * centers.shape[1]))
    for start in range(0, len(which), step):
        part = slice(start, start + step)
        pairs = squared_distances(dense_rows(X, rows[which[part]]), centers[columns[part]])
        distances[part] = to_distance(pairs, centers.dtype)
    distances[np.isnan(distances)] = np.inf  # a row that is not a number gets some label
    # Pairs are sorted by row, then by column, so the first smallest has the lowest index.
    starts = np.searchsorted(which, np.arange(len(rows)))
    smallest = np.flatnonzero(distances == np.minimum.reduceat(distances, starts)[which])
    _, first = np.unique(which[smallest], return_index=True)
    return columns[smallest[first]]
