"""Costs of swapping and adding medoids, for all medoids at once.

For a row at distance D from the nearest medoid of its class and R from the nearest of another
class, the margin is mu = (D^2 - R^2) / (D^2 + R^2), and its cost is mu mapped linearly from
[-1 / SLOPE, 1 / SLOPE] to [0, 1], and constant outside: a count of errors that is smooth near the
border. Only additions, products and quotients are used, so that compiled loops and NumPy give the
same bits; and costs are rounded to integers, so that sums are exact in any order.

As in FasterPAM, a row changes its cost only if the candidate is nearer than the second-nearest
medoid (of its class or of the others) that it may replace. For all other rows, the cost of losing
a medoid does not depend on the candidate, and is summed once. So the changes of all swaps with a
candidate take one pass over its row of the distance matrix, whatever the number of medoids.

Most rows are far from a border: their cost is 0, also after they have lost their nearest medoid.
Candidates of their class change nothing for them, and candidates of other classes only if they are
nearer than `SAFE_RATIO` times the second-nearest medoid. `Neighbours.reach` says from which
distance on a candidate does not matter.
"""

from dataclasses import dataclass
from types import ModuleType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.block import Floats, Indices

COST_BITS = 20
COST_UNIT = 1 << COST_BITS  # the cost of a row far on the wrong side
SLOPE = 5.0
# A rival that is farther away than a medoid by this factor costs nothing: a little more than
# the root of (SLOPE + 1) / (SLOPE - 1), as distances are rounded.
SAFE_RATIO = 1.225
NONE = -1  # in place of a medoid

Ints: TypeAlias = npt.NDArray[np.int64]
Distances: TypeAlias = npt.NDArray[np.floating]

# In `Neighbours.slots`, `distances`, `squares` and `reach`.
OWN, OWN_SECOND, RIVAL, RIVAL_SECOND = range(4)
NOW, WITHOUT_OWN, WITHOUT_RIVAL = range(3)  # in `Neighbours.costs`


@dataclass(frozen=True)
class Neighbours:
    """The two nearest medoids of its own class and of all others, for each row.

    Attributes
    ----------
    slots : array of shape (n, 4)
        Own, second own, rival, second rival: positions in the list of medoids, NONE where there is
        none. The lower one is the nearer on a tie.
    distances : array of shape (4, n)
        Distances to them, infinite where there is none.
    squares : array of shape (n, 4)
        Their squares.
    costs : array of shape (n, 3)
        Cost of each row, and by how much it increases without its own or its rival medoid.
    reach : array of shape (4, n)
        From these distances on, a candidate changes no cost: of the row's class, if it is added
        (OWN) or replaces a medoid (OWN_SECOND), and of another class (RIVAL, RIVAL_SECOND).
    """

    slots: Indices
    distances: Distances
    squares: Floats
    costs: Ints
    reach: Distances


def least_distance(distances: Distances) -> float:
    """Return a distance whose square does not underflow in float64."""
    return 1e-30 if distances.dtype == np.float32 else 1e-150


def margin_costs(own: Floats, rival: Floats) -> Ints:
    """Return the costs of rows, as integers, from squared distances to both nearest medoids."""
    margin = (own == np.inf).astype(np.float64) - (rival == np.inf)
    both = own + rival
    known = (both > 0) & (both < np.inf)
    margin[known] = (own[known] - rival[known]) / both[known]
    share = np.minimum(np.maximum(0.5 + 0.5 * SLOPE * margin, 0.0), 1.0)
    return np.floor(share * COST_UNIT + 0.5).astype(np.int64)


