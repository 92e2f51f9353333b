"""The calibration of a model as arrays and an entry of the document, and back."""

from typing import Any

import numpy as np

from dkmeans.files.container import Arrays, Document
from dkmeans.files.refusal import require
from dkmeans.files.table_columns import codes
from dkmeans.results.calibration import Calibration, HeldOutScores

_SCORES, _CLASSES = "calibration_scores", "calibration_class_codes"


def describe(calibration: Calibration | None) -> tuple[Arrays, Document | None]:
    """Return the arrays and the entry; None for a model that is not calibrated."""
    if calibration is None:
        return {}, None
    arrays: Arrays = {}
    if calibration.scores is not None:
        arrays[_SCORES] = calibration.scores.values
        arrays[_CLASSES] = calibration.scores.classes.astype(np.int64)
    return arrays, {"temperature": calibration.temperature}


def rebuild(arrays: Arrays, entry: Any, n_classes: int) -> Calibration | None:
    """Rebuild the calibration, all of it checked; arrays that are used are removed."""
    if entry is None:
        return None
    wrong = "has a calibration that does not make sense"
    require(isinstance(entry, dict) and set(entry) == {"temperature"}, wrong)
    temperature = entry["temperature"]
    require(type(temperature) in (int, float) and 0 < temperature < np.inf, wrong)
    scores = None
    if _SCORES in arrays:
        require(_CLASSES in arrays, wrong)
        values, classes = arrays.pop(_SCORES), codes(arrays.pop(_CLASSES), n_classes, wrong)
        require(values.dtype == np.float64 and values.shape == classes.shape, wrong)
        require(bool((np.abs(values) <= 1).all()), wrong)
        later = (np.diff(classes) > 0) | ((np.diff(classes) == 0) & (np.diff(values) >= 0))
        require(len(values) > 0 and bool(later.all()), wrong)
        scores = HeldOutScores(values, classes)
    return Calibration(float(temperature), scores)
