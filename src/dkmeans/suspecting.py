"""Which training rows may have a wrong label."""

import numbers
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted, column_or_1d

from dkmeans import fitting
from dkmeans.data import validation
from dkmeans.data.dask_collections import is_dask
from dkmeans.data.value_checks import (
    InvalidParameterError,
    as_labels,
    check_same_kind,
    check_sample_weight,
)
from dkmeans.engine import query
from dkmeans.engine.dispute import dispute
from dkmeans.engine.groups import group_rows, remembered_groups
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.rowhash import Hashes
from dkmeans.model.suspects import Suspects

_SMALL = 3  # rows in a cell that is called small
_DOUBTFUL = 0.5  # others are as near as the own class
_REASONS = (
    "conflict",
    "none",
    "only one of its class",
    "cell of another class",
    "small foreign cell",
)
_OTHERWISE = "nearer to others"


class SuspectingMixin:
    """Finds training rows whose label fights their neighbourhood."""

    def suspects(
        self, X: Any = None, y: Any = None, *, sample_weight: Any = None, n: int | None = None
    ) -> Suspects:
        """List training rows whose label may be wrong, the most suspicious first.

        Around each row, the rows of its class and those of others are met cell by cell, the row
        itself left out. The score compares how far one has to go for 1, 2, 4, 8 and 16 rows of
        its class (O) and of others (R): it is the mean of O^2 / (O^2 + R^2).

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features), optional
            The rows. Without them, the fit must have seen all rows in its last call, and each
            row is taken to be where the rows of its class in its cell are on average. With them
            the list is more precise, and any model will do: loaded, edited, `at(k)`, or after
            `partial_fit`.
        y : array-like of shape (n_samples,), optional
            Their labels, if X is given.
        sample_weight : array-like of shape (n_samples,), optional
            Weights >= 0, if X is given; without X, those of the fit count.
        n : int, optional
            How many rows to list, whatever their score. By default those that score above 0.5,
            and conflicts.

        Returns
        -------
        suspects : Suspects
            A table with the columns row, label, suggested, cluster, score and reason; equal
            scores are in the order of rows.

        Examples
        --------
        >>> from dkmeans import DiscriminativeKMeans
        >>> X = [[0.0], [0.1], [0.2], [0.3], [5.0], [5.1], [5.2], [5.3], [0.15]]
        >>> y = ["low", "low", "low", "low", "high", "high", "high", "high", "high"]
        >>> model = DiscriminativeKMeans().fit(X, y)
        >>> model.suspects(X, y)
        1 suspect
        row  label  suggested  cluster   score              reason
          8   high        low        2  0.9994  small foreign cell
        """
        check_is_fitted(self)
        _check(self, X, y, sample_weight, n)
        judge = _from_memory if X is None else _from_rows
        return _table(self, judge(self, X, y, sample_weight), n)


_Judged = tuple[Indices, Indices, Floats, Indices, npt.NDArray[np.bool_]]


def _check(model: Any, X: Any, y: Any, sample_weight: Any, n: Any) -> None:
    """Check what is asked for, and whether it can be told."""
    whole = isinstance(n, numbers.Integral) and not isinstance(n, bool | np.bool_)
    if n is not None and not (whole and n >= 0):
        raise InvalidParameterError(f"n={n!r} is not accepted: it must be None or an integer >= 0.")
    if is_dask(X):
        raise TypeError(
            "suspects needs rows in memory, not a Dask collection: compute some partitions, or "
            "call suspects() without rows after a fit."
        )
    if X is not None and y is None:
        raise ValueError("y is None, but X is given: suspects needs the labels of the rows, too.")
    if X is None and (y is not None or sample_weight is not None):
        raise ValueError("X is None, but y or sample_weight is given: pass the rows, too.")
    if X is None and getattr(model, "_row_classes", None) is None:
        raise ValueError(
            "suspects() without rows needs a model as fit left it; after partial_fit, an edit, "
            "at(k) or load, pass the training rows: suspects(X, y)."
        )


