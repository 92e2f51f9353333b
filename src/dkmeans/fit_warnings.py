"""Warnings about the result of a fit."""

import warnings
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from dkmeans.fitted import Fitted
from dkmeans.growth.rules import Continuation

_MIN_PROTOTYPES = 20  # no warning below this number
_MIN_SHARE = 0.25  # of the rows


class OverfittingWarning(UserWarning):
    """A converged fit has a prototype for a large share of the rows."""


def warn_about(fitted: Fitted, estimator: Any, how: Continuation, stacklevel: int) -> None:
    """Warn about overfitting, if all rows were given, and about fits that could not go on.

    These ran out of rounds, or had to keep a number of clusters that was chosen on few rows.
    """
    k, budget, labels = fitted.n_clusters, estimator.max_clusters, fitted.labels
    n_rows = 0 if labels is None else len(labels)
    if (
        how is not Continuation.NEW_ROWS
        and budget is None
        and k > max(_MIN_PROTOTYPES, 2 * len(fitted.classes), _MIN_SHARE * n_rows)
    ):
        warnings.warn(
            f"{k} of {n_rows} rows' worth of prototypes ({k / n_rows:.0%}) were needed to fit "
            "every label, so noise is probably fitted too: set max_clusters (a budget, or "
            "'auto') or min_cluster_size.",
            OverfittingWarning,
            stacklevel=stacklevel + 1,
        )
    if how is Continuation.NEW_ROWS and budget == "auto":
        warnings.warn(
            'max_clusters="auto" keeps the number of clusters that the first call chose on its '
            f"rows alone, so there are {k} clusters now: set max_clusters to the number that all "
            "batches together need.",
            UserWarning,
            stacklevel=stacklevel + 1,
        )
    finished = fitted.converged or fitted.n_iter < estimator.max_iter
    if not finished and not (budget == "auto" or (budget is not None and k >= budget)):
        warnings.warn(
            f"No convergence in max_iter={estimator.max_iter} rounds: raise max_iter, or set "
            "max_clusters to stop at a budget.",
            ConvergenceWarning,
            stacklevel=stacklevel + 1,
        )
