"""Projections of standardised rows that are exact, so that every way of computing them agrees.

Standardised values are multiples of `GRID`, at most `RANGE` in magnitude: 2**26 units. A column of
the projection is rounded to a grid on which its magnitudes sum to about 2**26 units at most. Every
sum of some of their products is then a whole number of units below 2**53, which float64 holds
exactly: BLAS may add the terms in any order and with any number of threads, blocks may have any
size, and sparse rows give the same bits as dense ones.

Values beyond the range, which only far outliers and rows unlike all training rows have, are on
the same grid, but their products are added over the features in order. So are values up to
`SATURATION`, and larger ones count as that: no square of a projected row overflows.
"""

from types import ModuleType

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dkmeans.kernels.block import Floats, Indices, Matrix

GRID = 2.0**-16  # of standardised values: multiples of a standard deviation
RANGE = 2.0**10  # largest magnitude on the fast path
SATURATION = 2.0**64  # larger magnitudes count as this
COLUMN_BITS = 26  # bits of the sum of a column's magnitudes
MIN_UNIT = -500  # exponent of the smallest unit of a column: products do not underflow
MAX_COMPONENT = 2.0**64  # squares of projected rows do not overflow


def round_projection(components: npt.NDArray[np.floating]) -> Floats:
    """Round each column of a projection, shape (d, p), to a grid on which products are exact."""
    values = np.asarray(components, dtype=np.float64)
    sums = _magnitudes(values)
    units = np.ldexp(1.0, np.maximum(np.frexp(sums)[1] - COLUMN_BITS, MIN_UNIT))
    return np.rint(values / units) * units + 0.0


def is_rounded(components: Floats) -> bool:
    """Return whether the products of a projection are exact, as those of a rounded one are."""
    if not (np.abs(components) <= MAX_COMPONENT).all():
        return False
    sums = _magnitudes(components)
    # Rounding may have raised the sums of magnitudes a little, beyond a power of two.
    units = np.ldexp(1.0, np.maximum(np.frexp(sums)[1] - 1 - COLUMN_BITS, MIN_UNIT))
    return bool((np.rint(components / units) == components / units).all())


def _magnitudes(components: Floats) -> Floats:
    """Sum the magnitudes of each column in the order of the features."""
    # The sums of several columns are added row by row, which takes the least time. A single one
    # would be added in pairs.
    rows = np.ascontiguousarray(np.abs(components))
    if rows.shape[1] == 1:
        return np.asarray(np.add.accumulate(rows, axis=0)[-1])
    return np.asarray(np.add.reduce(rows, axis=0))


def standardise(X: Matrix, shift: Floats, scale: Floats) -> Matrix:
    """Compute (X - shift) / scale in float64, rounded to the grid; 0 where the scale is 0.

    CSR rows stay sparse if there is no shift.
    """
    units, _ = _in_units(X, shift, grid_factors(scale))
    if sp.issparse(units):
        units.data *= GRID
    else:
        units *= GRID
    return units


def project_rows(
    X: Matrix,
    shift: Floats,
    scale: Floats,
    components: Floats,
    loops: ModuleType | None = None,
) -> Floats:
    """Standardise rows, and multiply them by a rounded projection.

    `loops` is `kernels.loops`, or None to use NumPy.
    """
    units, in_range = _in_units(X, shift, grid_factors(scale), loops)
    result: Floats = units @ components
    if not in_range:
        far = _rows_out_of_range(units)
        rows = units[far]
        result[far] = _project_in_order(rows.toarray() if sp.issparse(rows) else rows, components)
    result *= GRID
    result += 0.0  # the sign of a zero sum depends on the order of its terms
    return result


def grid_factors(scale: Floats) -> Floats:
    """Return the factors from centred values to units of the grid; 0 where the scale is 0."""
    return np.divide(1 / GRID, scale, out=np.zeros_like(scale), where=scale > 0)


def _in_units(
    X: Matrix, shift: Floats, factors: Floats, loops: ModuleType | None = None
) -> tuple[Matrix, bool]:
    """Return standardised rows in whole units of the grid, and whether all are in range."""
    if loops is not None and not sp.issparse(X):
        units = np.empty(X.shape)
        if not loops.to_units(X, shift, factors, RANGE / GRID, units):
            return units, True
    is_shifted = bool(shift.any())
    if sp.issparse(X) and not is_shifted:
        values = X.data.astype(np.float64)
        in_range = _round(values, factors[X.indices])
        return sp.csr_array((values, X.indices, X.indptr), shape=X.shape), in_range
    values = (X.toarray() if sp.issparse(X) else X).astype(np.float64)
    if is_shifted:
        with np.errstate(over="ignore"):  # infinities saturate
            values -= shift
    return values, _round(values, factors)


def _round(values: Floats, factors: Floats) -> bool:
    """Scale, round and saturate centred values, IN and OUT; return whether all are in range."""
    with np.errstate(over="ignore"):
        values *= factors
    np.rint(values, out=values)
    most = max(values.max(initial=0.0), -values.min(initial=0.0)) * GRID
    if most > SATURATION:
        np.clip(values, -SATURATION / GRID, SATURATION / GRID, out=values)
    return bool(most <= RANGE)


def _project_in_order(rows: Floats, components: Floats) -> Floats:
    """Add the products over the features in order."""
    sums = np.zeros((len(rows), components.shape[1]))
    for column, weights in zip(np.ascontiguousarray(rows.T), components, strict=True):
        sums += column[:, None] * weights
    return sums


def _rows_out_of_range(units: Matrix) -> Indices:
    """Find rows with values out of range, in units of the grid."""
    if sp.issparse(units):
        wide = np.flatnonzero(np.abs(units.data) > RANGE / GRID)
        return np.unique(np.searchsorted(units.indptr, wide, side="right") - 1)
    return np.flatnonzero((np.abs(units) > RANGE / GRID).any(axis=1))
