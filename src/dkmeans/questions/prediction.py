"""Class margins and probabilities from the distances to the nearest prototype of each class."""

import numpy as np
import numpy.typing as npt

from dkmeans.fitted import Predictor
from dkmeans.kernels.block import Matrix
from dkmeans.questions.nearest_prototype import class_distances

_MAX_POWER = 16.0  # of the distance, in probabilities


def class_margins(model: Predictor, X: Matrix, n_threads: int) -> npt.NDArray[np.floating]:
    """Return the margin of each class, or of the second one if there are two."""
    near = class_distances(X, model.prototypes, len(model.classes), n_threads)
    found = margins(near)
    return found[:, 1] if len(model.classes) == 2 else found


def class_probabilities(model: Predictor, X: Matrix, n_threads: int) -> npt.NDArray[np.floating]:
    """Return the probability of each class, calibrated if the model is."""
    near = class_distances(X, model.prototypes, len(model.classes), n_threads)
    if model.calibration is not None:
        return calibrated_probabilities(near, model.calibration.temperature)
    return probabilities(near, power=distance_power(model.prototypes.centers.shape[1]))


def distance_power(dimension: int) -> float:
    """Return the power of the distance in probabilities; distances differ less in many features."""
    return min(2 * float(np.sqrt(dimension)), _MAX_POWER)


def margins(near: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Compute relative margins from distances to the nearest prototype of each class."""
    distances = near.astype(np.float64)
    order = np.argsort(distances, axis=1, kind="stable")
    best = np.take_along_axis(distances, order[:, :1], axis=1)
    second = np.full_like(best, np.inf)
    if distances.shape[1] > 1:
        second = np.take_along_axis(distances, order[:, 1:2], axis=1)
    rival = np.where(np.arange(distances.shape[1]) == order[:, :1], second, best)
    smaller, larger = np.minimum(distances, rival), np.maximum(distances, rival)
    q = _ratio(smaller, larger) ** 2
    return (np.where(distances <= rival, 1 - q, q - 1) / (1 + q)).astype(near.dtype)


def probabilities(near: npt.NDArray[np.floating], power: float) -> npt.NDArray[np.floating]:
    """Compute probabilities proportional to 1 / D^power."""
    distances = near.astype(np.float64)
    best = distances.min(axis=1, keepdims=True)
    return _normalised(_ratio(best, distances) ** power, near)


def calibrated_probabilities(
    near: npt.NDArray[np.floating], temperature: float
) -> npt.NDArray[np.floating]:
    """Compute the softmax of the margins, divided by a temperature."""
    shares = tempered(margins(near.astype(np.float64)), temperature)
    return _normalised(np.where(np.isinf(near), 0.0, shares), near)


def tempered(found: npt.NDArray[np.floating], temperature: float) -> npt.NDArray[np.float64]:
    """Compute exp(margin / temperature), divided by the largest of each row."""
    below = found.astype(np.float64) - found.max(axis=1, keepdims=True)
    with np.errstate(under="ignore"):
        return np.exp(below / temperature)


def _normalised(
    shares: npt.NDArray[np.float64], near: npt.NDArray[np.floating]
) -> npt.NDArray[np.floating]:
    """Divide by the sum of each row; the nearest class stays the most probable."""
    p = (shares / shares.sum(axis=1, keepdims=True)).astype(near.dtype)
    # Rounding must not make another class as probable as the nearest one.
    top = np.take_along_axis(p, near.argmin(axis=1)[:, None], axis=1)
    beaten = near > near.min(axis=1, keepdims=True)
    return np.where(beaten, np.minimum(p, np.nextafter(top, 0)), p)


def _ratio(
    smaller: npt.NDArray[np.float64], larger: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Divide; 1 for 0 / 0 and 0 for anything / infinity."""
    return np.divide(smaller, larger, out=np.ones_like(larger), where=larger > 0)
