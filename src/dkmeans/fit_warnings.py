"""Warnings about settings without effect, about the data, and about the result of a fit."""

import copy
import warnings
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from dkmeans.data.dask_collections import is_dask
from dkmeans.data.validation import check_any_rows, check_raw_rows
from dkmeans.fitted import Fitted
from dkmeans.geometry import GEOMETRIES, MAX_FEATURES, Euclidean, Learned
from dkmeans.geometry.dominance import dominant_features
from dkmeans.growth.rules import Continuation

_MIN_PROTOTYPES = 20  # no warning below this number
_MIN_SHARE = 0.1  # of the rows
_MIN_OUTLIER_ROWS = 30  # with fewer, a value far from all others may be no exception
_CENTRAL = 0.9  # share of the values that are most of them
_OUTLIER_RATIO = 100.0  # of the standard deviation to the range of most values
SAMPLE_ROWS = 2_500  # from which variances are estimated
BLOCK_ROWS = 256
MAX_NAMES = 3  # of features that dominate together
SCALING = "scale the features, for instance with sklearn.preprocessing.StandardScaler"
ROUNDING = 1e-12  # of a variance, as a share of the mean square


class OverfittingWarning(UserWarning):
    """Growth that fits every label needed a prototype for a large share of the rows."""


class ScaleWarning(UserWarning):
    """A few features decide nearly all distances, or outliers decide the scale of one."""


def warn_about(estimator: Any, X: Any, how: Continuation, stacklevel: int) -> None:
    """Warn about what a fit was asked to do, and about what has become of it.

    Parameters
    ----------
    estimator : DiscriminativeKMeans
        Fitted.
    X : as in `DiscriminativeKMeans.fit`
        Its rows.
    how : Continuation
    stacklevel : int
        That of the caller, as in `warnings.warn`.
    """
    fitted: Fitted = estimator._fitted
    texts: list[tuple[type[Warning], str | None]] = [
        (OverfittingWarning, _overfitting(fitted, estimator, how)),
        (UserWarning, _kept_number(fitted, estimator, how)),
        (ConvergenceWarning, _no_convergence(fitted, estimator, how)),
        (UserWarning, _idle_repulsion(estimator, how)),
        (UserWarning, _idle_components(estimator, how)),
        (UserWarning, _one_cluster(fitted, estimator, how)),
        (UserWarning, _idle_refinement(fitted, estimator, how)),
        (ScaleWarning, _dominant_features(fitted, estimator, X, how)),
        (ScaleWarning, _outlying_feature(fitted, estimator, X, how)),
    ]
    for category, text in texts:
        if text is not None:
            warnings.warn(text, category, stacklevel=stacklevel + 1)


def _overfitting(fitted: Fitted, estimator: Any, how: Continuation) -> str | None:
    """Look at the share of the rows that became prototypes, if growth ended without a budget."""
    k, n_rows, budget = fitted.n_clusters, fitted.n_rows, estimator.max_clusters
    few = max(_MIN_PROTOTYPES, 2 * len(fitted.classes), _MIN_SHARE * n_rows)
    if how is Continuation.NEW_ROWS or budget == "auto" or k <= few:
        return None
    last = _last_of_growth(fitted)
    fits = last is not None and fitted.history.mixed[last] == 0
    if budget is None:
        aim = "to fit every label" if fits and estimator.min_cluster_size is None else "for labels"
        made, why, remedy = f"took {k} prototypes {aim} of {n_rows} rows", "", "a budget"
    else:
        if not fits or fitted.history.clusters.max() >= budget:
            return None
        made, remedy = f"ended at {k} prototypes for {n_rows} rows", "a smaller budget"
        why = f" before max_clusters={budget}, as no cell was mixed any more"
    return (
        f"Growth {made} ({k / n_rows:.0%} of their number){why}, so noise is probably fitted too: "
        f"set max_clusters ({remedy}, or 'auto') or min_cluster_size."
    )


def _last_of_growth(fitted: Fitted) -> int | None:
    """Return which line of the history is the last one before refinement, if there is any."""
    grown = np.flatnonzero(fitted.history.phase != "refine")
    return int(grown[-1]) if len(grown) else None


def _kept_number(fitted: Fitted, estimator: Any, how: Continuation) -> str | None:
    """Look for a number of clusters that was chosen on few rows, and kept."""
    if how is not Continuation.NEW_ROWS or estimator.max_clusters != "auto":
        return None
    return (
        'max_clusters="auto" keeps the number of clusters that the first call chose on its rows '
        f"alone, so there are {fitted.n_clusters} clusters now: set max_clusters to the number "
        "that all batches together need."
    )


