"""Warnings about settings without effect, and about the result of a fit."""

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dkmeans.data.validation import Training
from dkmeans.fitted import Fitted
from dkmeans.geometry import AUTO, GEOMETRIES, LEARNED, MAX_FEATURES, Learned, name_of
from dkmeans.growth.first_metric import MIN_ROWS
from dkmeans.growth.rules import Continuation
from dkmeans.kernels.block import Floats
from dkmeans.scale_warnings import (
    MAX_NAMES,
    ScaleWarning,
    dominant_features_text,
    listed,
    named_features,
    outlying_feature_text,
)

_MIN_PROTOTYPES = 20  # no warning below this number
_MIN_SHARE = 0.1  # of the rows


class OverfittingWarning(UserWarning):
    """Growth that fits every label needed a prototype for a large share of the rows."""


def warn_about(
    estimator: Any,
    before: Fitted | None,
    training: Training,
    how: Continuation,
    stacklevel: int,
) -> None:
    """Warn about what a fit was asked to do, and about what has become of it.

    Parameters
    ----------
    estimator : DiscriminativeKMeans
        Fitted.
    before : Fitted or None
        What it was before.
    training : Training
        What was fitted.
    how : Continuation
    stacklevel : int
        That of the caller, as in `warnings.warn`.
    """
    fitted: Fitted = estimator._fitted
    texts: list[tuple[type[Warning], str | None]] = [
        (OverfittingWarning, _overfitting(fitted, estimator, how)),
        (UserWarning, _kept_number(fitted, estimator, how)),
        (UserWarning, _kept_metric(fitted, before, estimator)),
        (UserWarning, _constant_features(fitted, estimator, how)),
        (ConvergenceWarning, _no_convergence(fitted, estimator, how)),
        (UserWarning, _idle_repulsion(estimator, how)),
        (UserWarning, _idle_components(estimator, how)),
        (
            UserWarning,
            _one_cluster(fitted, estimator, how) or _lost(fitted, training, estimator, how),
        ),
        (UserWarning, _idle_refinement(fitted, estimator, how)),
        (ScaleWarning, dominant_features_text(fitted, training.sample)),
        (ScaleWarning, outlying_feature_text(fitted, training.sample)),
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
    if fitted.n_parts != 1:  # said already, or there are no rows but the first ones
        return None
    return (
        'max_clusters="auto" keeps the number of clusters that was chosen on the first rows '
        f"alone, so {now}: set max_clusters to the number that all batches together need, for "
        "instance n_clusters_ of a fit to many of their rows."
    )


def _kept_metric(fitted: Fitted, before: Fitted | None, estimator: Any) -> str | None:
    """Look for a metric that was found on few rows, and is kept for others."""
    if fitted.n_parts != 1 or before is None or fitted.n_features > MAX_FEATURES:
        return None
    if estimator.metric == LEARNED or (
        estimator.metric == AUTO and estimator.n_components is not None
    ):
        enough = MIN_ROWS
        kept, purpose = "the projection", "learn it"
    elif estimator.metric == AUTO:
        enough = MIN_ROWS
        if estimator.max_clusters == "auto":  # about half of few rows are held out
            enough = 2 * MIN_ROWS + len(before.classes)
        kept, purpose = f'"{name_of(fitted.geometry)}"', "compare metrics"
    else:
        return None
    if not 0 < before.n_rows < enough:
        return None
    rows = "row" if before.n_rows == 1 else f"{before.n_rows} rows"
    return (
        f'metric="{estimator.metric}" keeps {kept} that was found on the first {rows}, too few to '
        f"{purpose}: start with at least {enough} rows, or scale the features and set "
        'metric="euclidean".'
    )


def _constant_features(fitted: Fitted, estimator: Any, how: Continuation) -> str | None:
    """Look for features that a learned metric ignores as the first call knows one value only."""
    if how is not Continuation.FIRST_ROWS or not isinstance(fitted.geometry, Learned):
        return None
    constant = np.flatnonzero(fitted.geometry.scale == 0)
    if not len(constant):
        return None
    are = "is" if len(constant) == 1 else "are"
    it = "it" if len(constant) == 1 else "them"
    names = named_features(constant, fitted.feature_names, fitted.n_features)
    return (
        f"{names} {are} constant in the first call, so "
        f'metric="{estimator.metric}" ignores {it} in all later calls, too: pass more rows in the '
        'first call, or set metric="euclidean".'
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
    """Look for a repulsion that is never used: fits that continue, and later parts, use it."""
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
    if not how.is_fresh or estimator.n_components is None or metric not in GEOMETRIES:
        return None
    return (
        f"n_components={estimator.n_components} has no effect with metric={metric!r}: set "
        "metric='learned', or leave it out."
    )


def _one_cluster(fitted: Fitted, estimator: Any, how: Continuation) -> str | None:
    """Look for a least size of clusters that at most one class can have."""
    size = estimator.min_cluster_size
    is_single = fitted.n_clusters == 1 and len(fitted.classes) > 1
    if not how.is_fresh or size is None or not is_single:
        return None
    # Of identical rows, the lighter classes may be large, too, but are outvoted.
    most = sum(fitted.sizes) / 2 if fitted.conflicts else np.sort(_class_weights(fitted))[-2]
    if not 0 < most < size * (1 - 1e-9):  # without weight, no class but one gets a cluster
        return None
    return (
        f"min_cluster_size={size} leaves a single cluster, as at most one class has so much "
        "weight: lower it."
    )


def _lost(fitted: Fitted, training: Training, estimator: Any, how: Continuation) -> str | None:
    """Look for classes with weight, but without a prototype: they are never predicted."""
    kept = np.unique(fitted.prototypes.classes)
    if not how.is_fresh or len(kept) == len(fitted.classes):
        return None
    lost = np.setdiff1d(np.flatnonzero(training.has_weight), kept)
    if not len(lost):
        return None
    one = len(lost) == 1
    whose = "its" if one else "their"
    # A class that is outvoted in all its rows has no weight in the fit.
    if estimator.min_cluster_size is not None and _class_weights(fitted)[lost].all():
        cause = f"{whose} weight is below min_cluster_size={estimator.min_cluster_size}"
    else:
        cause = f"all {whose} rows are identical to rows of other classes, which outvote them"
    names = [repr(name) for name in fitted.classes[lost[:MAX_NAMES]].tolist()]
    if len(lost) > MAX_NAMES:
        names.append(f"{len(lost) - MAX_NAMES} more")
    return (
        f"{'Class' if one else 'Classes'} {listed(names)} {'has' if one else 'have'} no prototype, "
        f"so {'it is' if one else 'they are'} never predicted: {cause}."
    )


def _class_weights(fitted: Fitted) -> Floats:
    """Sum the user's weights of the rows by class."""
    earlier, known = fitted.earlier_rows, fitted.training_classes
    factors = np.ones(len(fitted.classes)) if known is None else known.weights
    weights = earlier.weights[0] * fitted.weight_unit
    sums = np.bincount(earlier.classes, weights, len(factors))
    return np.divide(sums, factors, out=np.zeros_like(sums), where=factors > 0)


def _idle_refinement(fitted: Fitted, estimator: Any, how: Continuation) -> str | None:
    """Look whether refinement changed nothing, or for the worse, after every label was fitted."""
    converged_to_many = estimator.max_clusters is None and fitted.n_clusters > len(fitted.classes)
    history, last = fitted.history, _last_of_growth(fitted)
    if not how.is_fresh or not converged_to_many or last is None:
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
