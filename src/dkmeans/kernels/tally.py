"""Exact sums over groups of rows."""

from dataclasses import dataclass
from types import ModuleType
from typing import Self, TypeAlias

import numpy as np
import scipy.sparse as sp

from dkmeans.kernels.block import Floats, Indices, Matrix
from dkmeans.kernels.compiled import loops_in_use
from dkmeans.kernels.exact import cut, grid_units, product, slice_count, total


@dataclass(frozen=True)
class Scattered:
    """Sums over groups of sparse rows, stored as terms: far fewer than groups times columns."""

    groups: Indices  # shape (m,): position in the list of groups
    columns: Indices  # shape (m,)
    slices: Floats  # shape (n_slices, m)


Summed: TypeAlias = Floats | Scattered


def add_sums(sums: Floats, at: Indices, part: Summed, sign: int = 1) -> None:
    """Add the sums of some groups to the sums of all groups, or subtract arrays of sums.

    Parameters
    ----------
    sums : array of shape (n_slices, n_all, d)
        INOUT. Contiguous.
    at : array of shape (n_groups,)
        IN. Indices of these groups among all, ascending.
    part : Summed
        IN. Result of `group_sums`: exact in any order.
    sign : int
        IN. 1 or -1.
    """
    if not isinstance(part, Scattered):
        side_by_side, loops = len(at) == at[-1] + 1 - at[0], loops_in_use()
        if loops is not None and not side_by_side:
            loops.add_groups(sums, at, np.ascontiguousarray(part), float(sign))
            return
        those = slice(at[0], at[-1] + 1) if side_by_side else at
        if sign > 0:
            sums[:, those] += part
        else:
            sums[:, those] -= part
        return
    places = at[part.groups] * sums.shape[2] + part.columns
    for level, piece in zip(sums, part.slices, strict=True):
        np.add.at(level.reshape(-1), places, piece)


def group_sums(
    X: Matrix,
    weights: Floats | None,
    order: Indices,
    starts: Indices,
    units: Floats,
    loops: ModuleType | None = None,
) -> Summed:
    """Sum weight times row over groups of rows.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    weights : array of shape (n,) or None
        None means ones.
    order, starts : arrays
        Row indices sorted by group, and the start of each group in them.
    units : array of shape (n_slices, d)
        See `kernels.exact`.
    loops : module, optional
        `kernels.loops`; NumPy is used if not given.

    Returns
    -------
    sums : array of shape (n_slices, n_groups, d), or Scattered for a CSR matrix
        Exact sums of slices, for `add_sums`.
    """
    if sp.issparse(X):
        return _group_sums_sparse(X, weights, order, starts, units)
    if loops is not None:
        sums = np.zeros((len(units), len(starts), X.shape[1]))
        groups = order, np.append(starts[1:], len(order))
        if weights is None:
            loops.group_sums(X, *groups, units, sums)
        else:
            loops.weighted_group_sums(X, weights, *groups, units, sums)
        return sums
    values = X[order].astype(np.float64)
    if weights is None:
        slices = cut(values, units)
    else:
        scaled, rest = product(values, np.broadcast_to(weights[order][:, None], values.shape))
        slices = cut(scaled, units, rest)
    return np.add.reduceat(slices, starts, axis=1)


def _group_sums_sparse(
    X: Matrix, weights: Floats | None, order: Indices, starts: Indices, units: Floats
) -> Scattered:
    rows = X[order]
    values = rows.data.astype(np.float64)[:, None]
    units = units[:, rows.indices, None]
    rest = None
    if weights is not None:
        values, rest = product(values, np.repeat(weights[order], np.diff(rows.indptr))[:, None])
    return _scattered(cut(values, units, rest)[:, :, 0], rows, starts)


def group_totals(
    values: Floats, units: Floats, order: Indices, starts: Indices, weights: Floats | None = None
) -> Floats:
    """Sum one value per row, times its weight, over groups; shape (n_slices, n_groups)."""
    column, rest = values[order][:, None], None
    if weights is not None:
        column, rest = product(column, weights[order][:, None])
    return np.add.reduceat(cut(column, units, rest)[:, :, 0], starts, axis=1)


@dataclass(frozen=True)
class TotalsGrid:
    """Grid on which non-negative values are summed exactly, in any order and grouping."""

    exponent: int  # all values are below 2^exponent
    units: Floats

    @classmethod
    def of(cls, values: Floats, n_values: int) -> Self:
        """Choose a grid for so many values, which are among some that are not all zero.

        Values are rounded to 2^-160 of the largest.
        """
        largest = values.max()
        bits = 54 + int(np.ceil(np.log2(largest) - np.log2(values[values > 0].min())))
        units = grid_units(np.ones(1), n_values, slice_count(n_values, min(bits, 160)))
        return cls(int(np.frexp(largest)[1]), units)

    def slices(
        self, groups: Indices, values: Floats, n_groups: int, counts: Indices | None = None
    ) -> Floats:
        """Sum values by group, each of them `counts` times; slices of sums can be added up."""
        rest = np.ldexp(values, -self.exponent)  # at most 1, so that nothing overflows
        slices = []
        for unit in self.units:
            piece = cut(rest[:, None], unit[None])[0, :, 0]
            slices.append(np.bincount(groups, _times(piece, counts), n_groups))
            rest -= piece
        return np.array(slices, dtype=np.float64)

    def totals(self, slices: Floats) -> Floats:
        """Return the sums."""
        with np.errstate(over="ignore"):  # the sum is infinite then
            return np.asarray(np.ldexp(total(slices)[0], self.exponent))


