"""Identical rows with different labels, which no prototypes can separate.

All of them get the label with the largest total weight; on a tie, the lowest class. What counts are
the labels that the user gave, whatever rows have agreed on before: which rows are identical depends
on the space in which they are compared.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import numpy.typing as npt

from dkmeans.growth.cells import comparable
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.rowhash import flush
from dkmeans.kernels.tally import exact_totals
from dkmeans.kernels.threads import tiles
from dkmeans.passes.contract import Runner
from dkmeans.passes.exchange import CountMixedHashes, FindMixedHashes
from dkmeans.passes.part import Bools
from dkmeans.passes.row_labels import FindRows, FoundRows, Relabel, RestoreClasses, RowValues

BATCH_VALUES = 1 << 16  # number of values of the rows that are compared at a time
MAX_FOUND_ROWS = 1 << 18  # approximate number of rows with shared hashes that are found at a time


def agree_on_labels(runner: Runner) -> list[Indices]:
    """Give identical rows the same label, and all other rows the label that the user gave.

    Returns
    -------
    conflicts : list of arrays
        Row numbers of each group of identical rows that carried different labels, ordered by their
        first rows.
    """
    groups = [group for some in _agree_in_slices(runner) for group in some]
    return sorted(groups, key=lambda group: int(group[0]))


def agree_and_count(runner: Runner) -> int:
    """Do the same, and return only the number of conflicts.

    The memory that this needs here does not grow with the rows.
    """
    return sum(len(some) for some in _agree_in_slices(runner))


def _agree_in_slices(runner: Runner) -> Iterator[list[Indices]]:
    """Relabel the rows of one range of hashes after the other, and return the conflicts of each."""
    runner.run(RestoreClasses())
    counts = runner.exchange(CountMixedHashes())
    for low, high in counts.slices(MAX_FOUND_ROWS):
        mixed = runner.exchange(FindMixedHashes(low, high))
        found = runner.run(FindRows(mixed))
        groups = _conflicting_groups(runner, found)
        if groups:
            majorities = [_majority(found.classes[group], found.weights[group]) for group in groups]
            classes = np.repeat(majorities, [len(group) for group in groups])
            rows = np.concatenate(groups)
            changes = classes != found.classes[rows]
            runner.run(Relabel(found.rows[rows[changes]], classes[changes]))
        yield [found.rows[group] for group in groups]


def _conflicting_groups(runner: Runner, found: FoundRows) -> list[Indices]:
    """Return indices of equal rows with different labels among the rows that were found."""
    order = np.argsort(found.hashes, kind="stable")
    keys = found.hashes[order]
    n_features = _values(runner, found.rows[:1]).shape[1]
    step = max(1, BATCH_VALUES // n_features)
    groups: list[Indices] = []
    for some in _batches(np.split(order, np.flatnonzero(keys[1:] != keys[:-1]) + 1), step):
        rows = np.sort(np.concatenate(some))
        if len(rows) > step:  # a group that is too large to be fetched at once
            groups += _split_by_values(lambda at: _same_as_first(runner, found, at, step), some[0])
            continue
        values = _values(runner, found.rows[rows])
        for group in some:
            groups += _split_by_values(partial(_same_values, rows, values), group)
    return [group for group in groups if len(np.unique(found.classes[group])) > 1]


def _batches(groups: list[Indices], step: int) -> Iterator[list[Indices]]:
    """Take several groups at a time, of at most `step` rows together, or a single one."""
    batch: list[Indices] = []
    size = 0
    for group in groups:
        if batch and size + len(group) > step:
            yield batch
            batch, size = [], 0
        batch.append(group)
        size += len(group)
    yield batch


def _split_by_values(same_as_first: Callable[[Indices], Bools], group: Indices) -> list[Indices]:
    """Split rows of one hash into groups of equal rows."""
    groups = []
    while len(group) > 1:
        same = same_as_first(group)
        groups.append(group[same])
        group = group[~same]
    return groups


def _same_values(rows: Indices, values: npt.NDArray[np.floating], group: Indices) -> Bools:
    """Tell which rows of a group equal its first, given the values of sorted rows."""
    mine = values[np.searchsorted(rows, group)]
    return np.asarray((mine == mine[0]).all(axis=1))


def _same_as_first(runner: Runner, found: FoundRows, group: Indices, step: int) -> Bools:
    """Tell which rows of a group equal its first; fetch so many values at a time."""
    rows = found.rows[group]
    first = _values(runner, rows[:1])
    return np.concatenate(
        [(_values(runner, rows[part]) == first).all(axis=1) for part in tiles(len(rows), step)]
    )


def _values(runner: Runner, rows: Indices) -> npt.NDArray[np.floating]:
    """Return the values of some rows, by ascending number; tiny values count as zero."""
    return flush(runner.run(RowValues(rows)).joined())


def _majority(y: Indices, weights: Floats) -> int:
    """Return the heaviest class, the lowest one on a tie."""
    return int(comparable(exact_totals(y, weights, int(y.max()) + 1)).argmax())
