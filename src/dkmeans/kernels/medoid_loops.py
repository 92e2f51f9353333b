"""Compiled loops over medoids and candidates; see `kernels.medoid_costs` for what they compute."""

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.jit import compiled
from dkmeans.kernels.medoid_costs import COST_UNIT, SAFE_RATIO, SLOPE, Distances, Ints

_SCALE, _HALF_SLOPE = float(COST_UNIT), 0.5 * SLOPE
_TILE = 1024  # rows whose nearest medoids are found together


@compiled
def _cost(own: float, rival: float) -> np.int64:
    """Return the cost of a row, from squared distances."""
    if own == np.inf:
        margin = 1.0 if rival < np.inf else 0.0
    elif rival == np.inf:
        margin = -1.0
    else:
        both = own + rival
        margin = (own - rival) / both if both > 0.0 else 0.0
    share = min(max(0.5 + _HALF_SLOPE * margin, 0.0), 1.0)
    return np.int64(share * _SCALE + 0.5)


@compiled
def find_neighbours(
    to_medoids: Distances,
    slot_classes: Indices,
    classes: Indices,
    weights: Ints,
    slots: Indices,
    near: Distances,
    squares: Floats,
    costs: Ints,
    reach: Distances,
    least: float,
) -> None:
    """Fill in the nearest medoids of all rows, their costs, and who can change them."""
    for i in range(len(classes)):
        _find(to_medoids[i], slot_classes, classes[i], i, slots, near)
        _pay(weights[i], i, near, squares, costs, reach, least)


@compiled
def _find(
    distances: Distances, slot_classes: Indices, of: int, i: int, slots: Indices, near: Distances
) -> None:
    """Find the two nearest medoids of the row's class, and of the other ones."""
    own = second = rival = other = distances.dtype.type(np.inf)
    own_slot = second_slot = rival_slot = other_slot = -1
    for slot in range(len(slot_classes)):
        distance = distances[slot]
        if slot_classes[slot] == of:
            if distance < own:
                second, second_slot = own, own_slot
                own, own_slot = distance, slot
            elif distance < second:
                second, second_slot = distance, slot
        elif distance < rival:
            other, other_slot = rival, rival_slot
            rival, rival_slot = distance, slot
        elif distance < other:
            other, other_slot = distance, slot
    near[0, i], near[1, i], near[2, i], near[3, i] = own, second, rival, other
    slots[i, 0], slots[i, 1], slots[i, 2], slots[i, 3] = (
        own_slot,
        second_slot,
        rival_slot,
        other_slot,
    )


@compiled
def _insert(
    distance: float, slot: int, first: int, i: int, slots: Indices, near: Distances
) -> None:
    """Insert a medoid into the two nearest of its kind, ordered by distance and slot."""
    if _is_before(distance, slot, near[first, i], slots[i, first]):
        near[first + 1, i], slots[i, first + 1] = near[first, i], slots[i, first]
        near[first, i], slots[i, first] = distance, slot
    elif _is_before(distance, slot, near[first + 1, i], slots[i, first + 1]):
        near[first + 1, i], slots[i, first + 1] = distance, slot


@compiled
def _is_before(distance: float, slot: int, other: float, other_slot: int) -> bool:
    return distance < other or (distance == other and slot < other_slot)


@compiled
def _pay(
    weight: int,
    i: int,
    near: Distances,
    squares: Floats,
    costs: Ints,
    reach: Distances,
    least: float,
) -> None:
    for place in range(4):
        distance = np.float64(near[place, i])
        squares[i, place] = distance * distance
    own, second, rival, other = squares[i]
    now, without = _cost(own, rival), _cost(second, rival)
    costs[i, 0] = weight * now
    costs[i, 1] = weight * (without - now)
    costs[i, 2] = weight * (_cost(own, other) - now)
    for place in range(4):
        reach[place, i] = near[place, i]
    for first in range(2):
        if now == 0 and (first == 0 or without == 0):
            end = max(SAFE_RATIO * near[first, i], least)
            reach[first, i] = 0
            reach[first + 2, i] = min(end, near[first + 2, i])


@compiled
def replace_medoid(
    to_medoids: Distances,
    slot: int,
    slot_classes: Indices,
    classes: Indices,
    weights: Ints,
    slots: Indices,
    near: Distances,
    squares: Floats,
    costs: Ints,
    reach: Distances,
    least: float,
) -> None:
    """Update the nearest medoids after the one at a slot was replaced."""
    of = slot_classes[slot]
    for i in range(len(classes)):
        first, new = 0 if of == classes[i] else 2, to_medoids[i, slot]
        known = False
        for place in range(4):
            known |= slots[i, place] == slot
        if known:
            _find(to_medoids[i], slot_classes, classes[i], i, slots, near)
        elif _is_before(new, slot, near[first + 1, i], slots[i, first + 1]):
            _insert(new, slot, first, i, slots, near)
        else:
            continue
        _pay(weights[i], i, near, squares, costs, reach, least)


@compiled
def sum_removals(slots: Indices, costs: Ints, sums: Ints) -> None:
    """Add the cost of losing a medoid to the sum of that medoid."""
    for i in range(len(slots)):
        if slots[i, 0] >= 0:
            sums[slots[i, 0]] += costs[i, 1]
        if slots[i, 2] >= 0:
            sums[slots[i, 2]] += costs[i, 2]


