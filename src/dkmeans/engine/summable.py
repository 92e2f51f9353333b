"""One part of the rows, of which any groups can be summed exactly."""

from collections.abc import Callable
from threading import Lock
from types import ModuleType

import numpy as np
import scipy.sparse as sp

from dkmeans.engine.grids import Facts, Grids, SquareGrid
from dkmeans.engine.sums import Sums
from dkmeans.engine.tally import by_group
from dkmeans.engine.threads import for_each, sensible_threads, tiles
from dkmeans.kernels.block import Floats, Indices, Matrix, column_magnitudes, most_terms
from dkmeans.kernels.compiled import loops_if
from dkmeans.kernels.exact import most_bits
from dkmeans.kernels.reference import stable_squares
from dkmeans.kernels.tally import add_sums, group_sums, group_totals

_TILE_BYTES = 1 << 23  # a tile and its work arrays should stay near the cache
_MANY = 1 << 15  # rows in a tile, at most
NOBODY = -1


class SummablePart:
    """Rows in memory with their classes and weights.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d), or None
        Never written to. None if it will be there during passes only.
    y : array of shape (n,)
        Classes by number.
    weights : array of shape (n,) or None
        None stands for ones. A row of weight 0 takes part in nothing, but gets a label.
    n_classes : int
    n_threads : int
    memory_mb : float or None
        Bound on the work arrays of all threads together.
    start : int
        Number of the first row among all rows.
    """

    X: Matrix

    def __init__(
        self,
        X: Matrix,
        y: Indices,
        weights: Floats | None,
        *,
        n_classes: int,
        n_threads: int = 1,
        memory_mb: float | None = None,
        start: int = 0,
    ) -> None:
        self.X, self.y, self.weights = X, y, weights
        self.n_classes, self.start = n_classes, start
        self.active = None if weights is None or weights.all() else weights > 0
        self.squares: Floats = np.zeros(len(y))
        self.n_threads, self._memory_mb = sensible_threads(n_threads), memory_mb
        self._tile_bytes = _TILE_BYTES
        if memory_mb is not None:
            self._tile_bytes = min(_TILE_BYTES, int(memory_mb * 2**20 / self.n_threads))
        self._lock = Lock()
        self.loops: ModuleType | None = None
        self.n_terms: int | None = None
        self._n_slices = 3  # until the grids are set
        self.n_features, self._itemsize = 1, 8  # until the rows have been seen
        self._per_row = 1  # values that are stored of a row, about

    def facts(self, compiled: bool) -> Facts:
        """Tell what must be known of all rows before they can be summed."""
        self.loops = loops_if(compiled=compiled)
        self.n_terms = most_terms(self.X)
        self.n_features, self._itemsize = self.X.shape[1], self.X.dtype.itemsize
        n_values = self.X.nnz if sp.issparse(self.X) else self.X.size
        self._per_row = -(-n_values // max(1, self.X.shape[0]))
        positive = np.ones(1) if self.weights is None else self.weights[self.weights > 0]
        return Facts(
            self.X.shape[0],
            self.X.shape[0] if self.active is None else int(self.active.sum()),
            n_values,
            most_terms(self.X),
            *self._magnitudes(),
            float(positive.max(initial=0.0)),
            float(positive.min(initial=np.inf)),
            0 if self.weights is None else most_bits(positive),
            self.active is not None,
        )

    def set_grids(self, grids: Grids, n_terms: int | None) -> None:
        """Take over what was found out about all rows."""
        self.grids, self.n_terms, self._n_slices = grids, n_terms, grids.n_slices
        self._feature_units, self._weight_units = grids.features(), grids.weights()

    def tally_all(self) -> Sums:
        """Sum all rows as one group."""
        return self.sum_codes(np.zeros_like(self.y))

    def sum_codes(self, codes: Indices, rows: Indices | None = None) -> Sums:
        """Sum rows by a code; rows with a code of -1 are left out, and so are distances.

        Parameters
        ----------
        codes : array of shape (m,)
        rows : array of shape (m,), optional
            Which rows; all if not given.
        """
        keys = present(codes)
        s, g, d = self._n_slices, len(keys), self.X.shape[1]
        weights, sums = np.zeros((s, g)), np.zeros((s, g, d))

        def task(tile: slice) -> None:
            order, starts = by_group(codes[tile])
            if not len(order):
                return
            at = np.searchsorted(keys, codes[tile][order[starts]])
            order = order + tile.start if rows is None else rows[tile][order]
            w = self.weights
            part = group_sums(self.X, w, order, starts, self._feature_units, self.loops)
            with self._lock:  # exact sums: the order in which tiles arrive does not matter
                add_sums(sums, at, part)
                if w is None:
                    weights[0, at] += np.diff(np.append(starts, len(order)))
                else:
                    weights[:, at] += group_totals(w, self._weight_units, order, starts)

        self.for_tiles(task, 1, len(codes), weighted=self.weights is not None)
        return Sums(keys, weights, sums, np.zeros((self.grids.n_square_slices, g)))

    def sum_shares(self, codes: Indices, rows: Indices, shares: Floats) -> Sums:
        """Sum some rows by a code, each with a share of its weight, in one more slice."""
        everywhere, groups = np.zeros(len(self.y)), np.full(len(self.y), NOBODY)
        everywhere[rows] = shares if self.weights is None else shares * self.weights[rows]
        groups[rows] = np.where(shares > 0, codes, NOBODY)
        keys = present(groups)
        units, weight_units = self.grids.features(1), self.grids.weights(1)
        s, g, d = self._n_slices + 1, len(keys), self.X.shape[1]
        weights, sums = np.zeros((s, g)), np.zeros((s, g, d))

        def task(tile: slice) -> None:
            order, starts = by_group(groups[tile])
            if not len(order):
                return
            at = np.searchsorted(keys, groups[tile][order[starts]])
            part = group_sums(self.X[tile], everywhere[tile], order, starts, units, self.loops)
            part_weights = group_totals(everywhere[tile], weight_units, order, starts)
            with self._lock:
                add_sums(sums, at, part)
                weights[:, at] += part_weights

        self.for_tiles(task, 1, weighted=True)
        return Sums(keys, weights, sums, np.zeros((s, g)))

    def sum_squares(self, codes: Indices, grid: SquareGrid) -> tuple[Indices, Floats]:
        """Add up squared distances by code, shape (s, g)."""
        keys, units = present(codes), grid.units
        squares = np.zeros((len(units), len(keys)))
        if self.loops and self.weights is None:  # so quick that threads would only cost
            values = grid.rounded(stable_squares(self.squares, self.n_features))
            self.loops.add_totals(values, _places(codes, keys), units, squares)
            return keys, squares

        def task(tile: slice) -> None:
            order, starts = by_group(codes[tile])
            if not len(order):
                return
            at = np.searchsorted(keys, codes[tile][order[starts]])
            w = None if self.weights is None else self.weights[tile]
            values = grid.rounded(stable_squares(self.squares[tile], self.n_features))
            part = group_totals(values, units, order, starts, w)
            with self._lock:
                squares[:, at] += part

        self.for_tiles(task, 1)
        return keys, squares

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
        itemsize, n = self._itemsize, len(self.y)
        if self.loops and self.n_terms is None:  # arrays: no work arrays to speak of
            per_row, most = 256, min(_MANY, -(-n // (2 * self.n_threads)))
        else:
            per_value = itemsize + 8 * (self._n_slices + 3 + 6 * weighted)
            per_row = n_centers * (2 * itemsize + 1) + self._per_row * per_value
            most = min(_MANY, -(-n // (4 * self.n_threads))) if self.loops else 4096
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


def present(codes: Indices) -> Indices:
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
