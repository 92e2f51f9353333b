"""Explanation of predictions: the nearest prototype, its rival and the certified radius."""

import numpy as np

from dkmeans.fitted import Fitted
from dkmeans.kernels.block import Matrix
from dkmeans.questions.certify import certify
from dkmeans.questions.prediction import margins
from dkmeans.results.answers import Explanation


def explain(model: Fitted, X: Matrix, n_threads: int) -> Explanation:
    """Explain the prediction of each row; rows are as the user gave them, not yet mapped."""
    found = certify(X, model.prototypes, model.geometry, n_threads)
    nearest, rival = found.nearest, found.rival
    alone = rival < 0  # where all prototypes are of one class
    labels, ids = model.cluster_classes, model.prototypes.ids
    rival_label = np.full(len(rival), None, dtype=object) if alone.any() else labels[rival]
    return Explanation(
        rows=model.geometry.displayed(X),
        geometry=model.geometry,
        centers=model.geometry.inverse(model.prototypes.centers),
        label=labels[nearest],
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
    )
