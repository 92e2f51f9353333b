"""Exact sums over groups of rows."""

from types import ModuleType

import numpy as np
import scipy.sparse as sp

from dkmeans.kernels.block import Floats, Indices, Matrix
from dkmeans.kernels.exact import cut, product


def group_sums(
    X: Matrix,
    weights: Floats | None,
    order: Indices,
    starts: Indices,
    units: Floats,
    loops: ModuleType | None = None,
) -> Floats:
    """Sum weight times row over groups of rows.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    weights : array of shape (n,) or None
        None stands for ones.
    order, starts : arrays
        Row numbers sorted by group, and where each group starts in them.
    units : array of shape (n_slices, d)
        See `kernels.exact`.
    loops : module, optional
        `kernels.loops`, where it is to be used.

    Returns
    -------
    sums : array of shape (n_slices, n_groups, d)
        Exact sums of slices.
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
) -> Floats:
    rows = X[order]
    values = rows.data.astype(np.float64)[:, None]
    units = units[:, rows.indices, None]
    rest = None
    if weights is not None:
        values, rest = product(values, np.repeat(weights[order], np.diff(rows.indptr))[:, None])
    sums = np.empty((len(units), len(starts), X.shape[1]))
    ends = rows.indptr[np.append(starts, len(order))]
    for level, piece in enumerate(cut(values, units, rest)):
        grouped = sp.csr_array((piece[:, 0], rows.indices, ends), shape=(len(starts), X.shape[1]))
        sums[level] = grouped.toarray()  # adds up entries of one column; exact in any order
    return sums


def group_totals(
    values: Floats, units: Floats, order: Indices, starts: Indices, weights: Floats | None = None
) -> Floats:
    """Sum one value per row, times its weight, over groups; shape (n_slices, n_groups)."""
    column, rest = values[order][:, None], None
    if weights is not None:
        column, rest = product(column, weights[order][:, None])
    return np.add.reduceat(cut(column, units, rest)[:, :, 0], starts, axis=1)


def rounded_sums(
    X: Matrix,
    shift: Floats | None,
    coefficients: Floats,
    weights: Floats | None,
    order: Indices,
    starts: Indices,
    units: Floats,
    loops: ModuleType | None = None,
) -> Floats:
    """Sum coefficient times (row less shift), rounded to a grid, times weight over groups.

    The sums are exact in any order, as `kernels.exact` explains, if weights are whole numbers.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    shift : array of shape (d,) or None
        None for CSR rows, which must stay sparse.
    coefficients : array of shape (n,)
    weights : array of shape (n,) or None
        None stands for ones.
    order, starts : arrays
        Row numbers sorted by group, and where each group starts in them.
    units : array of shape (d,)
    loops : module, optional
        `kernels.loops`, where it is to be used.

    Returns
    -------
    sums : array of shape (n_groups, d)
    """
    anchor = units * (1.5 * 2.0**52)
    if sp.issparse(X):
        rows = X[order]
        lengths = np.diff(rows.indptr)
        terms = rows.data * np.repeat(coefficients[order], lengths)
        terms += anchor[rows.indices]
        terms -= anchor[rows.indices]
        if weights is not None:
            terms *= np.repeat(weights[order], lengths)
        ends = rows.indptr[np.append(starts, len(order))]
        return sp.csr_array((terms, rows.indices, ends), shape=(len(starts), X.shape[1])).toarray()
    if loops is not None:
        sums = np.zeros((len(starts), X.shape[1]))
        ends = np.append(starts[1:], len(order))
        weights = np.ones(len(coefficients)) if weights is None else weights
        loops.rounded_sums(X, shift, coefficients, weights, order, ends, units, sums)
        return sums
    terms = X[order].astype(np.float64)
    terms -= shift
    terms *= coefficients[order][:, None]
    terms += anchor
    terms -= anchor
    if weights is not None:
        terms *= weights[order][:, None]
    return np.add.reduceat(terms, starts, axis=0)
