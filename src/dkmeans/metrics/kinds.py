"""What a `metric` parameter stands for: a name, a function of two objects, or a given matrix.

Each kind reads training rows as items with a matrix of distances, and tells the distances of new
rows to the medoids.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils.validation import check_array

from dkmeans.data.validation import check_any_rows, convert_any_rows
from dkmeans.data.value_checks import check_squares, finite_range
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.rowhash import Hashes, hash_rows
from dkmeans.kernels.tally import exact_totals
from dkmeans.kernels.threads import tiles
from dkmeans.metrics import pairwise
from dkmeans.metrics.matrices import (
    SYMMETRIZE,
    Matrix,
    Symmetrize,
    check_range,
    check_room,
    checked_matrix,
    combine,
)

PRECOMPUTED = "precomputed"
_HASH_ROWS = 4096  # rows hashed at a time
_MIXER = 0x9E3779B97F4A7C15  # an odd number with bits in no order

_Array = npt.NDArray[np.floating]


@dataclass(frozen=True)
class Options:
    """Parameters of an estimator that its metric depends on."""

    metric: str | Callable[[Any, Any], float]
    params: dict[str, Any]
    symmetrize: Symmetrize | None = None
    is_metric: bool | None = None
    memory_mb: float | None = None
    n_threads: int = 1
    n_fitted: int | None = None  # training rows of a fitted model, with given distances


@dataclass(frozen=True)
class Items:
    """Training rows with a weight, as a search sees them.

    Attributes
    ----------
    matrix : Matrix
        Distances between the items.
    classes : array of shape (n_items,)
    weights : array of shape (n_items,) or None
    rows : array of shape (n_items,)
        The first of the training rows that each item stands for.
    hashes : array of shape (n_items,)
        Decide which items are held out.
    """

    matrix: Matrix
    classes: Indices
    weights: Floats | None
    rows: Indices
    hashes: Hashes


class Kind(ABC):
    """A kind of metric."""

    def __init__(self, options: Options) -> None:
        self.options = options

    @property
    def is_true_metric(self) -> bool:
        """Whether the triangle inequality is known, or declared, to hold."""
        return bool(self.options.is_metric)

    @abstractmethod
    def read(self, estimator: Any, X: Any) -> Any:
        """Check training rows; only `n_features_in_` and names of a copy are set."""

    @abstractmethod
    def read_new(self, estimator: Any, X: Any, n_kept: int) -> Any:
        """Check new rows, for a model that keeps so many of the training rows."""

    def order(self, X: Any) -> Indices:
        """Return the rows in the order in which ties are decided."""
        return np.arange(n_rows_of(X))

    @abstractmethod
    def items(self, X: Any, classes: Indices, weights: Floats | None) -> Items:
        """Compute the distances between training rows; those of weight 0 may be left out."""

    @abstractmethod
    def keep(self, X: Any, medoids: Indices) -> Any:
        """Return what predictions need of the medoids."""

    @abstractmethod
    def to_medoids(self, X: Any, medoids: Indices, kept: Any) -> _Array:
        """Compute the distances of checked rows to the medoids, shape (n, k)."""

    def label(self, X: Any, items: Items, which: Indices, kept: Any) -> Indices:
        """Find the nearest medoid of each training row; `which` are the medoids among the items."""
        return self.to_medoids(X, items.rows[which], kept).argmin(axis=1)

    @abstractmethod
    def between(self, X: Any, part: Indices) -> _Array:
        """Compute the distances of some of the rows that a model is asked about to all of them."""


def kind_of(options: Options) -> Kind:
    """Return the kind of a metric."""
    if callable(options.metric):
        return ObjectKind(options)
    return (MatrixKind if options.metric == PRECOMPUTED else VectorKind)(options)


def n_rows_of(X: Any) -> int:
    """Count rows."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


