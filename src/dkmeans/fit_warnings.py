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
from dkmeans.geometry import AUTO, LEARNED, Euclidean, Learned
from dkmeans.geometry.dominance import is_dominant
from dkmeans.growth.rules import Continuation

_MIN_PROTOTYPES = 20  # no warning below this number
_MIN_SHARE = 0.1  # of the rows
SAMPLE_ROWS = 2_500  # from which variances are estimated
BLOCK_ROWS = 256
_MAX_NAMED = 5  # features in a warning


class OverfittingWarning(UserWarning):
    """A converged fit has a prototype for a large share of the rows."""


class ScaleWarning(UserWarning):
    """One feature decides nearly all distances, probably because of its unit."""


def warn_about(
    estimator: Any, X: Any, how: Continuation, stacklevel: int, *, in_parts: bool = False
) -> None:
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
    in_parts : bool
        Whether it is a call of `partial_fit`, also the first one.
    """
    fitted: Fitted = estimator._fitted
    texts: list[tuple[type[Warning], str | None]] = [
        (OverfittingWarning, _overfitting(fitted, estimator, how)),
        (UserWarning, _kept_number(fitted, estimator, how, in_parts)),
        (UserWarning, _constant_features(fitted, estimator, how) if in_parts else None),
        (ConvergenceWarning, _no_convergence(fitted, estimator, how)),
        (UserWarning, _idle_repulsion(estimator, how)),
        (UserWarning, _idle_refinement(fitted, estimator, how)),
        (ScaleWarning, _dominant_feature(fitted, estimator, X, how)),
    ]
    for category, text in texts:
        if text is not None:
            warnings.warn(text, category, stacklevel=stacklevel + 1)


def _overfitting(fitted: Fitted, estimator: Any, how: Continuation) -> str | None:
    """Look at the share of the rows that became prototypes, if all rows were given."""
    k, n_rows = fitted.n_clusters, fitted.n_rows
    few = max(_MIN_PROTOTYPES, 2 * len(fitted.classes), _MIN_SHARE * n_rows)
    if how is Continuation.NEW_ROWS or estimator.max_clusters is not None or k <= few:
        return None
    return (
        f"It took {k} prototypes to fit every label of {n_rows} rows ({k / n_rows:.0%} of their "
        "number), so noise is probably fitted too: set max_clusters (a budget, or 'auto') or "
        "min_cluster_size."
    )


def _kept_number(fitted: Fitted, estimator: Any, how: Continuation, in_parts: bool) -> str | None:
    """Look for a number of clusters that was chosen on few rows, and is kept."""
    if estimator.max_clusters != "auto":
        return None
    now = f"there are {fitted.n_clusters} clusters now"
    if how is Continuation.WARM:
        return (
            'max_clusters="auto" keeps the number of clusters that an earlier fit chose on its '
            f"rows, so {now}: set max_clusters to the number that all rows need, or "
            "warm_start=False to choose it again."
        )
    if not in_parts:
        return None
    metric, start = "", ""
    if estimator.metric in (AUTO, LEARNED):
        metric = f', and metric="{estimator.metric}" its metric'
        start = ", and pass many rows in the first call, for the metric"
    return (
        'max_clusters="auto" keeps the number of clusters that the first call chose on its rows '
        f"alone{metric}, so {now}: set max_clusters to the number that all batches together "
        f"need{start}."
    )


def _constant_features(fitted: Fitted, estimator: Any, how: Continuation) -> str | None:
    """Look for features that a learned metric ignores as the first call knows one value only."""
    if how is not Continuation.FRESH or not isinstance(fitted.geometry, Learned):
        return None
    constant = np.flatnonzero(fitted.geometry.scale == 0)
    if not len(constant):
        return None
    are = "is" if len(constant) == 1 else "are"
    it = "it" if len(constant) == 1 else "them"
    return (
        f"{_named(constant, fitted)} {are} constant in the first call, so "
        f'metric="{estimator.metric}" ignores {it} in all later calls, too: pass more rows in the '
        'first call, or set metric="euclidean".'
    )


def _named(features: npt.NDArray[np.intp], fitted: Fitted) -> str:
    """Name features, but not too many."""
    if len(features) == fitted.n_features > 1:
        return f"All {fitted.n_features} features"
    names = fitted.feature_names
    some = features[:_MAX_NAMED]
    texts = [str(j) if names is None else repr(str(names[j])) for j in some]
    left_out = len(features) - len(some)
    more = f" and {left_out} more" if left_out else ""
    noun = "Feature" if len(features) == 1 else "Features"
    return f"{noun}{' number' if names is None else ''} {', '.join(texts)}{more}"


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


def _idle_refinement(fitted: Fitted, estimator: Any, how: Continuation) -> str | None:
    """Look whether refinement had nothing to do, as growth had already fitted every label."""
    converged_to_many = estimator.max_clusters is None and fitted.n_clusters > len(fitted.classes)
    if how is not Continuation.FRESH or estimator.refine is None or not converged_to_many:
        return None
    phase, inertia = fitted.history.phase, fitted.history.inertia
    grown = np.flatnonzero(phase != "refine")
    if not len(grown) or inertia[grown[-1]] != inertia[-1]:
        return None
    return (
        f"refine={estimator.refine!r} moved nothing, as max_clusters=None grows until every label "
        "is fitted: set max_clusters to a number or 'auto', or refine=None."
    )


def _dominant_feature(fitted: Fitted, estimator: Any, X: Any, how: Continuation) -> str | None:
    """Look for a feature that has nearly all of the variance, if rows are in memory."""
    if how is not Continuation.FRESH or not isinstance(fitted.geometry, Euclidean):
        return None
    if is_dask(X) or isinstance(X, str | PathLike) or not hasattr(X, "__getitem__"):
        return None
    nameless = copy.copy(estimator)  # a part of named rows may have no names
    if not hasattr(X, "columns"):
        nameless.__dict__.pop("feature_names_in_", None)
    rows = check_raw_rows(nameless, _some_of(X, fitted.n_rows))
    return _dominant_text(rows, fitted.feature_names, "use metric='learned', or ")


def warn_of_scale(estimator: Any, X: Any, stacklevel: int) -> None:
    """Warn of a feature that has nearly all of the variance of vectors in memory.

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
    """Say which feature has nearly all of the variance, if there is one, and what to do."""
    shares = _shares_of_variance(rows)
    top = int(np.argmax(shares))
    share, d = shares[top], len(shares)
    if not is_dominant(share, d):
        return None
    name = f"number {top}" if names is None else repr(str(names[top]))
    return (
        f"Feature {name} has {share:.1%} of the variance of all {d} features, so it decides most "
        f"distances: {remedy}scale the features, for instance with "
        "sklearn.preprocessing.StandardScaler."
    )


def _shares_of_variance(X: Any) -> npt.NDArray[np.float64]:
    """Return the share of each feature; nan if nothing varies, or too much."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        if sp.issparse(X):
            X = X.astype(np.float64)
            means = np.asarray(X.mean(axis=0)).ravel()
            variances = np.asarray(X.multiply(X).mean(axis=0)).ravel() - means**2
        else:
            # In blocks, as there must be no copy of X in float64.
            blocks = [X[i : i + BLOCK_ROWS] for i in range(0, len(X), BLOCK_ROWS)]
            sums = [block.sum(axis=0, dtype=np.float64) for block in blocks]
            means = np.sum(sums, axis=0) / len(X)
            variances = np.sum([((block - means) ** 2).sum(axis=0) for block in blocks], axis=0)
        return np.asarray(variances / variances.sum(), dtype=np.float64)
