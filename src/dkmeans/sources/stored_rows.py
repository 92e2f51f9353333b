"""Rows of a question that are not in memory: read once, block by block, and memory-mapped.

Questions take the inputs that `fit` takes. They see such rows as one array, whose pages the system
reads as they are accessed and drops when memory is needed elsewhere, so that their answers are
those for the same rows in memory, bit for bit.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dkmeans.data.blocks import (
    DEFAULT_MB,
    Batch,
    BlockSource,
    SourceError,
    are_paths,
    as_floats,
    rows_per_block,
)
from dkmeans.data.dask_collections import (
    DaskBlocks,
    fitted_columns,
    is_dask,
    read_partitions,
    room_for_tasks,
)
from dkmeans.data.memory_maps import give_back, is_array_file, is_mapped, open_map
from dkmeans.data.value_checks import check_same_kind, check_weights
from dkmeans.exact.shares import WeightShare
from dkmeans.kernels.block import Floats, Matrix
from dkmeans.runners.disk_budget import DiskBudget
from dkmeans.runners.prefetch import prefetched
from dkmeans.runners.row_store import RowStore
from dkmeans.sources.out_of_core import ROWS_BUDGET_SHARE, open_blocks


@dataclass(frozen=True)
class QuestionRows:
    """Rows of a question; labels and weights are as they were given, or those of the blocks."""

    X: Matrix  # checked
    y: Any
    sample_weight: Any


class StoredBlocks(BlockSource):
    """Blocks of labelled rows that are memory-mapped.

    Parameters
    ----------
    rows : QuestionRows
    names : list of str or None
        Of the features.
    memory_mb : float or None
    """

    def __init__(
        self, rows: QuestionRows, names: list[str] | None, memory_mb: float | None
    ) -> None:
        self.rows, self.names = rows, names
        n_values = rows.X.nnz if sp.issparse(rows.X) else rows.X.size
        width = -(-n_values // rows.X.shape[0])
        self._step = rows_per_block(memory_mb, width, rows.X.dtype.itemsize)

    def __iter__(self) -> Iterator[Batch]:
        """Start to read from the beginning."""
        rows = self.rows
        for start in range(0, rows.X.shape[0], self._step):
            part = slice(start, start + self._step)
            weight = None if rows.sample_weight is None else rows.sample_weight[part]
            yield Batch(rows.X[part], rows.y[part], weight, f"rows from {start}")


def training_blocks(estimator: Any, X: Any, y: Any, sample_weight: Any) -> StoredBlocks | None:
    """Store labelled rows of a fit that are not in memory, as they are; None if they are.

    The estimator need not be fitted: its memory and disk budgets count.
    """
    blocks: BlockSource | None
    if is_dask(X):
        blocks = DaskBlocks(X, y, sample_weight)
    else:
        blocks = open_blocks(X, y, sample_weight, estimator.memory_mb)
    if blocks is None:
        return None
    with _room(X):
        found = _stored(estimator, _as_floats, blocks)
    return StoredBlocks(found, blocks.names, estimator.memory_mb)


def _as_floats(_: Any, X: Matrix) -> Matrix:
    return X.astype(as_floats([X.dtype]), copy=False)


def labelled_rows(
    estimator: Any, check: Callable[[Any, Any], Matrix], X: Any, y: Any, sample_weight: Any
) -> QuestionRows:
    """Check labelled rows, wherever they are.

    Parameters
    ----------
    estimator : DiscriminativeKMeans
        Its memory and disk budgets count.
    check : callable
        Given the estimator and some rows, returns them checked and converted.
    X, y, sample_weight : as in `DiscriminativeKMeans.fit`
    """
    blocks = labelled_blocks(estimator, X, y, sample_weight)
    if blocks is None:
        return QuestionRows(check(estimator, X), y, sample_weight)
    with _room(X):
        return _stored(without_names(estimator), check, blocks)


def labelled_blocks(estimator: Any, X: Any, y: Any, sample_weight: Any) -> BlockSource | None:
    """Open labelled rows that are not in memory; None if they are.

    They must have the features that the estimator was fitted on, which are taken by their names.
    """
    names = getattr(estimator, "feature_names_in_", None)
    blocks: BlockSource | None
    if is_dask(X):
        blocks = DaskBlocks(fitted_columns(X, names, (y, sample_weight)), y, sample_weight)
    elif are_paths(X) and isinstance(y, str) and not is_array_file(X):
        from dkmeans.data.tables import TableBlocks  # needs pyarrow

        columns = None if names is None else names.tolist()
        blocks = TableBlocks(X, y, sample_weight, columns, estimator.memory_mb)
    else:
        blocks = open_blocks(X, y, sample_weight, estimator.memory_mb)
    if blocks is not None:
        _check_names(estimator, blocks.names)
    return blocks


def unlabelled_rows(estimator: Any, check: Callable[[Any, Any], Matrix], X: Any) -> QuestionRows:
    """Do the same for rows that need no labels; labels and weights of blocks are left out.

    Of a table on disk or a Dask dataframe, the columns that the estimator was fitted on are taken.
    """
    if is_array_file(X):
        X = open_map(Path(X))
    batches = _unlabelled_blocks(estimator, X)
    if batches is None:
        return QuestionRows(check(estimator, X), None, None)
    rows_alone = (replace(batch, y=_NONE, weight=None) for batch in batches)
    with _room(X):
        return _stored(without_names(estimator), check, rows_alone)


def answer_blocks(
    estimator: Any, ask: Callable[[Any, Any], npt.NDArray[Any]], X: Any
) -> npt.NDArray[Any]:
    """Answer a question with one answer per row, block by block.

    Parameters
    ----------
    estimator : DiscriminativeKMeans
    ask : callable
        Given an estimator and some rows, returns an array with one entry per row.
    X : data that `fit` takes, not in memory; labels are not needed
    """
    if is_array_file(X):
        return ask(estimator, open_map(Path(X)))
    batches = _unlabelled_blocks(estimator, X)
    assert batches is not None, "rows in memory are not blocks"
    model, answers = without_names(estimator), []
    with prefetched(batches) as arriving:
        for batch in arriving:
            if batch.X.shape[0]:
                try:
                    answers.append(ask(model, batch.X))
                except ValueError as problem:
                    raise SourceError(f"In {batch.where}: {problem}") from problem
    if not answers:
        raise SourceError("Found no rows: at least one is needed.")
    return np.concatenate(answers)


def _unlabelled_blocks(estimator: Any, X: Any) -> Iterable[Batch] | None:
    """Open rows that are not in memory; None if they are."""
    names = getattr(estimator, "feature_names_in_", None)
    found: Iterator[tuple[Matrix, str]]
    if is_dask(X):
        found = read_partitions(fitted_columns(X, names))
    elif are_paths(X):
        from dkmeans.data.feature_tables import read_features  # needs pyarrow

        found = read_features(X, names, estimator.memory_mb)
    elif is_mapped(X, estimator.memory_mb):
        found = _slices(X, estimator.memory_mb)
    else:
        blocks = open_blocks(X, None, None, None)
        if blocks is not None:
            _check_names(estimator, blocks.names)
        return blocks
    return (Batch(rows, _NONE, None, where) for rows, where in found)


def score_blocks(estimator: Any, blocks: BlockSource) -> float:
    """Return the share of the weight of labelled rows whose predicted class is correct."""
    score = ScoreBatch(without_names(estimator))
    with prefetched(blocks) as batches:
        return merged_score([score(batch) for batch in batches])


@dataclass(frozen=True)
class ScoreBatch:
    """Compares the predicted classes of labelled rows with their labels."""

    model: Any  # as `without_names` returns it

    def __call__(self, batch: Batch) -> tuple[WeightShare, bool] | None:
        """Return the weight that is right, and whether there are weights; None without rows."""
        n_rows = batch.X.shape[0]
        if not n_rows:
            return None
        try:
            check_same_kind(self.model.classes_, batch.y)
            right, weights = self.model.predict(batch.X) == batch.y, batch.weight
            if weights is not None:
                weights = check_weights(weights, n_rows, signed=True)
        except ValueError as problem:
            raise SourceError(f"In {batch.where}: {problem}") from problem
        return WeightShare.of(right, weights), weights is not None


def merged_score(scores: Iterable[tuple[WeightShare, bool] | None]) -> float:
    """Combine the scores of all blocks."""
    found = [score for score in scores if score is not None]
    if not found:
        raise SourceError("Found no rows: at least one is needed.")
    if len({has_weights for _, has_weights in found}) > 1:
        raise SourceError("All blocks need weights, or none may have them.")
    return WeightShare.merged([share for share, _ in found]).value


_NONE: npt.NDArray[Any] = np.empty(0)  # no labels


def without_names(estimator: Any) -> Any:
    """Copy a fitted estimator without names of features, as blocks of rows have none."""
    copy = type(estimator)(**estimator.get_params(deep=False))
    return copy._publish(replace(estimator._fitted.predictor(), feature_names=None))


def _check_names(estimator: Any, names: list[str] | None) -> None:
    before = getattr(estimator, "feature_names_in_", None)
    if names is not None and before is not None and names != before.tolist():
        raise SourceError(
            f"The columns of X are {names}, but the estimator was fitted on {before.tolist()}."
        )


def _stored(
    estimator: Any, check: Callable[[Any, Any], Matrix], batches: Iterable[Batch]
) -> QuestionRows:
    budget = DEFAULT_MB if estimator.memory_mb is None else estimator.memory_mb
    disk = DiskBudget.of(estimator.disk_mb)
    store = RowStore(int(budget * 2**20 * ROWS_BUDGET_SHARE), disk)
    labels: list[npt.NDArray[Any]] = []
    weights: list[Floats] = []
    n_rows = 0
    try:
        with prefetched(batches) as arriving:
            for batch in arriving:
                if not batch.X.shape[0]:
                    continue
                try:
                    rows = check(estimator, batch.X)
                    if labels:
                        check_same_kind(labels[0], batch.y)
                    if batch.weight is not None:
                        weights.append(check_weights(batch.weight, rows.shape[0]))
                except ValueError as problem:
                    raise SourceError(f"In {batch.where}: {problem}") from problem
                if not store.add(rows):
                    raise SourceError(
                        f"The rows need more room in temporary files than {disk}: set a larger "
                        "disk_mb, free some of the disk, or let TMPDIR name a folder on a larger "
                        "one."
                    )
                n_rows += rows.shape[0]
                labels.append(batch.y)
        if not n_rows:
            raise SourceError("Found no rows: at least one is needed.")
        if weights and len(weights) < len(labels):
            raise SourceError("All blocks need weights, or none may have them.")
        X = next(store.read([n_rows]))
    finally:
        store.close()  # a map of the file stays
    return QuestionRows(X, np.concatenate(labels), np.concatenate(weights) if weights else None)


def _room(X: Any) -> AbstractContextManager[None]:
    """Make room for the tasks that read a Dask collection."""
    return room_for_tasks() if is_dask(X) else nullcontext()


def _slices(X: np.memmap, memory_mb: float | None) -> Iterator[tuple[npt.NDArray[Any], str]]:
    """Copy a memory map block by block, so that its pages do not stay in memory."""
    step = rows_per_block(memory_mb, X.shape[1], X.dtype.itemsize)
    for start in range(0, len(X), step):
        yield np.array(X[start : start + step]), f"rows from {start}"
        give_back(X)
