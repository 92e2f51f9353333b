"""Margin refinement: full passes that move the prototypes of a finished growth (`margins`).

Each pass finds the margins of all rows and takes one step down the gradient. Steps are free of any
scale: the gradient of a prototype, smoothed over passes, is divided by its own running size, and
multiplied by a share of the data's spread that falls to zero over the passes, while the slope of
the cost rises. So there is no learning rate to choose.

Safeguards. What counts is the cost at the final slope. The centres with the least of it are the
result, those at the start included, so it never ends higher than it began. A prototype that wins no
row any more is put back to where it last won one, and centres with such a prototype are never the
result. No prototype leaves the box of the data by more than half its width.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dkmeans.engine.cells import Bools
from dkmeans.engine.margins import FINAL_SLOPE, Field, Pass
from dkmeans.engine.run import Run, State
from dkmeans.engine.update import Children
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.sphere import as_centers

PASSES = 60
STEP = 0.3  # of the root-mean-square spread of a feature, at the start
SLOPES = (10.0, FINAL_SLOPE)  # at the start and at the end
_SMOOTH, _SMOOTH_SIZE = 0.9, 0.99  # shares of the past in the running gradient and its size


def refine(run: Run, state: State) -> Iterator[State | Pass]:
    """Lower the margin cost at a fixed set of prototypes; the last that is yielded is a state."""
    if len(np.unique(state.prototypes.classes)) < 2:
        return
    field = Field(run.rows)
    if not field.spread > 0:
        return
    descent = _Descent(field, state.prototypes.centers, unit=run.rules.unit)
    passes = min(PASSES, run.rules.max_iter)
    best, least = state.prototypes.centers, np.inf
    winners = np.empty(0, dtype=np.intp)
    clock = time.perf_counter()
    for number in range(passes + 1):
        centers = descent.centers
        prototypes = replace(state.prototypes, centers=centers)
        margins = field.margins(prototypes)
        cost = field.cost(margins, SLOPES[1])
        alive = np.bincount(margins.winner, minlength=len(centers)) > 0
        if cost < least and alive.all():
            best, least = centers, cost
        if number:
            now = time.perf_counter()
            yield field.describe(
                margins,
                round=state.round + number,
                prototypes=prototypes,
                moved=int((winners != margins.winner).sum()),
                cost=cost,
                seconds=now - clock,
            )
            clock = now
        if number < passes:
            share = number / passes
            slope = SLOPES[0] + share * (SLOPES[1] - SLOPES[0])
            descent.step(field.gradient(centers, margins, slope), 1 - share, alive)
            descent.place(*field.worst_rows(margins, prototypes.classes, descent.lost))
        winners = margins.winner
    children = Children(np.arange(len(best)), state.prototypes.classes, best)
    refined = run.advance(replace(state, round=state.round + passes), "refine", children)
    run.converged &= refined.n_mixed == 0
    moved = int((run.rows.labels[margins.rows] != winners).sum())
    yield replace(refined, margin_cost=least, moved=moved, seconds=time.perf_counter() - clock)


class _Descent:
    """The places of the prototypes, and the steps that they take."""

    def __init__(self, field: Field, centers: Any, *, unit: bool) -> None:
        self._dtype, self._unit = centers.dtype, unit
        self._place = centers.astype(np.float64)
        self._good = self._place.copy()  # where each prototype last won a row
        self._drift, self._size = np.zeros_like(self._place), np.zeros((len(centers), 1))
        self._steps = 0
        self.lost = np.empty(0, dtype=np.intp)
        self._reach = STEP * np.sqrt(field.spread / centers.shape[1])
        margin = (field.high - field.low) / 2
        self._low, self._high = field.low - margin, field.high + margin

    @property
    def centers(self) -> Any:
        """Where the prototypes are, in the type of the rows."""
        return as_centers(self._place, self._dtype, unit=self._unit)

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
        self.lost = np.flatnonzero(~alive & (self._place == self._good).all(axis=1))
        self._place = np.where(alive[:, None], moved, self._good)
        if self._unit:
            self._place = self.centers.astype(np.float64)
        self._drift[~alive] = 0.0

    def place(self, which: Indices, rows: Floats) -> None:
        """Put prototypes that win nothing even where they once did on rows, which they then own."""
        self._place[which] = rows
