"""Passes that search for rows: nearest to a point, farthest from it, exemplars of prototypes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dkmeans.exact.group_sums import by_values, run_starts
from dkmeans.exact.record import Record
from dkmeans.kernels.block import Floats, Indices, dense_rows
from dkmeans.kernels.distances import OwnDistances
from dkmeans.kernels.reference import squared_distances, stable_bits
from dkmeans.kernels.threads import tiles
from dkmeans.passes.contract import Pass
from dkmeans.passes.part import Bools, Part
from dkmeans.passes.row_state import RowState, group_codes
from dkmeans.prototypes import Prototypes

TILE_VALUES = 1 << 20  # values of the rows compared at a time


@dataclass(frozen=True)
class Picked(Record):
    """One row for each of some groups."""

    rows: npt.NDArray[np.floating]  # shape (g, d): values
    cost: Floats  # shape (g,); infinite where a group has no row

    def improve(self, other: "Picked", groups: Indices) -> None:
        """Replace, in place, rows of some groups by cheaper ones; smaller rows win ties."""
        for at, g in enumerate(groups.tolist()):
            tie = other.cost[at] == self.cost[g] < np.inf
            if other.cost[at] < self.cost[g] or (
                tie and tuple(other.rows[at]) < tuple(self.rows[g])
            ):
                self.cost[g], self.rows[g] = other.cost[at], other.rows[at]


@dataclass(frozen=True)
class PickRows(Pass[Picked]):
    """Find the row of each group that is nearest to a point, or farthest from it.

    Ties go to the row that is first in lexicographic order.

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
        n_groups, n_features, sparse = len(self.codes), part.n_features, sp.issparse(part.X)
        best = Picked(np.zeros(self.points.shape, dtype=part.X.dtype), np.full(n_groups, np.inf))
        if not n_groups:
            return state, best
        group, found = look_up(group_codes(part, state), self.codes)
        cost = self._costs(part, group, found)
        # Distances of sparse rows are rounded, so the reference has to settle near-ties.
        slack = 2.0 ** (2 - stable_bits(n_features)) if sparse else 0.0
        candidates = np.flatnonzero(cost < np.inf)
        least = np.full(n_groups, np.inf)
        np.minimum.at(least, group[candidates], cost[candidates])
        limit = least * (1 - slack if self.farthest else 1 + slack)
        candidates = candidates[cost[candidates] <= limit[group[candidates]]]  # few
        for tile in tiles(len(candidates), max(1, TILE_VALUES // n_features)):
            rows, mine = candidates[tile], group[candidates[tile]]
            values, here = dense_rows(part.X, rows), cost[rows]
            if sparse:
                here = squared_distances(values, self.points[mine])
                here = -here if self.farthest else here
            order = by_values(values, here, mine)
            order = order[run_starts(mine[order])]
            best.improve(Picked(values[order], here[order]), mine[order])
        return state, best

    def _costs(self, part: Part, group: Indices, found: Bools) -> Floats:
        """Return what it costs to pick each row; infinity for rows that cannot be picked."""
        cost = np.full(len(part), np.inf)
        sparse, loops = sp.issparse(part.X), part.loops
        to_point, to_other = OwnDistances(self.points, sparse=sparse, loops=loops), None
        if self.away_from is not None:
            to_other = OwnDistances(self.away_from, sparse=sparse, loops=loops)

        def task(tile: slice) -> None:
            rows = tile.start + np.flatnonzero(found[tile])
            if to_other is not None and len(rows):
                far = np.empty(len(rows))
                to_other(part.X, group[rows], far, rows)
                rows = rows[far > 0]
            if len(rows):
                squares = np.empty(len(rows))
                to_point(part.X, group[rows], squares, rows)
                cost[rows] = -squares if self.farthest else squares

        part.for_tiles(task, 1)
        return cost

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

    Rows are compared by reference distance, then by values, then by index: the order of rows
    matters only for the choice among identical rows. A row is not chosen for a class that it was
    not given.
    """

    prototypes: Prototypes  # labels must refer to these

    def visit(self, part: Part, state: RowState) -> tuple[RowState, Exemplars]:
        """Visit one part."""
        centers = self.prototypes.centers
        k, d = centers.shape
        best = Exemplars(np.full(k, -1), np.full(k, np.inf), np.zeros((k, d), part.X.dtype))
        rows = np.flatnonzero(self._eligible(part, state))
        cells, squares = state.cells.labels[rows], np.empty(len(rows))
        distances = OwnDistances(centers, sparse=sp.issparse(part.X), loops=part.loops)

        def task(tile: slice) -> None:
            distances(part.X, cells[tile], squares[tile], rows[tile])

        part.for_tiles(task, 1, len(rows))
        least = np.full(k, np.inf)
        np.minimum.at(least, cells, squares)
        # Distances of sparse rows are rounded, so the reference has to settle near-ties.
        tolerance = 1 + 2.0 ** (2 - stable_bits(d))
        near = np.flatnonzero(squares <= least[cells] * tolerance)
        for tile in tiles(len(near), max(1, TILE_VALUES // d)):
            row, cell = rows[near[tile]], cells[near[tile]]
            values = dense_rows(part.X, row)
            square = squared_distances(values, centers[cell])
            # Sorting is stable, and rows are in the order of their numbers.
            order = by_values(values, square, cell)
            first = order[run_starts(cell[order])]
            found = Exemplars(part.numbering.of(row[first]), square[first], values[first])
            best.improve(found, cell[first])
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
        eligible &= state.classes == part.given
        if part.active is not None:
            eligible &= part.active
        return eligible


def look_up(codes: Indices, keys: Indices) -> tuple[Indices, Bools]:
    """Return the position of each code among sorted keys, and whether it is there."""
    at = np.minimum(np.searchsorted(keys, codes), len(keys) - 1)
    return at, keys[at] == codes
