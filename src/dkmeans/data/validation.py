"""Validation of parameters, training data and rows to predict."""

import copy
import numbers
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from dkmeans.data.named_arrays import NamedArray
from dkmeans.data.row_sample import sample_of
from dkmeans.data.row_weights import ArrayWeights, RowWeights, WeightFacts, WeightsElsewhere
from dkmeans.data.value_checks import (
    InvalidParameterError,
    as_csr,
    as_labels,
    check_same_kind,
    check_sample_weight,
    check_squares,
    check_underflow,
    class_weights,
    finite_range,
    is_real,
)
from dkmeans.geometry import (
    AUTO,
    LEARNED,
    METRICS,
    Geometry,
    choose_metric,
    geometry_of,
    reading_geometry,
)
from dkmeans.growth.registry import GROWTH_RULES, REFINEMENTS
from dkmeans.growth.rules import Continuation
from dkmeans.kernels.block import Floats, Indices, Matrix
from dkmeans.kernels.tally import exact_totals
from dkmeans.kernels.threads import cap_threads, default_threads


@dataclass(frozen=True)
class Training:
    """Training data after validation."""

    X: Matrix  # None if it is read block by block
    y: Indices  # classes by number
    classes: npt.NDArray[Any]
    sample_weight: Floats | None
    class_weight: Floats | None  # by class
    names: dict[str, Any]  # n_features_in_ and, for tables, feature_names_in_
    dtype: np.dtype[np.floating]
    n_values: int  # that are stored
    # The weights of all rows, where classes and weights do not leave the workers of a cluster: y
    # and sample_weight then have an entry for each label of a partition, of its heaviest row.
    elsewhere: WeightsElsewhere | None = None
    allows_euclidean: bool = (
        True  # whether squared distances of the rows as they are do not overflow
    )
    sample: Matrix | None = None  # some rows of a fit from scratch, as they are with any metric

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.y) if self.elsewhere is None else int(self.elsewhere.facts.counts.sum())

    @property
    def row_weights(self) -> RowWeights:
        """Weights of all rows."""
        if self.elsewhere is not None:
            return self.elsewhere
        facts = WeightFacts.of(self.y, self.sample_weight, len(self.classes))
        return ArrayWeights(self.sample_weight, self.y, facts)

    @property
    def total_weight(self) -> float:
        """Sum of the weights; a weight of 3 is the row three times."""
        if self.elsewhere is not None:
            return self.elsewhere.total()
        one_group = np.zeros(len(self.y), dtype=np.intp)
        return float(exact_totals(one_group, self.sample_weight, 1)[0])

    @property
    def n_classes(self) -> int:
        """How many classes there are, but for those whose rows have no weight."""
        totals = exact_totals(self.y, self.sample_weight, len(self.classes))
        idle = (totals == 0) | (self.factors == 0)
        return len(self.classes) - len(np.unique(self.y[idle[self.y]]))

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
        budget == "auto" if isinstance(budget, str) else is_count(budget),
        "it must be None, 'auto' or an integer >= 1",
    )
    require("n_threads", is_count(threads), "it must be None or an integer >= 1")
    for name, least in (("max_iter", 1), ("verbose", 0)):
        ok = is_int(params[name]) and params[name] >= least
        require(name, ok, f"it must be an integer >= {least}")
    w = params["repulsion"]
    require(
        "repulsion",
        w == "size" if isinstance(w, str) else is_real(w) and 0 <= w < np.inf,
        "it must be a finite number >= 0 or 'size'",
    )
    growth = params["growth"]
    require(
        "growth",
        isinstance(growth, str) and growth in GROWTH_RULES,
        f"it must be {_one_of(GROWTH_RULES)}",
    )
    refine = params["refine"]
    require(
        "refine",
        refine is None or (isinstance(refine, str) and refine in REFINEMENTS),
        f"it must be {_one_of(REFINEMENTS)} or None",
    )
    metric = params["metric"]
    require(
        "metric",
        isinstance(metric, str) and metric in (AUTO, *METRICS),
        f"it must be {_one_of((AUTO, *METRICS))}",
    )
    require("n_components", is_count(params["n_components"]), "it must be None or an integer >= 1")
    for name in ("min_cluster_size", "half_life", "memory_mb"):
        v = params[name]
        require(
            name, v is None or (is_real(v) and 0 < v < np.inf), "it must be None or a number > 0"
        )
    disk = params["disk_mb"]
    require(
        "disk_mb",
        disk is None or (is_real(disk) and 0 <= disk < np.inf),
        "it must be None or a number >= 0",
    )
    for name in ("prune", "warm_start"):
        require(name, isinstance(params[name], bool | np.bool_), "it must be True or False")
    path = params["checkpoint"]
    require(
        "checkpoint",
        path is None or (isinstance(path, str | os.PathLike) and bool(os.fspath(path))),
        "it must be None or the path of a file",
    )
    cw = params["class_weight"]
    require(
        "class_weight",
        cw is None or isinstance(cw, dict) or (isinstance(cw, str) and cw == "balanced"),
        "it must be None, 'balanced' or a dict from class to weight",
    )


