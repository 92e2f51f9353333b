"""What a block of rows is: a 2-D array or a CSR matrix, float32 or float64."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

# A 2-D array or a CSR matrix; type checkers know nothing of the latter.
Matrix: TypeAlias = Any
Floats: TypeAlias = npt.NDArray[np.float64]
Indices: TypeAlias = npt.NDArray[np.intp]


def dense_rows(X: Matrix, rows: Indices | slice) -> npt.NDArray[np.floating]:
    """Take rows of a block as a dense array in its own type."""
    taken = X[rows]
    return taken.toarray() if sp.issparse(taken) else taken


def column_range(X: Matrix) -> tuple[Floats, Floats]:
    """Smallest and largest value of each column of a block, as float64."""
    if sp.issparse(X):
        low, high = X.min(axis=0).toarray().ravel(), X.max(axis=0).toarray().ravel()
    else:
        low, high = X.min(axis=0), X.max(axis=0)
    return low.astype(np.float64), high.astype(np.float64)