class VectorKind(Kind):
    """Vectors with a named metric.

    Identical rows of one class are one item, and items are in the order of a hash of their values:
    neither copies of rows nor the order of rows make a difference.
    """

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._metric = str(options.metric)

    @property
    def is_true_metric(self) -> bool:
        """Whether the triangle inequality is known, or declared, to hold."""
        if self.options.is_metric is not None:
            return self.options.is_metric
        small = self._metric == "minkowski" and self.options.params.get("p", 2) < 1
        return self._metric in pairwise.TRUE_METRICS and not small

    def read(self, estimator: Any, X: Any) -> Any:
        """Check training rows."""
        return self._read(estimator, X, reset=True)

    def read_new(self, estimator: Any, X: Any, n_kept: int) -> Any:
        """Check rows to predict."""
        return self._read(estimator, X, reset=False)

    def _read(self, estimator: Any, X: Any, *, reset: bool) -> Any:
        X, largest = check_any_rows(estimator, X, reset=reset, n_threads=self.options.n_threads)
        if self._metric in pairwise.EUCLIDEAN:
            check_squares(2 * largest, X.shape[1], X.dtype, largest)
        pairwise.check_named(self._metric, self.options.params, sparse=sp.issparse(X))
        return X

    def order(self, X: Any) -> Indices:
        """Return the rows in an order that does not depend on how they are given."""
        return np.argsort(_hashes(X), kind="stable")

    def items(self, X: Any, classes: Indices, weights: Floats | None) -> Items:
        """Join identical rows of one class, and compute the distances between them."""
        hashes = _hashes(X)
        there = np.arange(len(classes)) if weights is None else np.flatnonzero(weights > 0)
        order = there[np.lexsort((there, classes[there], hashes[there]))]
        new = np.ones(len(order), dtype=bool)
        new[1:] = (np.diff(hashes[order]) != 0) | (np.diff(classes[order]) != 0)
        first = order[new]
        item = np.cumsum(new) - 1
        total = exact_totals(item, None if weights is None else weights[order], len(first))
        check_room(len(first), X.dtype, self.options.memory_mb)
        D = self._all_pairs(X[first])
        largest = float(D.max(initial=0.0))
        if not np.isfinite(largest):
            i, j = first[np.argwhere(~np.isfinite(D))[0]].tolist()
            raise ValueError(
                f"metric={self._metric!r} is not defined between row {i} and row {j} of X: drop "
                "or change them, or choose another metric."
            )
        check_range(largest)
        return Items(Matrix(D, largest), classes[first], total, first, hashes[first])

    def keep(self, X: Any, medoids: Indices) -> Any:
        """Return the rows of the medoids."""
        return X[medoids]

    def to_medoids(self, X: Any, medoids: Indices, kept: Any) -> _Array:
        """Compute distances."""
        X = X.astype(kept.dtype, copy=False)
        options = self.options
        return pairwise.distances(X, kept, self._metric, options.params, options.n_threads)

    def between(self, X: Any, part: Indices) -> _Array:
        """Compute distances."""
        options = self.options
        return pairwise.distances(X[part], X, self._metric, options.params, options.n_threads)

    def _all_pairs(self, X: Any) -> _Array:
        options = self.options
        return pairwise.all_pairs(X, self._metric, options.params, options.n_threads)


class MatrixKind(Kind):
    """A given matrix of distances; ties follow the order of its rows."""

    def read(self, estimator: Any, X: Any) -> Any:
        """Check a square matrix."""
        if isinstance(X, np.memmap) and X.dtype in (np.float32, np.float64) and X.ndim == 2:
            estimator.n_features_in_ = X.shape[1]
        else:
            X = convert_any_rows(estimator, X, reset=True)
        if X.shape[0] != X.shape[1]:
            finite_range(X, None, self.options.n_threads)
            raise ValueError(
                f"X has the shape {X.shape}, but metric='precomputed' needs a square matrix: the "
                "distances between all rows."
            )
        return X

    def read_new(self, estimator: Any, X: Any, n_kept: int) -> Any:
        """Check distances to all training rows, or to the medoids only."""
        shape = getattr(X, "shape", None) or np.shape(np.asarray(X))
        n_columns = shape[1] if len(shape) == 2 else None
        if n_columns == n_kept != estimator.n_features_in_:
            return check_array(X, dtype=[np.float64, np.float32], ensure_all_finite=False)
        if n_columns not in (None, estimator.n_features_in_):
            check_array(X)  # NaN and text are reported first
            raise ValueError(
                f"X has {n_columns} features, but {type(estimator).__name__} is expecting "
                f"{estimator.n_features_in_} features as input: one column per training row, or "
                f"one for each of the {n_kept} that the model keeps."
            )
        return convert_any_rows(estimator, X, reset=False)

    def items(self, X: Any, classes: Indices, weights: Floats | None) -> Items:
        """Check the matrix."""
        matrix = checked_matrix(X, self.options.symmetrize, self.options.n_threads)
        rows = np.arange(len(classes))
        return Items(matrix, classes, weights, rows, _hashes_of_places(len(rows)))

    def keep(self, X: Any, medoids: Indices) -> Any:
        """Keep nothing."""
        return None

    def to_medoids(self, X: Any, medoids: Indices, kept: Any) -> _Array:
        """Select the distances to the medoids."""
        found: _Array = self.columns(X, medoids)
        wrong = np.argwhere(~((found >= 0) & (found < np.inf)))
        if len(wrong):
            row, column = (int(i) for i in wrong[0])
            column = column if found is X else int(medoids[column])
            raise ValueError(
                f"Input X contains {found[tuple(wrong[0])]} in row {row}, column {column}, where "
                "distances must be finite (not NaN or infinity) and at least 0."
            )
        return found

    def columns(self, X: Any, medoids: Indices) -> Any:
        """Select the columns of the medoids; X itself if it has no other ones.

        If all training rows are medoids, X has the order of the rows, not that of the medoids.
        """
        n_fitted = self.options.n_fitted
        return X if n_fitted not in (None, X.shape[1]) else np.asarray(X[:, medoids])

    def between(self, X: Any, part: Indices) -> _Array:
        """Return distances."""
        if X.shape[0] != X.shape[1]:
            raise ValueError(
                f"X has the shape {X.shape}, but suspects with metric='precomputed' needs the "
                "distances between all rows."
            )
        return np.asarray(X[part])


