"""One round of growth or of k-means from inner products, in compiled loops.

A round takes groups of rows (those of one class in one cell), computes the centre of each group,
and assigns every row to the nearest centre. The sums of groups are computed by differences from an
earlier round in which most rows were in the same groups.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.jit import compiled

Floats: TypeAlias = npt.NDArray[np.float64]
Indices: TypeAlias = npt.NDArray[np.intp]
Mask: TypeAlias = npt.NDArray[np.bool_]
Repulsion: TypeAlias = float | Literal["size"]

LEFT_OUT = -1  # label of a row that is left out
MAX_STORED_ROUNDS = 16  # of the first run; later rounds differ too much between runs
MAX_CHANGED_SHARE = 0.25  # of the rows: beyond that, differences do not pay


@dataclass(frozen=True)
class Groups:
    """Groups of a round, sorted by cell and class.

    Attributes
    ----------
    codes : array of shape (n_groups,)
        Identify groups across rounds: id of the cell's centre times number of classes, plus class.
    cells, classes : arrays of shape (n_groups,)
    of_row : array of shape (n,)
        Group of each row; `LEFT_OUT` for some.
    rows, starts : arrays of shape (n_rows,) and (n_groups + 1,)
        Rows sorted by group, and where each group starts.
    """

    codes: Indices
    cells: Indices
    classes: Indices
    of_row: Indices
    rows: Indices
    starts: Indices

    @property
    def weight(self) -> Indices:
        """Number of rows of each group."""
        return np.diff(self.starts)

    @property
    def mixed(self) -> Mask:
        """Whether each group shares its cell with another."""
        return np.bincount(self.cells)[self.cells] > 1


def group_rows(labels: Indices, y: Indices, ids: Indices, n_classes: int) -> Groups:
    """Group rows by cell and class.

    Parameters
    ----------
    labels : array of shape (n,)
        Cell of each row; `LEFT_OUT` for some.
    y : array of shape (n,)
        Class of each row.
    ids : array of shape (n_cells,)
        Id of each cell's centre.
    n_classes : int
    """
    places, of_row, rows, starts = _group(labels, y, len(ids), n_classes)
    cells, classes = np.divmod(places, n_classes)
    return Groups(ids[cells] * n_classes + classes, cells, classes, of_row, rows, starts)


@compiled
def _group(
    labels: Indices, y: Indices, n_cells: int, n_classes: int
) -> tuple[Indices, Indices, Indices, Indices]:
    counts = np.zeros(n_cells * n_classes, dtype=np.intp)
    for i in range(len(y)):
        if labels[i] >= 0:
            counts[labels[i] * n_classes + y[i]] += 1
    places = np.flatnonzero(counts)
    starts = np.zeros(len(places) + 1, dtype=np.intp)
    rank = np.empty(len(counts), dtype=np.intp)
    for g in range(len(places)):
        rank[places[g]] = g
        starts[g + 1] = starts[g] + counts[places[g]]
    free = starts.copy()
    of_row = np.full(len(y), -1, dtype=np.intp)
    rows = np.empty(starts[-1], dtype=np.intp)
    for i in range(len(y)):
        if labels[i] >= 0:
            g = rank[labels[i] * n_classes + y[i]]
            of_row[i] = g
            rows[free[g]] = i
            free[g] += 1
    return places, of_row, rows, starts


class Sums:
    """Sums of rows by group, each represented by its inner products with all rows.

    The sums of the first rounds of the first run, and of the last round, are kept. Most rows stay
    in the same group, so only the differences are computed.

    Parameters
    ----------
    gram : array of shape (n, n)
        Inner products of all rows.
    """

    def __init__(self, gram: Floats) -> None:
        self.gram = gram
        self._first: dict[int, tuple[Groups, Floats]] = {}
        self._last: tuple[Groups, Floats] | None = None

    def __call__(self, groups: Groups, number: int) -> Floats:
        """Return the sums of the groups of a round, shape (n_groups, n)."""
        known = [k for k in (self._first.get(number), self._last) if k is not None]
        maps = [_find(old.codes, groups.codes) for old, _ in known]
        differ = [
            _count_moved(groups.of_row, old.of_row, now)
            for (old, _), now in zip(known, maps, strict=True)
        ]
        near = min(range(len(known)), key=lambda i: differ[i], default=None)
        if near is None or differ[near] > MAX_CHANGED_SHARE * len(self.gram):
            sums = np.zeros((len(groups.codes), len(self.gram)))
            _add(self.gram, groups.of_row, sums)
        else:
            old, old_sums = known[near]
            sums = np.empty((len(groups.codes), len(self.gram)))
            before = _find(groups.codes, old.codes)
            _amend(self.gram, groups.of_row, old.of_row, maps[near], before, old_sums, sums)
        self._last = groups, sums
        if number <= MAX_STORED_ROUNDS:
            self._first.setdefault(number, self._last)
        return sums


def _find(values: Indices, among: Indices) -> Indices:
    """Return the position of each value; -1 if it is not there."""
    order = np.argsort(among)
    at = order[np.minimum(np.searchsorted(among, values, sorter=order), len(among) - 1)]
    return np.where(among[at] == values, at, -1)


@compiled
def _count_moved(of_row: Indices, old_of_row: Indices, now: Indices) -> int:
    """Count the rows that are in another group; `now` has the index of each old group today."""
    count = 0
    for i in range(len(of_row)):
        count += of_row[i] != (now[old_of_row[i]] if old_of_row[i] >= 0 else -1)
    return count


@compiled
def _add_row(row: Floats, factor: float, total: Floats) -> None:
    for j in range(len(row)):
        total[j] += factor * row[j]


@compiled
def _add(gram: Floats, of_row: Indices, sums: Floats) -> None:
    for i in range(len(of_row)):
        if of_row[i] >= 0:
            _add_row(gram[i], 1.0, sums[of_row[i]])


@compiled
def _amend(
    gram: Floats,
    of_row: Indices,
    old_of_row: Indices,
    now: Indices,
    before: Indices,
    old_sums: Floats,
    sums: Floats,
) -> None:
    """Write the sums of all groups, from those of an earlier round.

    Parameters
    ----------
    gram : array of shape (n, n)
        IN.
    of_row, old_of_row : arrays of shape (n,)
        IN. Group of each row now and then.
    now, before : arrays
        IN. Index of each old group now, and of each group then; -1 if there is none.
    old_sums : array
        IN.
    sums : array of shape (n_groups, n)
        OUT.
    """
    for g in range(len(sums)):
        if before[g] >= 0:
            sums[g] = old_sums[before[g]]
        else:
            sums[g] = 0.0
    for i in range(len(of_row)):
        came, went = of_row[i], now[old_of_row[i]] if old_of_row[i] >= 0 else -1
        if came != went:
            if came >= 0:
                _add_row(gram[i], 1.0, sums[came])
            if went >= 0:
                _add_row(gram[i], -1.0, sums[went])


def repelled_centers(
    groups: Groups, sums: Floats, place: Indices, n_places: int, repulsion: Repulsion
) -> tuple[Floats, Floats]:
    """Compute centres of groups: the mean, or m - w (r - m) in mixed cells.

    Parameters
    ----------
    groups : Groups
    sums : array of shape (n_groups, n)
    place : array of shape (n_groups,)
        Index of the centre of each group; -1 for groups that get none.
    n_places : int
        Number of centres.
    repulsion : float or "size"
        The weight w.

    Returns
    -------
    products : array of shape (n_places, n)
        Inner products of the centres with all rows.
    squares : array of shape (n_places,)
        Squared norms of the centres.
    """
    products, squares = np.empty((n_places, sums.shape[1])), np.empty(n_places)
    w = -1.0 if repulsion == "size" else float(repulsion)
    _repel(groups.cells, groups.rows, groups.starts, sums, place, w, products, squares)
    return products, squares


@compiled
def _repel(
    cells: Indices,
    rows: Indices,
    starts: Indices,
    sums: Floats,
    place: Indices,
    repulsion: float,
    products: Floats,
    squares: Floats,
) -> None:
    """Write the centres. A negative repulsion stands for the share of the other classes."""
    n = sums.shape[1]
    whole = np.empty(n)
    first = 0
    while first < len(cells):
        end = first + 1
        while end < len(cells) and cells[end] == cells[first]:
            end += 1
        mixed = end > first + 1
        cell_weight = float(starts[end] - starts[first])
        whole_whole = 0.0
        if mixed:
            whole[:] = 0.0
            for g in range(first, end):
                whole += sums[g]
            for at in range(starts[first], starts[end]):
                whole_whole += whole[rows[at]]
        for g in range(first, end):
            if place[g] < 0:
                continue
            weight = float(starts[g + 1] - starts[g])
            group_group, group_whole = 0.0, 0.0
            for at in range(starts[g], starts[g + 1]):
                group_group += sums[g, rows[at]]
                group_whole += whole[rows[at]] if mixed else 0.0
            out = products[place[g]]
            if mixed:
                others = cell_weight - weight
                w = others / cell_weight if repulsion < 0 else repulsion
                # m - w (r - m), with m and r expressed by the sums of the group and of its cell
                away = w / others
                of_group = (1 + w) / weight + away
                for i in range(n):
                    out[i] = of_group * sums[g, i] - away * whole[i]
                squares[place[g]] = (
                    of_group**2 * group_group
                    - 2 * of_group * away * group_whole
                    + away**2 * whole_whole
                )
            else:
                for i in range(n):
                    out[i] = sums[g, i] / weight
                squares[place[g]] = group_group / weight**2
        first = end


@compiled
def nearest_centers(products: Floats, squares: Floats) -> Indices:
    """Find the nearest centre of every row, given inner products; ties go to the first."""
    k, n = products.shape
    nearest = np.zeros(n, dtype=np.intp)
    least = squares[0] - 2 * products[0]
    for c in range(1, k):
        square, row = squares[c], products[c]
        for i in range(n):
            score = square - 2 * row[i]
            if score < least[i]:
                least[i] = score
                nearest[i] = c
    return nearest
