"""Identical rows with different labels: no cell can be pure while it holds both.

Identical rows count as one item, whose label is that of the heaviest class, the lowest on a tie.
"""

import numpy as np
import numpy.typing as npt

from dkmeans.engine.team import Team
from dkmeans.engine.threads import tiles
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.rowhash import Hashes, flush

_VALUES = 1 << 16  # how many are looked at together


def agree_on_labels(team: Team, y: Indices, weights: Floats | None) -> list[Indices]:
    """Give identical rows one label.

    Parameters
    ----------
    team : Team
    y, weights : arrays of shape (n,), or None for weights of one
        What the rows of the team have.

    Returns
    -------
    conflicts : list of arrays
        Row numbers of each group of identical rows that carried different labels.
    """
    hashes = np.concatenate(team.each("hashes"))
    rows = None if weights is None else np.flatnonzero(weights > 0)
    groups = _conflicting_groups(team, hashes, y, rows)
    if groups:
        majorities = [
            _majority(y[group], None if weights is None else weights[group]) for group in groups
        ]
        sizes = [len(group) for group in groups]
        team.each("relabel", np.concatenate(groups), np.repeat(majorities, sizes))
    return groups


def _conflicting_groups(
    team: Team, hashes: Hashes, y: Indices, rows: Indices | None
) -> list[Indices]:
    ordered = np.sort(hashes if rows is None else hashes[rows])
    if (ordered[1:] != ordered[:-1]).all():
        return []  # the usual case
    del ordered
    rows = np.arange(len(y)) if rows is None else rows
    order = rows[np.lexsort((rows, hashes[rows]))]
    starts = np.flatnonzero(np.append(True, hashes[order[1:]] != hashes[order[:-1]]))
    low, high = np.minimum.reduceat(y[order], starts), np.maximum.reduceat(y[order], starts)
    ends = np.append(starts[1:], len(order))
    groups: list[Indices] = []
    for i in np.flatnonzero(low != high):
        groups += _truly_equal(team, y, order[starts[i] : ends[i]])
    return sorted(groups, key=lambda group: int(group[0]))


def _truly_equal(team: Team, y: Indices, rows: Indices) -> list[Indices]:
    """Part rows of one hash into groups of equal rows, and keep those with different labels."""
    groups = []
    while len(rows) > 1:
        first = _values(team, rows[:1])
        step = max(1, _VALUES // first.shape[1])
        same = np.concatenate(
            [(_values(team, rows[part]) == first).all(axis=1) for part in tiles(len(rows), step)]
        )
        if len(np.unique(y[rows[same]])) > 1:
            groups.append(rows[same])
        rows = rows[~same]
    return groups


def _values(team: Team, rows: Indices) -> npt.NDArray[np.floating]:
    """Take some rows, by ascending number, with what is too small to matter as zero."""
    return flush(np.concatenate(team.each("values_of", rows)))


def _majority(y: Indices, weights: Floats | None) -> int:
    """Heaviest class, the lowest on a tie; weights are summed in an order of their own."""
    if weights is None:
        return int(np.bincount(y).argmax())
    order = np.lexsort((weights, y))
    return int(np.bincount(y[order], weights[order]).argmax())