class ObjectKind(Kind):
    """Any objects, with a function that tells the distance of two; ties follow their order."""

    def read(self, estimator: Any, X: Any) -> Any:
        """Make a list of objects."""
        X = as_objects(X)
        if not len(X):
            raise ValueError(
                f"X has 0 objects, but {type(estimator).__name__} needs at least 1 to fit."
            )
        return X

    def read_new(self, estimator: Any, X: Any, n_kept: int) -> Any:
        """Make a list of objects."""
        return as_objects(X)

    def items(self, X: Any, classes: Indices, weights: Floats | None) -> Items:
        """Compute the distance of each pair once, or in both directions to symmetrise it."""
        rows = np.arange(len(X)) if weights is None else np.flatnonzero(weights > 0)
        check_room(len(rows), np.float64, self.options.memory_mb)
        D = np.zeros((len(rows), len(rows)))
        for i, a in enumerate(rows.tolist()):
            for j, b in enumerate(rows[:i].tolist()):
                D[i, j] = D[j, i] = self._distance(X, b, X, a)
        largest = float(D.max(initial=0.0))
        check_range(largest)
        matrix, heavy = Matrix(D, largest), None if weights is None else weights[rows]
        return Items(matrix, classes[rows], heavy, rows, _hashes_of_places(len(X))[rows])

    def label(self, X: Any, items: Items, which: Indices, kept: Any) -> Indices:
        """Find the nearest medoids, without calling the function again for items."""
        labels = np.empty(len(X), dtype=np.intp)
        labels[items.rows] = items.matrix.rows(which).argmin(axis=0)
        others = np.setdiff1d(np.arange(len(X)), items.rows)
        rest = [X[i] for i in others.tolist()]
        labels[others] = self.to_medoids(rest, items.rows[which], kept).argmin(axis=1)
        return labels

    def keep(self, X: Any, medoids: Indices) -> Any:
        """Return the medoids themselves."""
        return [X[i] for i in medoids.tolist()]

    def to_medoids(self, X: Any, medoids: Indices, kept: Any) -> _Array:
        """Compute distances."""
        found = [[self._distance(X, i, kept, j) for j in range(len(kept))] for i in range(len(X))]
        return np.array(found, dtype=np.float64).reshape(len(X), len(kept))

    def between(self, X: Any, part: Indices) -> _Array:
        """Compute distances."""
        D = np.zeros((len(part), len(X)))
        for line, i in enumerate(part.tolist()):
            for j in range(len(X)):
                if i != j:
                    D[line, j] = self._distance(X, i, X, j)
        return D

    def _distance(self, X: Any, i: int, others: Any, j: int) -> float:
        """Call the function on two objects, and check what it returns."""
        metric: Any = self.options.metric

        def call(a: Any, b: Any) -> float:
            found = metric(a, b, **self.options.params)
            try:
                value = float(found)
            except (TypeError, ValueError):
                value = np.nan
            if not 0 <= value < np.inf:
                raise ValueError(
                    f"metric returned {found!r} for row {i} and row {j}, where a finite number >= "
                    "0 is needed."
                )
            return value

        forth = call(X[i], others[j])
        if self.options.symmetrize is None:
            return forth
        back = call(others[j], X[i])
        how = self.options.symmetrize
        return float(combine(np.array(forth), np.array(back), how))


def as_objects(X: Any) -> Any:
    """Return something with a length and entries: rows of an array, or a list of objects."""
    if isinstance(X, str | bytes) or not hasattr(X, "__len__"):
        raise TypeError(
            f"X is a {type(X).__name__}, where a sequence of objects is needed, such as a list."
        )
    if hasattr(X, "to_numpy"):
        X = X.to_numpy()
    return X if isinstance(X, np.ndarray) else list(X)


def _hashes(X: Any) -> Hashes:
    return np.concatenate([hash_rows(X[tile]) for tile in tiles(X.shape[0], _HASH_ROWS)])


def _hashes_of_places(n: int) -> Hashes:
    """Return numbers in no order, for rows without values."""
    return np.arange(1, n + 1, dtype=np.uint64) * np.uint64(_MIXER)


__all__ = [
    "PRECOMPUTED",
    "SYMMETRIZE",
    "Items",
    "Kind",
    "MatrixKind",
    "Options",
    "kind_of",
    "n_rows_of",
]