@compiled
def _set_limits(of: int, classes: Indices, reach: Distances, first: int, limits: Distances) -> None:
    """Write the distances from which on candidates of a class change no row's cost.

    `first` is 0 if candidates are added, and 1 if they replace a medoid.
    """
    own, rival = reach[first], reach[first + 2]
    for i in range(len(classes)):
        a, b = own[i], rival[i]
        limits[i] = a if classes[i] == of else b


@compiled
def _within_reach(row: Distances, limits: Distances, found: Indices) -> int:
    """List the rows whose cost a candidate may change; return how many.

    No branch depends on the distances.
    """
    count = 0
    for i in range(len(limits)):
        found[count] = i
        count += row[i] < limits[i]
    return count


@compiled
def addition_changes(
    rows: Distances,
    candidates: Indices,
    classes: Indices,
    weights: Ints,
    reach: Distances,
    squares: Floats,
    costs: Ints,
    out: Ints,
) -> None:
    """Write by how much the cost changes if each candidate is added."""
    found, limits = np.empty(len(classes) + 1, dtype=np.intp), np.empty_like(reach[0])
    last = -1
    for j in np.argsort(classes[candidates]):
        row, of, total = rows[j], classes[candidates[j]], np.int64(0)
        if of != last:
            _set_limits(of, classes, reach, 0, limits)
            last = of
        for at in range(_within_reach(row, limits, found)):
            i = found[at]
            distance = np.float64(row[i])
            square = distance * distance
            if classes[i] == of:
                total += weights[i] * _cost(square, squares[i, 2]) - costs[i, 0]
            else:
                total += weights[i] * _cost(squares[i, 0], square) - costs[i, 0]
        out[j] = total


@compiled
def swap_changes(
    rows: Distances,
    candidates: Indices,
    classes: Indices,
    weights: Ints,
    slots: Indices,
    reach: Distances,
    squares: Floats,
    costs: Ints,
    removal: Ints,
    slot_classes: Indices,
    is_last: npt.NDArray[np.bool_],
    changes: Ints,
    best: Indices,
) -> None:
    """Write the best medoid to replace by each candidate, and by how much the cost changes."""
    k = len(removal)
    by_slot = np.empty(k + 1, dtype=np.int64)  # the last one stands for no medoid, slot -1
    found, limits = np.empty(len(classes) + 1, dtype=np.intp), np.empty_like(reach[0])
    last = -1
    for j in np.argsort(classes[candidates]):
        row, of, total = rows[j], classes[candidates[j]], np.int64(0)
        if of != last:
            _set_limits(of, classes, reach, 1, limits)
            last = of
        by_slot[:k], by_slot[k] = removal, 0
        for at in range(_within_reach(row, limits, found)):
            i = found[at]
            distance = np.float64(row[i])
            square, weight, now = distance * distance, weights[i], costs[i, 0]
            own, rival = squares[i, 0], squares[i, 2]
            if classes[i] == of:
                new = weight * _cost(square, rival)
                if square < own:
                    total += new - now
                    by_slot[slots[i, 0]] -= costs[i, 1]
                    other = weight * _cost(square, squares[i, 3])
                    by_slot[slots[i, 2]] += other - new - costs[i, 2]
                else:
                    by_slot[slots[i, 0]] += new - now - costs[i, 1]
            else:
                new = weight * _cost(own, square)
                if square < rival:
                    total += new - now
                    by_slot[slots[i, 2]] -= costs[i, 2]
                    other = weight * _cost(squares[i, 1], square)
                    by_slot[slots[i, 0]] += other - new - costs[i, 1]
                else:
                    by_slot[slots[i, 2]] += new - now - costs[i, 2]
        chosen = -1
        for slot in range(k):
            if is_last[slot] and slot_classes[slot] != of:
                continue
            if chosen < 0 or by_slot[slot] < by_slot[chosen]:
                chosen = slot
        best[j] = chosen
        changes[j] = total + by_slot[chosen] if chosen >= 0 else 0


@compiled
def describe_rows(
    rows: Distances,
    slot_classes: Indices,
    classes: Indices,
    own: Distances,
    rival: Distances,
    cells: Indices,
) -> None:
    """Write the distances to the nearest medoids; see `kernels.medoid_costs.describe_rows`."""
    n = len(classes)
    best, at = np.empty_like(own), np.empty(n, dtype=np.int32)
    for start in range(0, n, _TILE):
        size = min(_TILE, n - start)
        tile = slice(start, start + size)
        own_here, rival_here, cells_here = own[tile], rival[tile], cells[tile]
        of = classes[tile]
        own_here[:], rival_here[:], cells_here[:] = np.inf, np.inf, 0
        slot = 0
        while slot < len(slot_classes):
            c = slot_classes[slot]
            best[:size], at[:size] = np.inf, slot
            while slot < len(slot_classes) and slot_classes[slot] == c:
                _keep_nearest(rows[slot, tile], np.int32(slot), best, at)
                slot += 1
            for i in range(size):
                if best[i] < min(own_here[i], rival_here[i]):
                    cells_here[i] = at[i]
                if of[i] == c:
                    own_here[i] = best[i]
                else:
                    rival_here[i] = min(rival_here[i], best[i])


@compiled
def _keep_nearest(
    row: Distances, slot: np.int32, best: Distances, at: npt.NDArray[np.int32]
) -> None:
    """Write a medoid where it is the nearest so far. The loop has no branches."""
    for i in range(len(row)):
        distance, least, where = row[i], best[i], at[i]
        nearer = distance < least
        best[i] = distance if nearer else least
        at[i] = slot if nearer else where
