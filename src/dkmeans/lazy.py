"""Asking fitted prototypes about Dask collections: nothing is computed before it is wanted."""

import copy
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.data.dask_collections import check_numbers, is_dask

_NEEDED = (
    "classes_",
    "cluster_centers_",
    "cluster_classes_",
    "cluster_ids_",
    "n_clusters_",
    "n_features_in_",
    "feature_names_in_",
    "rejection_",
)


def lazily(method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Let a method that answers row by row take Dask collections, and answer with a Dask array."""

    @functools.wraps(method)
    def answer(self: Any, X: Any) -> Any:
        return _ask(self, method.__name__, X) if is_dask(X) else method(self, X)

    return answer


def computed_score(estimator: Any, X: Any, y: Any, sample_weight: Any) -> float:
    """Compute the share of right predictions for a Dask collection."""
    from sklearn.metrics import accuracy_score

    parts = estimator.predict(X), y, sample_weight
    predicted, y, sample_weight = (p.compute() if is_dask(p) else p for p in parts)
    return float(accuracy_score(y, predicted, sample_weight=sample_weight))


def _ask(estimator: Any, method: str, X: Any) -> Any:
    """Ask about each partition where it is."""
    from dask import delayed

    check_numbers(X)
    small = _small(estimator)
    # One row with the same columns: what is wrong with them is said now, not in a worker.
    is_table = hasattr(X, "columns")
    empty = getattr(small, method)(_row_like(X, is_table))[:0]
    if not is_table:
        vars(small).pop("feature_names_in_", None)  # blocks of arrays have no names
    one = delayed(small, pure=True, traverse=False)
    if is_table:
        return X.map_partitions(_of_block, one, method, empty, meta=empty)
    X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
    if empty.ndim == 1:
        shape: dict[str, Any] = {"drop_axis": 1}
    else:
        shape = {"chunks": (X.chunks[0], (empty.shape[1],))}
    return X.map_blocks(_of_block, one, method, empty, dtype=empty.dtype, meta=empty, **shape)


def _of_block(X: Any, estimator: Any, method: str, empty: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return getattr(estimator, method)(X) if X.shape[0] else empty


def _small(estimator: Any) -> Any:
    """Copy an estimator without what was kept of the rows that it was fitted on."""
    small = copy.copy(estimator)
    small.__dict__ = {
        name: value
        for name, value in vars(estimator).items()
        if name in _NEEDED or not (name.startswith("_") or name.endswith("_"))
    }
    # Partitions are asked about side by side, so each needs no threads of its own.
    small.n_threads = estimator.n_threads or 1
    return small


def _row_like(X: Any, is_table: bool) -> Any:
    if is_table:
        import pandas as pd

        return pd.DataFrame(np.ones((1, len(X.columns))), columns=list(X.columns))
    return np.ones((1, *X.shape[1:]))
