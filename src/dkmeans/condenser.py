"""Condense a labelled data set: `condense`, and `Condenser` for pipelines."""

import numbers
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.utils import Tags

from dkmeans.data import arguments, validation
from dkmeans.data.dask_collections import is_dask
from dkmeans.data.value_checks import InvalidParameterError, as_labels, check_sample_weight, is_real
from dkmeans.estimator import DiscriminativeKMeans
from dkmeans.kernels.block import Floats, Indices
from dkmeans.questions.condense import KINDS, Keep, choose_representatives
from dkmeans.questions.nearest_prototype import hashes
from dkmeans.sources.stored_rows import training_blocks, unlabelled_rows


class Condensed(NamedTuple):
    """A small labelled data set; it unpacks as `X, y, weight, indices`.

    Attributes
    ----------
    X : array, CSR matrix or DataFrame of shape (n_kept, n_features)
        Rows that are kept, in the same kind of container as the X that was given (pandas and
        polars included).
    y : array or Series of shape (n_kept,)
        Class labels.
    weight : array or Series of shape (n_kept,)
        Sum of `sample_weight` over the rows that each one represents: those of its class that are
        nearer to its prototype than to the others of the class. A Series if `sample_weight` was.
    indices : ndarray of shape (n_kept,) or None
        Indices of the rows that were kept; None for prototypes.

    Notes
    -----
    With pandas, X, y and weight have the same index: for exemplars, that of their rows in X; for
    prototypes, a new one.
    """

    X: Any
    y: Any
    weight: Any
    indices: Indices | None


def condense(
    X: Any,
    y: Any = None,
    n: int | float | Literal["auto"] | None = 0.05,
    *,
    keep: Keep = "prototypes",
    sample_weight: Any = None,
    **parameters: Any,
) -> Condensed:
    """Replace labelled rows by a few that represent them, for use with k-NN, for instance.

    Parameters
    ----------
    X : array-like, CSR matrix or DataFrame of shape (n_samples, n_features)
        Rows, or other data that `DiscriminativeKMeans.fit` takes, which is read block by block:
        then rows that are kept are an array or a CSR matrix.
    y : array-like of shape (n_samples,)
        Class labels, or what `fit` takes in their place.
    n : int, float, "auto" or None, default=0.05
        Largest number of rows to keep: an integer; a share of the rows between 0 and 1, where
        identical rows count once and rows of weight 0 do not count; "auto" to choose it on held-out
        rows; or None to grow until convergence. At least one row per class is kept.
    keep : {"prototypes", "exemplars"}, default="prototypes"
        "prototypes" keeps the centres, which have the lowest error. "exemplars" keeps real rows:
        for each prototype the nearest of the rows that it represents. More of them are needed.
    sample_weight : array-like of shape (n_samples,), optional
        Weights >= 0 of the rows.
    **parameters
        Parameters of `DiscriminativeKMeans`. By default `refine` is "margin" for prototypes and
        None for exemplars.

    Returns
    -------
    condensed : Condensed
        With X, y, weight and indices.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from dkmeans import condense
    >>> X, y = load_digits(return_X_y=True)
    >>> small = condense(X[:1200], y[:1200], 60)
    >>> small.X.shape, small.weight.sum()
    ((60, 64), np.float64(1200.0))
    >>> knn = KNeighborsClassifier(1).fit(small.X, small.y)
    >>> round(knn.score(X[1200:], y[1200:]), 2)
    0.96
    """
    wrong = sorted(set(parameters) - set(DiscriminativeKMeans().get_params()))
    if wrong or "max_clusters" in parameters:
        name = wrong[0] if wrong else "max_clusters"
        raise TypeError(
            f"condense has no parameter {name!r}: pass n, keep, sample_weight or parameters of "
            "DiscriminativeKMeans other than max_clusters, which n stands for."
        )
    model = DiscriminativeKMeans(**_settings(keep) | parameters)
    return _condense(model, X, y, n, keep, sample_weight)[0]


