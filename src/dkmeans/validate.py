"""Checks of what users pass in: each problem gets one sentence that says what to do."""

import copy
import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from dkmeans.engine.threads import default_threads, for_each, tiles
from dkmeans.kernels.block import Floats, Indices, Matrix
from dkmeans.kernels.sphere import unit_rows

_VALUES = 1 << 18  # that are looked at together: they stay in the cache
WIDEST = 2.0**80  # weights may span this much; lighter ones count as that light
_NEGLIGIBLE = 1e-6  # a class with less than this share of the largest class weight counts as 0


class InvalidParameterError(ValueError, TypeError):
    """A parameter of the estimator has a value or a type that is not accepted."""


@dataclass(frozen=True)
class Training:
    """What `fit` was given, checked."""

    X: Matrix
    y: Indices  # classes by number
    classes: npt.NDArray[Any]
    sample_weight: Floats | None
    class_weight: Floats | None  # by class
    names: dict[str, Any]  # n_features_in_ and, for tables, feature_names_in_

    @property
    def factors(self) -> Floats:
        """Class weights, ones if there are none."""
        return np.ones(len(self.classes)) if self.class_weight is None else self.class_weight


def check_parameters(params: dict[str, Any]) -> None:
    """Check every parameter that can be checked without data."""

    def require(name: str, ok: bool, accepted: str) -> None:
        if not ok:
            raise InvalidParameterError(f"{name}={params[name]!r} is not accepted: {accepted}.")

    budget, threads = params["max_clusters"], params["n_threads"]
    require(
        "max_clusters",
        budget == "auto" if isinstance(budget, str) else _is_count(budget),
        "it must be None, 'auto' or an integer >= 1",
    )
    require("n_threads", _is_count(threads), "it must be None or an integer >= 1")
    for name, least in (("max_iter", 1), ("verbose", 0)):
        ok = _is_int(params[name]) and params[name] >= least
        require(name, ok, f"it must be an integer >= {least}")
    w = params["repulsion"]
    require(
        "repulsion",
        w == "size" if isinstance(w, str) else _is_real(w) and 0 <= w < np.inf,
        "it must be a finite number >= 0 or 'size'",
    )
    growth = params["growth"]
    require(
        "growth",
        isinstance(growth, str) and growth in ("paper", "best"),
        "it must be 'paper' or 'best'",
    )
    refine = params["refine"]
    require("refine", refine is None or refine == "margin", "it must be 'margin' or None")
    metric = params["metric"]
    require(
        "metric",
        isinstance(metric, str) and metric in ("euclidean", "cosine"),
        "it must be 'euclidean' or 'cosine'",
    )
    for name in ("min_cluster_size", "half_life", "memory_mb"):
        v = params[name]
        require(
            name, v is None or (_is_real(v) and 0 < v < np.inf), "it must be None or a number > 0"
        )
    for name in ("prune", "warm_start"):
        require(name, isinstance(params[name], bool | np.bool_), "it must be True or False")
    cw = params["class_weight"]
    require(
        "class_weight",
        cw is None or isinstance(cw, dict) or (isinstance(cw, str) and cw == "balanced"),
        "it must be None, 'balanced' or a dict from class to weight",
    )


def check_training(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    reach: float,
    afresh: bool = True,
    classes: Any = None,
) -> Training:
    """Check the arguments of `fit` or `partial_fit` without touching the estimator.

    Parameters
    ----------
    estimator : estimator
    X, y, sample_weight : as in `fit`
    reach : float
        How many times farther from the rows than from each other centres may come to lie.
    afresh : bool
        Whether nothing is known yet, or the estimator's classes and features stay.
    classes : array-like, optional
        Classes to know beside those in y.
    """
    scratch = copy.copy(estimator)  # validate_data writes to the estimator that it is given
    X, y = _with_readable_errors(scratch, X, y=y, reset=afresh)
    if not afresh:
        X = X.astype(estimator.cluster_centers_.dtype, copy=False)
    names = {
        name: getattr(scratch, name)
        for name in ("n_features_in_", "feature_names_in_")
        if hasattr(scratch, name)
    }
    check_classification_targets(y)
    found = np.unique(y)
    known = [] if afresh else [estimator.classes_]
    if classes is not None:
        known.append(np.unique(classes))
    for labels in known:
        _check_same_kind(labels, found)
        found = np.union1d(found, labels)
    classes, codes = found, np.searchsorted(found, y)
    weights = _check_sample_weight(sample_weight, X.shape[0])
    largest = _check_values(X, names.get("feature_names_in_"), _threads(estimator))
    if not afresh:
        largest = max(largest, float(np.abs(estimator.cluster_centers_).max()))
    if estimator.metric == "cosine":
        X = unit_rows(X)
    else:
        _check_squares(largest, X, largest, X.shape[0])
        reach *= largest
        _check_squares(largest + reach, X, largest, X.shape[0], repulsion=estimator.repulsion)
    class_weight = _class_weights(estimator.class_weight, classes, codes, weights)
    training = Training(X, codes.astype(np.intp), classes, weights, class_weight, names)
    budget = estimator.max_clusters
    if _is_int(budget) and budget < len(classes):
        raise ValueError(
            f"max_clusters={budget} is less than the number of classes in y, which is "
            f"{len(classes)}: every class needs at least one cluster."
        )
    return training


