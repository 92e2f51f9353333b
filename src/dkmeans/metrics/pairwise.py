"""Named metrics between vectors.

Euclidean distances are the reference of `kernels.reference`, so that predictions do not depend on
blocks or threads. Between all rows of a fit they are computed by matrix products in tiles of a
fixed size; where those cancel, the reference replaces them.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.metrics import pairwise_distances

from dkmeans.kernels.block import Matrix, dense_rows
from dkmeans.kernels.distances import all_distances
from dkmeans.kernels.reference import squared_distances
from dkmeans.kernels.threads import for_each, tiles

EUCLIDEAN = ("euclidean", "l2")
# Computed by scikit-learn, also between sparse rows but for haversine.
_SKLEARN = ("cityblock", "cosine", "haversine", "l1", "manhattan")
# Computed by SciPy.
_SCIPY = (
    "braycurtis",
    "canberra",
    "chebyshev",
    "correlation",
    "dice",
    "hamming",
    "jaccard",
    "mahalanobis",
    "minkowski",
    "rogerstanimoto",
    "russellrao",
    "seuclidean",
    "sokalsneath",
    "sqeuclidean",
    "yule",
)
NAMES = tuple(sorted((*EUCLIDEAN, *_SKLEARN, *_SCIPY)))
# Metrics with the triangle inequality, of which certified radii need it.
TRUE_METRICS = {
    *EUCLIDEAN,
    *("canberra", "chebyshev", "cityblock", "hamming", "haversine", "jaccard", "l1"),
    *("mahalanobis", "manhattan", "minkowski", "seuclidean"),
}
# Metrics in which a feature counts more in a smaller unit.
OF_UNITS = {
    *EUCLIDEAN,
    *("chebyshev", "cityblock", "l1", "manhattan", "minkowski", "sqeuclidean"),
}
# Parameters that would otherwise be computed from each block of rows.
NEEDED_PARAMETERS = {"mahalanobis": "VI", "seuclidean": "V"}
BOOLEAN = {"dice", "jaccard", "rogerstanimoto", "russellrao", "sokalsneath", "yule"}
SPARSE = {*EUCLIDEAN, "cityblock", "cosine", "l1", "manhattan"}

_TILE_ROWS = 256  # fixed, as products of matrices may round differently for other sizes
_CANCELLED = 2.0**-20  # squared distances below this share of the squared lengths
_MAX_PAIRS = 1 << 14  # that are computed by the reference at a time
_TILE_BYTES = 1 << 22  # of work arrays per tile

_Array = npt.NDArray[np.floating]


def check_named(metric: str, params: dict[str, Any], *, sparse: bool) -> None:
    """Refuse sparse rows and missing parameters where a metric cannot do with them."""
    if sparse and metric not in SPARSE:
        raise ValueError(
            f"metric={metric!r} does not take sparse rows: pass X.toarray(), or one of "
            f"{', '.join(sorted(SPARSE))}."
        )
    needed = NEEDED_PARAMETERS.get(metric)
    if needed is not None and needed not in params:
        raise ValueError(
            f"metric={metric!r} needs metric_params={{{needed!r}: ...}}, which would otherwise "
            "differ between blocks of rows."
        )


def distances(
    X: Matrix, others: Matrix, metric: str, params: dict[str, Any], n_threads: int
) -> _Array:
    """Compute the distance of each row to each of some other rows, in the dtype of the others."""
    out = np.empty((X.shape[0], others.shape[0]), dtype=others.dtype)
    between = _function(metric, params)
    if metric in EUCLIDEAN and sp.issparse(others):
        others = others.toarray()
    per_row = 8 * (4 * others.shape[0] + 2 * X.shape[1])
    size = int(np.clip(_TILE_BYTES // per_row, 16, 4096))

    def task(tile: slice) -> None:
        between(X[tile], others, out[tile])

    for_each(task, tiles(X.shape[0], size), n_threads)
    return out


def all_pairs(X: Matrix, metric: str, params: dict[str, Any], n_threads: int) -> _Array:
    """Compute the distances between all rows, in their dtype."""
    n = X.shape[0]
    out = np.empty((n, n), dtype=X.dtype)
    if metric in EUCLIDEAN:
        fill = _EuclideanTiles(X)

        def task(tile: slice) -> None:
            fill(tile, out)
    else:
        between = _function(metric, params)

        def task(tile: slice) -> None:
            between(X[tile], X, out[tile])

    for_each(task, tiles(n, _TILE_ROWS), n_threads)
    np.fill_diagonal(out, 0)
    return out


def _function(metric: str, params: dict[str, Any]) -> Callable[[Matrix, Matrix, _Array], None]:
    """Return a function that writes the distances of rows to others."""
    if metric in EUCLIDEAN:
        return all_distances

    def by_sklearn(X: Matrix, others: Matrix, out: _Array) -> None:
        out[:] = pairwise_distances(
            with_short_indices(X), with_short_indices(others), metric=metric, **params
        )

    def by_scipy(X: Matrix, others: Matrix, out: _Array) -> None:
        if metric in BOOLEAN:
            X, others = X != 0, others != 0
        out[:] = cdist(X, others, metric=metric, **params)

    return by_sklearn if metric in _SKLEARN else by_scipy


def with_short_indices(X: Matrix) -> Matrix:
    """Give a CSR matrix the 32-bit indices that scikit-learn's compiled distances need."""
    if not sp.issparse(X) or X.indices.dtype == np.int32:
        return X
    parts = X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return type(X)(parts, shape=X.shape)


class _EuclideanTiles:
    """Euclidean distances between all rows, on and above the diagonal; the others are copied."""

    def __init__(self, X: Matrix) -> None:
        self._X = X
        n = X.shape[0]
        # Around their mean, rows are shorter, and less is lost where products cancel.
        totals = [self._block(tile, 0.0).sum(axis=0) for tile in tiles(n, _TILE_ROWS)]
        self._shift = np.sum(totals, axis=0) / n
        self._lengths = np.concatenate(
            [np.square(self._block(t, self._shift)).sum(axis=1) for t in tiles(n, _TILE_ROWS)]
        )

    def __call__(self, tile: slice, out: _Array) -> None:
        rows = self._block(tile, self._shift)
        for other in tiles(len(self._lengths), _TILE_ROWS):
            if other.start < tile.start:
                continue
            others = self._block(other, self._shift)
            both = self._lengths[tile][:, None] + self._lengths[other]
            squares = both - 2 * (rows @ others.T)
            self._correct(squares, squares < _CANCELLED * both, tile, other)
            found = np.sqrt(squares).astype(out.dtype)
            out[tile, other] = found
            out[other, tile] = found.T

    def _correct(
        self, squares: Any, wrong: npt.NDArray[np.bool_], tile: slice, other: slice
    ) -> None:
        """Replace squared distances by those of the reference."""
        i, j = np.nonzero(wrong)
        for part in tiles(len(i), _MAX_PAIRS):
            a = dense_rows(self._X, tile.start + i[part])
            b = dense_rows(self._X, other.start + j[part])
            squares[i[part], j[part]] = squared_distances(a, b)

    def _block(self, tile: slice, shift: Any) -> Any:
        return dense_rows(self._X, tile).astype(np.float64) - shift
