"""Predictions for data that is not in memory: lazy for Dask collections, else in blocks."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from dkmeans.data.batches import are_batches, check_source
from dkmeans.data.blocks import Batch, BlockSource, are_paths
from dkmeans.data.dask_collections import (
    DaskBlocks,
    check_numbers,
    fitted_columns,
    is_dask,
    split_column,
)
from dkmeans.exact.shares import WeightShare
from dkmeans.fitted import Fitted
from dkmeans.results.conflicts import LazyConflicts
from dkmeans.sources.stored_rows import (
    ScoreBatch,
    answer_blocks,
    labelled_blocks,
    merged_score,
    without_names,
)


def accepts_sources(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a row-wise method to accept data that is not in memory.

    It returns Dask arrays for Dask collections. Paths and batches are answered block by block.
    """

    @functools.wraps(method)
    def answer(self: Any, X: Any, *options: Any, **named: Any) -> Any:
        if is_dask(X):
            return _map_partitions(self, _Question(method.__name__, options, named), X)
        check_source(X)
        if are_paths(X) or isinstance(X, BlockSource) or are_batches(X):
            check_is_fitted(self)
            return answer_blocks(self, _Question(method.__name__, options, named).ask, X)
        return method(self, X, *options, **named)

    return answer


def computed_score(estimator: Any, X: Any, y: Any, sample_weight: Any) -> float:
    """Compute the accuracy for a Dask collection: partitions are scored where they are."""
    from dask import compute, delayed

    blocks = labelled_blocks(estimator, X, y, sample_weight)
    assert isinstance(blocks, DaskBlocks)
    small = without_names(estimator)
    small.n_threads = estimator.n_threads or 1  # partitions are scored in parallel
    model, score = delayed(small, traverse=False), delayed(_score_partition)
    return merged_score(compute(*[score(model, batch) for batch in blocks.batches]))


def _score_partition(model: Any, batch: Batch) -> tuple[WeightShare, bool] | None:
    return ScoreBatch(model)(batch)


def with_lazy_labels(estimator: Any, fitted: Fitted, X: Any, y: Any, weight: Any) -> Fitted:
    """Give a model of Dask collections the cluster of each row as a lazy Dask array."""
    if not is_dask(X):
        return fitted
    for column, name in ((y, "y"), (weight, "sample_weight")):
        if hasattr(X, "columns"):
            X, _ = split_column(X, column, name)
    model = type(estimator)(**estimator.get_params(deep=False))
    model._publish(fitted.predictor())
    labels = _map_partitions(model, _Question("predict_cluster", (), {}), X)
    return replace(fitted, labels=labels, training_classes=None)


def without_lazy_values(state: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of an estimator that can be stored.

    Lazy labels and conflicts refer to a cluster, and to data that are not part of the model.
    """
    lazy = set()
    if is_dask(state.get("labels_")):
        lazy.add("labels")
    if isinstance(state.get("conflicts_"), LazyConflicts):
        lazy.add("conflicts")
    if not lazy:
        return state
    small = {name: value for name, value in state.items() if name.removesuffix("_") not in lazy}
    return small | {"_fitted": replace(state["_fitted"], **dict.fromkeys(lazy))}


@dataclass(frozen=True)
class _Question:
    """A method and its arguments other than the rows."""

    method: str
    options: tuple[Any, ...]
    named: dict[str, Any]

    def ask(self, estimator: Any, X: Any) -> npt.NDArray[Any]:
        """Call the method."""
        found: npt.NDArray[Any] = getattr(estimator, self.method)(X, *self.options, **self.named)
        return found


def _map_partitions(estimator: Any, question: _Question, X: Any) -> Any:
    """Call a method for each partition on its worker."""
    from dask import delayed

    X = fitted_columns(X, getattr(estimator, "feature_names_in_", None))
    check_numbers(X)
    is_table = hasattr(X, "columns")
    small = _without_training_state(estimator)
    # Try one row with the same columns, so that errors are raised here and not on a worker.
    empty = question.ask(small, _one_row_like(X, is_table))[:0]
    if not is_table:  # blocks of arrays have no feature names
        small._publish(replace(small._fitted, feature_names=None))
    if is_table:  # frames of older versions do not compute delayed arguments
        return X.map_partitions(_answer_block, small, question, empty, meta=empty)
    one = delayed(small, pure=True, traverse=False)
    X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
    if empty.ndim == 1:
        shape: dict[str, Any] = {"drop_axis": 1}
    else:
        shape = {"chunks": (X.chunks[0], (empty.shape[1],))}
    return X.map_blocks(_answer_block, one, question, empty, dtype=empty.dtype, meta=empty, **shape)


def _answer_block(
    X: Any, estimator: Any, question: _Question, empty: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    return question.ask(estimator, X) if X.shape[0] else empty


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
