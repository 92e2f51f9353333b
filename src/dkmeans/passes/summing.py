"""Exact sums over the rows of one part, by group."""

from threading import Lock

import numpy as np
import scipy.sparse as sp

from dkmeans.exact import sparse_sums
from dkmeans.exact.grids import SquareGrid
from dkmeans.exact.group_sums import GroupSums, KeyedSums, by_group
from dkmeans.exact.sparse_sums import Sums
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.reference import stable_squares
from dkmeans.kernels.tally import Scattered, Summed, add_sums, group_sums, group_totals
from dkmeans.passes.part import Part
from dkmeans.passes.row_state import NO_CELL


def sum_rows(part: Part, codes: Indices, rows: Indices | None = None) -> GroupSums:
    """Sum rows by code; rows with code -1 are left out. Squared distances are set to 0.

    Parameters
    ----------
    part : Part
    codes : array of shape (m,)
    rows : array of shape (m,), optional
        Which rows; all if not given.
    """
    keys = present(codes)
    grids, w, loops, lock = part.grids, part.weights, part.loops, Lock()
    feature_units, weight_units = grids.features(), grids.weights()
    s, g, d = grids.n_slices, len(keys), part.n_features
    weights, sums = np.zeros((s, g)), _Summed((s, g, d), part)

    def task(tile: slice) -> None:
        order, starts = by_group(codes[tile])
        if not len(order):
            return
        at = np.searchsorted(keys, codes[tile][order[starts]])
        order = order + tile.start if rows is None else rows[tile][order]
        tile_sums = group_sums(part.X, w, order, starts, feature_units, loops)
        with lock:  # sums are exact, so the order of tiles does not matter
            sums.add(at, tile_sums)
            if w is None:
                weights[0, at] += np.diff(np.append(starts, len(order)))
            else:
                weights[:, at] += group_totals(w, weight_units, order, starts)

    part.for_tiles(task, 1, len(codes), weighted=w is not None)
    return GroupSums(keys, weights, sums.found(), np.zeros((grids.n_square_slices, g)))


def sum_moves(part: Part, before: Indices, after: Indices) -> GroupSums:
    """Sum, by code, the rows that have arrived less those that have left."""
    rows = np.flatnonzero(before != after)
    old, new = before[rows], after[rows]
    top = int(max(old.max(initial=-1), new.max(initial=-1))) + 2
    if top * top <= 4 * len(rows) + 1024 and not sp.issparse(part.X):
        # Few pairs of groups: the rows of each pair are summed once.
        moves = sum_rows(part, (old + 1) * top + new + 1, rows)
        left, arrived = (moves.rekeyed(codes - 1) for codes in divmod(moves.keys, top))
    else:
        left, arrived = (sum_rows(part, codes, rows) for codes in (old, new))
    return GroupSums.merge([arrived, left.negative()])


def sum_shares(part: Part, codes: Indices, rows: Indices, shares: Floats) -> GroupSums:
    """Sum some rows by code, each with a share of its weight, in one more slice."""
    everywhere, groups = np.zeros(len(part)), np.full(len(part), NO_CELL)
    everywhere[rows] = shares if part.weights is None else shares * part.weights[rows]
    groups[rows] = np.where(shares > 0, codes, NO_CELL)
    keys = present(groups)
    grids, loops, lock = part.grids, part.loops, Lock()
    units, weight_units = grids.features(1), grids.weights(1)
    s, g, d = grids.n_slices + 1, len(keys), part.n_features
    weights, sums = np.zeros((s, g)), _Summed((s, g, d), part)

    def task(tile: slice) -> None:
        order, starts = by_group(groups[tile])
        if not len(order):
            return
        at = np.searchsorted(keys, groups[tile][order[starts]])
        tile_sums = group_sums(part.X[tile], everywhere[tile], order, starts, units, loops)
        tile_weights = group_totals(everywhere[tile], weight_units, order, starts)
        with lock:
            sums.add(at, tile_sums)
            weights[:, at] += tile_weights

    part.for_tiles(task, 1, weighted=True)
    return GroupSums(keys, weights, sums.found(), np.zeros((s, g)))


def sum_squares(part: Part, squares: Floats, codes: Indices, grid: SquareGrid) -> KeyedSums:
    """Sum weighted squared distances by code."""
    keys, units = present(codes), grid.units
    found, lock = np.zeros((len(units), len(keys))), Lock()
    d, loops = part.n_features, part.loops
    if loops and part.weights is None:  # too fast for threads to pay off
        values = grid.rounded(stable_squares(squares, d))
        loops.add_totals(values, _positions(codes, keys), units, found)
        return KeyedSums(keys, found)

    def task(tile: slice) -> None:
        order, starts = by_group(codes[tile])
        if not len(order):
            return
        at = np.searchsorted(keys, codes[tile][order[starts]])
        w = None if part.weights is None else part.weights[tile]
        values = grid.rounded(stable_squares(squares[tile], d))
        totals = group_totals(values, units, order, starts, w)
        with lock:
            found[:, at] += totals

    part.for_tiles(task, 1)
    return KeyedSums(keys, found)


class _Summed:
    """Sums of the groups of a part: without zeros if its rows are sparse and groups are many."""

    def __init__(self, shape: tuple[int, int, int], part: Part) -> None:
        is_sparse = sp.issparse(part.X) and np.prod(shape) >= sparse_sums.MIN_SPARSE_VALUES
        self._builder = sparse_sums.SumBuilder(shape) if is_sparse else None
        self._array = np.zeros((0,) if is_sparse else shape)

    def add(self, at: Indices, sums: Summed) -> None:
        """Add the sums of some groups."""
        if self._builder is not None:
            assert isinstance(sums, Scattered)
            self._builder.add(at, sums)
        else:
            add_sums(self._array, at, sums)

    def found(self) -> Sums:
        """Return the sums."""
        return self._array if self._builder is None else self._builder.sums()


def present(codes: Indices) -> Indices:
    """Return the sorted distinct codes, without -1."""
    top = int(codes.max(initial=-1)) + 1
    if top > 4 * len(codes) + 1024:
        keys = np.unique(codes)
        return keys[keys >= 0]
    seen = np.zeros(top + 1, dtype=bool)
    seen[codes] = True  # -1 sets the last entry, which is dropped
    return np.flatnonzero(seen[:top])


def _positions(codes: Indices, keys: Indices) -> Indices:
    """Return the position of each code among sorted keys; -1 for code -1."""
    if not len(keys) or keys[-1] > 4 * len(codes) + 1024:
        return np.where(codes < 0, NO_CELL, np.searchsorted(keys, codes))
    table = np.full(int(keys[-1]) + 2, NO_CELL)  # the last entry is for -1
    table[keys] = np.arange(len(keys))
    return table[codes]