def check_ids(
    estimator: Any, ids: Any, *, one_class: bool = False, leave_one: bool = False
) -> npt.NDArray[np.int64]:
    """Check ids of prototypes: known, and if asked for, of one class, or not all of them."""
    check_is_fitted(estimator)
    found = np.atleast_1d(np.asarray(ids))
    if found.ndim != 1 or not len(found) or found.dtype.kind not in "iu":
        raise ValueError(f"ids must be one or more whole numbers from cluster_ids_, not {ids!r}.")
    unknown = np.setdiff1d(found, estimator.cluster_ids_)
    if len(unknown):
        raise ValueError(f"There is no prototype with id {unknown[0]}: see cluster_ids_.")
    found = np.unique(found).astype(np.int64)
    if one_class:
        labels = np.unique(estimator.cluster_classes_[np.isin(estimator.cluster_ids_, found)])
        if len(found) < 2 or len(labels) > 1:
            raise ValueError(
                f"merge needs two or more prototypes of one class, not {len(found)} of the classes "
                f"{labels.tolist()}."
            )
    if leave_one and len(found) == len(estimator.cluster_ids_):
        raise ValueError("At least one prototype must remain.")
    return found


def check_at(estimator: Any, k: Any) -> None:
    """Check a number of clusters that is asked for on the path."""
    check_is_fitted(estimator)
    if not _is_int(k) or k < 1:
        raise InvalidParameterError(f"k={k!r} is not accepted: it must be an integer >= 1.")
    if not hasattr(estimator, "path_"):
        raise ValueError(
            "There is no path to go back on after drop, merge or set_center: fit again first."
        )


def _check_same_kind(old: npt.NDArray[Any], new: npt.NDArray[Any]) -> None:
    """Refuse to mix labels that are numbers with labels that are text."""
    if (old.dtype.kind in "biuf") != (new.dtype.kind in "biuf"):
        raise ValueError(
            f"y has labels such as {new[0]!r}, but the labels known so far are such as {old[0]!r}: "
            "all must be numbers, or all must be text."
        )


def check_rows(estimator: Any, X: Any, *, values: bool = True) -> Matrix:
    """Check rows to predict: finite, and with the features that the estimator was fitted on.

    Without `values` they are only looked at if they have to be converted anyway; `check_values`
    is for those that turn out to be odd.
    """
    check_is_fitted(estimator)
    X = _with_readable_errors(estimator, X, reset=False)
    dtype = estimator.cluster_centers_.dtype
    if values or X.dtype != dtype or estimator.metric == "cosine":
        check_values(estimator, X)
    X = X.astype(dtype, copy=False)
    return unit_rows(X) if estimator.metric == "cosine" else X


def check_values(estimator: Any, X: Matrix) -> None:
    """Check that rows to predict are finite, and not too large to be squared."""
    names = getattr(estimator, "feature_names_in_", None)
    largest = _check_values(X, names, _threads(estimator))
    if estimator.metric != "cosine":
        centers = estimator.cluster_centers_
        _check_squares(largest + float(np.abs(centers).max()), X, largest, dtype=centers.dtype)


def _with_readable_errors(estimator: Any, X: Any, **more: Any) -> Any:
    """Call scikit-learn's validation, and name the column where it only names a value."""
    try:
        checked = validate_data(
            estimator,
            X,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
            **more,
        )
    except (ValueError, TypeError) as error:
        text = ("could not convert", "Unable to convert", "DType")
        if any(words in str(error) for words in text):
            raise ValueError(_describe_text(X)) from error
        raise
    table = checked[0] if isinstance(checked, tuple) else checked
    if sp.issparse(table) and not table.has_canonical_format:
        table = table.copy()
        table.sum_duplicates()
    return (table, checked[1]) if isinstance(checked, tuple) else table


def _describe_text(X: Any) -> str:
    columns = getattr(X, "columns", None)
    table = np.asarray(X, dtype=object)
    for j in range(table.shape[1] if table.ndim == 2 else 0):
        for value in table[:, j]:
            try:
                float(value)
            except (TypeError, ValueError):
                name = j if columns is None else repr(str(columns[j]))
                return f"X must be numbers, but column {name} holds {value!r}: encode or drop it."
    return "X must be numbers, but holds something that cannot be converted to a float."


