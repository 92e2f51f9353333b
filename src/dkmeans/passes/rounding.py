"""Exact sums of a value per row: values are rounded to a grid before they are added."""

from threading import Lock

import numpy as np
import numpy.typing as npt

from dkmeans.exact.group_sums import by_group, run_starts
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.exact import cut
from dkmeans.kernels.tally import add_sums, rounded_sums
from dkmeans.passes.part import Part


def sum_values(part: Part, values: Floats, rows: Indices, units: Floats) -> Floats:
    """Sum a value per row, times the row's weight, in slices."""
    return _terms(part, values, rows, units).sum(axis=1)


def sum_values_by(
    part: Part,
    index: Indices | npt.NDArray[np.int32],
    count: int,
    values: Floats,
    rows: Indices,
    units: Floats,
) -> Floats:
    """Sum a value per row, times the row's weight, by index; shape (n_slices, count)."""
    terms = _terms(part, values, rows, units)
    return np.array([np.bincount(index, piece, count) for piece in terms], dtype=np.float64)


def bound_values(part: Part, values: Floats, rows: Indices) -> float:
    """Return the largest magnitude of the terms rounded in sums of these values."""
    factors, _ = split_weights(part, rows)
    values = values if factors is None else values * factors
    return float(np.abs(values).max(initial=0.0))


def add_shifted_rows(
    part: Part,
    rows: Indices,
    index: npt.NDArray[np.int32],
    coefficients: Floats,
    shift: Floats,
    units: Floats,
    sums: Floats,
) -> None:
    """Add coefficients times (rows - shift) to sums, by index.

    Parameters
    ----------
    part : Part
    rows, index, coefficients : arrays of shape (m,)
    shift : array of shape (d,)
    units : array
        Of the products.
    sums : array of shape (n_slices, k, d)
        INOUT.
    """
    factors, times = split_weights(part, rows)
    everywhere, codes = np.zeros(len(part)), index.astype(np.intp)
    everywhere[rows] = coefficients if factors is None else coefficients * factors
    weights, loops, lock = None, part.loops, Lock()
    if times is not None:
        weights = np.zeros(len(part))
        weights[rows] = times

    # Rows are sorted before they are split into tiles, so that few tiles sum the same group.
    order, _ = by_group(codes)
    codes, places = codes[order], rows[order]

    def task(tile: slice) -> None:
        starts = run_starts(codes[tile])
        groups = codes[tile][starts]
        tile_sums = rounded_sums(
            part.X, shift, everywhere, weights, places[tile], starts, units, loops
        )
        with lock:  # sums are exact, so the order of tiles does not matter
            add_sums(sums, groups, tile_sums)

    part.for_tiles(task, 1, len(places))


def multiples(weights: Floats, factors: Floats) -> Floats:
    """Divide weights by factors, and round to integers; 0 where both are 0."""
    return np.rint(np.divide(weights, factors, out=np.zeros_like(weights), where=factors > 0))


def split_weights(part: Part, rows: Indices) -> tuple[Floats | None, Floats | None]:
    """Split weights into factors applied before rounding and integer factors applied after it.

    An integer factor is the number of copies of the row.
    """
    if part.weights is None:
        return None, None
    scale = part.scale
    weights = part.weights[rows]
    if not scale.whole:
        return weights, None
    if scale.by_class is None:
        return None, weights
    factors = scale.by_class[part.given[rows]]
    return factors, multiples(weights, factors)


def _terms(part: Part, values: Floats, rows: Indices, units: Floats) -> Floats:
    """Weight values, and round them so that their sums are exact in any order.

    Returns
    -------
    terms : array of shape (n_slices, n_rows)
    """
    factors, times = split_weights(part, rows)
    values = values if factors is None else values * factors
    rounded = cut(values[:, None], units)[:, :, 0]
    return rounded if times is None else rounded * times
