"""Prediction sets by split conformal prediction.

The nonconformity of a row with a class is the negative margin of that class, as of
`decision_function`. It does not depend on the held-out rows, so a new row and the held-out rows are
exchangeable, and the score of its true class is above the j-th largest of n with a probability of
at most j / (n + 1).
"""

from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from dkmeans.data.value_checks import InvalidParameterError, is_real
from dkmeans.kernels.block import Floats
from dkmeans.questions.conformal import threshold
from dkmeans.questions.prediction import margins
from dkmeans.results.calibration import HeldOutScores

Per: TypeAlias = Literal["all", "class"]


def check_options(alpha: Any, per: Any) -> None:
    """Check the options of `predict_set`."""
    if not (is_real(alpha) and 0 < alpha < 1):
        raise InvalidParameterError(
            f"alpha={alpha!r} is not accepted: it must be a number between 0 and 1."
        )
    if not isinstance(per, str) or per not in ("all", "class"):
        raise InvalidParameterError(f"per={per!r} is not accepted: it must be 'all' or 'class'.")


def prediction_sets(
    near: npt.NDArray[np.floating], scores: HeldOutScores, alpha: float, per: Per
) -> npt.NDArray[np.bool_]:
    """Return which classes belong to the set of each row.

    Parameters
    ----------
    near : array of shape (n, n_classes)
        Distances to the nearest prototype of each class.
    scores : HeldOutScores
    alpha : float
        Largest share of rows whose set may lack their class.
    per : {"all", "class"}
        Rows for which the share holds: all together, or those of each true class.
    """
    limits = _limits(scores, near.shape[1], alpha, per)
    return np.asarray(-margins(near).astype(np.float64) <= limits)


def _limits(scores: HeldOutScores, n_classes: int, alpha: float, per: Per) -> Floats:
    """Return the largest nonconformity of each class that is in a set."""
    if per == "all":
        return np.full(n_classes, threshold(np.sort(scores.values), alpha))
    ends = np.searchsorted(scores.classes, np.arange(n_classes + 1))
    return np.array([threshold(scores.values[a:b], alpha) for a, b in pairwise(ends.tolist())])