def _one_of(names: Iterable[str]) -> str:
    """Return names as they appear in an error message."""
    return " or ".join(map(repr, names))


def check_training(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    reach: float,
    how: Continuation = Continuation.FRESH,
    classes: Any = None,
) -> Training:
    """Check the arguments of `fit` or `partial_fit` without touching the estimator.

    Parameters
    ----------
    estimator : estimator
    X, y, sample_weight : as in `fit`
    reach : float
        Bound on how far centres can overshoot the range of the data.
    how : Continuation
        A fit that continues keeps the classes and features of the estimator.
    classes : array-like, optional
        Classes to know beside those in y.
    """
    scratch = copy.copy(estimator)  # validate_data writes to the estimator that it is given
    y = None if y is None else as_labels(y)
    given = X
    X, y = _with_readable_errors(scratch, X, y=y, reset=how.is_fresh)
    if not how.is_fresh:
        X = X.astype(_dtype(estimator), copy=False)
    names = {
        name: getattr(scratch, name)
        for name in ("n_features_in_", "feature_names_in_")
        if hasattr(scratch, name)
    }
    if isinstance(given, NamedArray):
        names["feature_names_in_"] = np.array(given.names, dtype=object)
    check_classification_targets(y)
    found = np.unique(y)
    known = [] if how.is_fresh else [estimator.classes_]
    if classes is not None:
        known.append(np.unique(as_labels(classes)))
    for labels in known:
        check_same_kind(labels, found)
        found = np.union1d(found, labels)
    classes, codes = found, np.searchsorted(found, y)
    weights = check_sample_weight(sample_weight, X.shape[0])
    largest = finite_range(X, names.get("feature_names_in_"), threads_of(estimator))
    allows_euclidean = check_reach(estimator, X.shape, X.dtype, largest, reach, how)
    sample = sample_of(X) if how.is_fresh else None
    X = reading_geometry(estimator.metric).rows(X)
    class_weight = class_weights(estimator.class_weight, classes, codes, weights)
    n_values = X.nnz if sp.issparse(X) else X.size
    codes = codes.astype(np.intp)
    training = Training(
        X,
        codes,
        classes,
        weights,
        class_weight,
        names,
        X.dtype,
        n_values,
        allows_euclidean=allows_euclidean,
        sample=sample,
    )
    check_budget(estimator, training)
    return training


def check_new_rows(estimator: Any, X: Any) -> Matrix:
    """Check rows as `fit` does, without labels, and return them as `fit` sees them."""
    check_parameters(estimator.get_params(deep=False))
    scratch = copy.copy(estimator)  # validate_data writes to the estimator that it is given
    X = _with_readable_errors(scratch, X, reset=True)
    finite_range(X, getattr(scratch, "feature_names_in_", None), threads_of(estimator))
    return reading_geometry(estimator.metric).rows(X)


def check_any_rows(
    estimator: Any, X: Any, *, reset: bool, n_threads: int = 1
) -> tuple[Matrix, float]:
    """Check rows for any metric; also return their largest magnitude.

    With `reset` they are rows to fit: `n_features_in_` and `feature_names_in_` are set.
    """
    X = _with_readable_errors(estimator, X, reset=reset)
    return X, finite_range(X, getattr(estimator, "feature_names_in_", None), n_threads)


def convert_any_rows(estimator: Any, X: Any, *, reset: bool) -> npt.NDArray[np.floating]:
    """Convert a matrix of distances without a look at its values; `reset` as above."""
    if sp.issparse(X):
        raise TypeError("Sparse data was passed for X, but dense data is required: X.toarray().")
    return _with_readable_errors(estimator, X, reset=reset)