def _no_convergence(fitted: Fitted, estimator: Any, how: Continuation) -> str | None:
    """Look whether a fit ran out of rounds."""
    budget = estimator.max_clusters
    finished = fitted.converged or fitted.n_iter < estimator.max_iter
    at_budget = budget == "auto" or (budget is not None and fitted.n_clusters >= budget)
    if finished or at_budget or how is Continuation.REFINE:
        return None
    return (
        f"No convergence in max_iter={estimator.max_iter} rounds: raise max_iter, or set "
        "max_clusters to stop at a budget."
    )


def _idle_repulsion(estimator: Any, how: Continuation) -> str | None:
    """Look for a repulsion that was set; fits that continue follow the paper, and use it."""
    idle = estimator.growth == "best" and estimator.repulsion != "size"
    if how is not Continuation.FRESH or not idle or estimator.warm_start:
        return None
    return (
        f"repulsion={estimator.repulsion!r} has no effect with growth='best': set growth='paper' "
        "for the rounds of the paper, which use it, or leave it out."
    )


def _idle_components(estimator: Any, how: Continuation) -> str | None:
    """Look for a rank of a metric that is not learned."""
    metric = estimator.metric
    if how is not Continuation.FRESH or estimator.n_components is None or metric not in GEOMETRIES:
        return None
    return (
        f"n_components={estimator.n_components} has no effect with metric={metric!r}: set "
        "metric='learned', or leave it out."
    )


def _one_cluster(fitted: Fitted, estimator: Any, how: Continuation) -> str | None:
    """Look for a least size of clusters that two classes cannot have."""
    size, total = estimator.min_cluster_size, float(fitted.sizes.sum())
    is_single = fitted.n_clusters == 1 and len(fitted.classes) > 1
    if how is not Continuation.FRESH or size is None or not is_single or size <= total / 2:
        return None
    return (
        f"min_cluster_size={size} leaves a single cluster, as it is more than half the weight of "
        f"all rows, which is {total:g}: lower it."
    )


def _idle_refinement(fitted: Fitted, estimator: Any, how: Continuation) -> str | None:
    """Look whether refinement changed nothing, or for the worse, after every label was fitted."""
    converged_to_many = estimator.max_clusters is None and fitted.n_clusters > len(fitted.classes)
    history, last = fitted.history, _last_of_growth(fitted)
    if how is not Continuation.FRESH or not converged_to_many or last is None:
        return None
    if estimator.refine is not None and history.inertia[last] == history.inertia[-1]:
        return (
            f"refine={estimator.refine!r} moved nothing, as max_clusters=None grows until every "
            "label is fitted: set max_clusters to a number or 'auto', or refine=None."
        )
    before, after = history.impurity[last], history.impurity[-1]
    if history.mixed[last] or estimator.min_cluster_size is not None or after <= before:
        return None
    is_learned = isinstance(fitted.geometry, Learned)  # with the prototypes, after growth
    if estimator.refine is None:
        if not is_learned:
            return None
        cause, remedy = "metric='learned'", "metric='euclidean'"
    else:
        cause = f"refine={estimator.refine!r}"
        remedy = "refine=None and metric='euclidean'" if is_learned else "refine=None"
    return (
        f"{cause} raised the impurity of the cells from {before:.1%} to {after:.1%}, as "
        "max_clusters=None had grown until every label was fitted: set max_clusters to a number "
        f"or 'auto', or {remedy}."
    )


def _dominant_features(fitted: Fitted, estimator: Any, X: Any, how: Continuation) -> str | None:
    """Look for features that have nearly all of the variance, if rows are in memory."""
    if how is not Continuation.FRESH or not isinstance(fitted.geometry, Euclidean):
        return None
    rows = _sample(fitted, estimator, X)
    if rows is None:
        return None
    can_learn = rows.shape[1] <= MAX_FEATURES
    remedy = "use metric='learned', or " if can_learn else ""
    return _dominant_text(rows, fitted.feature_names, remedy)