def _check_labels(model: Any, y: Any, n_rows: int) -> Indices:
    """Turn labels into numbers of classes, and refuse those that the model does not know."""
    y = column_or_1d(as_labels(y))
    if len(y) != n_rows:
        raise ValueError(f"y has {len(y)} labels, but X has {n_rows} rows.")
    check_same_kind(model.classes_, y)
    unknown = np.flatnonzero(~np.isin(y, model.classes_))
    if len(unknown):
        row = int(unknown[0])
        raise ValueError(
            f"y has the label {y[row : row + 1].tolist()[0]!r} in row {row}, which the model was "
            "not fitted on: see classes_."
        )
    return np.searchsorted(model.classes_, y).astype(np.intp)


def _from_rows(model: Any, X: Any, y: Any, sample_weight: Any) -> _Judged:
    """Judge rows where they are."""
    X = validation.check_rows(model, X)
    codes = _check_labels(model, y, X.shape[0])
    weights = check_sample_weight(sample_weight, X.shape[0])
    threads = validation.threads_of(model)
    cells, _ = query.nearest(X, model.cluster_centers_, threads)
    groups, own = group_rows(X, cells, codes, weights, len(model.classes_))
    each = np.ones(len(codes)) if weights is None else weights
    unit = groups.weights.sum() / np.count_nonzero(each)
    scores, suggested = dispute(X, codes, own, each, groups, unit, threads)
    return codes, cells, scores, suggested, _conflicting(query.hashes(X), codes, each)


def _conflicting(hashes: Hashes, codes: Indices, weights: Floats) -> npt.NDArray[np.bool_]:
    """Tell which rows have an identical one with another label."""
    rows = np.flatnonzero(weights > 0)
    _, item = np.unique(hashes[rows], return_inverse=True)
    first, last = np.full(item.max() + 1, len(hashes)), np.zeros(item.max() + 1, dtype=np.intp)
    np.minimum.at(first, item, codes[rows])
    np.maximum.at(last, item, codes[rows])
    found = np.zeros(len(hashes), dtype=bool)
    found[rows] = (first != last)[item]
    return found


def _from_memory(model: Any, *_: Any) -> _Judged:
    """Judge rows by what the fit remembers: where the rows of each cell and class are."""
    kept, factors = model._row_classes
    k, cells, codes = model.n_clusters_, model.labels_, kept.astype(np.intp)
    owners = model._memory.cells(fitting.prototypes(model, model.classes_))
    groups, keys = remembered_groups(model._memory, owners, factors, k)
    kinds, kind, count = np.unique(codes * k + cells, return_inverse=True, return_counts=True)
    # Rows that the fit counted as another class, as others are the same, or not at all, have no
    # group: they stand where the centre of their cell is.
    there = np.isin(kinds, keys)
    own = np.where(there, np.searchsorted(keys, kinds), -1)
    points = model.cluster_centers_[kinds % k].astype(np.float64)
    points[there] = groups.means[own[there]]
    each = np.where(there, groups.weights[own] / count, 0.0)
    unit = groups.weights.sum() / len(codes)
    threads = validation.threads_of(model)
    scores, suggested = dispute(points, kinds // k, own, each, groups, unit, threads)
    conflict = np.zeros(len(codes), dtype=bool)
    conflict[np.concatenate([np.zeros(0, dtype=np.intp), *model.conflicts_])] = True
    return codes, cells, scores[kind], suggested[kind], conflict


def _table(model: Any, judged: _Judged, n: int | None) -> Suspects:
    """Put the list together."""
    codes, cells, scores, suggested, conflict = judged
    rows = np.argsort(-scores, kind="stable")
    rows = rows[(scores[rows] > _DOUBTFUL) | conflict[rows]] if n is None else rows[:n]
    codes, cells = codes[rows], cells[rows]
    size, heads = model.cluster_sizes_[cells], np.bincount(judged[0], minlength=len(model.classes_))
    average = model.cluster_sizes_.sum() / len(scores)
    foreign = model.classes_[codes] != model.cluster_classes_[cells]
    small = size <= _SMALL * average * (1 + 1e-9)
    reasons = [
        conflict[rows],
        scores[rows] <= _DOUBTFUL,
        heads[codes] == 1,
        foreign,
        small,
    ]
    return Suspects(
        row=rows,
        label=model.classes_[codes],
        suggested=model.classes_[suggested[rows]],
        cluster=model.cluster_ids_[cells],
        score=scores[rows],
        reason=np.select(reasons, _REASONS, _OTHERWISE),
    )
