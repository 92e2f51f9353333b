"""Margin refinement: gradient descent on the robust margin cost of all rows, after growth.

The gradient (`robust_field`) pulls the own prototype of a row towards it and pushes the rival away,
with weights that decrease with the distance from the border: a smooth version of the repulsion of
the paper. In each pass every row is visited once, in batches that are drawn by a hash of the rows'
values and of the pass, and each batch makes one step. As in Adam, the smoothed gradient of a
prototype is divided by its running size, so there is no learning rate to choose. The step length is
a fraction of the spread of the data that decreases to zero over the passes, while the slope of the
cost increases. More batches need fewer passes. The descent ends early when the cost has stopped
falling.

Safeguards: of the centres whose cost at the final slope is known, those with the lowest are the
result. They include those at the start and at the end, so the cost never increases. If a prototype
wins no row in a pass, it returns to where it last won one. If it wins none even there, as others
have moved, it waits, and at the end is placed next to another prototype of its class, to share its
rows. No prototype leaves the bounding box of the data by more than half its width.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Self

import numpy as np

from dkmeans.geometry import Geometry
from dkmeans.growth.cells import Bools
from dkmeans.growth.margins import FINAL_SLOPE, Margins, RefineStep
from dkmeans.growth.robust_field import RobustField
from dkmeans.growth.round import Children
from dkmeans.growth.run import Run, State
from dkmeans.kernels.block import Floats
from dkmeans.passes.margin_search import Batch
from dkmeans.prototypes import Prototypes

BATCH_ROWS = 8192  # distinct rows in a batch, at least
MAX_BATCHES = 8
PASSES = 60  # with one batch
LEAST_PASSES = 0.2  # share of them that is left with very many batches
FIRST_STEP = 0.3  # length, relative to the root-mean-square deviation of a feature
SLOPES = (10.0, FINAL_SLOPE)  # at the start and at the end
STALE_PASSES = 5  # in the second half, the descent ends unless the cost falls in so many passes,
MIN_FALL = 1e-3  # by at least this fraction
MAX_TWIN_ATTEMPTS = 5  # to place prototypes that win no row
GRADIENT_DECAY = 0.9  # of the running mean of the gradient
SIZE_DECAY = 0.99  # of the running mean of its square


def refine_margins(run: Run, state: State) -> Iterator[State | RefineStep]:
    """Move prototypes to lower the margin cost. The last value is a `State`, if there is any."""
    if len(np.unique(state.prototypes.classes)) < 2:
        return
    field = RobustField(run.rows, state.prototypes)
    if not field.spread > 0:
        return
    plan = _Plan.of(field.n_distinct, run.rules.max_iter)
    descent = _Descent(field, state.prototypes.centers, run.rules.geometry)
    results, costs = _Results(field, state.prototypes), list[float]()
    before: Margins | None = None
    clock = time.perf_counter()
    while not plan.is_over(costs):
        number, centers = len(costs), descent.centers
        margins, cost = _one_pass(field, descent, plan, number, state.prototypes)
        costs.append(cost)
        if plan.n_batches == 1:  # all rows have seen the same centres
            results.consider(centers, cost, margins.wins)
        now = time.perf_counter()
        yield field.describe(
            margins,
            round=state.round + len(costs),
            prototypes=replace(state.prototypes, centers=descent.centers),
            moved=field.moved(margins, before),
            cost=cost,
            seconds=now - clock,
        )
        clock = now
        if before is not None:
            before.release()
        before = margins
    assert before is not None, "at least one pass"
    best = _best(run, field, results, replace(state.prototypes, centers=descent.centers))
    children = Children(np.arange(len(best.centers)), state.prototypes.classes, best.centers)
    refined = run.advance(replace(state, round=state.round + len(costs)), "refine", children)
    run.converged &= refined.n_mixed == 0
    moved = field.moved(before, None)
    before.release()
    yield replace(refined, margin_cost=best.cost, moved=moved, seconds=time.perf_counter() - clock)


@dataclass(frozen=True)
class _Plan:
    """How many passes there are, at most, and in how many batches each."""

    n_batches: int
    n_passes: int

    @classmethod
    def of(cls, n_distinct: int, max_iter: int) -> Self:
        """Plan for a number of distinct rows; repeated rows change nothing."""
        n_batches = min(max(1, n_distinct // BATCH_ROWS), MAX_BATCHES)
        n_passes = ceil(PASSES * (LEAST_PASSES + (1 - LEAST_PASSES) / n_batches))
        return cls(n_batches, min(n_passes, max_iter))

    def share(self, number: int, batch: int) -> float:
        """Return the share of the steps before one."""
        return (number * self.n_batches + batch) / (self.n_passes * self.n_batches)

    def is_over(self, costs: list[float]) -> bool:
        """Tell whether there is nothing more to do, from the costs of the passes so far."""
        if len(costs) <= max(STALE_PASSES, self.n_passes // 2):
            return len(costs) >= self.n_passes
        falls = costs[-1] < (1 - MIN_FALL) * costs[-1 - STALE_PASSES]
        return len(costs) >= self.n_passes or not falls


def _one_pass(
    field: RobustField, descent: "_Descent", plan: _Plan, number: int, prototypes: Prototypes
) -> tuple[Margins, float]:
    """Make a step for each batch; return the margins and the cost that the rows have seen."""
    seen, paid = [], []
    for batch in range(plan.n_batches):
        share = plan.share(number, batch)
        slope = SLOPES[0] + share * (SLOPES[1] - SLOPES[0])
        found = field.batch_gradient(
            replace(prototypes, centers=descent.centers),
            slope,
            Batch(batch, plan.n_batches, number),
        )
        descent.step(found.gradient, 1 - share, found.margins.wins)
        seen.append(found.margins)
        paid.append(found.paid)
    margins = field.joined(seen)
    descent.revive(margins.wins)
    return margins, field.unpaid(np.sum(paid, axis=0))


@dataclass(frozen=True)
class _Found:
    """Centres, and their cost at the final slope."""

    centers: Any
    cost: float


class _Results:
    """Centres with the lowest cost so far: of all, and of those where no prototype is idle."""

    def __init__(self, field: RobustField, prototypes: Prototypes) -> None:
        with field.margins(prototypes) as margins:
            cost = field.robust_cost(margins, prototypes)
        self.best = self.sound = _Found(prototypes.centers, cost)

    def consider(self, centers: Any, cost: float, wins: Bools) -> None:
        """Keep centres if they are better than those so far."""
        if cost < self.best.cost:
            self.best = _Found(centers, cost)
        if cost < self.sound.cost and wins.all():
            self.sound = _Found(centers, cost)


def _best(run: Run, field: RobustField, results: _Results, last: Prototypes) -> _Found:
    """Return the centres that count, the last ones included; no prototype is idle there."""
    with field.margins(last) as margins:
        results.consider(last.centers, field.robust_cost(margins, last), margins.wins)
    if results.best.cost < results.sound.cost:
        placed = _with_twins(run, field, replace(last, centers=results.best.centers))
        if placed is not None and placed.cost < results.sound.cost:
            return placed
    return results.sound


def _with_twins(run: Run, field: RobustField, prototypes: Prototypes) -> _Found | None:
    """Place prototypes that win no row next to others of their class; None if that fails."""
    for _ in range(MAX_TWIN_ATTEMPTS):
        with field.margins(prototypes) as margins:
            idle = np.flatnonzero(~margins.wins)
            if not len(idle):
                return _Found(prototypes.centers, field.robust_cost(margins, prototypes))
            which, places = field.twins(margins, prototypes, idle)
        centers = prototypes.centers.copy()
        centers[which] = run.rules.geometry.centers(places, centers.dtype)
        prototypes = replace(prototypes, centers=centers)
    return None


class _Descent:
    """The centres of the prototypes during the descent."""

    def __init__(self, field: RobustField, centers: Any, geometry: Geometry) -> None:
        self._dtype, self._geometry = centers.dtype, geometry
        self._place = centers.astype(np.float64)
        self._good = self._place.copy()  # centres at which each prototype last won a row
        self._gradient, self._size = np.zeros_like(self._place), np.zeros((len(centers), 1))
        self._steps = 0
        self._first_step = FIRST_STEP * np.sqrt(field.spread / centers.shape[1])
        margin = (field.high - field.low) / 2
        self._low, self._high = field.low - margin, field.high + margin

    @property
    def centers(self) -> Any:
        """The centres, in the type of the rows."""
        return self._geometry.centers(self._place, self._dtype)

    def step(self, gradient: Floats, share: float, wins: Bools) -> None:
        """Take one step.

        Parameters
        ----------
        gradient : array of shape (k, d)
        share : float
            Step length, relative to the first one.
        wins : array of shape (k,)
            Whether each prototype wins a row where it is.
        """
        self._steps += 1
        self._gradient += (1 - GRADIENT_DECAY) * (gradient - self._gradient)
        power = np.square(gradient).mean(axis=1, keepdims=True)
        self._size += (1 - SIZE_DECAY) * (power - self._size)
        self._good[wins] = self._place[wins]
        # Correct the bias of running means that start at zero.
        mean_gradient = self._gradient / (1 - GRADIENT_DECAY**self._steps)
        size = np.sqrt(self._size / (1 - SIZE_DECAY**self._steps))
        steps = np.divide(mean_gradient, size, out=np.zeros_like(mean_gradient), where=size > 0)
        moved = np.clip(self._place - share * self._first_step * steps, self._low, self._high)
        self._place = self._geometry.constrained(moved, self._dtype)

    def revive(self, wins: Bools) -> None:
        """Return prototypes that won no row in a pass to where they last won one."""
        self._place[~wins] = self._good[~wins]
        self._gradient[~wins] = 0.0
