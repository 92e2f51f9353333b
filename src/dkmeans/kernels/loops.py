"""The inner loops, compiled by numba: what NumPy does in several passes over its work arrays.

Each gives the same bits as the NumPy code that it stands in for: the same operations in the same
order, without fused or reordered ones. `kernels.compiled` decides when they are used.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
import numpy.typing as npt

from dkmeans.kernels.block import Floats, Indices

_Function = TypeVar("_Function", bound=Callable[..., Any])
_ANCHOR = 1.5 * 2.0**52  # adding it times a unit, and taking it away, rounds to that unit


def _compiled(function: _Function) -> _Function:
    """Compile lazily, without the GIL, and keep the result on disk if there is a place for it."""
    try:
        jitted = numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:  # nowhere to write
        jitted = numba.njit(nogil=True)(function)
    return jitted


@_compiled
def squared_distances(
    rows: npt.NDArray[np.floating],
    centers: npt.NDArray[np.floating],
    labels: Indices,
    out: Floats,
) -> None:
    """Write the squared distance of each row to the centre with its label."""
    for i in range(rows.shape[0]):
        center = labels[i]
        total = 0.0
        for j in range(rows.shape[1]):
            difference = np.float64(rows[i, j]) - np.float64(centers[center, j])
            total += difference * difference
        out[i] = total


@_compiled
def group_sums(
    X: npt.NDArray[np.floating], order: Indices, ends: Indices, units: Floats, out: Floats
) -> None:
    """Add up slices of rows, group by group; see `kernels.tally.group_sums`."""
    n_slices, d = units.shape
    start = 0
    for g in range(len(ends)):
        for at in range(start, ends[g]):
            row = order[at]
            for j in range(d):
                rest = np.float64(X[row, j])
                for s in range(n_slices):
                    anchor = _ANCHOR * units[s, j]
                    piece = (rest + anchor) - anchor
                    out[s, g, j] += piece
                    rest -= piece
        start = ends[g]


@_compiled
def rounded_sums(
    X: npt.NDArray[np.floating],
    shift: Floats,
    coefficients: Floats,
    order: Indices,
    ends: Indices,
    units: Floats,
    out: Floats,
) -> None:
    """Add up coefficients times rows less a shift, rounded; see `kernels.tally.rounded_sums`."""
    anchors = _ANCHOR * units
    start = 0
    for g in range(len(ends)):
        for at in range(start, ends[g]):
            row = order[at]
            coefficient = coefficients[row]
            for j in range(X.shape[1]):
                term = (np.float64(X[row, j]) - shift[j]) * coefficient
                out[g, j] += (term + anchors[j]) - anchors[j]
        start = ends[g]
