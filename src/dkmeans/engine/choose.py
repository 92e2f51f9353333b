"""How many clusters: the fewest with which held-out rows err hardly more than at best.

A part of each class is held out. The others grow prototypes, from few to many, and each number of
clusters on the way is tried on the held-out rows. With few rows this is done for several parts in
turn. The choice is the smallest number whose error is within one standard error of the least; the
error that counts is that of the *difference*, as both are found on the same rows. Growth ends when
nothing is lost, or when the count is far beyond the best so far.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dkmeans.engine.grow import grow
from dkmeans.engine.heldout import HeldOut
from dkmeans.engine.margins import Pass
from dkmeans.engine.path import Trail, waypoint
from dkmeans.engine.refine import refine
from dkmeans.engine.run import Run, State
from dkmeans.kernels.block import Floats
from dkmeans.model.prototypes import Prototypes
from dkmeans.model.tree import TreeLog

_FAR = 4  # growth ends at so many times the clusters of the best so far,
_AT_LEAST = 8  # but not before there are so many for each class
_MORE = 1 + 1e-9  # for rounding
_STEP = 1.25  # least ratio between numbers of clusters that are refined to be tried


@dataclass(frozen=True)
class Attempt:
    """Models grown without some rows, and what they lose on these."""

    trail: Trail
    losses: dict[int, Floats]  # of each item held out, by number of clusters
    tree: TreeLog
    records: list[dict[str, Any]]  # of the history

    def at(self, count: int) -> Floats:
        """Losses of the model with the most clusters that are at most so many."""
        return self.losses[max(k for k in self.losses if k <= count)]


@dataclass(frozen=True)
class Choice:
    """How many clusters, and the first attempt, its errors those over all attempts."""

    n_clusters: int
    first: Attempt


def choose(attempts: list[Attempt], weight: float, n_classes: int) -> Choice:
    """Choose the number of clusters; `weight` is that of all rows that were held out."""
    first = attempts[0]
    losses = {len(w): np.concatenate([a.at(len(w)) for a in attempts]) for w in first.trail}
    if weight > 0:
        for found in first.trail:
            error = float(losses[len(found)].sum() / weight)
            first.trail.add(replace(found, heldout_error=error))
    return Choice(max(n_classes, _fewest(losses)), first)


def attempt(
    run: Run,
    held_out: HeldOut,
    weight_unit: float,
    n_classes: int,
    tell: Callable[[dict[str, Any], Prototypes], None] = lambda record, prototypes: None,
) -> Attempt:
    """Grow on the rows that are not held out, and try each number of clusters on those that are.

    Parameters
    ----------
    run : Run
        Of rows in which those held out have weight 0.
    held_out : HeldOut
    weight_unit : float
        A weight of 1 here, in the user's terms.
    n_classes : int
        Of rows that have a weight.
    tell : callable
        Called with the record and the prototypes of each round.
    """
    is_refined = run.rules.refine
    run.rules = replace(run.rules, refine=False)
    trail, records, tried = Trail(), [], 0
    losses: dict[int, Floats] = {}  # on the held-out rows, by number of clusters

    def try_out(state: State, round: int) -> None:
        run.rows.label_all(state.prototypes)
        classes = state.prototypes.classes
        wrong = zip(*run.rows.each("wrongly_held", classes), strict=True)
        losses[len(classes)] = held_out.losses(*(np.concatenate(part) for part in wrong))
        found = waypoint(run, state, run.rows.errors(classes))
        trail.add(replace(found, round=round))

    for state in grow(run):
        assert isinstance(state, State)
        if state.round:
            records.append(state.record(weight_unit))
            tell(records[-1], state.prototypes)
        count = len(state.prototypes)
        if not is_refined:
            try_out(state, state.round)
        elif count >= _STEP * tried:
            tried, converged = count, run.converged
            refined = _last(refine(run, state), state)
            try_out(refined, state.round)
            run.undo(refined, state)
            run.converged = converged
        best = min(trail, key=lambda w: (w.heldout_error, len(w)))
        far = max(_FAR * len(best), _AT_LEAST * n_classes)
        if state.round and (best.heldout_error == 0 or count >= far):
            break
    return Attempt(trail, losses, run.tree, records)


def _last(states: Iterator[State | Pass], otherwise: State) -> State:
    for state in states:
        if isinstance(state, State):
            otherwise = state
    return otherwise


def _fewest(losses: dict[int, Floats]) -> int:
    """Apply the rule of one standard error."""
    least = min(losses.items(), key=lambda entry: (entry[1].sum(), entry[0]))[1]
    for count in sorted(losses):
        worse = losses[count] - least
        if worse.sum() <= np.sqrt(np.square(worse).sum()) * _MORE:
            break
    return count
