"""Explanation of predictions: the nearest prototype, its rival and the certified radius."""

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import column_or_1d

from dkmeans.data.value_checks import as_labels, check_same_kind
from dkmeans.fitted import Fitted, Predictor
from dkmeans.kernels.block import Matrix
from dkmeans.questions.certify import certify
from dkmeans.questions.feature_parts import split_margins, sum_parts
from dkmeans.questions.prediction import margins
from dkmeans.results.answers import Explanation


def explain(
    model: Fitted, X: Matrix, n_threads: int, *, features: bool = False, y: Any = None
) -> Explanation:
    """Explain the prediction of each row; rows are as the user gave them, not yet mapped.

    With `features`, the margin is split over them. `y` are true labels, if they are known.
    """
    found = certify(X, model.prototypes, model.geometry, n_threads)
    nearest, rival = found.nearest, found.rival
    alone = rival < 0  # where all prototypes are of one class
    labels, ids = model.cluster_classes, model.prototypes.ids
    rival_label = np.full(len(rival), None, dtype=object) if alone.any() else labels[rival]
    split: dict[str, Any] = {}
    if features:
        parts = split_margins(model, X, nearest, rival, n_threads)
        names = feature_names(model)
        split = {"parts": parts, "features": names, "squared_margin": sum_parts(parts)}
    return Explanation(
        rows=model.geometry.displayed(X),
        geometry=model.geometry,
        centers=model.geometry.inverse(model.prototypes.centers),
        label=labels[nearest],
        **true_labels(y, labels[nearest]),
        prototype=nearest,
        id=ids[nearest],
        size=model.sizes[nearest],
        exemplar=model.exemplars[nearest],
        distance=found.distances[:, 0],
        rival=rival,
        rival_id=np.where(alone, -1, ids[rival]),
        rival_label=rival_label,
        rival_distance=found.distances[:, 1],
        margin=margins(found.distances)[:, 0],
        radius=found.radii,
        **split,
    )


def true_labels(y: Any, predicted: npt.NDArray[Any]) -> dict[str, Any]:
    """Return the columns of true labels, if they are given."""
    if y is None:
        return {}
    true = column_or_1d(as_labels(y))
    if len(true) != len(predicted):
        raise ValueError(f"y has {len(true)} labels, but X has {len(predicted)} rows.")
    check_same_kind(predicted, true)
    return {"true": true, "right": np.asarray(true == predicted)}


def feature_names(model: Predictor) -> npt.NDArray[Any]:
    """Return the names of the features; x0, x1, ... if there are none."""
    if model.feature_names is not None:
        return model.feature_names
    return np.array([f"x{j}" for j in range(model.n_features)], dtype=object)


def prototype_names(
    labels: npt.NDArray[Any], ids: npt.NDArray[np.integer]
) -> npt.NDArray[np.object_]:
    """Name prototypes by class and id."""
    pairs = zip(labels.tolist(), ids.tolist(), strict=True)
    return np.array([f"{label}_{number}" for label, number in pairs], dtype=object)
