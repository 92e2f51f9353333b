"""Blocks of rows: a 2-D array or a CSR matrix, float32 or float64."""

from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

# A 2-D array or a CSR matrix; SciPy has no type stubs for the latter.
Matrix: TypeAlias = Any
Floats: TypeAlias = npt.NDArray[np.float64]
Indices: TypeAlias = npt.NDArray[np.intp]


def dense_rows(X: Matrix, rows: Indices | slice) -> npt.NDArray[np.floating]:
    """Return rows of a block as a dense array of the same dtype."""
    taken = X[rows]
    return taken.toarray() if sp.issparse(taken) else taken


def max_row_values(X: Matrix) -> int | None:
    """Return the largest number of values stored in a row of a CSR matrix; None for an array."""
    return int(np.diff(X.indptr).max(initial=0)) if sp.issparse(X) else None


def column_magnitudes(X: Matrix, loops: ModuleType | None = None) -> tuple[Floats, Floats]:
    """Return the largest and the smallest non-zero magnitude of each column, as float64.

    `loops` is `kernels.loops`, or None to use NumPy.
    """
    if sp.issparse(X):
        values = np.abs(X.data.astype(np.float64))
        largest, smallest = np.zeros(X.shape[1]), np.full(X.shape[1], np.inf)
        np.maximum.at(largest, X.indices, values)
        np.minimum.at(smallest, X.indices, np.where(values > 0, values, np.inf))
        return largest, smallest
    if loops is not None:
        unsigned = np.dtype(f"u{X.dtype.itemsize}").type
        both = np.zeros((2, X.shape[1]), dtype=unsigned)
        both[1] -= unsigned(1)
        sign = unsigned(1 << (8 * X.dtype.itemsize - 1))
        loops.magnitudes(X.view(unsigned), sign, *both)
        none = both[1] == ~unsigned(0)
        both[1] += unsigned(1)
        largest, smallest = both.view(X.dtype).astype(np.float64)
        return largest, np.where(none, np.inf, smallest)
    values = np.abs(X)
    largest = values.max(axis=0).astype(np.float64)
    return largest, np.min(values, axis=0, initial=np.inf, where=values > 0).astype(np.float64)
