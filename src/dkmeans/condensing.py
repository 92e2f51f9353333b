"""A small labelled data set in place of a large one: `condense`, and `Condenser` for pipelines."""

import numbers
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.utils import Tags

from dkmeans import fitting
from dkmeans.data import validation
from dkmeans.data.dask_collections import is_dask
from dkmeans.data.value_checks import InvalidParameterError, as_labels, check_sample_weight, is_real
from dkmeans.engine.stand_ins import by_own_class, find_stand_ins
from dkmeans.estimator import DiscriminativeKMeans
from dkmeans.kernels.block import Indices
from dkmeans.kernels.tally import exact_totals

Keep: TypeAlias = Literal["prototypes", "exemplars"]
_KINDS = ("prototypes", "exemplars")


class Condensed(NamedTuple):
    """A small labelled data set; it unpacks as `X, y, weight, indices`.

    Attributes
    ----------
    X : array, CSR matrix or DataFrame of shape (n_kept, n_features)
        What is kept, of the same kind as the X that was given (pandas and polars included).
    y : array or Series of shape (n_kept,)
        Class labels.
    weight : array or Series of shape (n_kept,)
        Sum of `sample_weight` over the rows that each one stands for: those of its class that are
        nearer to its prototype than to the others of the class. A Series if `sample_weight` was.
    indices : ndarray of shape (n_kept,) or None
        Which rows were kept; None for prototypes, which are no rows.

    Notes
    -----
    With pandas, X, y and weight have the same index: exemplars that of their rows in the X that was
    given, prototypes a new one.
    """

    X: Any
    y: Any
    weight: Any
    indices: Indices | None


def condense(
    X: Any,
    y: Any,
    n: int | float | Literal["auto"] | None = 0.05,
    *,
    keep: Keep = "prototypes",
    sample_weight: Any = None,
    **parameters: Any,
) -> Condensed:
    """Replace labelled rows by a few that stand for them, to be used with k-NN, for instance.

    Parameters
    ----------
    X : array-like, CSR matrix or DataFrame of shape (n_samples, n_features)
        Rows.
    y : array-like of shape (n_samples,)
        Class labels.
    n : int, float, "auto" or None, default=0.05
        How many to keep at most: a number, a share between 0 and 1 of the rows, where identical
        rows count once and those of weight 0 not at all, "auto" to have it chosen on held-out
        rows, or None to grow until every row is told apart. No fewer than there are classes.
    keep : {"prototypes", "exemplars"}, default="prototypes"
        "prototypes" keeps the centres, which err least. "exemplars" keeps real rows: for each
        prototype the nearest of the rows that it stands for. They need to be more.
    sample_weight : array-like of shape (n_samples,), optional
        Weights >= 0 of the rows.
    **parameters
        Of `DiscriminativeKMeans`. `refine` is "margin" for prototypes and None for exemplars
        unless given.

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
    if "refine" not in parameters:
        parameters["refine"] = _refinement(keep)
    return _condense(DiscriminativeKMeans(**parameters), X, y, n, keep, sample_weight)[0]


class Condenser(BaseEstimator):
    """Replace labelled rows by a few that stand for them, as a step of a pipeline.

    It follows imbalanced-learn's convention for samplers: put it before a classifier in
    `imblearn.pipeline.Pipeline`. There rows are condensed when the pipeline is fitted, and left as
    they are when it predicts.

    Parameters
    ----------
    n : int, float, "auto" or None, default=0.05
        How many to keep at most: a number, a share between 0 and 1 of the rows, where identical
        rows count once and those of weight 0 not at all, "auto" to have it chosen on held-out
        rows, or None to grow until every row is told apart. No fewer than there are classes.
    keep : {"prototypes", "exemplars"}, default="prototypes"
        "prototypes" keeps the centres, which err least. "exemplars" keeps real rows: for each
        prototype the nearest of the rows that it stands for. They need to be more.
    estimator : DiscriminativeKMeans, optional
        How to grow the prototypes; a copy of it is fitted, with `max_clusters` set by `n`. If not
        given, one with `refine="margin"` for prototypes, and without for exemplars.

    Attributes
    ----------
    estimator_ : DiscriminativeKMeans
        The fitted copy.
    sample_indices_ : ndarray of shape (n_kept,)
        Which rows were kept; only for exemplars.
    sample_weight_ : ndarray of shape (n_kept,)
        Sum of `sample_weight` over the rows that each one stands for.
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
        """Do all that `fit_resample` does, but for giving back what is kept.

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
            What is kept, and its class labels.
        """
        model = self.estimator
        if model is None:
            model = DiscriminativeKMeans(refine=_refinement(self.keep))
        elif not isinstance(model, DiscriminativeKMeans):
            raise InvalidParameterError(
                f"estimator={model!r} is not accepted: it must be None or a DiscriminativeKMeans."
            )
        small, fitted = _condense(clone(model), X, y, self.n, self.keep, sample_weight)
        found = {"estimator_": fitted, "sample_weight_": np.asarray(small.weight)}
        found["n_features_in_"] = fitted.n_features_in_
        if hasattr(fitted, "feature_names_in_"):
            found["feature_names_in_"] = fitted.feature_names_in_
        if small.indices is not None:
            found["sample_indices_"] = small.indices
        # All at once, and nothing stays of an earlier call.
        kept = {name: value for name, value in vars(self).items() if not name.endswith("_")}
        self.__dict__ = kept | found
        return small.X, small.y

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn what is supported."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def _refinement(keep: Any) -> Literal["margin"] | None:
    """Refined prototypes err least, but lie apart from the rows, so rows near them err more."""
    return "margin" if keep == "prototypes" else None


