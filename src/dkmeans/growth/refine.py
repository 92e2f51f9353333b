"""Margin refinement: gradient descent on the margin cost of all rows, after growth.

Each pass finds the margins of all rows (`margins`) and takes one step. As in Adam, the smoothed
gradient of a prototype is divided by its running size, so there is no learning rate to choose. The
step length is a fraction of the spread of the data that decreases to zero over the passes, while
the slope of the cost increases.

Safeguards: the centres with the lowest cost at the final slope are the result, those at the start
included, so the cost never increases. If a prototype wins no row after a step, it returns to where
it last won one. If it wins none even there, as others have moved, it waits, and at the end is
placed next to another prototype of its class, to share its rows. No prototype leaves the bounding
box of the data by more than half its width.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dkmeans.geometry import Geometry
from dkmeans.growth.cells import Bools
from dkmeans.growth.margins import FINAL_SLOPE, Field, Margins, RefineStep
from dkmeans.growth.round import Children
from dkmeans.growth.run import Run, State
from dkmeans.kernels.block import Floats
from dkmeans.prototypes import Prototypes

PASSES = 60
FIRST_STEP = 0.3  # length, relative to the root-mean-square deviation of a feature
SLOPES = (10.0, FINAL_SLOPE)  # at the start and at the end
MAX_TWIN_ATTEMPTS = 5  # to place prototypes that win no row
GRADIENT_DECAY = 0.9  # of the running mean of the gradient
SIZE_DECAY = 0.99  # of the running mean of its square


def refine_margins(run: Run, state: State) -> Iterator[State | RefineStep]:
    """Move prototypes to lower the margin cost. The last value is a `State`, if there is any."""
    if len(np.unique(state.prototypes.classes)) < 2:
        return
    field = Field(run.rows)
    if not field.spread > 0:
        return
    descent = _Descent(field, state.prototypes.centers, run.rules.geometry)
    passes = min(PASSES, run.rules.max_iter)
    best = sound = _Found(state.prototypes.centers, np.inf)
    before: Margins | None = None
    clock = time.perf_counter()
    for number in range(passes + 1):
        centers = descent.centers
        prototypes = replace(state.prototypes, centers=centers)
        margins = field.margins(prototypes)
        found = _Found(centers, field.cost(margins, SLOPES[1]))
        alive = margins.wins
        if found.cost < best.cost:
            best = found
        if found.cost < sound.cost and alive.all():
            sound = found
        if before is not None:
            now = time.perf_counter()
            yield field.describe(
                margins,
                round=state.round + number,
                prototypes=prototypes,
                moved=field.moved(margins, before),
                cost=found.cost,
                seconds=now - clock,
            )
            clock = now
        if number < passes:
            share = number / passes
            slope = SLOPES[0] + share * (SLOPES[1] - SLOPES[0])
            descent.step(field.gradient(centers, margins, slope), 1 - share, alive)
        if before is not None:
            before.release()
        before = margins
    if best is not sound:
        placed = _with_twins(run, field, replace(state.prototypes, centers=best.centers))
        best = placed if placed is not None and placed.cost < sound.cost else sound
    children = Children(np.arange(len(best.centers)), state.prototypes.classes, best.centers)
    refined = run.advance(replace(state, round=state.round + passes), "refine", children)
    run.converged &= refined.n_mixed == 0
    moved = field.moved(margins, None)
    margins.release()
    yield replace(refined, margin_cost=best.cost, moved=moved, seconds=time.perf_counter() - clock)


@dataclass(frozen=True)
class _Found:
    """Centres, and their cost at the final slope."""

    centers: Any
    cost: float


def _with_twins(run: Run, field: Field, prototypes: Prototypes) -> _Found | None:
    """Place prototypes that win no row next to others of their class; None if that fails."""
    for _ in range(MAX_TWIN_ATTEMPTS):
        with field.margins(prototypes) as margins:
            idle = np.flatnonzero(~margins.wins)
            if not len(idle):
                return _Found(prototypes.centers, field.cost(margins, SLOPES[1]))
            which, places = field.twins(margins, prototypes, idle)
        centers = prototypes.centers.copy()
        centers[which] = run.rules.geometry.centers(places, centers.dtype)
        prototypes = replace(prototypes, centers=centers)
    return None


class _Descent:
    """The centres of the prototypes during the descent."""

    def __init__(self, field: Field, centers: Any, geometry: Geometry) -> None:
        self._dtype, self._geometry = centers.dtype, geometry
        self._place = centers.astype(np.float64)
        self._good = self._place.copy()  # centres at which each prototype last won a row
        self._gradient, self._size = np.zeros_like(self._place), np.zeros((len(centers), 1))
        self._steps = 0
        self._first_step = FIRST_STEP * np.sqrt(field.spread / centers.shape[1])
        low, high = field.box.low, field.box.high
        margin = (high - low) / 2
        self._low, self._high = low - margin, high + margin

    @property
    def centers(self) -> Any:
        """The centres, in the type of the rows."""
        return self._geometry.centers(self._place, self._dtype)

    def step(self, gradient: Floats, share: float, alive: Bools) -> None:
        """Take one step; prototypes that win no row return to where they last won one.

        Parameters
        ----------
        gradient : array of shape (k, d)
        share : float
            Step length, relative to the first one.
        alive : array of shape (k,)
            Whether each prototype wins a row.
        """
        self._steps += 1
        self._gradient += (1 - GRADIENT_DECAY) * (gradient - self._gradient)
        power = np.square(gradient).mean(axis=1, keepdims=True)
        self._size += (1 - SIZE_DECAY) * (power - self._size)
        self._good[alive] = self._place[alive]
        # Correct the bias of running means that start at zero.
        mean_gradient = self._gradient / (1 - GRADIENT_DECAY**self._steps)
        size = np.sqrt(self._size / (1 - SIZE_DECAY**self._steps))
        steps = np.divide(mean_gradient, size, out=np.zeros_like(mean_gradient), where=size > 0)
        moved = np.clip(self._place - share * self._first_step * steps, self._low, self._high)
        self._place = np.where(alive[:, None], moved, self._good)
        self._place = self._geometry.constrained(self._place, self._dtype)
        self._gradient[~alive] = 0.0
