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
from dkmeans.kernels.threads import tiles

CHUNK_ROWS = 4096
CHUNK_VALUES = 1 << 17  # that are scaled together: they stay in the cache
LENGTH_TOLERANCE_ULPS = 4  # rows whose length is 1 up to this tolerance are left as they are


def unit_rows(X: Matrix) -> Matrix:
    """Return a matrix with each row scaled to length one, in the same dtype.

    It is `X` itself if all rows have length one already; otherwise a copy of its values, which
    shares the index arrays of a CSR matrix.
    """
    if sp.issparse(X):
        data = _unit_data(X)
        if data is X.data:
            return X
        return type(X)((data, X.indices, X.indptr), shape=X.shape, copy=False)
    return _unit_or_same(X)


def _unit_data(X: Matrix) -> npt.NDArray[np.floating]:
    """Scale the stored values of a CSR matrix; return its own array if nothing changes."""
    scaled = X.data
    counts = np.diff(X.indptr)
    # Pad rows with zeros to process many at a time.
    for start in range(0, X.shape[0], CHUNK_ROWS):
        part = counts[start : start + CHUNK_ROWS]
        there = np.arange(part.max(initial=0)) < part[:, None]
        values = np.zeros(there.shape, dtype=X.dtype)
        span = slice(X.indptr[start], X.indptr[start + len(part)])
        values[there] = X.data[span]
        found = _unit_or_same(values)
        if found is not values and scaled is X.data:
            scaled = X.data.copy()
        if scaled is not X.data:
            scaled[span] = found[there]
    return scaled


def _unit_or_same(X: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Scale rows to length one; return the array itself if nothing changes."""
    result = X
    for part in _chunks(X):
        found = _unit_chunk(X[part], X.dtype)
        if result is X and not np.array_equal(found, X[part]):
            result = np.array(X, order="C")
        if result is not X:
            result[part] = found
    return result


def unit_vectors(vectors: npt.NDArray[np.floating], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Divide each vector by its length, summed over features in order in float64."""
    result = np.empty(vectors.shape, dtype=dtype)
    for part in _chunks(vectors):
        result[part] = _unit_chunk(vectors[part], dtype)
    return result


def _chunks(vectors: npt.NDArray[np.floating]) -> list[slice]:
    """Split vectors into chunks that stay in the cache; none if there are no values."""
    if not vectors.size:
        return []
    return tiles(len(vectors), max(1, CHUNK_VALUES // vectors.shape[1]))


def _unit_chunk(vectors: npt.NDArray[np.floating], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
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
