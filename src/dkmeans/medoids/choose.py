"""Choose the number of medoids on held-out rows, by the rule of `growth.auto`."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dkmeans.growth.auto import fewest
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.rowhash import Hashes
from dkmeans.medoids.grow import Stage, grow
from dkmeans.medoids.held_out import HeldOut, hold_out
from dkmeans.medoids.problem import Problem
from dkmeans.medoids.waypoints import Waypoint

# Growth ends at this multiple of the number of medoids of the best model so far,
MAX_RATIO_TO_BEST = 4
MIN_MEDOIDS_PER_CLASS = 8  # but not before this number


@dataclass(frozen=True)
class Choice:
    """The number of medoids, and the models that were tried, by their number of medoids."""

    n_medoids: int
    waypoints: dict[int, Waypoint]
    records: list[dict[str, Any]]  # of the rounds that led to the waypoints


# Called with the record of each round; True ends the search.
Tell = Callable[[dict[str, Any], Indices], bool]


def choose(
    problem: Problem, hashes: Hashes, given: Floats | None, max_passes: int, tell: Tell
) -> Choice:
    """Grow without a fifth of the rows, from few medoids to many, and compare on that fifth.

    Parameters
    ----------
    problem : Problem
    hashes : array of shape (n,)
        Decide which rows are held out; equal ones stay together.
    given : array of shape (n,) or None
        Weights as the user gave them, for the sizes of medoids.
    max_passes : int
    tell : callable
    """
    weights = problem.weights.astype(np.float64)
    there = problem.candidates
    n_classes = len(np.unique(problem.classes[there]))
    parts = hold_out(hashes, problem.classes, weights, int(problem.classes.max()) + 1)
    attempts: list[dict[int, Floats]] = []
    first: dict[int, Waypoint] = {}
    records = []
    for part in parts:
        losses: dict[int, Floats] = {}
        attempts.append(losses)
        ended = False
        # Half as many medoids as rows would not be a summary of them.
        most = max(n_classes, part.n_left // 2)
        for stage in grow(problem.without(part.items >= 0), most, max_passes):
            losses[len(stage)] = _losses(problem, part, stage, weights)
            if part is parts[0]:
                first[len(stage)] = Waypoint.of(stage, given)
                records.append(stage.record)
            ended = tell(stage.record, stage.medoids)
            best = min(losses, key=lambda k: (losses[k].sum(), k))
            far = max(MAX_RATIO_TO_BEST * best, MIN_MEDOIDS_PER_CLASS * n_classes)
            if ended or not losses[best].any() or len(stage) >= far:
                break
        if ended:
            break
    together = {k: np.concatenate([_at(losses, k) for losses in attempts]) for k in first}
    weight = sum(part.weight for part in parts[: len(attempts)])
    if weight > 0:
        first = {
            k: replace(w, heldout_error=float(together[k].sum() / weight)) for k, w in first.items()
        }
    return Choice(max(n_classes, fewest(together)), first, records)


def _losses(problem: Problem, part: HeldOut, stage: Stage, weights: Floats) -> Floats:
    """Return the weight of each held-out item that lies in a cell of another class."""
    predicted = problem.classes[stage.medoids[stage.cells]]
    wrong = np.flatnonzero((predicted != problem.classes) & (part.items >= 0))
    return part.losses(wrong, weights[wrong])


def _at(losses: dict[int, Floats], k: int) -> Floats:
    """Return the losses of the largest model with at most k medoids."""
    return losses[max(count for count in losses if count <= k)]
