"""Identical rows with different labels, which no prototypes can separate.

All of them get the label with the largest total weight; on a tie, the lowest class.
"""

import numpy as np
import numpy.typing as npt

from dkmeans.growth.cells import comparable
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.rowhash import Hashes, flush
from dkmeans.kernels.tally import exact_totals
from dkmeans.kernels.threads import tiles
from dkmeans.passes.contract import Runner
from dkmeans.passes.row_labels import HashRows, Relabel, RowValues

BATCH_VALUES = 1 << 16  # number of values of the rows that are compared at a time
BATCH_HASHES = 1 << 21  # approximate number of hashes that are sorted at a time


def agree_on_labels(runner: Runner, y: Indices, weights: Floats | None) -> list[Indices]:
    """Give identical rows the same label.

    Parameters
    ----------
    runner : Runner
    y, weights : arrays of shape (n,), or None for weights of one
        Of all rows.

    Returns
    -------
    conflicts : list of arrays
        Row numbers of each group of identical rows that carried different labels.
    """
    groups = _conflicting_groups(runner, y, weights)
    if groups:
        majorities = [
            _majority(y[group], None if weights is None else weights[group]) for group in groups
        ]
        sizes = [len(group) for group in groups]
        runner.run(Relabel(np.concatenate(groups), np.repeat(majorities, sizes)))
    return groups


def _conflicting_groups(runner: Runner, y: Indices, weights: Floats | None) -> list[Indices]:
    hashes = runner.run(HashRows())
    repeated = _repeated(hashes.arrays)
    if not len(repeated):
        return []  # the usual case
    some = []
    for start, piece in zip(hashes.starts, hashes.arrays, strict=True):
        there = np.isin(piece, repeated)
        if weights is not None:
            there &= weights[start : start + len(piece)] > 0
        some.append((start + np.flatnonzero(there), piece[there]))
    rows = np.concatenate([numbers for numbers, _ in some])
    keys = np.concatenate([found for _, found in some])
    order = np.argsort(keys, kind="stable")
    rows, keys = rows[order], keys[order]
    groups: list[Indices] = []
    for group in np.split(rows, np.flatnonzero(keys[1:] != keys[:-1]) + 1):
        if len(group) and (y[group] != y[group[0]]).any():
            groups += _truly_equal(runner, y, group)
    return sorted(groups, key=lambda group: int(group[0]))


def _repeated(hashes: list[Hashes]) -> Hashes:
    """Find the hashes that occur more than once; sort a range of them at a time to save memory."""
    n_ranges = 1 + sum(len(part) for part in hashes) // BATCH_HASHES
    ends = np.linspace(0, 2.0**64, n_ranges + 1)[1:-1].astype(np.uint64)
    found = []
    for low, high in zip([None, *ends], [*ends, None], strict=True):
        here = np.concatenate([part[_between(part, low, high)] for part in hashes])
        here.sort()
        found.append(np.unique(here[1:][here[1:] == here[:-1]]))
    return np.concatenate(found)


def _between(
    hashes: Hashes, low: np.uint64 | None, high: np.uint64 | None
) -> npt.NDArray[np.bool_] | slice:
    """Select the hashes in a range."""
    if low is None:
        return slice(None) if high is None else hashes < high
    return hashes >= low if high is None else (hashes >= low) & (hashes < high)


def _truly_equal(runner: Runner, y: Indices, rows: Indices) -> list[Indices]:
    """Split rows of one hash into groups of equal rows; return those with different labels."""
    groups = []
    while len(rows) > 1:
        first = _values(runner, rows[:1])
        step = max(1, BATCH_VALUES // first.shape[1])
        same = np.concatenate(
            [(_values(runner, rows[part]) == first).all(axis=1) for part in tiles(len(rows), step)]
        )
        if len(np.unique(y[rows[same]])) > 1:
            groups.append(rows[same])
        rows = rows[~same]
    return groups


def _values(runner: Runner, rows: Indices) -> npt.NDArray[np.floating]:
    """Return the values of some rows, by ascending number; tiny values count as zero."""
    return flush(runner.run(RowValues(rows)).joined())


def _majority(y: Indices, weights: Floats | None) -> int:
    """Return the heaviest class, the lowest one on a tie."""
    return int(comparable(exact_totals(y, weights, int(y.max()) + 1)).argmax())
