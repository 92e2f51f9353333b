"""Steps of refinement: how prototypes follow the gradients of batches."""

from dataclasses import dataclass, replace

import numpy as np

from dkmeans.geometry import Geometry
from dkmeans.growth.cells import Bools
from dkmeans.growth.robust_field import BatchGradient, RobustField
from dkmeans.kernels.block import Floats
from dkmeans.passes.batch import Batch
from dkmeans.prototypes import Prototypes

FIRST_STEP = 0.3  # length, relative to the root-mean-square deviation of a feature
GRADIENT_DECAY = 0.9  # of the running mean of the gradient
SIZE_DECAY = 0.99  # of the running mean of its square


@dataclass(frozen=True)
class Model:
    """Prototypes, and the space that they are points of."""

    prototypes: Prototypes
    geometry: Geometry


class SmoothedGradient:
    """Running mean of a gradient, divided by its running size, as in Adam.

    Parameters
    ----------
    shape : tuple of int
        Of the gradient.
    axes : tuple of int
        Axes over which entries share one size.
    """

    def __init__(self, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
        self._axes, self._n_steps = axes, 0
        self._mean = np.zeros(shape)
        self._size = np.zeros_like(self._mean).mean(axis=axes, keepdims=True)

    def step(self, gradient: Floats) -> Floats:
        """Add a gradient, and return the step: of length about 1, uphill."""
        self._n_steps += 1
        self._mean += (1 - GRADIENT_DECAY) * (gradient - self._mean)
        power = np.square(gradient).mean(axis=self._axes, keepdims=True)
        self._size += (1 - SIZE_DECAY) * (power - self._size)
        # Correct the bias of running means that start at zero.
        mean = self._mean / (1 - GRADIENT_DECAY**self._n_steps)
        size = np.sqrt(self._size / (1 - SIZE_DECAY**self._n_steps))
        return np.divide(mean, size, out=np.zeros_like(mean), where=size > 0)

    def forget(self, which: Bools) -> None:
        """Set the running mean of some entries of the first axis to zero."""
        self._mean[which] = 0.0


class Descent:
    """The prototypes during the descent.

    Parameters
    ----------
    field : RobustField
    start : Model
    """

    def __init__(self, field: RobustField, start: Model) -> None:
        self._field, self._start = field, start
        self._place = start.prototypes.centers.astype(np.float64)
        self._good = self._place.copy()  # centres at which each prototype last won a row
        self._smoothed = SmoothedGradient(self._place.shape, (1,))
        low, high = field.box.low, field.box.high
        margin = (high - low) / 2
        self._low, self._high = low - margin, high + margin
        self._first_step = FIRST_STEP * np.sqrt(field.spread / self._place.shape[1])

    @property
    def model(self) -> Model:
        """The prototypes, in the type of the rows."""
        start, geometry = self._start.prototypes, self._start.geometry
        centers = geometry.centers(self._place, start.centers.dtype)
        return Model(replace(start, centers=centers), geometry)

    def step(self, slope: float, share: float, batch: Batch) -> BatchGradient:
        """Take one step, and return what the rows of a batch have seen before it.

        Parameters
        ----------
        slope : float
            Of the cost.
        share : float
            Step length, relative to the first one.
        batch : Batch
        """
        model = self.model
        found = self._field.batch_gradient(model.prototypes, slope, batch)
        steps = self._smoothed.step(found.gradient)
        wins = found.margins.wins
        self._good[wins] = self._place[wins]
        moved = np.clip(self._place - share * self._first_step * steps, self._low, self._high)
        dtype = model.prototypes.centers.dtype
        self._place = model.geometry.constrained(moved, dtype)
        return found

    def revive(self, wins: Bools) -> None:
        """Return prototypes that won no row in a pass to where they last won one."""
        self._place[~wins] = self._good[~wins]
        self._smoothed.forget(~wins)
