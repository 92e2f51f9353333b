"""Dask arrays and dataframes: one delayed batch per partition."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn
from uuid import uuid4

import numpy as np
import scipy.sparse as sp

from dkmeans.data.blocks import Batch, BlockSource, SourceError, csr_of_block, labels_of_block


def is_dask(X: Any) -> bool:
    """Tell whether X is a Dask collection, without importing Dask."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "to_delayed")


@contextmanager
def room_for_tasks() -> Iterator[None]:
    """Let the worker run other tasks meanwhile, if this is called in a task of a cluster.

    The partitions that the task waits for may have to be computed by the same worker.
    """
    if "distributed" not in sys.modules:
        yield
        return
    from distributed import rejoin, secede

    has_left = False
    # There is no task, or one that has done so before.
    with suppress(ValueError, AttributeError, KeyError):
        secede()
        has_left = True
    try:
        yield
    finally:
        if has_left:
            rejoin()


class DaskBlocks(BlockSource):
    """Partitions of Dask collections, computed one after the other if no cluster is active.

    Parameters
    ----------
    X : Dask array or dataframe
    y : Dask array or series, array, or name of a column of X
    weight : the same, or None

    Attributes
    ----------
    columns : list
        Rows, labels and weights: a Dask collection, or a list with an entry for each partition.
    read : ReadPartition
        Converts the columns of one partition to a batch.
    """

    def __init__(self, X: Any, y: Any, weight: Any) -> None:
        check_collection(X)
        is_table = hasattr(X, "columns")
        label, weight_column = None, None
        names = list(X.columns) if is_table else None
        if is_table:
            # Columns are split from each partition on its worker, which takes no tasks.
            y, label = _named_column(X, y, "y")
            weight, weight_column = _named_column(X, weight, "sample_weight")
            features = X.drop(columns=[name for name in (label, weight_column) if name is not None])
            check_numbers(features)
            self.names = list(features.columns)
            if not all(isinstance(name, str) for name in self.names):
                self.names = None
        else:
            X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
            check_numbers(X)
        if y is None and label is None:
            raise SourceError("y is missing: a Dask X needs labels, or the name of a column.")
        self.read = ReadPartition(names, label, weight_column)
        self.columns = [X, _aligned(X, y, "y"), _aligned(X, weight, "sample_weight")]

    @cached_property
    def batches(self) -> list[Any]:
        """Delayed batches, one for each partition."""
        from dask import delayed

        make, name = delayed(self.read, traverse=False), f"dkmeans-partition-{uuid4().hex}"
        columns = [_delayed(part) if is_dask(part) else part for part in self.columns]
        return [
            make(number, *parts, dask_key_name=f"{name}-{number}")
            for number, parts in enumerate(zip(*columns, strict=True))
        ]

    def __iter__(self) -> Iterator[Batch]:
        """Start to read from the beginning."""
        for number, batch in enumerate(self.batches):
            try:
                found = batch.compute()
            except Exception as problem:
                raise_unreadable(number, problem)
            yield found


def read_partitions(X: Any) -> Iterator[tuple[Any, str]]:
    """Compute one partition after the other, and name each."""
    check_numbers(X)
    X = X.rechunk({1: -1}) if hasattr(X, "chunks") and X.numblocks[1] > 1 else X
    for number, partition in enumerate(_delayed(X)):
        try:
            found = partition.compute()
        except Exception as problem:
            raise_unreadable(number, problem)
        where = f"partition {number}"
        yield _values(found, where), where


def raise_unreadable(number: int, problem: Exception) -> NoReturn:
    """Raise an error that names the partition, unless the problem does so itself."""
    if isinstance(problem, SourceError):
        raise problem
    kind = type(problem).__name__
    raise SourceError(f"Partition {number} cannot be read: {kind}: {problem}") from problem


