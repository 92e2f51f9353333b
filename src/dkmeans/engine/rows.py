"""The data of a fit, and the passes over it.

The rounds see the data only through these methods: each takes something small (centres, means),
visits all rows in tiles, and returns something small (tallies, chosen rows). What is kept per row
stays here.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dkmeans.engine.memory import Memory
from dkmeans.engine.tally import Tally, by_group, run_starts
from dkmeans.engine.threads import for_each, tiles
from dkmeans.kernels.assign import assign, pack
from dkmeans.kernels.block import Floats, Indices, Matrix, column_magnitudes, dense_rows
from dkmeans.kernels.compiled import loops_for
from dkmeans.kernels.distances import OwnDistances
from dkmeans.kernels.exact import cut, grid_units, slice_count
from dkmeans.kernels.reference import inner_products, squared_distances
from dkmeans.kernels.tally import group_sums, group_totals
from dkmeans.model.prototypes import Prototypes

_TILE_BYTES = 1 << 23  # a tile and its work arrays should stay near the cache
_MOST_BITS = 160  # that sums keep, beside the range of the weights
_NOBODY = -1


class Rows:
    """Rows in memory with their classes, weights and current cells.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        Never written to.
    y : array of shape (n,)
        Classes by number.
    weights : array of shape (n,) or None
        None stands for ones. A row of weight 0 takes part in nothing, but gets a label.
    n_classes : int
    n_threads : int
    memory_mb : float or None
        Bound on the work arrays of all threads together.
    remembered : Memory or None
        What earlier rows left, if it is to be added to tallies of these.
    """

    def __init__(
        self,
        X: Matrix,
        y: Indices,
        weights: Floats | None,
        *,
        n_classes: int,
        n_threads: int = 1,
        memory_mb: float | None = None,
        remembered: Memory | None = None,
    ) -> None:
        self.X, self.y, self.weights = X, y, weights
        self.n_classes = n_classes
        self.loops = loops_for(X)
        self.active = None if weights is None or weights.all() else weights > 0
        self.labels: Indices = np.zeros(X.shape[0], dtype=np.intp)
        self.previous: Indices = self.labels  # labels before the last pass, as indices of today
        self.squares: Floats = np.zeros(X.shape[0])
        self.n_threads, self._memory_mb = n_threads, memory_mb
        self._tile_bytes = _TILE_BYTES
        if memory_mb is not None:
            self._tile_bytes = min(_TILE_BYTES, int(memory_mb * 2**20 / n_threads))
        self._lock = Lock()
        self._by_class: Indices | None = None  # row numbers, once they are needed
        self._n_slices = 3  # until the grids are set
        self._set_grids(remembered)

    # Passes

    def tally_all(self) -> Tally:
        """Tally all rows as one group."""
        return self._tally(np.zeros_like(self.y))

    def assign(
        self, prototypes: Prototypes, came_from: Indices, memory: Memory | None = None
    ) -> tuple[Tally, int]:
        """Assign every row to its nearest prototype, and tally per cell and class.

        Parameters
        ----------
        prototypes : Prototypes
        came_from : array of shape (k_before,)
            For each prototype of the last pass its index now, or -1 if it is gone.
        memory : Memory or None
            What will be added to the tally.

        Returns
        -------
        tally : Tally
        moved : int
            Number of rows that changed their prototype.
        """
        sparse = sp.issparse(self.X)
        packed = pack(prototypes.centers, sparse=sparse, loops=self.loops)
        own_distances = OwnDistances(prototypes.centers, sparse=sparse, loops=self.loops)
        previous = came_from[self.labels]
        labels = np.empty_like(self.labels)
        squares = np.empty_like(self.squares)

        def task(tile: slice) -> None:
            X = self.X[tile]
            assign(X, packed, labels[tile])
            own_distances(X, labels[tile], squares[tile])

        self.for_tiles(task, len(prototypes))
        self.labels, self.squares, self.previous = labels, squares, previous
        changed = labels != previous
        moved = int(np.count_nonzero(changed if self.active is None else changed & self.active))
        self._square_units = self._units(self._largest_square(prototypes, memory))
        return self.tally(), moved

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
            c: pack(prototypes.centers[mine], sparse=sp.issparse(self.X), loops=self.loops)
            for c, mine in columns.items()
            if len(mine)
        }
        labels = np.full_like(self.labels, _NOBODY)

        def task(part: Indices) -> None:
            for c, run in self.runs_of_classes(part):
                if c in packs:
                    nearest = np.empty(run.stop - run.start, dtype=np.intp)
                    assign(self.X[part[run]], packs[c], nearest)
                    labels[part[run]] = columns[c][nearest]

        self.for_classes(task, len(prototypes))
        self.labels = labels
        after = self.group_codes()
        if last is None:
            return self._tally(after, distances=False)
        changed = before != after
        gone, come = (
            self._tally(np.where(changed, codes, _NOBODY), distances=False)
            for codes in (before, after)
        )
        now = last.and_also(come).and_also(gone.negative()).fused()
        return now.take(np.flatnonzero(now.weight > 0))

    def for_classes(self, task: Callable[[Indices], None], n_centers: int) -> None:
        """Call a task on the numbers of some rows at a time, those of a class one after another."""
        if self._by_class is None:
            self._by_class = np.argsort(self.y, kind="stable")
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

    def tally(self) -> Tally:
        """Tally the rows per cell and class, as they are assigned now."""
        return self._tally(self.group_codes())

    def tally_without(self, rows: Indices) -> Tally:
        """Take some rows out of their cells, and tally the others."""
        self.labels = self.labels.copy()
        self.labels[rows] = _NOBODY
        return self._tally(self.group_codes(), distances=False)

    def tally_shares(self, rows: Indices, cells: Indices, shares: Floats) -> Tally:
        """Tally some rows in cells of one's own choice, each with a share of its weight.

        Squared distances are left out.
        """
        everywhere, codes = np.zeros(len(self.y)), np.full(len(self.y), _NOBODY)
        everywhere[rows] = shares if self.weights is None else shares * self.weights[rows]
        codes[rows] = np.where(shares > 0, cells * self.n_classes + self.y[rows], _NOBODY)
        keys = _present(codes)
        units, weight_units = (self._units(b, more=1) for b in self._bounds)
        s, g, d = self._n_slices + 1, len(keys), self.X.shape[1]
        weights, sums = np.zeros((s, g)), np.zeros((s, g, d))

        def task(tile: slice) -> None:
            order, starts = by_group(codes[tile])
            if not len(order):
                return
            at = np.searchsorted(keys, codes[tile][order[starts]])
            part = group_sums(self.X[tile], everywhere[tile], order, starts, units)
            part_weights = group_totals(everywhere[tile], weight_units, order, starts)
            with self._lock:
                sums[:, at] += part
                weights[:, at] += part_weights

        self.for_tiles(task, 1, weighted=True)
        return Tally(keys // self.n_classes, keys % self.n_classes, weights, sums, 0 * weights)

    def rename(self, new_index: Indices) -> None:
        """Follow a change of indices: prototype i is now `new_index[i]`."""
        self.labels = new_index[self.labels]
        self.previous = np.where(self.previous < 0, _NOBODY, new_index[self.previous])

    def label_all(self, prototypes: Prototypes) -> None:
        """Give rows of weight 0 whose prototype was dropped a label again."""
        lost = np.flatnonzero(self.labels < 0)
        if not len(lost):
            return
        packed = pack(prototypes.centers, sparse=sp.issparse(self.X), loops=self.loops)
        labels = self.labels.copy()

        def task(tile: slice) -> None:
            nearest = np.empty(tile.stop - tile.start, dtype=np.intp)
            assign(self.X[lost[tile]], packed, nearest)
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
        )

    def tally_sides(self, codes: Indices, middles: Floats, directions: Floats) -> Tally:
        """Tally each of some groups in two halves, cut across `directions` at `middles`."""
        own = self.group_codes()
        halves = np.full_like(own, _NOBODY)

        def task(tile: slice) -> None:
            group, found = _look_up(own[tile], codes)
            rows, group = np.flatnonzero(found), group[found]
            if len(rows):
                offsets = dense_rows(self.X[tile], rows).astype(np.float64) - middles[group]
                side = inner_products(offsets, directions[group]) > 0
                halves[tile][rows] = 2 * group + side

        self.for_tiles(task, 1)
        return self._tally(halves, named=np.repeat(codes, 2))

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
            values = dense_rows(self.X[tile], rows)
            cost = squared_distances(values, points[group])
            if farthest:
                cost = -cost
            if away_from is not None:
                away = squared_distances(values, away_from[group]) > 0
                values, cost, group = values[away], cost[away], group[away]
            least = np.full(len(codes), np.inf)
            np.minimum.at(least, group, cost)
            tied = np.flatnonzero(cost == least[group])  # few, so that sorting by values is quick
            values, cost, group = values[tied], cost[tied], group[tied]
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

    def as_tally(self, memory: Memory, prototypes: Prototypes) -> Tally:
        """Turn what is remembered into a tally that can be added to those of the rows."""
        squares = memory.squares(prototypes)
        return Tally(
            memory.cells(prototypes),
            memory.classes,
            cut(memory.weights[0][:, None], self._weight_units, memory.weights[1][:, None])[
                :, :, 0
            ],
            cut(memory.sums[0], self._feature_units, memory.sums[1]),
            cut(squares[:, None], self._square_units)[:, :, 0],
        )

    def strays(self, classes: Indices) -> tuple[Indices, Indices]:
        """Present and previous cells of rows that are in a cell of another class."""
        stray = classes[self.labels] != self.y
        if self.active is not None:
            stray &= self.active
        return np.unique(self.labels[stray]), np.unique(self.previous[stray])

    def group_codes(self) -> Indices:
        """Cell and class of each row as one number, -1 for rows of weight 0 or of no cell."""
        codes = np.where(self.labels < 0, _NOBODY, self.labels * self.n_classes + self.y)
        if self.active is not None:
            codes[~self.active] = _NOBODY
        return codes

    # How

    def for_tiles(
        self,
        task: Callable[[slice], None],
        n_centers: int,
        n_rows: int | None = None,
        *,
        weighted: bool = False,
    ) -> None:
        """Call a task on every tile of rows.

        `n_centers` is for how many it has work arrays; `weighted` tells whether it multiplies rows
        by weights without loss, which takes more of them.
        """
        itemsize = self.X.dtype.itemsize
        n, d = self.X.shape
        # Compiled loops need no work arrays for slices.
        per_value = itemsize + 8 * (self._n_slices + 3 + 6 * weighted)
        if self.loops and not weighted:
            per_value = 3 * itemsize
        per_row = n_centers * (2 * itemsize + 1) + d * per_value
        rows = int(np.clip(self._tile_bytes // per_row, 16, 4096))
        for_each(task, tiles(n if n_rows is None else n_rows, rows), self.n_threads)

    def _magnitudes(self) -> tuple[Floats, Floats]:
        """Largest and smallest magnitude of each column, zeros aside (0 and inf if none)."""
        d = self.X.shape[1]
        largest, smallest = np.zeros(d), np.full(d, np.inf)

        def task(tile: slice) -> None:
            X = self.X[tile] if self.active is None else self.X[tile][self.active[tile]]
            if not X.shape[0]:
                return
            tile_largest, tile_smallest = column_magnitudes(X)
            with self._lock:
                np.maximum(largest, tile_largest, out=largest)
                np.minimum(smallest, tile_smallest, out=smallest)

        self.for_tiles(task, 1)
        return largest, smallest

    def _set_grids(self, remembered: Memory | None) -> None:
        """Choose units so that sums are exact, or at least far more precise than a float64."""
        largest, smallest = self._magnitudes()
        there = largest > 0
        bits = np.finfo(self.X.dtype).nmant + 2
        exponents = np.frexp(largest[there])[1] - np.frexp(smallest[there])[1]
        bits += int(np.max(exponents, initial=0))
        heaviest, spread = 1.0, 0
        if self.weights is not None:
            positive = self.weights[self.weights > 0]
            heaviest = float(positive.max())
            spread = int(np.ceil(np.log2(heaviest / float(positive.min()))))
            bits += 53 + spread
        bounds, heaviest_term, self._n_terms = largest * heaviest, heaviest, self.X.shape[0]
        if remembered is not None and len(remembered):
            # Each entry of the memory is one more term, and a heavy one of many digits.
            self._n_terms += len(remembered)
            bounds = np.maximum(bounds, np.abs(remembered.sums[0]).max(axis=0))
            heaviest_term = max(heaviest, float(remembered.weights[0].max()))
            spread += int(np.ceil(np.log2(heaviest_term / heaviest)))
            bits = _MOST_BITS
        self._n_slices = slice_count(self._n_terms, min(bits, _MOST_BITS) + spread)
        self._bounds = bounds, heaviest_term
        self._feature_units, self._weight_units = (self._units(b) for b in self._bounds)
        self._square_units = self._units(0.0)

    def _units(self, bounds: Floats | float, more: int = 0) -> Floats:
        return grid_units(np.atleast_1d(bounds), self._n_terms, self._n_slices + more)

    def _largest_square(self, prototypes: Prototypes, memory: Memory | None) -> float:
        """Bound the weighted squared distances that will be summed."""
        squares = self.squares if self.weights is None else self.squares * self.weights
        largest = float(squares.max()) if self.active is None else float(squares[self.active].max())
        if memory is not None and len(memory):
            largest = max(largest, float(memory.squares(prototypes).max()))
        return largest * (1 + 1e-6)

    def _tally(
        self, codes: Indices, named: Indices | None = None, *, distances: bool = True
    ) -> Tally:
        keys = _present(codes)
        s, g, d = self._n_slices, len(keys), self.X.shape[1]
        weights, sums, squares = np.zeros((s, g)), np.zeros((s, g, d)), np.zeros((s, g))

        def task(tile: slice) -> None:
            order, starts = by_group(codes[tile])
            if not len(order):
                return
            at = np.searchsorted(keys, codes[tile][order[starts]])
            w = None if self.weights is None else self.weights[tile]
            part = group_sums(self.X[tile], w, order, starts, self._feature_units, self.loops)
            part_squares = np.zeros(1)
            if distances:
                units = self._square_units
                part_squares = group_totals(self.squares[tile], units, order, starts, w)
            with self._lock:  # exact sums: the order in which tiles arrive does not matter
                sums[:, at] += part
                squares[:, at] += part_squares
                if w is None:
                    weights[0, at] += np.diff(np.append(starts, len(order)))
                else:
                    weights[:, at] += group_totals(w, self._weight_units, order, starts)

        self.for_tiles(task, 1, weighted=self.weights is not None)
        pairs = keys if named is None else named[keys]
        return Tally(pairs // self.n_classes, pairs % self.n_classes, weights, sums, squares)


def _present(codes: Indices) -> Indices:
    """Sorted distinct codes, without -1."""
    top = int(codes.max(initial=-1)) + 1
    if top > 4 * len(codes) + 1024:
        keys = np.unique(codes)
        return keys[keys >= 0]
    seen = np.zeros(top + 1, dtype=bool)
    seen[codes] = True  # -1 lands in the last place, which is cut off
    return np.flatnonzero(seen[:top])


def _look_up(codes: Indices, keys: Indices) -> tuple[Indices, npt.NDArray[np.bool_]]:
    """Position of each code among sorted keys, and whether it is there."""
    at = np.minimum(np.searchsorted(keys, codes), len(keys) - 1)
    return at, keys[at] == codes
