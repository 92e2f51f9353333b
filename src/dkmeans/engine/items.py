"""Identical rows with different labels: no cell can be pure while it holds both.

Identical rows count as one item, whose label is that of the heaviest class, the lowest on a tie.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.engine.cells import comparable
from dkmeans.engine.team import Team
from dkmeans.engine.threads import tiles
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.rowhash import Hashes, flush
from dkmeans.kernels.tally import exact_totals

_VALUES = 1 << 16  # how many are looked at together
_HASHES = 1 << 21  # the same, about


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
    groups = _conflicting_groups(team, team.each("hashes"), y, weights)
    if groups:
        majorities = [
            _majority(y[group], None if weights is None else weights[group]) for group in groups
        ]
        sizes = [len(group) for group in groups]
        team.each("relabel", np.concatenate(groups), np.repeat(majorities, sizes))
    return groups


def _conflicting_groups(
    team: Team, hashes: list[Hashes], y: Indices, weights: Floats | None
) -> list[Indices]:
    several = _several(hashes)
    if not len(several):
        return []  # the usual case
    start, some = 0, []
    for part in hashes:
        there = np.isin(part, several)
        if weights is not None:
            there &= weights[start : start + len(part)] > 0
        some.append((start + np.flatnonzero(there), part[there]))
        start += len(part)
    rows, keys = (np.concatenate(each) for each in zip(*some, strict=True))
    order = np.argsort(keys, kind="stable")
    rows, keys = rows[order], keys[order]
    groups: list[Indices] = []
    for group in np.split(rows, np.flatnonzero(keys[1:] != keys[:-1]) + 1):
        if len(group) and (y[group] != y[group[0]]).any():
            groups += _truly_equal(team, y, group)
    return sorted(groups, key=lambda group: int(group[0]))


def _several(hashes: list[Hashes]) -> Hashes:
    """Find the hashes that are there more than once: a range of them at a time, to save memory."""
    n_ranges = 1 + sum(len(part) for part in hashes) // _HASHES
    ends = np.linspace(0, 2.0**64, n_ranges + 1)[1:-1].astype(np.uint64)
    found = []
    for low, high in zip([None, *ends], [*ends, None], strict=True):
        here = np.concatenate([part[_between(part, low, high)] for part in hashes])
        here.sort()
        found.append(np.unique(here[1:][here[1:] == here[:-1]]))
    return np.concatenate(found)


def _between(hashes: Hashes, low: np.uint64 | None, high: np.uint64 | None) -> Any:
    """Which hashes are in a range."""
    if low is None:
        return slice(None) if high is None else hashes < high
    return hashes >= low if high is None else (hashes >= low) & (hashes < high)


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
    """Heaviest class, the lowest on a tie."""
    return int(comparable(exact_totals(y, weights, int(y.max()) + 1)).argmax())
