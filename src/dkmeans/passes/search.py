"""Passes that search for rows: nearest to a point, farthest from it, exemplars of prototypes."""

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dkmeans.exact.group_sums import run_starts
from dkmeans.exact.record import Record
from dkmeans.kernels.block import Floats, Indices, dense_rows
from dkmeans.kernels.distances import OwnDistances, paired_distances
from dkmeans.kernels.reference import squared_distances, stable_bits
from dkmeans.model.prototypes import Prototypes
from dkmeans.passes.base import Pass
from dkmeans.passes.part import Bools, Part
from dkmeans.passes.state import RowState, group_codes


@dataclass(frozen=True)
class Picked(Record):
    """One row for each of some groups."""

    rows: npt.NDArray[np.floating]  # shape (g, d): values
    cost: Floats  # shape (g,); infinite where a group has no row

    def improve(self, other: "Picked", groups: Indices) -> None:
        """Take over rows for some groups, in place, that cost less or are smaller on a tie."""
        for at, g in enumerate(groups.tolist()):
            tie = other.cost[at] == self.cost[g] < np.inf
            if other.cost[at] < self.cost[g] or (
                tie and tuple(other.rows[at]) < tuple(self.rows[g])
            ):
                self.cost[g], self.rows[g] = other.cost[at], other.rows[at]


@dataclass(frozen=True)
class PickRows(Pass[Picked]):
    """Find the row of each group that is nearest to a point, or farthest from it.

    Ties are decided by the rows' values, the smallest first feature first.

    Parameters
    ----------
    codes : array of shape (g,)
        Sorted codes of the groups, as `group_codes` returns them.
    points : array of shape (g, d)
    farthest : bool
    away_from : array of shape (g, d) or None
        Rows that equal this point are skipped.
    """

    codes: Indices
    points: Floats
    farthest: bool = False
    away_from: npt.NDArray[np.floating] | None = None

    def visit(self, part: Part, state: RowState) -> tuple[RowState, Picked]:
        """Visit one part."""
        own, n_groups = group_codes(part, state), len(self.codes)
        best = Picked(np.zeros(self.points.shape, dtype=part.X.dtype), np.full(n_groups, np.inf))
        lock = Lock()

        def task(tile: slice) -> None:
            group, found = look_up(own[tile], self.codes)
            rows, group = np.flatnonzero(found), group[found]
            if not len(rows):
                return
            X = part.X[tile]
            cost = paired_distances(X, rows, self.points, group, part.loops)
            if self.farthest:
                cost = -cost
            if self.away_from is not None:
                away = paired_distances(X, rows, self.away_from, group, part.loops) > 0
                rows, cost, group = rows[away], cost[away], group[away]
            least = np.full(n_groups, np.inf)
            np.minimum.at(least, group, cost)
            tied = np.flatnonzero(cost == least[group])  # few, so sorting by values is fast
            values, cost, group = dense_rows(X, rows[tied]), cost[tied], group[tied]
            order = np.lexsort((*values.T[::-1], group))
            order = order[run_starts(group[order])] if len(order) else order
            with lock:
                best.improve(Picked(values[order], cost[order]), group[order])

        if n_groups:
            part.for_tiles(task, 1)
        return state, best

    def merge(self, results: Sequence[Picked]) -> Picked:
        """Choose the best row of each group."""
        best = Picked(results[0].rows.copy(), results[0].cost.copy())
        for other in results[1:]:
            best.improve(other, np.arange(len(other.cost)))
        return best


@dataclass(frozen=True)
class Exemplars(Record):
    """One training row for each prototype."""

    rows: Indices  # numbers among all rows; -1 if there is none
    squares: Floats  # squared distances
    values: npt.NDArray[np.floating]  # of the rows

    def improve(self, other: "Exemplars", cells: Indices) -> None:
        """Take over rows for some prototypes, in place, that are nearer or first on a tie."""
        better = other.squares < self.squares[cells]
        for at in np.flatnonzero((other.squares == self.squares[cells]) & (other.rows >= 0)):
            mine = *self.values[cells[at]], self.rows[cells[at]]
            better[at] = (*other.values[at], other.rows[at]) < mine
        self.rows[cells[better]] = other.rows[better]
        self.squares[cells[better]] = other.squares[better]
        self.values[cells[better]] = other.values[better]


@dataclass(frozen=True)
class FindExemplars(Pass[Exemplars]):
    """Find, for each prototype, the nearest row of its cell and class.

    The reference distance decides, then the rows' values, then the lowest row number: the order
    of rows matters only for which of identical rows is named.

    Parameters
    ----------
    prototypes : Prototypes
        Labels must refer to these.
    left_out : array
        Numbers, among all rows, of rows that must not be chosen.
    """

    prototypes: Prototypes
    left_out: Indices

    def visit(self, part: Part, state: RowState) -> tuple[RowState, Exemplars]:
        """Visit one part."""
        centers = self.prototypes.centers
        k, d = centers.shape
        best = Exemplars(np.full(k, -1), np.full(k, np.inf), np.zeros((k, d), part.X.dtype))
        labels = state.cells.labels
        eligible = self._eligible(part, state)
        distances = OwnDistances(centers, sparse=sp.issparse(part.X), loops=part.loops)
        # Distances of sparse rows are rounded, so the reference has to settle near-ties.
        tolerance = 1 + 2.0 ** (2 - stable_bits(d))
        lock = Lock()

        def task(tile: slice) -> None:
            rows = tile.start + np.flatnonzero(eligible[tile])
            if not len(rows):
                return
            cells = labels[rows]
            squares, least = np.empty(len(rows)), np.full(k, np.inf)
            distances(part.X, cells, squares, rows)
            np.minimum.at(least, cells, squares)
            near = np.flatnonzero(squares <= least[cells] * tolerance)
            rows, cells = rows[near], cells[near]
            values = dense_rows(part.X, rows)
            squares = squared_distances(values, centers[cells])
            order = np.lexsort((rows, *values.T[::-1], squares, cells))
            first = order[run_starts(cells[order])]
            found = Exemplars(part.start + rows[first], squares[first], values[first])
            with lock:
                best.improve(found, cells[first])

        part.for_tiles(task, 1)
        return state, best

    def merge(self, results: Sequence[Exemplars]) -> Exemplars:
        """Choose the nearest row of each prototype."""
        first = results[0]
        best = Exemplars(first.rows.copy(), first.squares.copy(), first.values.copy())
        for other in results[1:]:
            best.improve(other, np.arange(len(other.rows)))
        return best

    def _eligible(self, part: Part, state: RowState) -> Bools:
        labels = state.cells.labels
        eligible = (labels >= 0) & (self.prototypes.classes[labels] == state.classes)
        if part.active is not None:
            eligible &= part.active
        eligible[part.local(self.left_out)] = False
        return eligible


def look_up(codes: Indices, keys: Indices) -> tuple[Indices, Bools]:
    """Return the position of each code among sorted keys, and whether it is there."""
    at = np.minimum(np.searchsorted(keys, codes), len(keys) - 1)
    return at, keys[at] == codes