def check_reach(
    estimator: Any,
    shape: tuple[int, int],
    dtype: np.dtype[np.floating],
    largest: float,
    reach: float,
    how: Continuation,
) -> bool:
    """Check that no square will overflow or underflow: of values, and of centres farther away.

    Returns
    -------
    allows_euclidean : bool
        Whether that holds for the rows as they are, too, if they are to be standardised.
    """
    n, d = shape
    earlier = None if how.is_fresh else _geometry(estimator)
    metric = choose_metric(estimator.metric, d, earlier)
    if metric == LEARNED:  # rows are standardised first
        if how.is_fresh:  # standard deviations this small count as 0
            check_underflow(largest, dtype, refine=False)
        check_squares((1 + reach) * np.sqrt(n * d), d, dtype, largest, n)
        return _allows_euclidean(shape, dtype, largest, reach)
    if geometry_of(metric).bounded:
        return True
    if not how.is_fresh:
        largest = max(largest, float(np.abs(estimator._fitted.prototypes.centers).max()))
    check_underflow(largest, dtype, refine=estimator.refine is not None)
    check_squares(largest, d, dtype, largest, n)
    check_squares(largest + reach * largest, d, dtype, largest, n, repulsion=estimator.repulsion)
    return True


def _allows_euclidean(
    shape: tuple[int, int], dtype: np.dtype[np.floating], largest: float, reach: float
) -> bool:
    n, d = shape
    try:
        check_underflow(largest, dtype, refine=True)
        check_squares((1 + reach) * largest, d, dtype, largest, n)
    except ValueError:
        return False
    return True


def check_budget(estimator: Any, training: Training) -> None:
    """Check that there may be a cluster for each class."""
    budget, count = estimator.max_clusters, training.n_classes
    if is_int(budget) and budget < count:
        raise ValueError(
            f"max_clusters={budget} is less than the number of classes in y, which is "
            f"{count}: every class needs at least one cluster."
        )


def check_ids(estimator: Any, ids: Any) -> npt.NDArray[np.int64]:
    """Check ids of prototypes, and return each of them once."""
    check_is_fitted(estimator)
    found = np.atleast_1d(np.asarray(ids))
    if found.ndim != 1 or not len(found) or found.dtype.kind not in "iu":
        raise ValueError(f"ids must be one or more whole numbers from cluster_ids_, not {ids!r}.")
    unknown = np.setdiff1d(found, estimator.cluster_ids_)
    if len(unknown):
        raise ValueError(f"There is no prototype with id {unknown[0]}: see cluster_ids_.")
    return np.unique(found).astype(np.int64)


def check_ids_to_merge(estimator: Any, ids: Any) -> npt.NDArray[np.int64]:
    """Check ids of prototypes to merge: two or more, of one class."""
    found = check_ids(estimator, ids)
    labels = np.unique(estimator.cluster_classes_[np.isin(estimator.cluster_ids_, found)])
    if len(found) < 2 or len(labels) > 1:
        raise ValueError(
            f"merge needs two or more prototypes of one class, not {len(found)} of the classes "
            f"{labels.tolist()}."
        )
    return found


def check_ids_to_drop(estimator: Any, ids: Any) -> npt.NDArray[np.int64]:
    """Check ids of prototypes to drop: not all of them."""
    found = check_ids(estimator, ids)
    if len(found) == len(estimator.cluster_ids_):
        raise ValueError("At least one prototype must remain.")
    return found


def check_at(estimator: Any, k: Any, X: Any, y: Any, sample_weight: Any) -> None:
    """Check a number of clusters that is asked for on the path, and what to refine it on."""
    check_is_fitted(estimator)
    if not is_int(k) or k < 1:
        raise InvalidParameterError(f"k={k!r} is not accepted: it must be an integer >= 1.")
    if not hasattr(estimator, "path_"):
        raise ValueError(
            "There is no path to go back on after drop, merge or set_center: fit again first."
        )
    for name, value in (("y", y), ("sample_weight", sample_weight)):
        if X is None and value is not None:
            raise ValueError(
                f"at has no use for {name} without X: pass the rows of the fit, too, or k alone."
            )


