"""Warnings about features whose scale ruins a model."""

import copy
import warnings
from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dkmeans.data.dask_collections import is_dask
from dkmeans.data.validation import check_any_rows, check_raw_rows
from dkmeans.fitted import Fitted
from dkmeans.geometry import MAX_FEATURES, Euclidean, Learned
from dkmeans.geometry.dominance import dominant_features
from dkmeans.growth.rules import Continuation
from dkmeans.kernels.block import Indices

SAMPLE_ROWS = 2_500  # from which variances are estimated
BLOCK_ROWS = 256
MAX_NAMES = 3  # of features in a warning
SCALING = "scale the features, for instance with sklearn.preprocessing.StandardScaler"
ROUNDING = 1e-12  # of a variance, as a share of the mean square
MIN_OUTLIER_ROWS = 30  # with fewer, a value far from all others may be no exception
CENTRAL_SHARE = 0.9  # of the values that are most of them
OUTLIER_RATIO = 100.0  # of the standard deviation to the range of most values


class ScaleWarning(UserWarning):
    """A few features decide nearly all distances, or outliers decide the scale of one."""


def dominant_features_text(fitted: Fitted, estimator: Any, X: Any, how: Continuation) -> str | None:
    """Look for features that have nearly all of the variance, if rows are in memory."""
    if not how.is_fresh or not isinstance(fitted.geometry, Euclidean):
        return None
    rows = _sample(fitted, estimator, X)
    if rows is None:
        return None
    can_learn = rows.shape[1] <= MAX_FEATURES
    remedy = "use metric='learned', or " if can_learn else ""
    return _dominant_text(rows, fitted.feature_names, remedy)


def outlying_feature_text(fitted: Fitted, estimator: Any, X: Any, how: Continuation) -> str | None:
    """Look for a feature with few values far from all others, if rows are in memory.

    Its standard deviation hides how the other values differ.
    """
    if not how.is_fresh or not isinstance(fitted.geometry, Learned):
        return None
    rows = _sample(fitted, estimator, X)
    if rows is None or sp.issparse(rows) or len(rows) < MIN_OUTLIER_ROWS:
        return None  # most values of sparse rows are 0
    low, high = np.quantile(rows, [0.5 - CENTRAL_SHARE / 2, 0.5 + CENTRAL_SHARE / 2], axis=0)
    widths = np.asarray(high - low, dtype=np.float64)
    scale = fitted.geometry.scale
    ratios = np.divide(scale, widths, out=np.zeros_like(scale), where=widths > 0)
    top = int(np.argmax(ratios))
    if ratios[top] < OUTLIER_RATIO:
        return None
    name = named_features([top], fitted.feature_names, fitted.n_features)
    return (
        f"{name} has a standard deviation of {scale[top]:.3g}, but most of its values differ by no "
        f"more than {widths[top]:.3g}, so its few other values hide all differences between them: "
        "look for outliers, and for codes of missing values."
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
    several = len(top) > 1
    return (
        f"{named_features(top, names, len(deviations))} "
        f"{'have' if several else 'has'} {share:.1%} of the variance of all {len(deviations)} "
        f"features, so {'they decide' if several else 'it decides'} most distances: "
        f"{remedy}{SCALING}."
    )


def named_features(
    features: Sequence[int] | Indices, names: npt.NDArray[Any] | None, n_features: int
) -> str:
    """Name the first of some features, and say how many there are beside them.

    Parameters
    ----------
    features : sequence of int
        At least one.
    names : array or None
        Names of all features, if they have any.
    n_features : int
        Number of all features.

    Examples
    --------
    >>> named_features([3], None, 9), named_features([0, 1, 5, 6, 7], None, 9)
    ('Feature number 3', 'Features number 0, 1, 5 and 2 more')
    """
    if len(features) == n_features > 1:
        return f"All {n_features} features"
    shown = [str(i) if names is None else repr(str(names[i])) for i in features[:MAX_NAMES]]
    if len(features) > MAX_NAMES:
        shown.append(f"{len(features) - MAX_NAMES} more")
    listed = " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
    noun = "Feature" if len(features) == 1 else "Features"
    return f"{noun} {'number ' if names is None else ''}{listed}"


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
