"""Rows whose label is improbable, by the probabilities of any classifier."""

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import column_or_1d

from dkmeans.data.frames import row_index
from dkmeans.data.value_checks import as_labels
from dkmeans.questions.label_errors import (
    check_number_listed,
    known_classes,
    most_suspicious,
    order_by_score,
)
from dkmeans.questions.label_noise import count_wrong
from dkmeans.results.answers import LabelNoise, Suspects


def find_suspects(
    probabilities: Any, y: Any, *, classes: Any = None, n: int | None = None
) -> Suspects:
    """List rows whose label may be wrong, by the probabilities of any classifier.

    The score of a row is (1 + P - Q) / 2, with Q the probability of its label and P that of the
    most probable other class. As many rows are listed as are estimated to have a wrong label: among
    the rows that are most certainly of a class, the share of other labels.

    Parameters
    ----------
    probabilities : array-like of shape (n_samples, n_classes)
        Probabilities for each row from a model that was **not** fitted on it, such as those of
        scikit-learn's `cross_val_predict` with `method="predict_proba"`.
    y : array-like of shape (n_samples,)
        Labels of the rows.
    classes : array-like of shape (n_classes,), optional
        Classes of the columns, sorted, as in `classes_` of a classifier; by default the sorted
        labels in y.
    n : int, optional
        Number of rows to list, whatever their score. By default as many as are estimated to have a
        wrong label, with a score above 0.5.

    Returns
    -------
    suspects : Suspects
        A table with the columns row, label, suggested, score and reason, and the estimate per
        class as `noise`.

    Examples
    --------
    >>> from dkmeans import find_suspects
    >>> probabilities = [[0.9, 0.1], [0.8, 0.2], [0.9, 0.1], [0.1, 0.9], [0.2, 0.8], [0.9, 0.1]]
    >>> find_suspects(probabilities, ["a", "a", "a", "b", "b", "b"])
    1 suspect; about 1 of 6 labels are wrong
    row  label  suggested  score                     reason
      5      b          a    0.9  another class is likelier
    """
    check_number_listed(n)
    shares = np.asarray(probabilities, dtype=np.float64)
    labels = column_or_1d(as_labels(y))
    known = np.unique(labels)
    if classes is not None:
        known = column_or_1d(as_labels(classes))
        if known.tolist() != np.unique(known).tolist():
            raise ValueError("classes must be sorted and unique, as classes_ of a classifier is.")
    if shares.ndim != 2 or shares.shape[1] != len(known):
        raise ValueError(
            f"probabilities has shape {shares.shape}, but there are {len(known)} classes: pass one "
            "column for each, and classes= if some of them are not in y."
        )
    if not (np.isfinite(shares).all() and (shares >= 0).all()):
        raise ValueError("probabilities has values that are negative, infinite or NaN.")
    codes = known_classes(known, y, len(shares))
    scores, suggested = _scores(shares, codes)
    majority, certainty = shares.argmax(axis=1)[:, None], shares.max(axis=1)[:, None]
    wrong = count_wrong(codes, majority, certainty, len(known))
    counts = np.bincount(codes, minlength=len(known))
    marked = most_suspicious(scores, float(wrong.sum()))
    order = order_by_score(scores, marked, n)
    doubtful = scores[order] > 0.5
    found = Suspects(
        noise=LabelNoise(label=known, rows=counts, wrong=wrong),
        row=order,
        label=known[codes[order]],
        suggested=known[suggested[order]],
        score=scores[order],
        reason=np.where(doubtful, "another class is likelier", "none"),
    )
    index = row_index(y, probabilities)
    return found.with_index(None if index is None else index[order])


def _scores(
    shares: npt.NDArray[np.float64], codes: npt.NDArray[np.intp]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.intp]]:
    """Score rows, and find the most probable other class."""
    lines = np.arange(len(codes))
    own, others = shares[lines, codes], shares.copy()
    others[lines, codes] = -1.0
    suggested = others.argmax(axis=1) if shares.shape[1] > 1 else codes
    best = shares[lines, suggested] if shares.shape[1] > 1 else np.zeros(len(codes))
    return (1 + best - own) / 2, suggested
