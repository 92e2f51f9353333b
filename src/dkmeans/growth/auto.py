"""Choose the number of clusters on held-out rows.

A part of each class is held out. Prototypes grow on the other rows, from few to many, and each
number of clusters is evaluated on the held-out rows. With few rows this is repeated for several
parts. The choice is the smallest number whose error is within one standard error of the lowest; the
standard error is that of the *difference*, as both errors are measured on the same rows. Growth
ends at an error of 0, or far beyond the best number so far.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dkmeans.growth.grow import grow
from dkmeans.growth.held_out import HeldOut
from dkmeans.growth.margins import RefineStep
from dkmeans.growth.registry import REFINEMENTS
from dkmeans.growth.run import Run, State
from dkmeans.growth.trail import Trail, waypoint
from dkmeans.kernels.block import Floats
from dkmeans.prototypes import Prototypes
from dkmeans.results.fit_record import TreeLog

# Growth ends at this multiple of the number of clusters of the best model so far,
MAX_RATIO_TO_BEST = 4
MIN_CLUSTERS_PER_CLASS = 8  # but not before this number
ROUNDING_TOLERANCE = 1 + 1e-9  # factor on the standard error
REFINED_RATIO = 1.25  # smallest ratio between numbers of clusters that are refined and evaluated


@dataclass(frozen=True)
class Attempt:
    """Models grown without the held-out rows, and their losses on these."""

    trail: Trail
    losses: dict[int, Floats]  # of each held-out item, by number of clusters
    tree: TreeLog
    records: list[dict[str, Any]]  # of the history

    def at(self, count: int) -> Floats:
        """Return the losses of the largest model with at most so many clusters."""
        return self.losses[max(k for k in self.losses if k <= count)]


@dataclass(frozen=True)
class Choice:
    """The number of clusters, and the first attempt with the errors over all attempts."""

    n_clusters: int
    first: Attempt


def choose(attempts: list[Attempt], weight: float, n_classes: int) -> Choice:
    """Choose the number of clusters; `weight` is the weight of all held-out rows."""
    first = attempts[0]
    losses = {len(w): np.concatenate([a.at(len(w)) for a in attempts]) for w in first.trail}
    if weight > 0:
        for found in first.trail:
            error = float(losses[len(found)].sum() / weight)
            first.trail.add(replace(found, heldout_error=error))
    return Choice(max(n_classes, fewest(losses)), first)


def attempt(
    run: Run,
    held_out: HeldOut,
    weight_unit: float,
    n_classes: int,
    tell: Callable[[dict[str, Any], Prototypes], bool],
) -> Attempt:
    """Grow on the rows that are not held out, and evaluate each number of clusters on the others.

    Parameters
    ----------
    run : Run
        On rows where those held out have weight 0.
    held_out : HeldOut
    weight_unit : float
        A weight of 1 here, in the user's weights.
    n_classes : int
        Number of classes that have rows with a weight.
    tell : callable
        Called with the record and the prototypes of each round; True ends the attempt.
    """
    refinement = None if run.rules.refine is None else REFINEMENTS[run.rules.refine]
    run.rules = replace(run.rules, refine=None)
    trail, records, evaluated = Trail(), [], 0
    losses: dict[int, Floats] = {}

    def evaluate(state: State, round: int) -> None:
        run.rows.label_all(state.prototypes)
        classes = state.prototypes.classes
        wrong = run.rows.held_errors(classes)
        losses[len(classes)] = held_out.losses(wrong.rows, wrong.weights)
        found = waypoint(run, state, run.rows.errors(classes))
        trail.add(replace(found, round=round))

    for state in grow(run):
        assert isinstance(state, State)
        stopped = False
        if state.round:
            records.append(state.record(weight_unit))
            stopped = tell(records[-1], state.prototypes)
        count = len(state.prototypes)
        if refinement is None:
            evaluate(state, state.round)
        elif count >= REFINED_RATIO * evaluated:
            evaluated, converged = count, run.converged
            refined = _last(refinement(run, state), state)
            evaluate(refined, state.round)
            run.undo(refined, state)
            run.converged = converged
        best = min(trail, key=lambda w: (w.heldout_error, len(w)))
        far = max(MAX_RATIO_TO_BEST * len(best), MIN_CLUSTERS_PER_CLASS * n_classes)
        if stopped or (state.round and (best.heldout_error == 0 or count >= far)):
            break
    return Attempt(trail, losses, run.tree, records)


def _last(states: Iterator[State | RefineStep], otherwise: State) -> State:
    for state in states:
        if isinstance(state, State):
            otherwise = state
    return otherwise


def fewest(losses: dict[int, Floats]) -> int:
    """Return the smallest number within one standard error of the best."""
    least = min(losses.items(), key=lambda entry: (entry[1].sum(), entry[0]))[1]
    for count in sorted(losses):
        worse = losses[count] - least
        if worse.sum() <= np.sqrt(np.square(worse).sum()) * ROUNDING_TOLERANCE:
            break
    return count