def find_neighbours(
    to_medoids: Distances,
    slot_classes: Indices,
    classes: Indices,
    weights: Ints,
    loops: ModuleType | None = None,
) -> Neighbours:
    """Find the nearest medoids of all rows.

    Parameters
    ----------
    to_medoids : array of shape (n, k)
        Distances of each row to all medoids.
    slot_classes : array of shape (k,)
        Classes of the medoids.
    classes, weights : arrays of shape (n,)
        Classes and weights of the rows.
    loops : module, optional
        `kernels.loops`; NumPy is used if not given.
    """
    n, k = to_medoids.shape
    found = Neighbours(
        np.full((n, 4), NONE, dtype=np.intp),
        np.full((4, n), np.inf, dtype=to_medoids.dtype),
        np.empty((n, 4)),
        np.empty((n, 3), dtype=np.int64),
        np.empty((4, n), dtype=to_medoids.dtype),
    )
    if loops is not None:
        loops.find_neighbours(
            to_medoids,
            slot_classes,
            classes,
            weights,
            found.slots,
            found.distances,
            found.squares,
            found.costs,
            found.reach,
            least_distance(to_medoids),
        )
        return found
    is_own = classes[:, None] == slot_classes
    everyone = np.arange(n)
    for first, mask in ((OWN, is_own), (RIVAL, ~is_own)):
        left = np.where(mask, to_medoids, np.inf)
        for place in (first, first + 1)[:k]:
            slot = left.argmin(axis=1)
            distance = left[everyone, slot]
            found.distances[place] = distance
            found.slots[:, place] = np.where(distance < np.inf, slot, NONE)
            left[everyone, slot] = np.inf
    found.squares[:] = np.square(found.distances, dtype=np.float64).T
    own, second, rival, other = found.squares.T
    now = margin_costs(own, rival)
    without = margin_costs(second, rival)
    found.costs[:, NOW] = now * weights
    found.costs[:, WITHOUT_OWN] = (without - now) * weights
    found.costs[:, WITHOUT_RIVAL] = (margin_costs(own, other) - now) * weights
    found.reach[:] = found.distances
    for first, is_safe in ((0, now == 0), (1, (now == 0) & (without == 0))):
        farther = SAFE_RATIO * found.distances[first].astype(np.float64)
        ends = np.maximum(farther, least_distance(to_medoids))
        found.reach[first, is_safe] = 0
        found.reach[first + RIVAL, is_safe] = np.minimum(ends, found.reach[first + RIVAL])[is_safe]
    return found


def replace_medoid(
    to_medoids: Distances,
    slot: int,
    slot_classes: Indices,
    classes: Indices,
    weights: Ints,
    near: Neighbours,
    loops: ModuleType | None = None,
) -> Neighbours:
    """Find the nearest medoids again after one was replaced; `near` may be overwritten."""
    if loops is None:
        return find_neighbours(to_medoids, slot_classes, classes, weights)
    loops.replace_medoid(
        to_medoids,
        slot,
        slot_classes,
        classes,
        weights,
        near.slots,
        near.distances,
        near.squares,
        near.costs,
        near.reach,
        least_distance(to_medoids),
    )
    return near


def describe_rows(
    rows: Distances, slot_classes: Indices, classes: Indices, loops: ModuleType | None = None
) -> tuple[Distances, Distances, Indices]:
    """Return the distances to the nearest medoids, and which one is the nearest of all.

    Parameters
    ----------
    rows : array of shape (k, n)
        Distances from each medoid to all rows.
    slot_classes : array of shape (k,)
        Classes of the medoids, in ascending order.
    classes : array of shape (n,)
        Classes of the rows.
    loops : module, optional

    Returns
    -------
    own, rival : arrays of shape (n,)
        Distance to the nearest medoid of the row's class, and of the others; infinite if there is
        none.
    cells : array of shape (n,)
        The nearest medoid; the lowest on a tie.
    """
    n = len(classes)
    own, rival = np.full((2, n), np.inf, dtype=rows.dtype)
    cells = np.zeros(n, dtype=np.intp)
    if loops is not None:
        loops.describe_rows(rows, slot_classes, classes, own, rival, cells)
        return own, rival, cells
    for slot, c in enumerate(slot_classes.tolist()):
        cells[rows[slot] < np.minimum(own, rival)] = slot
        np.minimum(own, rows[slot], out=own, where=classes == c)
        np.minimum(rival, rows[slot], out=rival, where=classes != c)
    return own, rival, cells


def removal_costs(near: Neighbours, n_slots: int, loops: ModuleType | None = None) -> Ints:
    """Sum by medoid how much the cost increases if it is removed and nothing replaces it."""
    sums = np.zeros(n_slots, dtype=np.int64)
    if loops is not None:
        loops.sum_removals(near.slots, near.costs, sums)
        return sums
    for place, level in ((OWN, WITHOUT_OWN), (RIVAL, WITHOUT_RIVAL)):
        there = near.slots[:, place] >= 0
        np.add.at(sums, near.slots[there, place], near.costs[there, level])
    return sums


