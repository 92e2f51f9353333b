"""Questions asked of medoids: everything is answered from distances to them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.fitted_medoids import FittedMedoids, class_distances
from dkmeans.kernels.block import Floats, Indices
from dkmeans.questions.explain import true_labels
from dkmeans.questions.label_errors import ScoredRows
from dkmeans.questions.label_noise import neighbourhood_sizes
from dkmeans.questions.neighbourhood import disagreement
from dkmeans.questions.prediction import margins
from dkmeans.results.answers import Explanation

_Array = npt.NDArray[np.floating]
_ROUNDING = 8  # units in the last place by which a distance may be wrong


def explain(model: FittedMedoids, D: _Array, *, certified: bool, y: Any = None) -> Explanation:
    """Explain predictions from distances to the medoids.

    With the triangle inequality, a row that moves by less than (R - D) / 2 stays nearer to its
    medoid than to any medoid of another class.
    """
    n = len(D)
    lines = np.arange(n)
    nearest = D.argmin(axis=1)
    others = np.where(model.codes == model.codes[nearest][:, None], np.inf, D)
    rival = others.argmin(axis=1)
    distance, rival_distance = D[lines, nearest], others[lines, rival]
    alone = np.isinf(rival_distance)
    rival = np.where(alone, -1, rival)
    labels = model.medoid_classes
    near = class_distances(D, model.codes, len(model.classes))
    radius = np.full(n, np.nan)
    if certified:
        radius = _radii(distance, rival_distance)
    return Explanation(
        label=labels[nearest],
        **true_labels(y, labels[nearest]),
        prototype=nearest,
        id=model.medoids[nearest],
        size=model.sizes[nearest],
        exemplar=model.medoids[nearest],
        distance=distance,
        rival=rival,
        rival_id=np.where(alone, -1, model.medoids[rival]),
        rival_label=np.full(n, None, dtype=object) if alone.any() else labels[rival],
        rival_distance=rival_distance,
        margin=margins(near)[lines, model.codes[nearest]],
        radius=radius,
    )


def _radii(distance: _Array, rival_distance: _Array) -> _Array:
    """Return certified radii, smaller by what rounding may have changed."""
    near, far = distance.astype(np.float64), rival_distance.astype(np.float64)
    noise = _ROUNDING * float(np.finfo(distance.dtype).eps)
    with np.errstate(invalid="ignore"):
        found = (far - near) / 2 - noise * (far + near)
    found = np.where(np.isinf(far), np.inf, np.maximum(found, 0.0))
    return np.asarray(found)


def score_rows(
    model: FittedMedoids,
    between: Callable[[Indices], _Array],
    cells: Indices,
    classes: Indices,
    weights: Floats | None,
) -> ScoredRows:
    """Score the labels of rows by their distances to all rows.

    Parameters
    ----------
    model : FittedMedoids
    between : callable
        Given a part of the rows, it returns their distances to all rows.
    cells, classes : arrays of shape (n,)
        Nearest medoid of each row, and its class by number.
    weights : array of shape (n,) or None
    """
    n = len(classes)
    each = np.ones(n) if weights is None else weights
    unit = each.sum() / np.count_nonzero(each)
    conflicting = np.zeros(n, dtype=bool)

    def surroundings(at: Indices) -> tuple[Floats, Floats]:
        D = between(at).astype(np.float64)
        heavy = np.tile(each / unit, (len(at), 1))
        heavy[np.arange(len(at)), at] = 0.0
        twins = (D == 0) & (each > 0) & (classes != classes[at][:, None])
        conflicting[at] = twins.any(axis=1) & (each[at] > 0)
        return D, heavy

    # Some metrics call functions of the user, which must not run in threads.
    sizes = neighbourhood_sizes(classes)
    around = disagreement(surroundings, classes, classes, sizes, 1)
    return ScoredRows(classes, cells, around, conflicting)