def check_known_classes(known: npt.NDArray[Any], found: npt.NDArray[Any]) -> None:
    """Check that rows to refine on have no other classes than those of the model."""
    more = np.setdiff1d(found, known)
    if len(more):
        raise ValueError(
            f"y has the class {more[0]!s}, for which the model has no prototype: pass the rows "
            "that it was fitted on."
        )


def check_rows(estimator: Any, X: Any) -> Matrix:
    """Check rows to predict, and return them as the metric compares them.

    They must be finite, and have the features that the estimator was fitted on.
    """
    raw = check_raw_rows(estimator, X)
    return _geometry(estimator).rows(raw, threads_of(estimator))


def check_raw_rows(estimator: Any, X: Any) -> Matrix:
    """Check rows to predict, and return them as they are: their length stays with any metric."""
    X = _check_layout(estimator, X)
    check_values(estimator, X)
    return X.astype(_dtype(estimator), copy=False)


def convert_rows(estimator: Any, X: Any) -> Matrix:
    """Convert rows to predict; their values are checked only if they are changed anyway.

    The caller has to call `check_values` if it finds values that are not finite.
    """
    X = _check_layout(estimator, X)
    dtype, geometry = _dtype(estimator), _geometry(estimator)
    if X.dtype != dtype or geometry.bounded:
        check_values(estimator, X)
    return geometry.rows(X.astype(dtype, copy=False), threads_of(estimator))


def _check_layout(estimator: Any, X: Any) -> Matrix:
    """Check the type, shape and features of rows to predict, but not their values."""
    if _is_as_fitted(estimator, X):
        return X
    check_is_fitted(estimator)
    return _with_readable_errors(estimator, X, reset=False)


def _is_as_fitted(estimator: Any, X: Any) -> bool:
    """Return whether X is an array in which scikit-learn's validation would change nothing.

    That validation takes longer than the search for the nearest prototypes of a hundred rows.
    """
    known = vars(estimator)
    return (
        type(X) is np.ndarray
        and X.ndim == 2
        and X.dtype in (np.float64, np.float32)
        and len(X) > 0
        and X.shape[1] == known.get("n_features_in_")
        and "feature_names_in_" not in known
        and "_fitted" in known
    )


def check_values(estimator: Any, X: Matrix) -> None:
    """Check that rows to predict are finite, and not too large to be squared."""
    names = getattr(estimator, "feature_names_in_", None)
    largest = finite_range(X, names, threads_of(estimator))
    if not _geometry(estimator).bounded:
        centers = estimator._fitted.prototypes.centers
        reach = largest + float(np.abs(centers).max())
        check_squares(reach, X.shape[1], centers.dtype, largest)


def _geometry(estimator: Any) -> Geometry:
    geometry: Geometry = estimator._fitted.geometry
    return geometry


def _dtype(estimator: Any) -> np.dtype[np.floating]:
    dtype: np.dtype[np.floating] = estimator._fitted.prototypes.centers.dtype
    return dtype


def _with_readable_errors(estimator: Any, X: Any, **more: Any) -> Any:
    """Call scikit-learn's validation, and name the column where it only names a value."""
    if sp.issparse(X) and X.ndim == 2:  # or else scikit-learn says what is wrong
        X = as_csr(X)
    try:
        return validate_data(
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
            raise ValueError(describe_text(X)) from error
        raise


def describe_text(X: Any) -> str:
    """Say which column holds something that is no number."""
    columns = getattr(X, "columns", None)
    table = np.asarray(X, dtype=object)
    for j in range(table.shape[1] if table.ndim == 2 else 0):
        for value in table[:, j]:
            try:
                float(value)
            except (TypeError, ValueError):
                name = j if columns is None else repr(str(columns[j]))
                return (
                    f"X must be numbers, but column {name} holds {value!r}: encode or drop it, or "
                    "use dkmeans.table_pipeline."
                )
    return "X must be numbers, but holds something that cannot be converted to a float."


def threads_of(estimator: Any) -> int:
    """Tell how many threads an estimator may use."""
    return cap_threads(estimator.n_threads) if estimator.n_threads else default_threads()


def is_count(value: Any) -> bool:
    """Return whether a value is None or an integer >= 1."""
    return value is None or (is_int(value) and value >= 1)


def is_int(value: Any) -> bool:
    """Return whether a value is an integer, and not a truth value."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool | np.bool_)
