"""Warnings about results that people may not want."""

import warnings
from typing import Any

from sklearn.exceptions import ConvergenceWarning

_MANY = 20  # fewer prototypes than this are not worth a warning
_LARGE_SHARE = 0.25  # of the rows


class OverfittingWarning(UserWarning):
    """A converged fit has kept a large share of the rows as prototypes."""


def advise(estimator: Any, *, finished: bool, all_rows: bool) -> None:
    """Warn of overfitting, if all rows were there, and of a fit that ran out of rounds."""
    k, n_rows, budget = estimator.n_clusters_, len(estimator.labels_), estimator.max_clusters
    if (
        all_rows
        and budget is None
        and k > max(_MANY, 2 * len(estimator.classes_), _LARGE_SHARE * n_rows)
    ):
        warnings.warn(
            f"{k} of {n_rows} rows' worth of prototypes ({k / n_rows:.0%}) were needed to fit "
            "every label, so noise is probably fitted too: set max_clusters (a budget, or "
            "'auto') or min_cluster_size.",
            OverfittingWarning,
            stacklevel=4,
        )
    if not finished and not (budget == "auto" or (budget is not None and k >= budget)):
        warnings.warn(
            f"No convergence in max_iter={estimator.max_iter} rounds: raise max_iter, or set "
            "max_clusters to stop at a budget.",
            ConvergenceWarning,
            stacklevel=4,
        )
