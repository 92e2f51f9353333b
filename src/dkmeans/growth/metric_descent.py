"""Steps of refinement in a learned metric: prototypes and projection move together.

The projection A of standardised features follows its own gradient, smoothed and divided by one
running size for the whole matrix, which keeps the ratios between its entries. After each step it
is scaled back to its first norm, and the prototypes with it: lengths do not matter to the cost,
which depends on ratios of distances.

The steps are those for features that depend less on each other (`decorrelation`), so that small
differences between them are learned sooner: the gradient is multiplied by the inverse cube root of
their covariance, half of it before it is divided by its size.

Features whose range includes zero are not shifted, so that sparse rows stay sparse; as if they
were, prototypes are kept relative to the image of the mean row, and so is the gradient.
"""

from dataclasses import replace

import numpy as np

from dkmeans.geometry import Learned
from dkmeans.growth.decorrelation import Decorrelation
from dkmeans.growth.descent import Descent, Model, SmoothedGradient
from dkmeans.growth.robust_field import BatchGradient, RobustField
from dkmeans.kernels.block import Floats
from dkmeans.passes.batch import Batch

FIRST_STEP = 0.15  # of prototypes: length, relative to the root-mean-square deviation of a feature
FIRST_METRIC_STEP = 0.05  # of the projection, relative to its root-mean-square entry
MAX_DECORRELATED = 256  # features; with more of them, it would take too long
BOUND_RATIO = 2.0  # of the bound on gradients of rows to the largest one in the batch before


class MetricDescent(Descent):
    """Prototypes and projection during the descent.

    Parameters
    ----------
    field : RobustField
    start : Model
        In a learned metric.
    step : float
        Of the projection, relative to the usual one.
    """

    def __init__(self, field: RobustField, start: Model, step: float = 1.0) -> None:
        super().__init__(field, start)
        assert isinstance(start.geometry, Learned)
        self._geometry = start.geometry
        self._components = start.geometry.components.copy()
        self._norm = np.linalg.norm(self._components)
        self._middle = self._geometry.standardised(self._geometry.center[None])[0]
        self._offset = self._image_of_mean()
        self._place -= self._offset
        self._good = self._place.copy()
        self._first_step = FIRST_STEP * np.sqrt(field.spread / self._place.shape[1])
        self._decorrelation = Decorrelation()
        if len(self._components) <= MAX_DECORRELATED:
            self._decorrelation = Decorrelation.of(field.covariance(start.geometry))
        norm = np.linalg.norm(self._decorrelation.inverse(self._components))
        self._metric_step = step * FIRST_METRIC_STEP * norm / np.sqrt(self._components.size)
        self._smoothed_metric = SmoothedGradient(self._components.shape, (0, 1))
        self._bound = field.bound_row_gradients(start.prototypes)

    @property
    def model(self) -> Model:
        """Prototypes and projection."""
        start = self._start.prototypes
        centers = (self._place + self._offset).astype(start.centers.dtype)
        return Model(replace(start, centers=centers), self._geometry)

    def step(self, slope: float, share: float, batch: Batch) -> BatchGradient:
        """Take one step, and return what the rows of a batch have seen before it."""
        prototypes, offset = self.model.prototypes, self._offset
        found = self._field.metric_gradient(prototypes, self._geometry, slope, batch, self._bound)
        wins = found.margins.wins
        self._good[wins] = self._place[wins]
        middle = (found.low + found.high) / 2 - offset
        reach = found.high - found.low
        steps = self._smoothed.step(found.gradient)
        moved = self._place - share * self._first_step * steps
        self._place = np.clip(moved, middle - reach, middle + reach)
        self._move_projection(found.products, share)
        if found.largest > 0:
            self._bound = BOUND_RATIO * found.largest
        return BatchGradient(found.margins, found.paid, found.gradient)

    def _image_of_mean(self) -> Floats:
        """Project the mean row."""
        image: Floats = np.add.reduce(self._middle[:, None] * self._geometry.components, axis=0)
        return image

    def _move_projection(self, products: Floats, share: float) -> None:
        gradient = products[:-1] - self._middle[:, None] * products[-1]
        steps = self._smoothed_metric.step(self._decorrelation(gradient))
        moved = self._components - share * self._metric_step * self._decorrelation(steps)
        ratio = self._norm / np.linalg.norm(moved)
        self._components = moved * ratio
        self._place *= ratio
        self._good *= ratio
        self._geometry = self._geometry.with_components(self._components)
        self._offset = self._image_of_mean()