def check_collection(X: Any) -> None:
    """Raise an error if a Dask object is no array or dataframe of rows."""
    kind, n_axes = _kind(X)
    if not n_axes:
        raise SourceError(
            f"X must be a Dask array or dataframe, but it is a Dask {kind}: convert it, or pass "
            "what its compute() returns."
        )
    if n_axes != 2:
        raise SourceError(f"X must have two dimensions, but the Dask {kind} has {n_axes}.")


def _kind(X: Any) -> tuple[str, int]:
    """Return the name of the type of a Dask object, and its number of axes; 0 for no array."""
    n_axes = getattr(X, "ndim", 0)
    if isinstance(n_axes, int):
        return type(X).__name__, n_axes
    return "Delayed", 0  # it has an attribute of any name


def check_numbers(X: Any) -> None:
    """Raise an error if X is known not to be numbers, before anything is computed."""
    if not hasattr(X, "columns"):
        if X.dtype.kind not in "biuf":
            raise SourceError(f"X must be numbers, but the Dask array is of type {X.dtype}.")
        return
    from pandas.api.types import is_complex_dtype, is_numeric_dtype

    odd = [name for name, dtype in X.dtypes.items() if not is_numeric_dtype(dtype)]
    if odd:
        raise SourceError(f"X has columns that are not numbers: {odd}. Encode or drop them.")
    odd = [name for name, dtype in X.dtypes.items() if is_complex_dtype(dtype)]
    if odd:
        raise SourceError(
            f"X has columns that are not real numbers: {odd}. Split them into real and imaginary "
            "parts."
        )


def fitted_columns(X: Any, names: Any, more: Sequence[Any] = ()) -> Any:
    """Take the columns of a dataframe that a model was fitted on, and those of labels and weights.

    Parameters
    ----------
    X : Dask array or dataframe
        Arrays are returned as they are.
    names : array or None
        Of the features; None if the model knows none.
    more : sequence
        Names of further columns; what is no such name is passed over.
    """
    check_collection(X)
    if names is None or not hasattr(X, "columns"):
        return X
    missing = [name for name in names if name not in X.columns]
    if missing:
        raise SourceError(f"X has no column {missing[0]!r}, which the model was fitted on.")
    more = [name for name in more if isinstance(name, str) and name in X.columns]
    return X[list(dict.fromkeys([*names.tolist(), *more]))]


def split_column(X: Any, column: Any, name: str) -> tuple[Any, Any]:
    """Split a named column from a dataframe."""
    if not isinstance(column, str):
        return X, column
    _check_column(X, column, name)
    return X.drop(columns=[column]), X[column]


def _delayed(X: Any) -> list[Any]:
    """List the partitions without full optimization.

    Optimization joins partitions by the number of columns read from a file, and thus differently
    for features and labels.
    """
    X = X.simplify() if hasattr(X, "simplify") else X  # reads no more columns than it has
    return list(np.ravel(X.to_delayed(optimize_graph=hasattr(X, "chunks"))))


def _named_column(X: Any, column: Any, name: str) -> tuple[Any, str | None]:
    """Return a column that is not part of the dataframe, or the name of one that is."""
    if not isinstance(column, str):
        return column, None
    _check_column(X, column, name)
    return None, column


def _check_column(X: Any, column: str, name: str) -> None:
    if column not in X.columns:
        raise SourceError(f"{name}={column!r} is no column of X, which has {list(X.columns)}.")


def _aligned(X: Any, column: Any, name: str) -> Any:
    """Partition a column as X is partitioned; None for each partition if there is none.

    Partitions of which nothing is known are taken to belong together if there are as many of them.
    Otherwise their numbers of rows are computed.
    """
    n = X.npartitions
    if column is None:
        return [None] * n
    if is_dask(column):
        kind, n_axes = _kind(column)
        if not n_axes:
            raise SourceError(
                f"{name} must be an array or a Dask series, but it is a Dask {kind}: pass what its "
                "compute() returns."
            )
        if hasattr(column, "columns") and column.ndim != 1:
            raise SourceError(
                f"{name} must be a single column, but it is a Dask dataframe with the columns "
                f"{list(column.columns)}: pass one of them, as in df[{column.columns[0]!r}]."
            )
        if not (_has_sizes(X) or _has_sizes(column)) and column.npartitions == n:
            return column
        sizes, own_sizes = _sizes(X), _sizes(column)
        _check_rows(sum(sizes), sum(own_sizes), name)
        return column if sizes == own_sizes else _recut(column, own_sizes, sizes)
    column = np.asarray(column)
    sizes = _sizes(X)
    _check_rows(sum(sizes), len(column), name)
    ends = np.cumsum(sizes)
    return [column[end - size : end] for size, end in zip(sizes, ends, strict=True)]


