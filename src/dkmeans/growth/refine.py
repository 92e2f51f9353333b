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

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil
from typing import Self

import numpy as np

from dkmeans.geometry import Learned
from dkmeans.growth.cells import Bools
from dkmeans.growth.descent import Descent, Model
from dkmeans.growth.margins import FINAL_SLOPE, Margins, RefineStep
from dkmeans.growth.metric_descent import MetricDescent
from dkmeans.growth.robust_field import RobustField
from dkmeans.growth.round import Children
from dkmeans.growth.rules import Rules
from dkmeans.growth.run import Run, State
from dkmeans.growth.start_metric import is_wide
from dkmeans.passes.batch import Batch

BATCH_ROWS = 8192  # distinct rows in a batch, at least
WIDE_BATCH_ROWS = 2048  # where a metric of many features is learned
MIN_BATCH_ROWS = 200  # where a metric needs more steps
MAX_BATCHES = 8
PASSES = 60  # with one batch
LEAST_PASSES = 0.05  # share of them that is left with very many batches
SLOPES = (10.0, FINAL_SLOPE)  # at the start and at the end
STALE_PASSES = 5  # in the second half, the descent ends unless the cost falls in so many passes,
MIN_FALL = 1e-3  # by at least this fraction
MAX_TWIN_ATTEMPTS = 5  # to place prototypes that win no row


def refine_margins(run: Run, state: State) -> Iterator[State | RefineStep]:
    """Move prototypes to lower the margin cost. The last value is a `State`, if there is any."""
    if len(np.unique(state.prototypes.classes)) < 2:
        return
    learns_metric = isinstance(run.rules.geometry, Learned) and run.rules.metric_step > 0
    field = RobustField(run.rows, state.prototypes, learns_metric=learns_metric)
    if not field.spread > 0:
        return
    start = Model(state.prototypes, run.rules.geometry)
    descent, how = Descent(field, start), _Batches(BATCH_ROWS)
    if learns_metric:
        descent = MetricDescent(field, start, run.rules.metric_step)
        how = _Batches.for_metric(run.rules)
    plan = _Plan.of(field.n_distinct, how, run.rules.max_iter)
    results, costs = _Results(run, field, start), list[float]()
    before: Margins | None = None
    while not plan.is_over(costs):
        number, model = len(costs), descent.model
        margins, cost = _one_pass(field, descent, plan, number)
        costs.append(cost)
        if plan.n_batches == 1:  # all rows have seen the same model
            results.consider(model, cost, margins.wins)
        after = descent.model
        yield field.describe(
            margins,
            round=state.round + len(costs),
            prototypes=after.prototypes,
            geometry=after.geometry,
            moved=field.moved(margins, before),
            cost=cost,
            most_passes=plan.n_passes,
        )
        if before is not None:
            before.release()
        before = margins
    assert before is not None, "at least one pass"
    found, known = results.end(descent.model)
    run.map_rows(found.model.geometry)
    centers = found.model.prototypes.centers
    children = Children(np.arange(len(centers)), state.prototypes.classes, centers)
    last = replace(state, round=state.round + len(costs))
    refined = run.advance(last, "refine", children, known)
    if known is not None:
        known.release()
    run.converged &= refined.n_mixed == 0
    moved = field.moved(before, None)
    before.release()
    yield replace(refined, margin_cost=found.cost, moved=moved)


@dataclass(frozen=True)
class _Batches:
    """How many batches a pass has.

    Attributes
    ----------
    rows : int
        Distinct rows per batch, up to the largest number of batches.
    least : int
        Least number of batches, even if they have fewer rows (but no fewer than `MIN_BATCH_ROWS`).
    extra_steps : bool
        Whether batches of fewer rows leave the number of passes as it is.
    """

    rows: int
    least: int = 1
    extra_steps: bool = False

    @classmethod
    def for_metric(cls, rules: Rules) -> Self:
        """Return the batches of a fit that learns a metric.

        With many features, passes take long, so there are more batches and fewer passes.
        """
        assert isinstance(rules.geometry, Learned)
        rows = WIDE_BATCH_ROWS if is_wide(len(rules.geometry.scale)) else BATCH_ROWS
        return cls(rows, rules.metric_batches, extra_steps=rules.metric_step >= 1)


@dataclass(frozen=True)
class _Plan:
    """How many passes there are, at most, and in how many batches each."""

    n_batches: int
    n_passes: int

    @classmethod
    def of(cls, n_distinct: int, how: _Batches, max_iter: int) -> Self:
        """Plan for a number of distinct rows; repeated rows change nothing."""
        by_rows = min(max(1, n_distinct // how.rows), MAX_BATCHES)
        n_batches = max(by_rows, min(how.least, n_distinct // MIN_BATCH_ROWS))
        counted = by_rows if how.extra_steps else n_batches
        n_passes = ceil(PASSES * (LEAST_PASSES + (1 - LEAST_PASSES) / counted))
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
    field: RobustField, descent: Descent, plan: _Plan, number: int
) -> tuple[Margins, float]:
    """Make a step for each batch; return the margins and the cost that the rows have seen."""
    seen, paid = [], []
    for batch in range(plan.n_batches):
        share = plan.share(number, batch)
        slope = SLOPES[0] + share * (SLOPES[1] - SLOPES[0])
        found = descent.step(slope, 1 - share, Batch(batch, plan.n_batches, number))
        seen.append(found.margins)
        paid.append(found.paid)
    margins = field.joined(seen)
    descent.revive(margins.wins)
    return margins, field.unpaid(np.sum(paid, axis=0))


@dataclass(frozen=True)
class _Found:
    """A model, and its cost at the final slope."""

    model: Model
    cost: float


class _Results:
    """Models with the lowest cost so far: of all, and of those where no prototype is idle."""

    def __init__(self, run: Run, field: RobustField, start: Model) -> None:
        self._run, self._field = run, field
        self._best = self._sound = _Found(start, field.start_cost)

    def consider(self, model: Model, cost: float, wins: Bools) -> None:
        """Keep a model if it is better than those so far."""
        if cost < self._best.cost:
            self._best = _Found(model, cost)
        if cost < self._sound.cost and wins.all():
            self._sound = _Found(model, cost)

    def end(self, last: Model) -> tuple[_Found, Margins | None]:
        """Return the model that counts, the last one included; no prototype is idle in it.

        The margins are those of the model, if they are known.
        """
        self._run.map_rows(last.geometry)
        margins = self._field.margins(last.prototypes)
        cost = self._field.robust_cost(margins, last.prototypes)
        self.consider(last, cost, margins.wins)
        if self._sound.model is last and self._best.cost >= self._sound.cost:
            return self._sound, margins
        margins.release()
        if self._best.cost < self._sound.cost:
            placed = _with_twins(self._run, self._field, self._best.model)
            if placed is not None and placed.cost < self._sound.cost:
                return placed, None
        return self._sound, None


def _with_twins(run: Run, field: RobustField, model: Model) -> _Found | None:
    """Place prototypes that win no row next to others of their class; None if that fails."""
    run.map_rows(model.geometry)
    prototypes = model.prototypes
    for _ in range(MAX_TWIN_ATTEMPTS):
        with field.margins(prototypes) as margins:
            idle = np.flatnonzero(~margins.wins)
            if not len(idle):
                cost = field.robust_cost(margins, prototypes)
                return _Found(replace(model, prototypes=prototypes), cost)
            which, places = field.twins(margins, prototypes, idle)
        centers = prototypes.centers.copy()
        centers[which] = model.geometry.centers(places, centers.dtype)
        prototypes = replace(prototypes, centers=centers)
    return None
