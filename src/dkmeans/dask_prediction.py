"""Lazy predictions for Dask collections."""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.data.dask_collections import check_numbers, is_dask, split_column


def accepts_dask(method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Decorate a row-wise method to accept Dask collections and return Dask arrays."""

    @functools.wraps(method)
    def answer(self: Any, X: Any) -> Any:
        return _map_partitions(self, method.__name__, X) if is_dask(X) else method(self, X)

    return answer


def computed_score(estimator: Any, X: Any, y: Any, sample_weight: Any) -> float:
    """Compute the accuracy for a Dask collection."""
    from sklearn.metrics import accuracy_score

    X, y = split_column(X, y, "y")
    X, sample_weight = split_column(X, sample_weight, "sample_weight")
    parts = estimator.predict(X), y, sample_weight
    predicted, y, sample_weight = (p.compute() if is_dask(p) else p for p in parts)
    return float(accuracy_score(y, predicted, sample_weight=sample_weight))


def _map_partitions(estimator: Any, method: str, X: Any) -> Any:
    """Call a method for each partition on its worker."""
    from dask import delayed

    check_numbers(X)
    is_table = hasattr(X, "columns")
    small = _without_training_state(estimator)
    # Try one row with the same columns, so that errors are raised here and not on a worker.
    empty = getattr(small, method)(_one_row_like(X, is_table))[:0]
    if not is_table:  # blocks of arrays have no feature names
        small._publish(replace(small._fitted, feature_names=None))
    if is_table:  # frames of older versions do not compute delayed arguments
        return X.map_partitions(_answer_block, small, method, empty, meta=empty)
    one = delayed(small, pure=True, traverse=False)
    X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
    if empty.ndim == 1:
        shape: dict[str, Any] = {"drop_axis": 1}
    else:
        shape = {"chunks": (X.chunks[0], (empty.shape[1],))}
    return X.map_blocks(_answer_block, one, method, empty, dtype=empty.dtype, meta=empty, **shape)


def _answer_block(X: Any, estimator: Any, method: str, empty: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return getattr(estimator, method)(X) if X.shape[0] else empty


def _without_training_state(estimator: Any) -> Any:
    """Copy an estimator without per-row training results."""
    small = type(estimator)(**estimator.get_params(deep=False))
    if hasattr(estimator, "_fitted"):
        small._publish(estimator._fitted.predictor())
    # Partitions are predicted in parallel, so each of them gets a single thread.
    small.n_threads = estimator.n_threads or 1
    return small


def _one_row_like(X: Any, is_table: bool) -> Any:
    if is_table:
        import pandas as pd

        return pd.DataFrame(np.ones((1, len(X.columns))), columns=list(X.columns))
    return np.ones((1, *X.shape[1:]))
