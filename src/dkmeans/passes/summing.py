"""Exact sums over the rows of one part, by group."""

from dataclasses import replace
from threading import Lock

import numpy as np
import scipy.sparse as sp

from dkmeans.exact import sparse_sums
from dkmeans.exact.grids import SquareGrid
from dkmeans.exact.group_sums import GroupSums, KeyedSums, by_group, run_starts
from dkmeans.exact.sparse_sums import Sums
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.reference import stable_squares
from dkmeans.kernels.tally import Scattered, Summed, add_sums, group_sums, group_totals
from dkmeans.passes.part import Part
from dkmeans.passes.row_state import NO_CELL

SORTED_ROWS = 128  # rows per group below which rows are sorted by group before they are summed


def sum_rows(part: Part, codes: Indices, rows: Indices | None = None) -> GroupSums:
    """Sum rows by code; rows with code -1 are left out. Squared distances are set to 0.

    Parameters
    ----------
    part : Part
    codes : array of shape (m,)
    rows : array of shape (m,), optional
        Which rows; all if not given.
    """
    sums = _RowSums(part, present(codes))
    sums.add(codes, rows)
    return sums.found()


def sum_moves(part: Part, before: Indices, after: Indices) -> GroupSums:
    """Sum, by code, the rows that have arrived less those that have left."""
    rows = np.flatnonzero(before != after)
    old, new = before[rows], after[rows]
    top = int(max(old.max(initial=-1), new.max(initial=-1))) + 2
    if top * top <= 4 * len(rows) + 1024 and not sp.issparse(part.X):
        # Few pairs of groups: the rows of each pair are summed once.
        moves = sum_rows(part, (old + 1) * top + new + 1, rows)
        left, arrived = (moves.rekeyed(codes - 1) for codes in divmod(moves.keys, top))
        return GroupSums.merge([arrived, left.negative()])
    sums = _RowSums(part, present(np.concatenate([old, new])))
    sums.add(new, rows)
    sums.add(old, rows, sign=-1)
    return sums.found()


class _RowSums:
    """Sums of rows of a part by key."""

    def __init__(self, part: Part, keys: Indices) -> None:
        self._part, self._keys = part, keys
        s, g = part.grids.n_slices, len(keys)
        self._weights, self._sums = np.zeros((s, g)), _Summed((s, g, part.n_features), part)

    def add(self, codes: Indices, rows: Indices | None = None, sign: int = 1) -> None:
        """Add rows by code, or subtract them; all by default. Rows with code -1 are left out."""
        part, weights, lock = self._part, self._weights, Lock()
        w, feature_units, weight_units = part.weights, part.grids.features(), part.grids.weights()
        # Each tile has sums of its own groups: let it have few groups if these have few rows.
        sort = len(codes) < SORTED_ROWS * len(self._keys)
        whole = by_group(codes)[0] if sort else None

        def task(tile: slice) -> None:
            if whole is None:
                order, starts = by_group(codes[tile])
                order = order + tile.start
            else:
                order = whole[tile]
                starts = run_starts(codes[order])
            if not len(order):
                return
            at = np.searchsorted(self._keys, codes[order[starts]])
            order = order if rows is None else rows[order]
            tile_sums = group_sums(part.X, w, order, starts, feature_units, part.loops)
            with lock:  # sums are exact, so the order of tiles does not matter
                self._sums.add(at, tile_sums, sign)
                if w is None:
                    weights[0, at] += sign * np.diff(np.append(starts, len(order)))
                else:
                    weights[:, at] += sign * group_totals(w, weight_units, order, starts)

        n_rows = len(codes if whole is None else whole)
        part.for_tiles(task, 1, n_rows, weighted=w is not None)

    def found(self) -> GroupSums:
        """Return the sums; squared distances are set to 0."""
        squares = np.zeros((self._part.grids.n_square_slices, len(self._keys)))
        return GroupSums(self._keys, self._weights, self._sums.found(), squares)


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

    def add(self, at: Indices, sums: Summed, sign: int = 1) -> None:
        """Add the sums of some groups, or subtract them."""
        if isinstance(sums, Scattered) and sign < 0:
            sums = replace(sums, slices=-sums.slices)
        if self._builder is not None:
            assert isinstance(sums, Scattered)
            self._builder.add(at, sums)
        else:
            add_sums(self._array, at, sums, sign)

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
