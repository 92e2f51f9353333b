"""The data of a fit, and the passes over it.

The rounds see the data only through these methods: each takes something small (centres, means),
visits all rows in tiles, and returns something small (tallies, chosen rows). What is kept per row
stays here.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dkmeans.engine.changed import Known, assign_by_change
from dkmeans.engine.memory import Memory
from dkmeans.engine.summable import NOBODY, SummableRows
from dkmeans.engine.tally import Tally, run_starts
from dkmeans.kernels.assign import assign, assign_nearly
from dkmeans.kernels.block import Floats, Indices, Matrix, dense_rows
from dkmeans.kernels.distances import OwnDistances, on_far_side, paired_distances
from dkmeans.kernels.pack import pack
from dkmeans.model.prototypes import Prototypes

_BAND = 4096  # rows of a class that are visited before those of the next class, about


@dataclass(frozen=True)
class Found:
    """Nearest prototypes of some rows."""

    rows: Indices
    labels: Indices
    squares: Floats  # squared distances to them


class Rows(SummableRows):
    """Rows in memory with the cells that they are in."""

    def __init__(self, X: Matrix, *args: Any, **kwargs: Any) -> None:
        super().__init__(X, *args, **kwargs)
        self.labels: Indices = np.zeros(X.shape[0], dtype=np.intp)
        self.previous: Indices = self.labels  # labels before the last pass, as indices of today
        self._by_class: Indices | None = None  # row numbers, once they are needed
        self._known: Known | None = None

    def assign(
        self,
        prototypes: Prototypes,
        came_from: Indices,
        memory: Memory | None = None,
        found: Found | None = None,
        tally: Tally | None = None,
    ) -> tuple[Tally, int]:
        """Assign every row to its nearest prototype, and tally per cell and class.

        Parameters
        ----------
        prototypes : Prototypes
        came_from : array of shape (k_before,)
            For each prototype of the last pass its index now, or -1 if it is gone.
        memory : Memory or None
            What will be added to the tally.
        found : Found or None
            Where some of the rows go, if that is known.
        tally : Tally or None
            What the tally will be but for distances, if that is known.

        Returns
        -------
        tally : Tally
        moved : int
            Number of rows that changed their prototype.
        """
        known = self._known if self.loops else None  # small data are quicker without
        if known is not None and not known.still_true(self.labels, self.y):
            known = None
        previous = np.where(self.labels < 0, NOBODY, came_from[self.labels])
        before = self.squares
        self.labels, self.squares = np.empty_like(self.labels), np.empty_like(self.squares)
        rest: Indices | None = None
        if found is not None:
            self.labels[found.rows], self.squares[found.rows] = found.labels, found.squares
            rest = np.setdiff1d(np.arange(len(self.y)), found.rows, assume_unique=True)
        elif known is not None and not sp.issparse(self.X):
            rest = assign_by_change(self, known, prototypes.centers, came_from, previous, before)
        self._assign_all(prototypes.centers, rest)
        self.previous = previous
        changed = self.labels != previous
        moved = int(np.count_nonzero(changed if self.active is None else changed & self.active))
        self._square_units = self._units(self._largest_square(prototypes, memory))
        if tally is not None:
            tally = replace(tally, squares=self.square_sums(self.group_codes()))
        else:
            tally = self.tally() if known is None else self._amended(known, came_from)
        self._known = Known(prototypes.centers, self.labels, self.y, tally)
        return tally, moved

    def _assign_all(self, centers: npt.NDArray[np.floating], rows: Indices | None) -> None:
        """Assign rows, all of them if not told which, by looking at all centres."""
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

    def _amended(self, known: Known, came_from: Indices) -> Tally:
        """Tally by what is known and the rows that have changed their cell since."""
        before = self._codes(self.previous)
        after = self.group_codes()
        changed = np.flatnonzero(before != after)
        if len(changed) > len(after) // 2:
            return self.tally()
        cells = came_from[known.tally.cells]
        stayed = known.tally.take(np.flatnonzero(cells >= 0)).renamed(came_from)
        now = self._moved(stayed, before, after, changed)
        return replace(now, squares=self.square_sums(after))

    def _moved(self, last: Tally, before: Indices, after: Indices, rows: Indices) -> Tally:
        """Bring a tally up to date, distances aside, for rows that have gone to other groups."""
        old, new = before[rows], after[rows]
        top = int(max(old.max(initial=-1), new.max(initial=-1))) + 2
        if top * top <= 4 * len(rows) + 1024:
            # Few ways from one group to another: what goes is what comes.
            moves = self.tally_codes((old + 1) * top + new + 1, rows, distances=False)
            ways = moves.codes(self.n_classes)
            gone, come = (moves.coded(codes - 1, self.n_classes) for codes in divmod(ways, top))
        else:
            gone, come = (self.tally_codes(codes, rows, distances=False) for codes in (old, new))
        now = last.and_also(come).and_also(gone.negative()).fused()
        return now.take(np.flatnonzero(now.weight > 0))

    def assign_own(self, prototypes: Prototypes, last: Tally | None = None) -> Tally:
        """Assign every row to the nearest prototype of its own class, and tally.

        Rows of classes that have no prototype are assigned to no one. Distances are left out.

        Parameters
        ----------
        prototypes : Prototypes
        last : Tally, optional
            What this method returned just before, for as many prototypes of the same classes: then
            only rows that have changed their prototype since are tallied.
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
        if last is None:
            return self.tally_codes(after, distances=False)
        return self._moved(last, before, after, np.flatnonzero(before != after))

    def for_classes(self, task: Callable[[Indices], None], n_centers: int) -> None:
        """Call a task on the numbers of some rows at a time, those of a class one after another."""
        if self._by_class is None:
            # Compiled loops fetch rows one by one, so they should not be far from each other.
            band = max(_BAND * self.n_classes, 1) if self.loops else len(self.y)
            self._by_class = np.concatenate(
                [
                    i + np.argsort(self.y[i : i + band], kind="stable")
                    for i in range(0, len(self.y), band)
                ]
            )
        order = self._by_class
        self.for_tiles(lambda tile: task(order[tile]), n_centers)

    def runs_of_classes(self, part: Indices) -> list[tuple[int, slice]]:
        """Class and place of the runs of rows in a part that `for_classes` gives."""
        starts = run_starts(self.y[part])
        ends = np.append(starts[1:], len(part))
        classes = self.y[part[starts]]
        return [(int(c), slice(a, b)) for c, a, b in zip(classes, starts, ends, strict=True)]

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Come back, at the end, to the cells that rows are in now."""
        labels, squares, units = self.labels, self.squares, self._square_units
        try:
            yield
        finally:
            self.labels, self.squares, self._square_units = labels, squares, units

    def tally_classes(self) -> Tally:
        """Tally the rows per class, as if all were in one cell; distances are left out."""
        return self.tally_codes(self._codes(np.zeros_like(self.y)), distances=False)

    def tally(self) -> Tally:
        """Tally the rows per cell and class, as they are assigned now."""
        return self.tally_codes(self.group_codes())

    def tally_without(self, rows: Indices) -> Tally:
        """Take some rows out of their cells, and tally the others."""
        self.labels = self.labels.copy()
        self.labels[rows] = NOBODY
        return self.tally_codes(self.group_codes(), distances=False)

    def rename(self, new_index: Indices) -> None:
        """Follow a change of indices: prototype i is now `new_index[i]`, or gone if that is -1."""
        known = self._known
        is_true = known is not None and known.still_true(self.labels, self.y)
        self.labels = new_index[self.labels]
        self.previous = np.where(self.previous < 0, NOBODY, new_index[self.previous])
        if known is not None and is_true:
            centers, tally = known.centers[new_index >= 0], known.tally.renamed(new_index)
            self._known = Known(centers, self.labels, self.y, tally)

    def label_all(self, prototypes: Prototypes) -> None:
        """Give rows of weight 0 whose prototype was dropped a label again."""
        lost = np.flatnonzero(self.labels < 0)
        if not len(lost):
            return
        packed = pack(prototypes.centers, sparse=sp.issparse(self.X), loops=self.loops)
        labels = self.labels.copy()

        def task(tile: slice) -> None:
            nearest = np.empty(tile.stop - tile.start, dtype=np.intp)
            assign(self.X, packed, nearest, lost[tile])
            labels[lost[tile]] = nearest

        self.for_tiles(task, len(prototypes), len(lost))
        self.labels = labels

    def without(self, which: npt.NDArray[np.bool_]) -> Self:
        """Take the same rows, but some of them with weight 0."""
        weights = np.ones(len(self.y)) if self.weights is None else self.weights
        return type(self)(
            self.X,
            self.y,
            np.where(which, 0.0, weights),
            n_classes=self.n_classes,
            n_threads=self.n_threads,
            memory_mb=self._memory_mb,
            n_centers=self._n_centers,
        )

    def tally_sides(self, codes: Indices, middles: Floats, directions: Floats) -> Tally:
        """Tally each of some groups in two halves, cut across `directions` at `middles`."""
        own = self.group_codes()
        halves = np.full_like(own, NOBODY)

        def task(tile: slice) -> None:
            group, found = _look_up(own[tile], codes)
            rows, group = np.flatnonzero(found), group[found]
            if len(rows):
                side = on_far_side(self.X[tile], rows, middles, directions, group, self.loops)
                halves[tile][rows] = 2 * group + side

        self.for_tiles(task, 1)
        return self.tally_codes(halves, named=np.repeat(codes, 2))

    def pick(
        self,
        codes: Indices,
        points: Floats,
        *,
        farthest: bool = False,
        away_from: npt.NDArray[np.floating] | None = None,
    ) -> tuple[npt.NDArray[np.floating], npt.NDArray[np.bool_]]:
        """Find the row of each group that is nearest to a point, or farthest from it.

        Ties are decided by the rows' values, the smallest first feature first.

        Parameters
        ----------
        codes : array of shape (g,)
            Sorted codes of the groups, as `group_codes` has them.
        points : array of shape (g, d)
        farthest : bool
        away_from : array of shape (g, d), optional
            Rows that equal this point are passed over.

        Returns
        -------
        chosen : array of shape (g, d)
        found : array of shape (g,)
            False where a group had no row to choose.
        """
        own = self.group_codes()
        chosen = np.zeros(points.shape, dtype=self.X.dtype)
        best = np.full(len(codes), np.inf)
        if not len(codes):
            return chosen, best < np.inf

        def task(tile: slice) -> None:
            group, found = _look_up(own[tile], codes)
            rows, group = np.flatnonzero(found), group[found]
            if not len(rows):
                return
            X = self.X[tile]
            cost = paired_distances(X, rows, points, group, self.loops)
            if farthest:
                cost = -cost
            if away_from is not None:
                away = paired_distances(X, rows, away_from, group, self.loops) > 0
                rows, cost, group = rows[away], cost[away], group[away]
            least = np.full(len(codes), np.inf)
            np.minimum.at(least, group, cost)
            tied = np.flatnonzero(cost == least[group])  # few, so that sorting by values is quick
            values, cost, group = dense_rows(X, rows[tied]), cost[tied], group[tied]
            order = np.lexsort((*values.T[::-1], group))
            order = order[run_starts(group[order])] if len(order) else order
            with self._lock:
                for row in order:
                    g = group[row]
                    tie = cost[row] == best[g]
                    if cost[row] < best[g] or (tie and tuple(values[row]) < tuple(chosen[g])):
                        best[g], chosen[g] = cost[row], values[row]

        self.for_tiles(task, 1)
        return chosen, best < np.inf

    def strays(self, classes: Indices) -> tuple[Indices, Indices]:
        """Present and previous cells of rows that are in a cell of another class."""
        stray = classes[self.labels] != self.y
        if self.active is not None:
            stray &= self.active
        return np.unique(self.labels[stray]), np.unique(self.previous[stray])

    def group_codes(self) -> Indices:
        """Cell and class of each row as one number, -1 for rows of weight 0 or of no cell."""
        return self._codes(self.labels)

    def _codes(self, labels: Indices) -> Indices:
        codes = np.where(labels < 0, NOBODY, labels * self.n_classes + self.y)
        if self.active is not None:
            codes[~self.active] = NOBODY
        return codes

    def _largest_square(self, prototypes: Prototypes, memory: Memory | None) -> float:
        """Bound the weighted squared distances that will be summed."""
        squares = self.squares if self.weights is None else self.squares * self.weights
        largest = float(squares.max()) if self.active is None else float(squares[self.active].max())
        if memory is not None and len(memory):
            largest = max(largest, float(memory.squares(prototypes).max()))
        return largest * (1 + 1e-6)


def _look_up(codes: Indices, keys: Indices) -> tuple[Indices, npt.NDArray[np.bool_]]:
    """Position of each code among sorted keys, and whether it is there."""
    at = np.minimum(np.searchsorted(keys, codes), len(keys) - 1)
    return at, keys[at] == codes
