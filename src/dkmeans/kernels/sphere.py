"""Unit vectors for the cosine metric: on the sphere, Euclidean and angular neighbours agree.

A vector whose length is 1 up to rounding is left as it is, so that normalising is idempotent and a
prototype placed on a row stays on it. Zero vectors have no direction and stay zero.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dkmeans.kernels.block import Floats, Indices, Matrix
from dkmeans.kernels.reference import inner_products

CHUNK_ROWS = 4096
LENGTH_TOLERANCE_ULPS = 4  # rows whose length is 1 up to this tolerance are left as they are


def unit_rows(X: Matrix) -> Matrix:
    """Return a copy of a matrix with each row scaled to length one, in the same dtype."""
    if sp.issparse(X):
        scaled = X.copy()
        # Pad rows with zeros to process many at a time.
        counts = np.diff(X.indptr)
        for start in range(0, X.shape[0], CHUNK_ROWS):
            part = counts[start : start + CHUNK_ROWS]
            there = np.arange(part.max(initial=0)) < part[:, None]
            values = np.zeros(there.shape, dtype=X.dtype)
            span = slice(X.indptr[start], X.indptr[start + len(part)])
            values[there] = X.data[span]
            scaled.data[span] = unit_vectors(values, X.dtype)[there]
        return scaled
    result = np.empty(X.shape, dtype=X.dtype)
    for start in range(0, len(X), CHUNK_ROWS):
        part = slice(start, start + CHUNK_ROWS)
        result[part] = unit_vectors(X[part], X.dtype)
    return result


def unit_vectors(vectors: npt.NDArray[np.floating], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Divide each vector by its length, summed over features in order in float64."""
    if not vectors.size:
        return vectors.astype(dtype)
    values = vectors.astype(np.float64)
    scaled, lengths, exponents = _scaled_and_lengths(values)
    near = np.abs(np.ldexp(lengths, exponents) - 1) <= LENGTH_TOLERANCE_ULPS * np.finfo(dtype).eps
    keep = near | (lengths == 0)
    return np.where(keep, values, scaled / np.where(keep, 1.0, lengths)).astype(dtype)


def row_lengths(rows: npt.NDArray[np.floating]) -> Floats:
    """Compute the length of each row in float64; infinite only if it exceeds float64."""
    _, lengths, exponents = _scaled_and_lengths(rows.astype(np.float64))
    with np.errstate(over="ignore"):
        return np.ldexp(lengths, exponents)[:, 0]


def _scaled_and_lengths(values: Floats) -> tuple[Floats, Floats, Indices]:
    """Scale rows by powers of two; return them, their lengths and the exponents."""
    # Scale the largest value to about 1, so that squares neither overflow nor underflow.
    exponents = np.frexp(np.abs(values).max(axis=1, keepdims=True))[1]
    scaled = np.ldexp(values, -exponents)
    return scaled, np.sqrt(inner_products(scaled, scaled))[:, None], exponents
