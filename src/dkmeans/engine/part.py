"""One part of the rows with the cells that they are in, and the passes over it.

Each pass takes something small (centres, means), visits all rows in tiles, and returns something
small (sums, chosen rows) that can be put together with what other parts return. What is kept per
row stays here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dkmeans.engine.changed import assign_by_change
from dkmeans.engine.exemplars import Exemplars, find_exemplars
from dkmeans.engine.grids import SquareGrid
from dkmeans.engine.summable import NOBODY, SummablePart
from dkmeans.engine.sums import Sums, add_up
from dkmeans.engine.tally import by_values, run_starts
from dkmeans.engine.threads import tiles
from dkmeans.kernels.assign import assign, assign_nearly
from dkmeans.kernels.block import Floats, Indices, Matrix, dense_rows
from dkmeans.kernels.distances import OwnDistances, on_far_side
from dkmeans.kernels.pack import pack
from dkmeans.kernels.reference import squared_distances, stable_bits, stable_squares
from dkmeans.kernels.rowhash import Hashes, hash_rows
from dkmeans.model.prototypes import Prototypes

_BAND = 4096  # rows of a class that are visited before those of the next class, about
_VALUES = 1 << 20  # of rows that are compared value by value at a time
Choice = tuple[npt.NDArray[np.floating], Floats]  # rows, and what each costs


@dataclass(frozen=True)
class Found:
    """Nearest prototypes of some rows."""

    rows: Indices
    labels: Indices
    squares: Floats  # squared distances to them


@dataclass(frozen=True)
class Assigned:
    """What a pass that assigns rows brings back."""

    sums: Sums  # by cell and class: all of them, or what has come less what has gone
    moved: int  # rows that changed their prototype
    largest: float  # squared distance of a row of a weight


class CellPart(SummablePart):
    """Rows with the cells that they are in."""

    def __init__(self, X: Matrix, *args: Any, **kwargs: Any) -> None:
        super().__init__(X, *args, **kwargs)
        self.labels: Indices = np.zeros(len(self.y), dtype=np.intp)
        self.previous: Indices = self.labels  # labels before the last pass, as indices of today
        self._centers: npt.NDArray[np.floating] | None = None  # what labels speak of
        self._by_class: Indices | None = None  # row numbers, once they are needed
        self._kept: list[tuple[Any, ...]] = []

    def assign(
        self, prototypes: Prototypes, came_from: Indices, changes: bool, found: Found | None
    ) -> Assigned:
        """Assign every row to its nearest prototype, and sum per cell and class.

        Parameters
        ----------
        prototypes : Prototypes
        came_from : array of shape (k_before,)
            For each prototype of the last pass its index now, or -1 if it is gone.
        changes : bool
            Whether only what has changed since the last pass is to be summed.
        found : Found or None
            Where some of the rows go, if that is known.
        """
        previous = np.where(self.labels < 0, NOBODY, came_from[self.labels])
        before = self.squares
        self.labels, self.squares = np.empty_like(self.labels), np.empty_like(self.squares)
        rest: Indices | None = None
        if found is not None:
            self.labels[found.rows], self.squares[found.rows] = found.labels, found.squares
            rest = np.setdiff1d(np.arange(len(self.y)), found.rows, assume_unique=True)
        elif changes and self._centers is not None and not sp.issparse(self.X):
            centers = prototypes.centers
            rest = assign_by_change(self, self._centers, centers, came_from, previous, before)
        self._assign_all(prototypes.centers, rest)
        self.previous, self._centers = previous, prototypes.centers
        changed = self.labels != previous
        moved = int(np.count_nonzero(changed if self.active is None else changed & self.active))
        after = self.group_codes()
        sums = self._moves(self._codes(previous), after) if changes else self.sum_codes(after)
        return Assigned(sums, moved, self._largest_square())

    def gather(self, center: npt.NDArray[np.floating]) -> float:
        """Put all rows into one cell, and return the largest squared distance."""
        self.labels, self.squares = np.zeros_like(self.labels), np.empty_like(self.squares)
        self.previous, self._centers = np.full_like(self.labels, NOBODY), center
        self._assign_all(center, None)
        return self._largest_square()

    def square_sums(self, grid: SquareGrid) -> tuple[Indices, Floats]:
        """Add up squared distances per cell and class."""
        return self.sum_squares(self.group_codes(), grid)

    def _assign_all(self, centers: npt.NDArray[np.floating], rows: Indices | None) -> None:
        """Assign rows, all of them if not told which, by looking at all centres."""
        if rows is not None and not len(rows):
            return
        sparse = sp.issparse(self.X)
        packed = pack(centers, sparse=sparse, loops=self.loops, n_terms=self.n_terms)
        own_distances = OwnDistances(centers, sparse=sparse, loops=self.loops)
        doubts: list[Indices] = []

        def look(X: Matrix, labels: Indices, squares: Floats, part: Indices | None = None) -> None:
            if sparse:
                assign(X, packed, labels, part)
                own_distances(X, labels, squares, part)
            else:
                assign(X, packed, labels, part, squares)

        def quick(tile: slice) -> None:
            here, labels, squares = self.X[tile], self.labels[tile], self.squares[tile]
            if len(centers) == 1:
                labels[:] = 0
                own_distances(here, labels, squares)
            elif self.loops is None or sparse:
                look(here, labels, squares)
            else:
                doubts.append(tile.start + assign_nearly(here, packed, labels, squares=squares))

        if rows is None:
            self.for_tiles(quick, len(centers))
            # Those in doubt together, as there are few in each tile.
            rows = np.concatenate(doubts) if doubts else np.empty(0, dtype=np.intp)

        def careful(tile: slice) -> None:
            part = rows[tile]
            labels, squares = np.empty(len(part), dtype=np.intp), np.empty(len(part))
            look(self.X, labels, squares, part)
            self.labels[part], self.squares[part] = labels, squares

        self.for_tiles(careful, len(centers), len(rows))

    def _moves(self, before: Indices, after: Indices) -> Sums:
        """Sum up, by group, what has come less what has gone."""
        rows = np.flatnonzero(before != after)
        old, new = before[rows], after[rows]
        top = int(max(old.max(initial=-1), new.max(initial=-1))) + 2
        if top * top <= 4 * len(rows) + 1024 and not sp.issparse(self.X):
            # Few ways from one group to another: what goes is what comes.
            moves = self.sum_codes((old + 1) * top + new + 1, rows)
            gone, come = (moves.keyed(codes - 1) for codes in divmod(moves.keys, top))
        else:
            gone, come = (self.sum_codes(codes, rows) for codes in (old, new))
        return add_up([come, gone.negative()])

    def assign_own(self, prototypes: Prototypes, changes: bool) -> Sums:
        """Assign every row to the nearest prototype of its own class, and sum.

        Rows of classes that have no prototype are assigned to no one.

        Parameters
        ----------
        prototypes : Prototypes
        changes : bool
            Whether only rows that have changed their prototype since are to be summed; the last
            call was for as many prototypes of the same classes then.
        """
        before = self.group_codes()
        columns = {c: np.flatnonzero(prototypes.classes == c) for c in range(self.n_classes)}
        packs = {
            c: pack(
                prototypes.centers[mine],
                sparse=sp.issparse(self.X),
                loops=self.loops,
                n_terms=self.n_terms,
            )
            for c, mine in columns.items()
            if len(mine)
        }
        labels = np.full_like(self.labels, NOBODY)

        def task(part: Indices) -> None:
            for c, run in self.runs_of_classes(part):
                if c in packs:
                    nearest = np.empty(run.stop - run.start, dtype=np.intp)
                    assign(self.X, packs[c], nearest, part[run])
                    labels[part[run]] = columns[c][nearest]

        self.for_classes(task, len(prototypes))
        self.labels = labels
        after = self.group_codes()
        return self._moves(before, after) if changes else self.sum_codes(after)

    def for_classes(self, task: Callable[[Indices], None], n_centers: int) -> None:
        """Call a task on the numbers of some rows at a time, those of a class one after another."""
        if self._by_class is None:
            # Compiled loops fetch rows one by one, so they should not be far from each other.
            band = max(_BAND * self.n_classes, 1) if self.loops else max(len(self.y), 1)
            parts = [
                i + np.argsort(self.y[i : i + band], kind="stable")
                for i in range(0, len(self.y), band)
            ]
            self._by_class = np.concatenate(parts) if parts else np.empty(0, dtype=np.intp)
        order = self._by_class
        self.for_tiles(lambda tile: task(order[tile]), n_centers)

    def runs_of_classes(self, part: Indices) -> list[tuple[int, slice]]:
        """Class and place of the runs of rows in a part that `for_classes` gives."""
        starts = run_starts(self.y[part])
        ends = np.append(starts[1:], len(part))
        classes = self.y[part[starts]]
        return [(int(c), slice(a, b)) for c, a, b in zip(classes, starts, ends, strict=True)]

    def keep(self) -> None:
        """Note the cells that rows are in now."""
        self._kept.append((self.labels, self.squares, self.previous, self._centers))

    def come_back(self) -> None:
        """Return to the cells noted last."""
        self.labels, self.squares, self.previous, self._centers = self._kept.pop()

    def tally(self) -> Sums:
        """Sum the rows per cell and class, as they are assigned now."""
        return self.sum_codes(self.group_codes())

    def tally_classes(self) -> Sums:
        """Sum the rows per class, as if all were in one cell."""
        return self.sum_codes(self._codes(np.zeros_like(self.y)))

    def rename(self, new_index: Indices) -> None:
        """Follow a change of indices: prototype i is now `new_index[i]`, or gone if that is -1."""
        self.labels = np.where(self.labels < 0, NOBODY, new_index[self.labels])
        self.previous = np.where(self.previous < 0, NOBODY, new_index[self.previous])
        if self._centers is not None:
            self._centers = self._centers[new_index >= 0]

    def label_all(self, prototypes: Prototypes) -> None:
        """Give rows of weight 0 whose prototype was dropped a label again."""
        lost = np.flatnonzero(self.labels < 0)
        if not len(lost):
            return
        sparse = sp.issparse(self.X)
        packed = pack(prototypes.centers, sparse=sparse, loops=self.loops)
        own_distances = OwnDistances(prototypes.centers, sparse=sparse, loops=self.loops)
        labels, squares = self.labels.copy(), self.squares.copy()

        def task(tile: slice) -> None:
            part = lost[tile]
            nearest, far = np.empty(len(part), dtype=np.intp), np.empty(len(part))
            assign(self.X, packed, nearest, part)
            own_distances(self.X, nearest, far, part)
            labels[part], squares[part] = nearest, far

        self.for_tiles(task, len(prototypes), len(lost))
        self.labels, self.squares = labels, squares

    def tally_sides(self, codes: Indices, middles: Floats, directions: Floats) -> Sums:
        """Sum each of some groups in two halves, cut across `directions` at `middles`.

        The keys are twice the place of the group in the list, plus 1 for the far side.
        """
        own = self.group_codes()
        halves = np.full_like(own, NOBODY)

        def task(tile: slice) -> None:
            group, found = _look_up(own[tile], codes)
            rows, group = np.flatnonzero(found), group[found]
            if len(rows):
                side = on_far_side(self.X[tile], rows, middles, directions, group, self.loops)
                halves[tile][rows] = 2 * group + side

        self.for_tiles(task, 1)
        return self.sum_codes(halves)

    def pick(
        self,
        codes: Indices,
        points: Floats,
        farthest: bool,
        away_from: npt.NDArray[np.floating] | None,
    ) -> Choice:
        """Find the row of each group that is nearest to a point, or farthest from it.

        Ties are decided by the rows' values, the smallest first feature first.

        Parameters
        ----------
        codes : array of shape (g,)
            Sorted codes of the groups, as `group_codes` has them.
        points : array of shape (g, d)
        farthest : bool
        away_from : array of shape (g, d) or None
            Rows that equal this point are passed over.

        Returns
        -------
        chosen : array of shape (g, d)
        cost : array of shape (g,)
            Infinite where a group had no row to choose.
        """
        own, sparse = self.group_codes(), sp.issparse(self.X)
        chosen = np.zeros(points.shape, dtype=self.X.dtype)
        best = np.full(len(codes), np.inf)
        if not len(codes):
            return chosen, best
        group, found = _look_up(own, codes)
        cost = np.full(len(own), np.inf)
        to_point = OwnDistances(points, sparse=sparse, loops=self.loops)
        to_other = None
        if away_from is not None:
            to_other = OwnDistances(away_from, sparse=sparse, loops=self.loops)

        def task(tile: slice) -> None:
            rows = tile.start + np.flatnonzero(found[tile])
            if to_other is not None and len(rows):
                far = np.empty(len(rows))
                to_other(self.X, group[rows], far, rows)
                rows = rows[far > 0]
            if len(rows):
                squares = np.empty(len(rows))
                to_point(self.X, group[rows], squares, rows)
                cost[rows] = -squares if farthest else squares

        self.for_tiles(task, 1)
        tied = np.flatnonzero(cost < np.inf)  # those of least cost; few
        np.minimum.at(best, group[tied], cost[tied])
        # Distances of sparse rows are rounded, so that the reference has to settle near-ties.
        slack = 2.0 ** (2 - stable_bits(self.n_features)) if sparse else 0.0
        limit = best * (1 - slack if farthest else 1 + slack)
        tied = tied[cost[tied] <= limit[group[tied]]]
        best[:] = np.inf
        for part in tiles(len(tied), max(1, _VALUES // self.n_features)):
            rows, mine = tied[part], group[tied[part]]
            values, here = dense_rows(self.X, rows), cost[rows]
            if sparse:
                here = squared_distances(values, points[mine])
                here = -here if farthest else here
            order = by_values(values, here, mine)
            order = order[run_starts(mine[order])]
            better((chosen, best), (values[order], here[order]), mine[order])
        return chosen, best

    def exemplars(self, prototypes: Prototypes, left_out: Indices) -> Exemplars:
        """Find, for each prototype, the nearest row of its cell and class."""
        return find_exemplars(self, prototypes, left_out)

    def strays(self, classes: Indices) -> tuple[Indices, Indices]:
        """Present and previous cells of rows that are in a cell of another class."""
        stray = classes[self.labels] != self.y
        if self.active is not None:
            stray &= self.active
        return np.unique(self.labels[stray]), np.unique(self.previous[stray])

    def hashes(self) -> Hashes:
        """Hash all rows; identical ones alike."""
        found = np.empty(len(self.y), dtype=np.uint64)

        def task(tile: slice) -> None:
            found[tile] = hash_rows(self.X[tile], self.loops)

        self.for_tiles(task, 1)
        return found

    def group_codes(self) -> Indices:
        """Cell and class of each row as one number, -1 for rows of weight 0 or of no cell."""
        return self._codes(self.labels)

    def _codes(self, labels: Indices) -> Indices:
        codes = np.where(labels < 0, NOBODY, labels * self.n_classes + self.y)
        if self.active is not None:
            codes[~self.active] = NOBODY
        return codes

    def _largest_square(self) -> float:
        squares = stable_squares(self.squares, self.n_features)
        active = squares if self.active is None else squares[self.active]
        return float(active.max(initial=0.0))


def better(best: Choice, other: Choice, groups: Indices | None = None) -> None:
    """Take over what costs less, or as much but has smaller values, for some groups or all."""
    (chosen, cost), (values, costs) = best, other
    for at, g in enumerate(range(len(cost)) if groups is None else groups):
        tie = costs[at] == cost[g] < np.inf
        if costs[at] < cost[g] or (tie and tuple(values[at]) < tuple(chosen[g])):
            cost[g], chosen[g] = costs[at], values[at]


def _look_up(codes: Indices, keys: Indices) -> tuple[Indices, npt.NDArray[np.bool_]]:
    """Position of each code among sorted keys, and whether it is there."""
    at = np.minimum(np.searchsorted(keys, codes), len(keys) - 1)
    return at, keys[at] == codes