class Condenser(BaseEstimator):
    """Replace labelled rows by a few that represent them, as a step of a pipeline.

    It follows imbalanced-learn's convention for samplers: use it before a classifier in
    `imblearn.pipeline.Pipeline`. Rows are then condensed when the pipeline is fitted, and unchanged
    when it predicts.

    Parameters
    ----------
    n : int, float, "auto" or None, default=0.05
        Largest number of rows to keep: an integer; a share of the rows between 0 and 1, where
        identical rows count once and rows of weight 0 do not count; "auto" to choose it on held-out
        rows; or None to grow until convergence. At least one row per class is kept.
    keep : {"prototypes", "exemplars"}, default="prototypes"
        "prototypes" keeps the centres, which have the lowest error. "exemplars" keeps real rows:
        for each prototype the nearest of the rows that it represents. More of them are needed.
    estimator : DiscriminativeKMeans, optional
        Estimator of which a copy is fitted, with `max_clusters` set by `n`. By default one with
        `refine="margin"` for prototypes, and without refinement for exemplars.

    Attributes
    ----------
    estimator_ : DiscriminativeKMeans
        The fitted copy.
    sample_indices_ : ndarray of shape (n_kept,)
        Indices of the rows that were kept; only for exemplars.
    sample_weight_ : ndarray of shape (n_kept,)
        Sum of `sample_weight` over the rows that each one represents.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features, if X was a table with text column names.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dkmeans import Condenser
    >>> X, y = load_digits(return_X_y=True)
    >>> sampler = Condenser(60, keep="exemplars")
    >>> X_small, y_small = sampler.fit_resample(X, y)
    >>> X_small.shape, bool((X_small == X[sampler.sample_indices_]).all())
    ((60, 64), True)
    """

    def __init__(
        self,
        n: int | float | Literal["auto"] | None = 0.05,
        *,
        keep: Keep = "prototypes",
        estimator: DiscriminativeKMeans | None = None,
    ) -> None:
        self.n = n
        self.keep = keep
        self.estimator = estimator

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Do the same as `fit_resample`, but return the sampler.

        Parameters
        ----------
        X : array-like, CSR matrix or DataFrame of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weights >= 0 of the rows.

        Returns
        -------
        self : Condenser
            The fitted sampler.
        """
        self.fit_resample(X, y, sample_weight)
        return self

    def fit_resample(self, X: Any, y: Any, sample_weight: Any = None) -> tuple[Any, Any]:
        """Condense labelled rows.

        Parameters
        ----------
        X : array-like, CSR matrix or DataFrame of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weights >= 0 of the rows.

        Returns
        -------
        X, y : as given, but shorter
            Rows that are kept, and their class labels.
        """
        model = self.estimator
        if model is None:
            model = DiscriminativeKMeans(**_settings(self.keep))
        elif not isinstance(model, DiscriminativeKMeans):
            raise InvalidParameterError(
                f"estimator={model!r} is not accepted: it must be None or a DiscriminativeKMeans."
            )
        small, fitted = _condense(clone(model), X, y, self.n, self.keep, sample_weight)
        # None stands for an attribute that does not exist after this call.
        found = {
            "estimator_": fitted,
            "sample_weight_": np.asarray(small.weight),
            "sample_indices_": small.indices,
            "n_features_in_": fitted.n_features_in_,
            "feature_names_in_": getattr(fitted, "feature_names_in_", None),
        }
        kept = {name: value for name, value in vars(self).items() if name not in found}
        self.__dict__ = kept | {name: value for name, value in found.items() if value is not None}
        return small.X, small.y

    def __sklearn_tags__(self) -> Tags:
        """Declare what is supported, for scikit-learn."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def _settings(keep: Any) -> dict[str, Any]:
    """Return the defaults.

    Refined prototypes are more accurate, but farther from their rows. The small data set is for
    other methods, which do not know a learned metric.
    """
    return {"metric": "euclidean", "refine": "margin" if keep == "prototypes" else None}


