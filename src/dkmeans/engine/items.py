"""Identical rows with different labels: no cell can be pure while it holds both.

Identical rows count as one item, whose label is that of the heaviest class, the lowest on a tie.
"""

import numpy as np

from dkmeans.engine.threads import for_each, tiles
from dkmeans.kernels.block import Floats, Indices, Matrix, dense_rows
from dkmeans.kernels.compiled import loops_for
from dkmeans.kernels.rowhash import Hashes, flush, hash_rows

_VALUES = 1 << 16  # how many are looked at together


def agree_on_labels(
    X: Matrix, y: Indices, weights: Floats | None, n_threads: int
) -> tuple[Indices, list[Indices]]:
    """Give identical rows one label.

    Returns
    -------
    labels : array of shape (n,)
        `y` itself where nothing had to change.
    conflicts : list of arrays
        Row numbers of each group of identical rows that carried different labels.
    """
    rows = np.arange(len(y)) if weights is None else np.flatnonzero(weights > 0)
    groups = _conflicting_groups(X, y, rows, n_threads)
    if not groups:
        return y, []
    labels = y.copy()
    for group in groups:
        labels[group] = _majority(y[group], None if weights is None else weights[group])
    return labels, groups


def hash_all(X: Matrix, n_threads: int) -> Hashes:
    """Hash all rows; identical ones alike."""
    hashes = np.empty(X.shape[0], dtype=np.uint64)
    loops = loops_for(X)

    def task(tile: slice) -> None:
        hashes[tile] = hash_rows(X[tile], loops)

    values = _VALUES if loops is None else 16 * _VALUES
    for_each(task, tiles(X.shape[0], max(1, values // X.shape[1])), n_threads)
    return hashes


def _conflicting_groups(X: Matrix, y: Indices, rows: Indices, n_threads: int) -> list[Indices]:
    hashes = hash_all(X, n_threads)
    ordered = np.sort(hashes[rows])
    if (ordered[1:] != ordered[:-1]).all():
        return []  # the usual case
    order = rows[np.lexsort((rows, hashes[rows]))]
    starts = np.flatnonzero(np.append(True, hashes[order[1:]] != hashes[order[:-1]]))
    low, high = np.minimum.reduceat(y[order], starts), np.maximum.reduceat(y[order], starts)
    ends = np.append(starts[1:], len(order))
    groups: list[Indices] = []
    for i in np.flatnonzero(low != high):
        groups += _truly_equal(X, y, order[starts[i] : ends[i]])
    return sorted(groups, key=lambda group: int(group[0]))


def _truly_equal(X: Matrix, y: Indices, rows: Indices) -> list[Indices]:
    """Part rows of one hash into groups of equal rows, and keep those with different labels."""
    groups = []
    while len(rows) > 1:
        first = flush(dense_rows(X, rows[:1]))
        same = np.concatenate(
            [
                (flush(dense_rows(X, rows[part])) == first).all(axis=1)
                for part in tiles(len(rows), max(1, _VALUES // X.shape[1]))
            ]
        )
        if len(np.unique(y[rows[same]])) > 1:
            groups.append(rows[same])
        rows = rows[~same]
    return groups


def _majority(y: Indices, weights: Floats | None) -> int:
    """Heaviest class, the lowest on a tie; weights are summed in an order of their own."""
    if weights is None:
        return int(np.bincount(y).argmax())
    order = np.lexsort((weights, y))
    return int(np.bincount(y[order], weights[order]).argmax())
