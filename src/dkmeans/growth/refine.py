"""Margin refinement: full passes that move the prototypes of a finished growth (`margins`).

Each pass finds the margins of all rows and takes one step down the gradient. Steps are free of any
scale: the gradient of a prototype, smoothed over passes, is divided by its own running size, and
multiplied by a share of the data's spread that falls to zero over the passes, while the slope of
the cost rises. So there is no learning rate to choose.

Safeguards. What counts is the cost at the final slope. The centres with the least of it are the
result, those at the start included, so it never ends higher than it began. A step after which a
prototype wins no row is taken back for it. If it wins none even so, because others have moved in,
it waits there, and at the end goes right beside a prototype of its class, to share its rows. No
prototype leaves the box of the data by more than half its width.
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
STEP = 0.3  # of the root-mean-square spread of a feature, at the start
SLOPES = (10.0, FINAL_SLOPE)  # at the start and at the end
_TRIES = 5  # at finding rows for prototypes that win none
_SMOOTH, _SMOOTH_SIZE = 0.9, 0.99  # shares of the past in the running gradient and its size


def refine(run: Run, state: State) -> Iterator[State | RefineStep]:
    """Lower the margin cost at a fixed set of prototypes; the last that is yielded is a state."""
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
        peopled = _peopled(run, field, replace(state.prototypes, centers=best.centers))
        best = peopled if peopled is not None and peopled.cost < sound.cost else sound
    children = Children(np.arange(len(best.centers)), state.prototypes.classes, best.centers)
    refined = run.advance(replace(state, round=state.round + passes), "refine", children)
    run.converged &= refined.n_mixed == 0
    moved = field.moved(margins, None)
    margins.release()
    yield replace(refined, margin_cost=best.cost, moved=moved, seconds=time.perf_counter() - clock)


@dataclass(frozen=True)
class _Found:
    """Centres, and what they cost at the final slope."""

    centers: Any
    cost: float


def _peopled(run: Run, field: Field, prototypes: Prototypes) -> _Found | None:
    """Put prototypes that win no row right beside others of their class; None if it fails."""
    for _ in range(_TRIES):
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
    """The places of the prototypes, and the steps that they take."""

    def __init__(self, field: Field, centers: Any, geometry: Geometry) -> None:
        self._dtype, self._geometry = centers.dtype, geometry
        self._place = centers.astype(np.float64)
        self._good = self._place.copy()  # where each prototype last won a row
        self._drift, self._size = np.zeros_like(self._place), np.zeros((len(centers), 1))
        self._steps = 0
        self._reach = STEP * np.sqrt(field.spread / centers.shape[1])
        margin = (field.high - field.low) / 2
        self._low, self._high = field.low - margin, field.high + margin

    @property
    def centers(self) -> Any:
        """Where the prototypes are, in the type of the rows."""
        return self._geometry.centers(self._place, self._dtype)

    def step(self, gradient: Floats, share: float, alive: Bools) -> None:
        """Go down the gradient; prototypes that win nothing go back instead."""
        self._steps += 1
        self._drift += (1 - _SMOOTH) * (gradient - self._drift)
        power = np.square(gradient).mean(axis=1, keepdims=True)
        self._size += (1 - _SMOOTH_SIZE) * (power - self._size)
        self._good[alive] = self._place[alive]
        # The running values start at zero; this makes up for it.
        drift = self._drift / (1 - _SMOOTH**self._steps)
        size = np.sqrt(self._size / (1 - _SMOOTH_SIZE**self._steps))
        steps = np.divide(drift, size, out=np.zeros_like(drift), where=size > 0)
        moved = np.clip(self._place - share * self._reach * steps, self._low, self._high)
        self._place = np.where(alive[:, None], moved, self._good)
        self._place = self._geometry.constrained(self._place, self._dtype)
        self._drift[~alive] = 0.0