def _condense(
    model: DiscriminativeKMeans, X: Any, y: Any, n: Any, keep: Keep, sample_weight: Any
) -> tuple[Condensed, DiscriminativeKMeans]:
    """Fit a model, and choose what to keep."""
    if not (isinstance(keep, str) and keep in KINDS):
        raise InvalidParameterError(
            f"keep={keep!r} is not accepted: it must be 'prototypes' or 'exemplars'."
        )
    given = X, y, sample_weight
    stored = training_blocks(model, X, y, sample_weight)
    if stored is not None:
        X, y, sample_weight = stored.rows.X, stored.rows.y, stored.rows.sample_weight
        if not is_dask(given[0]):  # a cluster fits the rows that it has
            given = stored, None, None
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    weights = check_sample_weight(sample_weight, n_rows)
    weights = np.ones(n_rows) if weights is None else weights
    budget = _budget(n, y, lambda: _count_items(model, X, weights))
    model.set_params(max_clusters=budget).fit(*given)
    rows = X if stored is None else stored
    kept = choose_representatives(
        model._fitted,
        unlabelled_rows(model, validation.check_rows, rows).X,
        np.searchsorted(model.classes_, np.asarray(as_labels(y)).ravel()),
        weights,
        keep,
        lambda tied: _dense(_rows_of(X, tied)),
        arguments.threads_of(model),
    )
    indices = kept.rows
    small = _as_given(X, model.cluster_centers_) if indices is None else _rows_of(X, indices)
    labels = model.cluster_classes_[kept.prototypes]
    return Condensed(
        small,
        _column_as_given(y, labels, small, indices, keep_type=True),
        _column_as_given(sample_weight, kept.weights, small, indices, keep_type=False),
        indices,
    ), model


def _count_items(model: DiscriminativeKMeans, X: Any, weights: Floats) -> int:
    """Count the rows that a fit tells apart: identical ones once, weights of 0 not at all."""
    return len(np.unique(hashes(validation.check_new_rows(model, X))[weights > 0]))


def _budget(n: Any, y: Any, count: Callable[[], int]) -> Any:
    """Convert `n` to a number of clusters; `count` counts the rows."""
    whole = isinstance(n, numbers.Integral) and not isinstance(n, bool | np.bool_)
    share = is_real(n) and not whole
    if not (
        n is None
        or (isinstance(n, str) and n == "auto")
        or (whole and n >= 1)
        or (share and 0 < n < 1)
    ):
        raise InvalidParameterError(
            f"n={n!r} is not accepted: it must be an integer >= 1, a share between 0 and 1, "
            "'auto' or None."
        )
    if not (whole or share):
        return n
    n_classes = len(np.unique(np.asarray(as_labels(y))))
    if whole and n < n_classes:
        raise ValueError(
            f"n={n} is less than the number of classes in y, which is {n_classes}: something must "
            "be kept of each."
        )
    return int(n) if whole else max(round(float(n) * count()), n_classes)


def _rows_of(X: Any, indices: Indices) -> Any:
    """Select rows in the container that was given."""
    if hasattr(X, "iloc"):
        return X.iloc[indices]
    if _is_polars(X):
        return X[indices]
    if sp.issparse(X):
        return X.tocsr()[indices]
    return np.asarray(X)[indices]


def _dense(rows: Any) -> npt.NDArray[Any]:
    return np.asarray(rows.toarray() if sp.issparse(rows) else rows)


def _as_given(X: Any, values: npt.NDArray[np.floating]) -> Any:
    """Return new rows in the same kind of container: a DataFrame, a sparse matrix or an array."""
    if hasattr(X, "iloc"):
        return type(X)(values.copy(), columns=X.columns)
    if _is_polars(X):
        return type(X)(values, schema=X.columns)
    if sp.issparse(X):
        return (sp.csr_array if isinstance(X, sp.sparray) else sp.csr_matrix)(values)
    return values.copy()


def _column_as_given(
    given: Any, values: npt.NDArray[Any], small: Any, indices: Indices | None, *, keep_type: bool
) -> Any:
    """Return values as a Series, if one was given; in pandas with the index of the kept rows."""
    if _is_polars(given):
        return type(given)(given.name, values, dtype=given.dtype if keep_type else None)
    if not (hasattr(given, "iloc") and hasattr(given, "name")):
        return values.copy()
    index = None
    if hasattr(small, "iloc"):  # rows and labels were paired by position, so the index is that of X
        index = small.index
    elif indices is not None:
        index = given.index[indices]
    dtype = given.dtype if keep_type else None
    return type(given)(values, index=index, name=given.name, dtype=dtype)


def _is_polars(given: Any) -> bool:
    return type(given).__module__.partition(".")[0] == "polars"