def _check_values(X: Matrix, names: npt.NDArray[Any] | None, n_threads: int) -> float:
    """Refuse NaN and infinity, saying where, and return the largest magnitude."""
    values = X.data if sp.issparse(X) else X
    step = max(1, _VALUES // values[0].size) if len(values) else 1
    tops = np.zeros(-(-len(values) // step))

    def task(part: slice) -> None:
        block = values[part]
        tops[part.start // step] = max(float(block.max()), -float(block.min()))  # NaN if any is

    for_each(task, tiles(len(values), step), n_threads)
    wrong = np.flatnonzero(~np.isfinite(tops))
    if len(wrong):
        start = int(wrong[0]) * step
        raise ValueError(_describe_value(X, slice(start, start + step), names))
    return float(tops.max(initial=0.0))


def _threads(estimator: Any) -> int:
    return estimator.n_threads or default_threads()


def _describe_value(X: Matrix, where: slice, names: npt.NDArray[Any] | None) -> str:
    """Say where the first value is that is not finite, in a part that has one."""
    values = X.data if sp.issparse(X) else X
    part = values[where]
    at = np.argwhere(~np.isfinite(part))[0]
    row, column = where.start + int(at[0]), int(at[-1])
    if sp.issparse(X):
        row, column = (
            int(np.searchsorted(X.indptr, row, side="right") - 1),
            int(X.indices[row]),
        )
    value = "NaN" if np.isnan(part[tuple(at)]) else "infinity (inf)"
    name = column if names is None else repr(str(names[column]))
    count = int(np.count_nonzero(~np.isfinite(values)))
    return (
        f"Input X contains {value} in row {row}, column {name}; there are {count} values "
        "that are NaN or inf, which are not accepted: drop those rows or fill the values "
        "in first, for instance with sklearn.impute.SimpleImputer."
    )


def _check_squares(
    reach: float,
    X: Matrix,
    largest: float,
    n_summed: int = 1,
    *,
    dtype: npt.DTypeLike | None = None,
    repulsion: Any = None,
) -> None:
    """Refuse values whose squared distances, or their weighted sum over rows, could overflow."""
    dtype = np.dtype(X.dtype if dtype is None else dtype)
    room = min(
        np.sqrt(float(np.finfo(dtype).max) / X.shape[1]),
        np.sqrt(float(np.finfo(np.float64).max) / WIDEST / X.shape[1] / n_summed),
    )
    if reach > room / 8:
        because = "" if repulsion is None else f" with repulsion={repulsion!r}"
        raise ValueError(
            f"X has values as large as {largest:.3g}, whose squares overflow {dtype}{because}: "
            "scale the features, for instance with sklearn.preprocessing.StandardScaler."
        )


def _check_sample_weight(sample_weight: Any, n_rows: int) -> Floats | None:
    if sample_weight is None:
        return None
    if isinstance(sample_weight, numbers.Number):
        sample_weight = np.full(n_rows, sample_weight)
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must be numbers: {error}.") from error
    if weights.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar, got {weights.ndim}D array.")
    if weights.shape != (n_rows,):
        raise ValueError(
            f"sample_weight.shape == {weights.shape}, expected {(n_rows,)}: one weight per row."
        )
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(bad):
        raise ValueError(
            f"sample_weight has {weights[bad[0]]} at row {bad[0]}: weights must be finite and "
            "not negative."
        )
    if not weights.any():
        raise ValueError(
            "sample_weight is zero for every row: at least one weight must be positive."
        )
    return weights


def _class_weights(
    class_weight: Any, classes: npt.NDArray[Any], y: Indices, weights: Floats | None
) -> Floats | None:
    if class_weight is None:
        return None
    if isinstance(class_weight, str):
        mass = np.bincount(y, weights, minlength=len(classes))
        present = mass > 0
        balanced = np.zeros(len(classes))
        balanced[present] = mass.sum() / (present.sum() * mass[present])
        return balanced
    result = np.ones(len(classes))
    for label, value in class_weight.items():
        if not (_is_real(value) and 0 <= value < np.inf):
            raise InvalidParameterError(
                f"class_weight[{label!r}]={value!r} is not accepted: weights must be numbers >= 0."
            )
        result[classes == label] = value
    unknown = [label for label in class_weight if label not in classes]
    unweighted = [label for label in classes.tolist() if label not in class_weight]
    if unknown and unweighted:
        raise ValueError(
            f"class_weight names {unknown[0]!r}, which is not in y, and does not name "
            f"{unweighted[0]!r}, which is."
        )
    # So little weight beside so much cannot be told from none: such classes take no part.
    result[result < _NEGLIGIBLE * result.max()] = 0.0
    if not result[np.unique(y if weights is None else y[weights > 0])].any():
        raise ValueError("class_weight is zero for every class that has rows with a weight.")
    return result


def _is_count(value: Any) -> bool:
    return value is None or (_is_int(value) and value >= 1)


def _is_int(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool | np.bool_)


def _is_real(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)
