"""Vectors of length one, for the cosine: among them, Euclidean and angular nearness agree.

A vector that is of length one to rounding is left as it is, so that doing it twice changes nothing:
a prototype put on a row stays on it. A vector of zeros has no direction and stays at zero.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dkmeans.kernels.block import Floats, Indices, Matrix
from dkmeans.kernels.reference import inner_products

_ROWS = 4096  # that are worked on together
NEAR = 4  # units of the type's rounding by which a length may be off


def unit_rows(X: Matrix) -> Matrix:
    """Scale each row of a matrix to length one, in its own type; `X` itself is not touched."""
    if sp.issparse(X):
        scaled = X.copy()
        # One row's values at a time would be slow, and padding them costs nothing but zeros.
        counts = np.diff(X.indptr)
        for start in range(0, X.shape[0], _ROWS):
            part = counts[start : start + _ROWS]
            there = np.arange(part.max(initial=0)) < part[:, None]
            values = np.zeros(there.shape, dtype=X.dtype)
            span = slice(X.indptr[start], X.indptr[start + len(part)])
            values[there] = X.data[span]
            scaled.data[span] = unit_vectors(values, X.dtype)[there]
        return scaled
    result = np.empty(X.shape, dtype=X.dtype)
    for start in range(0, len(X), _ROWS):
        part = slice(start, start + _ROWS)
        result[part] = unit_vectors(X[part], X.dtype)
    return result


def unit_vectors(vectors: npt.NDArray[np.floating], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Divide each vector by its length, which is taken in float64, over features in order."""
    if not vectors.size:
        return vectors.astype(dtype)
    values = vectors.astype(np.float64)
    scaled, lengths, exponents = _measured(values)
    near = np.abs(np.ldexp(lengths, exponents) - 1) <= NEAR * np.finfo(dtype).eps
    keep = near | (lengths == 0)
    return np.where(keep, values, scaled / np.where(keep, 1.0, lengths)).astype(dtype)


def row_lengths(rows: npt.NDArray[np.floating]) -> Floats:
    """Compute the length of each row in float64; infinite only if it is too large for that."""
    _, lengths, exponents = _measured(rows.astype(np.float64))
    with np.errstate(over="ignore"):
        return np.ldexp(lengths, exponents)[:, 0]


def _measured(values: Floats) -> tuple[Floats, Floats, Indices]:
    """Scale rows by powers of two, and give them, their lengths and the exponents."""
    # The largest value is brought near 1, so that squares neither overflow nor vanish.
    exponents = np.frexp(np.abs(values).max(axis=1, keepdims=True))[1]
    scaled = np.ldexp(values, -exponents)
    return scaled, np.sqrt(inner_products(scaled, scaled))[:, None], exponents