def exact_totals(
    groups: Indices, values: Floats | None, n_groups: int, counts: Indices | None = None
) -> Floats:
    """Sum non-negative values by group like `np.bincount`, independently of their order.

    Parameters
    ----------
    groups : array of shape (n,)
    values : array of shape (n,) or None
        None means ones. Values are rounded to 2^-160 of the largest.
    n_groups : int
    counts : array of shape (n,), optional
        How often each of the values occurs; once by default.
    """
    if values is None or not values.any():
        each = values if counts is None or values is not None else counts
        return np.bincount(groups, each, n_groups).astype(np.float64)
    grid = TotalsGrid.of(values, len(values) if counts is None else int(counts.sum()))
    return grid.totals(grid.slices(groups, values, n_groups, counts))


def _times(values: Floats, counts: Indices | None) -> Floats:
    return values if counts is None else values * counts


def add_gaps(own: Indices, rival: Indices, values: Floats, centers: Floats, out: Floats) -> None:
    """Add multiples of the gap between two centres to one of them, and subtract from the other.

    Parameters
    ----------
    own, rival : arrays of shape (m,)
        Indices of the centres of each pair.
    values : array of shape (m,)
        Multiples of the gap from `rival` to `own`.
    centers : array of shape (k, d)
    out : array of shape (k, d)
        INOUT. Pairs are added in their order.
    """
    loops = loops_in_use()
    if loops is not None:
        loops.add_gaps(own, rival, values, centers, out)
        return
    steps = values[:, None] * (centers[own] - centers[rival])
    # As `np.add.at` does, but faster: `bincount` adds terms of the same place in their order.
    k, d = out.shape
    rows = np.concatenate([np.arange(k), own, rival])
    places = (d * rows[:, None] + np.arange(d)).ravel()
    terms = np.concatenate([out, steps, -steps]).ravel()
    out[:] = np.bincount(places, terms, k * d).reshape(k, d)


def rounded_sums(
    X: Matrix,
    shift: Floats,
    coefficients: Floats,
    weights: Floats | None,
    order: Indices,
    starts: Indices,
    units: Floats,
    loops: ModuleType | None = None,
) -> Summed:
    """Sum weight times round(coefficient * (row - shift)) over groups, rounding to a grid.

    The sums are exact in any order (see `kernels.exact`) if weights are integers.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    shift : array of shape (d,)
        Zero in columns where a row of a CSR matrix stores no value, so that missing values add
        nothing, as zeros of an array do.
    coefficients : array of shape (n,)
    weights : array of shape (n,) or None
        None means ones.
    order, starts : arrays
        Row indices sorted by group, and the start of each group in them.
    units : array of shape (n_slices, d)
    loops : module, optional
        `kernels.loops`; NumPy is used if not given.

    Returns
    -------
    sums : array of shape (n_slices, n_groups, d), or Scattered for a CSR matrix
    """
    if sp.issparse(X):
        return _rounded_sums_sparse(X, shift, coefficients, weights, order, starts, units)
    if loops is not None:
        sums = np.zeros((len(units), len(starts), X.shape[1]))
        ends = np.append(starts[1:], len(order))
        weights = np.ones(len(coefficients)) if weights is None else weights
        loops.rounded_sums(X, shift, coefficients, weights, order, ends, units, sums)
        return sums
    terms = X[order].astype(np.float64)
    terms -= shift
    terms *= coefficients[order][:, None]
    slices = cut(terms, units)
    if weights is not None:
        slices *= weights[order][:, None]
    return np.add.reduceat(slices, starts, axis=1)


def _rounded_sums_sparse(
    X: Matrix,
    shift: Floats,
    coefficients: Floats,
    weights: Floats | None,
    order: Indices,
    starts: Indices,
    units: Floats,
) -> Scattered:
    rows = X[order]
    lengths = np.diff(rows.indptr)
    terms = rows.data.astype(np.float64)
    terms -= shift[rows.indices]
    terms *= np.repeat(coefficients[order], lengths)
    slices = cut(terms[:, None], units[:, rows.indices, None])[:, :, 0]
    if weights is not None:
        slices *= np.repeat(weights[order], lengths)
    return _scattered(slices, rows, starts)


def _scattered(slices: Floats, rows: Matrix, starts: Indices) -> Scattered:
    """Attach the group and the column to slices of stored values."""
    ends = rows.indptr[np.append(starts, rows.shape[0])]
    groups = np.repeat(np.arange(len(starts)), np.diff(ends))
    return Scattered(groups, rows.indices, slices)
