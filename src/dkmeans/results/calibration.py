"""What held-out rows tell about probabilities and prediction sets."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, eq=False)
class HeldOutScores:
    """Nonconformity of held-out rows, for prediction sets: the negative margin of their class."""

    values: npt.NDArray[np.float64]  # shape (n,), ascending within each class
    classes: npt.NDArray[np.intp]  # shape (n,), ascending


@dataclass(frozen=True, eq=False)
class Calibration:
    """Calibration of one model."""

    temperature: float  # of the softmax of margins
    # None if the temperature comes from rows that the model was then fitted on, too.
    scores: HeldOutScores | None = None