def _outlying_feature(fitted: Fitted, estimator: Any, X: Any, how: Continuation) -> str | None:
    """Look for a feature with few values far from all others, if rows are in memory.

    Its standard deviation hides how the other values differ.
    """
    if how is not Continuation.FRESH or not isinstance(fitted.geometry, Learned):
        return None
    rows = _sample(fitted, estimator, X)
    if rows is None or sp.issparse(rows) or len(rows) < _MIN_OUTLIER_ROWS:
        return None  # most values of sparse rows are 0
    low, high = np.quantile(rows, [0.5 - _CENTRAL / 2, 0.5 + _CENTRAL / 2], axis=0)
    widths = np.asarray(high - low, dtype=np.float64)
    scale = fitted.geometry.scale
    ratios = np.divide(scale, widths, out=np.zeros_like(scale), where=widths > 0)
    top = int(np.argmax(ratios))
    if ratios[top] < _OUTLIER_RATIO:
        return None
    return (
        f"Feature {_name_of(fitted.feature_names, top)} has a standard deviation of "
        f"{scale[top]:.3g}, but most of its values differ by no more than {widths[top]:.3g}, so "
        "its few other values hide all differences between them: look for outliers, and for codes "
        "of missing values."
    )


def _sample(fitted: Fitted, estimator: Any, X: Any) -> Any:
    """Return some of the rows, if they are in memory."""
    if is_dask(X) or isinstance(X, str | PathLike) or not hasattr(X, "__getitem__"):
        return None
    nameless = copy.copy(estimator)  # a part of named rows may have no names
    if not hasattr(X, "columns"):
        nameless.__dict__.pop("feature_names_in_", None)
    return check_raw_rows(nameless, _some_of(X, fitted.n_rows))


def warn_of_scale(estimator: Any, X: Any, stacklevel: int) -> None:
    """Warn of features that have nearly all of the variance of vectors in memory.

    Parameters
    ----------
    estimator : DiscriminativeKMedoids or Landmarks
        Fitted; one whose metric depends on the units of features.
    X : as in its `fit`
    stacklevel : int
        That of the caller, as in `warnings.warn`.
    """
    if not hasattr(X, "__getitem__"):
        return
    names = getattr(estimator, "feature_names_in_", None)
    scratch = type(estimator)(**estimator.get_params(deep=False))
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    rows, _ = check_any_rows(scratch, _some_of(X, n_rows), reset=True)
    text = _dominant_text(rows, names, "")
    if text is not None:
        warnings.warn(text, ScaleWarning, stacklevel=stacklevel + 1)


def _some_of(X: Any, n_rows: int) -> Any:
    """Return so many rows that variances can be estimated."""
    rows = X.tocsr() if sp.issparse(X) else X  # not all sparse formats can be sliced
    return rows[:: max(1, n_rows // SAMPLE_ROWS)]


def _dominant_text(rows: Any, names: npt.NDArray[Any] | None, remedy: str) -> str | None:
    """Say which features have nearly all of the variance, if there are any, and what to do."""
    deviations = _deviations(rows)
    top = dominant_features(deviations)
    if not len(top):
        return None
    scaled = deviations / deviations[top[0]]  # so that no square overflows
    share = np.square(scaled[top]).sum() / np.square(scaled).sum()
    known = [str(i) if names is None else repr(str(names[i])) for i in top]
    several = len(known) > 1
    return (
        f"Feature{'s' if several else ''} {'number ' if names is None else ''}{_listed(known)} "
        f"{'have' if several else 'has'} {share:.1%} of the variance of all {len(deviations)} "
        f"features, so {'they decide' if several else 'it decides'} most distances: "
        f"{remedy}{SCALING}."
    )


def _name_of(names: npt.NDArray[Any] | None, feature: int) -> str:
    return f"number {feature}" if names is None else repr(str(names[feature]))


def _listed(names: list[str]) -> str:
    """List the first of some names, and how many there are beside them."""
    shown = names[:MAX_NAMES]
    if len(names) > MAX_NAMES:
        shown.append(f"{len(names) - MAX_NAMES} more")
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _deviations(X: Any) -> npt.NDArray[np.float64]:
    """Return the standard deviation of each feature, exactly 0 if it does not vary."""
    with np.errstate(over="ignore", invalid="ignore"):
        if sp.issparse(X):
            X = X.astype(np.float64)
            means = np.asarray(X.mean(axis=0)).ravel()
            squares = np.asarray(X.multiply(X).mean(axis=0)).ravel()
            variances = squares - means**2
            variances[variances <= ROUNDING * squares] = 0
            return np.asarray(np.sqrt(variances), dtype=np.float64)
        # In blocks, as there must be no copy of X in float64. Without the first row, features that
        # do not vary are 0, and their sums have no rounding errors.
        first = X[0].astype(np.float64)
        starts = range(0, len(X), BLOCK_ROWS)
        means = sum((X[i : i + BLOCK_ROWS] - first).sum(axis=0) for i in starts) / len(X)
        squares = sum(np.square(X[i : i + BLOCK_ROWS] - first - means).sum(axis=0) for i in starts)
        return np.asarray(np.sqrt(squares / len(X)), dtype=np.float64)
