"""Warnings about features whose scale ruins a model."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dkmeans.data.validation import check_any_rows
from dkmeans.fitted import Fitted
from dkmeans.geometry import MAX_FEATURES, Cosine, Learned
from dkmeans.geometry.dominance import dominant_features
from dkmeans.kernels.block import Indices, Matrix

SAMPLE_ROWS = 2_500  # from which variances are estimated
BLOCK_ROWS = 256
MAX_NAMES = 3  # of features or classes in a warning
SCALING = "scale the features, for instance with sklearn.preprocessing.StandardScaler"
# The cosine depends on the origin, which centring moves; sparse rows cannot be centred.
COSINE_SCALING = f"{SCALING}, which also measures angles from the mean row"
COSINE_SPARSE_SCALING = "divide each feature by its standard deviation"
MIN_COSINE_FEATURES = 3  # directions in a plane differ by one angle, to which both features belong
ROUNDING = 1e-12  # of a variance, as a share of the mean square
MIN_OUTLIER_ROWS = 30  # with fewer, a value far from all others may be no exception
CENTRAL_SHARE = 0.9  # of the values that are most of them
OUTLIER_RATIO = 100.0  # of the standard deviation to the range of most values


class ScaleWarning(UserWarning):
    """A few features decide nearly all distances, or outliers decide the scale of one."""


def dominant_features_text(fitted: Fitted, sample: Matrix | None) -> str | None:
    """Look for features that have nearly all of the variance, of unit vectors for the cosine.

    Parameters
    ----------
    fitted : Fitted
    sample : matrix or None
        Some of its rows, as they are with any metric, from wherever they were read; None if the
        fit continued another one.
    """
    geometry = fitted.geometry
    if sample is None or isinstance(geometry, Learned):
        return None
    can_learn = fitted.n_features <= MAX_FEATURES
    remedy = "use metric='learned', or " if can_learn else ""
    if not isinstance(geometry, Cosine):
        return _dominant_text(sample, fitted.feature_names, f"{remedy}{SCALING}")
    if fitted.n_features < MIN_COSINE_FEATURES:
        return None
    # Distances between directions are those between rows of length one. Where one feature makes up
    # most of all lengths, it is the next one that decides them.
    remedy += COSINE_SPARSE_SCALING if sp.issparse(sample) else COSINE_SCALING
    return _dominant_text(geometry.rows(sample), fitted.feature_names, remedy, " in unit vectors")


def outlying_feature_text(fitted: Fitted, sample: Matrix | None) -> str | None:
    """Look for a feature with few values far from all others; parameters as above.

    Its standard deviation hides how the other values differ.
    """
    if sample is None or not isinstance(fitted.geometry, Learned):
        return None
    if sp.issparse(sample) or len(sample) < MIN_OUTLIER_ROWS:
        return None  # most values of sparse rows are 0
    low, high = np.quantile(sample, [0.5 - CENTRAL_SHARE / 2, 0.5 + CENTRAL_SHARE / 2], axis=0)
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
    rows, _ = check_any_rows(scratch, _some_of(X), reset=True)
    text = _dominant_text(rows, names, SCALING)
    if text is not None:
        warnings.warn(text, ScaleWarning, stacklevel=stacklevel + 1)


def _some_of(X: Any) -> Any:
    """Return so many rows that variances can be estimated."""
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    rows = X.tocsr() if sp.issparse(X) else X  # not all sparse formats can be sliced
    return rows[:: max(1, n_rows // SAMPLE_ROWS)]


def _dominant_text(
    rows: Matrix, names: npt.NDArray[Any] | None, remedy: str, where: str = ""
) -> str | None:
    """Say which features have nearly all of the variance, if there are any, and what to do."""
    if rows.shape[0] < 2:
        return None
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
        f"features{where}, so {'they decide' if several else 'it decides'} most distances: "
        f"{remedy}."
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
    noun = "Feature" if len(features) == 1 else "Features"
    return f"{noun} {'number ' if names is None else ''}{listed(shown)}"


def listed(names: Sequence[str]) -> str:
    """Join names as in a sentence: one, or some and the last one."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


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