def _condense(
    model: DiscriminativeKMeans, X: Any, y: Any, n: Any, keep: Any, sample_weight: Any
) -> tuple[Condensed, DiscriminativeKMeans]:
    """Fit a model, and take what it keeps."""
    if not (isinstance(keep, str) and keep in _KINDS):
        raise InvalidParameterError(
            f"keep={keep!r} is not accepted: it must be 'prototypes' or 'exemplars'."
        )
    if is_dask(X) or isinstance(X, str) or not (hasattr(X, "shape") or isinstance(X, Sequence)):
        raise TypeError(
            f"X is a {type(X).__name__}; condense needs rows in memory: an array, a CSR matrix or "
            "a DataFrame."
        )
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    weights = check_sample_weight(sample_weight, n_rows)
    weights = np.ones(n_rows) if weights is None else weights
    budget = _budget(n, y, lambda: validation.count_items(model, X, weights))
    model.set_params(max_clusters=budget).fit(X, y, sample_weight)
    rows = validation.check_rows(model, X)
    codes = np.searchsorted(model.classes_, np.asarray(as_labels(y)).ravel())
    now, threads = fitting.prototypes(model, model.classes_), validation.threads_of(model)
    groups = by_own_class(rows, codes, now, threads)
    groups[weights == 0] = -1
    there = groups >= 0
    weight = exact_totals(groups[there], weights[there], len(now))
    which, indices = np.arange(len(now)), None
    if keep == "exemplars":
        which, indices = find_stand_ins(
            rows, groups, model.cluster_centers_, lambda tied: _dense(_rows_of(X, tied))
        )
    small = _as_given(X, model.cluster_centers_) if indices is None else _rows_of(X, indices)
    labels = _column_as_given(y, model.cluster_classes_[which], small, indices, keep_type=True)
    sums = _column_as_given(sample_weight, weight[which], small, indices, keep_type=False)
    return Condensed(small, labels, sums, indices), model


def _budget(n: Any, y: Any, count: Callable[[], int]) -> Any:
    """Turn what users say of how many to keep into a budget of clusters; `count` counts rows."""
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
    """Take rows of what was given, as they are."""
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
    """Make new rows what the old ones were: a DataFrame, a sparse matrix or an array."""
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
    """Make values a Series, if one was given; in pandas with the index of what is kept."""
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
