"""Validation of training data and rows to predict."""

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from dkmeans.data.arguments import check_parameters, is_int, threads_of
from dkmeans.data.named_arrays import NamedArray
from dkmeans.data.row_sample import sample_of
from dkmeans.data.row_weights import ArrayWeights, RowWeights, WeightFacts, WeightsElsewhere
from dkmeans.data.value_checks import (
    as_csr,
    as_labels,
    check_same_kind,
    check_sample_weight,
    check_squares,
    check_underflow,
    class_weights,
    finite_range,
)
from dkmeans.geometry import LEARNED, Geometry, choose_metric, geometry_of, reading_geometry
from dkmeans.growth.rules import Continuation
from dkmeans.kernels.block import Floats, Indices, Matrix
from dkmeans.kernels.tally import exact_totals


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
        idle = ~self.has_weight
        return len(self.classes) - len(np.unique(self.y[idle[self.y]]))

    @property
    def has_weight(self) -> npt.NDArray[np.bool_]:
        """Whether each class has rows with weight."""
        totals = exact_totals(self.y, self.sample_weight, len(self.classes))
        return (totals > 0) & (self.factors > 0)

    @property
    def factors(self) -> Floats:
        """Class weights, ones if there are none."""
        return np.ones(len(self.classes)) if self.class_weight is None else self.class_weight


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
    if isinstance(X, np.ma.MaskedArray):  # masked values are missing, not what lies below the mask
        X = np.ma.filled(X.astype(np.result_type(X.dtype, np.float32)), np.nan)
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
        text = ("could not convert", "Unable to convert", "DType", "Cannot cast")
        if any(words in str(error) for words in text):
            raise ValueError(describe_text(X)) from error
        wrong_form = describe_form(X)
        if wrong_form is not None:
            raise ValueError(wrong_form) from error
        raise


def describe_form(X: Any) -> str | None:
    """Say why something is no table of real numbers, if its form or type tells."""
    if X is None:
        return "X is None: pass rows, as an array or a dataframe."
    if isinstance(X, list | tuple):
        lengths = sorted({len(row) for row in X if hasattr(row, "__len__")})
        if len(lengths) > 1:
            return (
                f"The rows of X differ in length, such as {lengths[0]} and {lengths[-1]} values: "
                "give all rows the same number of values."
            )
    if isinstance(X, dict):
        return "X is a dict: pass an array or a dataframe, for instance pandas.DataFrame(X)."
    shape, dtype = getattr(X, "shape", ()), getattr(X, "dtype", None)
    if getattr(dtype, "kind", None) == "c":
        return "Complex data not supported: X has complex numbers, but features must be real."
    if not isinstance(X, np.ndarray):  # scikit-learn says it of dataframes, lists and scalars
        return None
    if len(shape) == 1:
        return (
            f"Expected 2D array, got 1D array instead, of shape {shape}. Reshape your data with "
            "X.reshape(-1, 1) if it has a single feature, or X.reshape(1, -1) if it is one row."
        )
    if len(shape) > 2:
        return (
            f"X has the shape {shape}, but must have rows and columns only: reshape it, for "
            "instance with X.reshape(len(X), -1)."
        )
    return None


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