def addition_changes(
    rows: Distances,
    candidates: Indices,
    classes: Indices,
    weights: Ints,
    near: Neighbours,
    out: Ints,
    loops: ModuleType | None = None,
) -> None:
    """Write by how much the cost changes if each candidate is added.

    Parameters
    ----------
    rows : array of shape (m, n)
        IN. Distances from the candidates to all rows.
    candidates : array of shape (m,)
        IN. Their indices.
    classes, weights : arrays of shape (n,)
        IN.
    near : Neighbours
        IN.
    out : array of shape (m,)
        OUT.
    loops : module, optional
    """
    if loops is not None:
        loops.addition_changes(
            rows, candidates, classes, weights, near.reach, near.squares, near.costs, out
        )
        return
    out[:] = 0
    pairs = _Pairs(rows, candidates, classes, near, OWN)
    np.add.at(out, pairs.candidate, pairs.costs(near.squares, weights) - near.costs[pairs.i, NOW])


class _Pairs:
    """Pairs of a candidate and a row whose cost it may change.

    Parameters
    ----------
    rows, candidates, classes, near : as in `addition_changes`
    place : int
        OWN if candidates are added, OWN_SECOND if they replace medoids.
    """

    def __init__(
        self,
        rows: Distances,
        candidates: Indices,
        classes: Indices,
        near: Neighbours,
        place: int,
    ) -> None:
        is_own = classes[candidates][:, None] == classes
        reach = np.where(is_own, near.reach[place], near.reach[place + RIVAL])
        self.candidate, self.i = np.nonzero(rows < reach)
        self.is_own = is_own[self.candidate, self.i]
        self._square = np.square(rows[self.candidate, self.i], dtype=np.float64)

    def costs(self, squares: Floats, weights: Ints) -> Ints:
        """Return the costs of the rows with the candidate added to medoids at some distances."""
        own, rival = squares[self.i, OWN], squares[self.i, RIVAL]
        own = np.where(self.is_own, np.minimum(own, self._square), own)
        rival = np.where(self.is_own, rival, np.minimum(rival, self._square))
        return weights[self.i] * margin_costs(own, rival)


def swap_changes(
    rows: Distances,
    candidates: Indices,
    classes: Indices,
    weights: Ints,
    near: Neighbours,
    removal: Ints,
    slot_classes: Indices,
    is_last: npt.NDArray[np.bool_],
    changes: Ints,
    slots: Indices,
    loops: ModuleType | None = None,
) -> None:
    """Write, for each candidate, the best medoid to replace, and by how much the cost changes.

    Parameters
    ----------
    rows : array of shape (m, n)
        IN. Distances from the candidates to all rows.
    candidates : array of shape (m,)
        IN. Their indices.
    classes, weights : arrays of shape (n,)
        IN.
    near : Neighbours
        IN.
    removal : array of shape (k,)
        IN. Result of `removal_costs`.
    slot_classes : array of shape (k,)
        IN. Classes of the medoids.
    is_last : array of shape (k,)
        IN. Whether each medoid is the only one of its class, which only its class may replace.
    changes, slots : arrays of shape (m,)
        OUT. NONE and 0 where no medoid may be replaced; the lowest medoid on a tie.
    loops : module, optional
    """
    if loops is not None:
        loops.swap_changes(
            rows,
            candidates,
            classes,
            weights,
            near.slots,
            near.reach,
            near.squares,
            near.costs,
            removal,
            slot_classes,
            is_last,
            changes,
            slots,
        )
        return
    pairs = _Pairs(rows, candidates, classes, near, OWN_SECOND)
    total = np.zeros(len(candidates), dtype=np.int64)
    added = pairs.costs(near.squares, weights)
    np.add.at(total, pairs.candidate, added - near.costs[pairs.i, NOW])
    by_slot = np.tile(removal, (len(candidates), 1))
    for lost, level in ((OWN, WITHOUT_OWN), (RIVAL, WITHOUT_RIVAL)):
        left = near.squares.copy()
        left[:, lost] = near.squares[:, lost + 1]
        more = pairs.costs(left, weights) - added - near.costs[pairs.i, level]
        slot = near.slots[pairs.i, lost]
        there = slot >= 0
        np.add.at(by_slot, (pairs.candidate[there], slot[there]), more[there])
    barred = is_last & (slot_classes != classes[candidates][:, None])
    by_slot[barred] = np.iinfo(np.int64).max
    best = by_slot.argmin(axis=1)
    allowed = ~barred.all(axis=1)
    slots[:] = np.where(allowed, best, NONE)
    changes[:] = np.where(allowed, by_slot[np.arange(len(best)), best] + total, 0)