def _check_rows(n_rows: int, length: int, name: str) -> None:
    if n_rows != length:
        raise SourceError(f"X has {n_rows} rows, but {name} has {length}.")


def _has_sizes(X: Any) -> bool:
    """Return whether the numbers of rows are known without computing anything."""
    return hasattr(X, "chunks") and not np.isnan(X.chunks[0]).any()


def _sizes(X: Any) -> list[int]:
    """Return the number of rows of each partition, and compute those that are not known."""
    if not hasattr(X, "chunks"):
        return [int(size) for size in X.map_partitions(len).compute()]
    if not _has_sizes(X):
        X = X.copy()
        X.compute_chunk_sizes()
    return [int(size) for size in X.chunks[0]]


def _recut(column: Any, sizes: list[int], wanted: list[int]) -> Any:
    """Cut a column into partitions of other sizes, as a Dask array."""
    import dask.array as da
    from dask import delayed

    if not _has_sizes(column):
        as_array = delayed(np.asarray, pure=True)
        parts = zip(_delayed(column), sizes, strict=True)
        dtype = column.dtype if isinstance(column.dtype, np.dtype) else np.dtype(object)
        column = da.concatenate(
            [da.from_delayed(as_array(part), (size,), dtype) for part, size in parts]
        )
    return column.rechunk((tuple(wanted),))


@dataclass(frozen=True)
class ReadPartition:
    """Converts one partition, as Dask computes it, to a batch.

    Parameters
    ----------
    names : list or None
        Columns of a dataframe.
    label, weight : str or None
        Those with labels and weights, if they are columns of the dataframe.
    """

    names: list[Any] | None
    label: str | None
    weight: str | None

    def __call__(self, number: int, X: Any, y: Any, weight: Any) -> Batch:
        """Convert the partition with a number."""
        where = f"partition {number}"
        if self.names is not None and list(X.columns) != self.names:
            raise SourceError(
                f"The columns of {where} are {list(X.columns)}, but those of the dataframe are "
                f"{self.names}."
            )
        y = y if self.label is None else X[self.label]
        weight = weight if self.weight is None else X[self.weight]
        taken = [name for name in (self.label, self.weight) if name is not None]
        X = _values(X.drop(columns=taken) if taken else X, where)
        y, label_dtype = _labels(y, where)
        if y.shape != X.shape[:1]:
            raise SourceError(
                f"X has {X.shape[0]} rows in {where}, but y has the shape {y.shape}: one label per "
                "row is needed."
            )
        weight = None if weight is None else np.asarray(weight, dtype=np.float64)
        return Batch(X, y, weight, where, label_dtype)


def _values(X: Any, where: str) -> Any:
    if hasattr(X, "to_numpy"):
        values = X.to_numpy()
        # Columns that may lack values come as objects.
        return values if values.dtype != object else X.to_numpy(np.float64, na_value=np.nan)
    if not sp.issparse(X):
        return np.asarray(X)
    return csr_of_block(X, where)


def _labels(y: Any, where: str) -> tuple[Any, np.dtype[Any] | None]:
    """Return labels, and their type if they were objects, of which text is made."""
    if hasattr(y, "isna") and y.isna().any():
        count = int(y.isna().sum())
        raise SourceError(f"{count} labels are missing in {where}: drop these rows.")
    labels = labels_of_block(y, where)
    if labels.dtype != object:
        return labels, None
    return labels.astype(str), labels.dtype
