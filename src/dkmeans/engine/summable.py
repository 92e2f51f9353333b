"""Rows of which any groups can be summed exactly, whatever the order, the tiles or the threads."""

from collections.abc import Callable
from threading import Lock

import numpy as np
import scipy.sparse as sp

from dkmeans.engine.memory import Memory
from dkmeans.engine.tally import Tally, by_group
from dkmeans.engine.threads import for_each, tiles
from dkmeans.kernels.block import Floats, Indices, Matrix, column_magnitudes, most_terms
from dkmeans.kernels.compiled import loops_for
from dkmeans.kernels.exact import cut, grid_units, slice_count
from dkmeans.kernels.tally import group_sums, group_totals
from dkmeans.model.prototypes import Prototypes

_TILE_BYTES = 1 << 23  # a tile and its work arrays should stay near the cache
_MANY = 1 << 15  # rows in a tile, at most
_MOST_BITS = 160  # that sums keep, beside the range of the weights
NOBODY = -1


class SummableRows:
    """Rows in memory with their classes and weights.

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
    n_centers : int
        How many centres the rows are going to be compared with, about.
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
        n_centers: int = 1,
    ) -> None:
        self.X, self.y, self.weights = X, y, weights
        self.n_classes = n_classes
        self.loops, self._n_centers = loops_for(X, n_centers), n_centers
        self.n_terms = most_terms(X)
        self.active = None if weights is None or weights.all() else weights > 0
        self.squares: Floats = np.zeros(X.shape[0])
        self.n_threads, self._memory_mb = n_threads, memory_mb
        self._tile_bytes = _TILE_BYTES
        if memory_mb is not None:
            self._tile_bytes = min(_TILE_BYTES, int(memory_mb * 2**20 / n_threads))
        self._lock = Lock()
        self._n_slices = 3  # until the grids are set
        self._set_grids(remembered)

    def tally_all(self) -> Tally:
        """Tally all rows as one group."""
        return self.tally_codes(np.zeros_like(self.y))

    def tally_codes(
        self,
        codes: Indices,
        rows: Indices | None = None,
        *,
        named: Indices | None = None,
        distances: bool = True,
    ) -> Tally:
        """Tally rows by a code for cell and class; rows with a code of -1 are left out.

        Parameters
        ----------
        codes : array of shape (m,)
        rows : array of shape (m,), optional
            Which rows; all if not given.
        named : array, optional
            What the codes stand for, if not for themselves.
        distances : bool
            Whether to add up squared distances too.
        """
        keys = _present(codes)
        s, g, d = self._n_slices, len(keys), self.X.shape[1]
        weights, sums, squares = np.zeros((s, g)), np.zeros((s, g, d)), np.zeros((s, g))

        def task(tile: slice) -> None:
            order, starts = by_group(codes[tile])
            if not len(order):
                return
            at = np.searchsorted(keys, codes[tile][order[starts]])
            order = order + tile.start if rows is None else rows[tile][order]
            w = self.weights
            part = group_sums(self.X, w, order, starts, self._feature_units, self.loops)
            part_squares = np.zeros(1)
            if distances:
                part_squares = group_totals(self.squares, self._square_units, order, starts, w)
            with self._lock:  # exact sums: the order in which tiles arrive does not matter
                sums[:, at] += part
                squares[:, at] += part_squares
                if w is None:
                    weights[0, at] += np.diff(np.append(starts, len(order)))
                else:
                    weights[:, at] += group_totals(w, self._weight_units, order, starts)

        self.for_tiles(task, 1, len(codes), weighted=self.weights is not None)
        pairs = keys if named is None else named[keys]
        return Tally(pairs // self.n_classes, pairs % self.n_classes, weights, sums, squares)

    def square_sums(self, codes: Indices) -> Floats:
        """Add up squared distances by code, shape (s, g)."""
        keys = _present(codes)
        squares = np.zeros((self._n_slices, len(keys)))
        if self.loops and self.weights is None:  # so quick that threads would only cost
            groups = _places(codes, keys)
            self.loops.add_totals(self.squares, groups, self._square_units, squares)
            return squares

        def task(tile: slice) -> None:
            order, starts = by_group(codes[tile])
            if not len(order):
                return
            at = np.searchsorted(keys, codes[tile][order[starts]])
            w = None if self.weights is None else self.weights[tile]
            part = group_totals(self.squares[tile], self._square_units, order, starts, w)
            with self._lock:
                squares[:, at] += part

        self.for_tiles(task, 1)
        return squares

    def tally_shares(self, rows: Indices, cells: Indices, shares: Floats) -> Tally:
        """Tally some rows in cells of one's own choice, each with a share of its weight.

        Squared distances are left out.
        """
        everywhere, codes = np.zeros(len(self.y)), np.full(len(self.y), NOBODY)
        everywhere[rows] = shares if self.weights is None else shares * self.weights[rows]
        codes[rows] = np.where(shares > 0, cells * self.n_classes + self.y[rows], NOBODY)
        keys = _present(codes)
        units, weight_units = (self._units(b, more=1) for b in self._bounds)
        s, g, d = self._n_slices + 1, len(keys), self.X.shape[1]
        weights, sums = np.zeros((s, g)), np.zeros((s, g, d))

        def task(tile: slice) -> None:
            order, starts = by_group(codes[tile])
            if not len(order):
                return
            at = np.searchsorted(keys, codes[tile][order[starts]])
            part = group_sums(self.X[tile], everywhere[tile], order, starts, units, self.loops)
            part_weights = group_totals(everywhere[tile], weight_units, order, starts)
            with self._lock:
                sums[:, at] += part
                weights[:, at] += part_weights

        self.for_tiles(task, 1, weighted=True)
        return Tally(keys // self.n_classes, keys % self.n_classes, weights, sums, 0 * weights)

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
        if self.loops and not sp.issparse(self.X):  # no work arrays to speak of
            per_row, most = 256, min(_MANY, -(-n // (2 * self.n_threads)))
        elif self.loops:
            per_row, most = 4 * d * itemsize, min(_MANY, -(-n // (4 * self.n_threads)))
        else:
            per_value = itemsize + 8 * (self._n_slices + 3 + 6 * weighted)
            per_row, most = n_centers * (2 * itemsize + 1) + d * per_value, 4096
        rows = int(np.clip(self._tile_bytes // per_row, 16, max(16, most)))
        for_each(task, tiles(n if n_rows is None else n_rows, rows), self.n_threads)

    def _magnitudes(self) -> tuple[Floats, Floats]:
        """Largest and smallest magnitude of each column, zeros aside (0 and inf if none)."""
        d = self.X.shape[1]
        largest, smallest = np.zeros(d), np.full(d, np.inf)

        def task(tile: slice) -> None:
            X = self.X[tile] if self.active is None else self.X[tile][self.active[tile]]
            if not X.shape[0]:
                return
            tile_largest, tile_smallest = column_magnitudes(X, self.loops)
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


def _present(codes: Indices) -> Indices:
    """Sorted distinct codes, without -1."""
    top = int(codes.max(initial=-1)) + 1
    if top > 4 * len(codes) + 1024:
        keys = np.unique(codes)
        return keys[keys >= 0]
    seen = np.zeros(top + 1, dtype=bool)
    seen[codes] = True  # -1 lands in the last place, which is cut off
    return np.flatnonzero(seen[:top])


def _places(codes: Indices, keys: Indices) -> Indices:
    """Where each code is among the sorted keys, -1 for -1."""
    if not len(keys) or keys[-1] > 4 * len(codes) + 1024:
        return np.where(codes < 0, NOBODY, np.searchsorted(keys, codes))
    table = np.full(int(keys[-1]) + 2, NOBODY)  # the last place is for -1
    table[keys] = np.arange(len(keys))
    return table[codes]
