"""The medoids of the moment, and what additions and swaps change."""

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np

from dkmeans.kernels import medoid_costs
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.compiled import loops_if
from dkmeans.kernels.medoid_costs import COST_UNIT, NOW, OWN, Distances, Ints, Neighbours
from dkmeans.kernels.threads import for_each, tiles
from dkmeans.medoids.problem import Problem

BLOCK_ROWS = 64  # candidates that are compared before one of them is taken
_TILE_ROWS = 8  # candidates per task of a thread
_ENOUGH = 1 << 20  # distances from which on compiled loops are used
_UNIT_BITS = 20  # of a distance, when distances are added up


class Search:
    """Medoids in a fixed order (slots), with their distances to all rows.

    Parameters
    ----------
    problem : Problem
    medoids : array of shape (k,)
        Rows to start from, at least one of each class that has weight.
    """

    def __init__(self, problem: Problem, medoids: Indices) -> None:
        self.problem = problem
        self._loops = loops_for(problem)
        self.medoids = medoids.copy()
        self._rows = np.ascontiguousarray(problem.distances.rows(medoids))
        self._is_medoid = np.zeros(len(problem.classes), dtype=bool)
        self._near: Neighbours
        self._removal: Ints
        self._look_again()

    @property
    def slot_classes(self) -> Indices:
        """Classes of the medoids."""
        return self.problem.classes[self.medoids]

    @property
    def cost(self) -> int:
        """Sum of the costs of all rows, in units of `COST_UNIT` and of integer weights."""
        return int(self._near.costs[:, NOW].sum())

    @property
    def mean_cost(self) -> float:
        """Mean cost of the rows, between 0 and 1."""
        return self.cost / (COST_UNIT * self.problem.total_weight)

    @property
    def own_slots(self) -> Indices:
        """Nearest medoid of its class for each row, as a slot."""
        return self._near.slots[:, OWN]

    def cells(self, order: Indices) -> tuple[Indices, Distances]:
        """Return the nearest medoid of each row in some order of the slots, and its distance."""
        best = self._rows[order[0]].copy()
        cells = np.zeros(len(best), dtype=np.intp)
        for place, slot in enumerate(order[1:].tolist(), 1):
            nearer = self._rows[slot] < best
            cells[nearer] = place
            np.minimum(best, self._rows[slot], out=best)
        return cells, best

    def add(self, medoids: Indices) -> None:
        """Add medoids."""
        self.medoids = np.concatenate([self.medoids, medoids])
        self._rows = np.concatenate([self._rows, self.problem.distances.rows(medoids)])
        self._look_again()

    def swap(self, slot: int, medoid: int) -> None:
        """Replace a medoid."""
        self._is_medoid[self.medoids[slot]] = False
        self._is_medoid[medoid] = True
        self.medoids[slot] = medoid
        self._rows[slot] = self.problem.distances.rows(np.array([medoid]))[0]
        problem = self.problem
        self._near = medoid_costs.replace_medoid(
            self._rows,
            slot,
            self.slot_classes,
            problem.classes,
            problem.weights,
            self._near,
            self._loops,
        )
        self._sum_removals()

    def additions(self, candidates: Indices) -> Ints:
        """Return by how much the cost changes if each candidate is added."""
        problem = self.problem
        changes = np.empty(len(candidates), dtype=np.int64)
        for part, rows in self.blocks(candidates):

            def task(tile: slice, part: slice = part, rows: Distances = rows) -> None:
                medoid_costs.addition_changes(
                    rows[tile],
                    candidates[part][tile],
                    problem.classes,
                    problem.weights,
                    self._near,
                    changes[part][tile],
                    self._loops,
                )

            self._for_each(task, len(rows))
        return changes

    def best_swaps(self, candidates: Indices, rows: Distances) -> tuple[Ints, Indices]:
        """Return how the cost changes by the best swap of each candidate, and the slot to give up.

        The slot is -1 for medoids, and where no medoid can be given up.
        """
        problem = self.problem
        changes = np.empty(len(candidates), dtype=np.int64)
        slots = np.empty(len(candidates), dtype=np.intp)
        slot_classes = self.slot_classes
        is_last = np.bincount(slot_classes)[slot_classes] == 1

        def task(tile: slice) -> None:
            medoid_costs.swap_changes(
                rows[tile],
                candidates[tile],
                problem.classes,
                problem.weights,
                self._near,
                self._removal,
                slot_classes,
                is_last,
                changes[tile],
                slots[tile],
                self._loops,
            )

        self._for_each(task, len(candidates))
        # To replace a medoid by one that there is already would be to lose one.
        taken = self._is_medoid[candidates]
        changes[taken], slots[taken] = 0, medoid_costs.NONE
        return changes, slots

    def blocks(self, candidates: Indices) -> Iterator[tuple[slice, Distances]]:
        """Read the distances of candidates, block by block."""
        for part in tiles(len(candidates), BLOCK_ROWS):
            which = candidates[part]
            first, last = int(which[0]), int(which[-1])
            # A slice is not copied.
            whole = last - first == len(which) - 1
            yield part, self.problem.distances.rows(slice(first, last + 1) if whole else which)

    def _for_each(self, task: Callable[[slice], Any], n_rows: int) -> None:
        size = _TILE_ROWS if self._loops is not None else n_rows
        for_each(task, tiles(n_rows, size), self.problem.n_threads)

    def _look_again(self) -> None:
        problem = self.problem
        self._is_medoid[self.medoids] = True
        self._near = medoid_costs.find_neighbours(
            self._rows, self.slot_classes, problem.classes, problem.weights, self._loops
        )
        self._sum_removals()

    def _sum_removals(self) -> None:
        self._removal = medoid_costs.removal_costs(self._near, len(self.medoids), self._loops)


def loops_for(problem: Problem) -> ModuleType | None:
    """Return the compiled loops if there are enough distances to wait for a compiler."""
    return loops_if(compiled=problem.distances.n**2 >= _ENOUGH)


def class_medoids(problem: Problem) -> Indices:
    """Find the medoid of each class: the row with the smallest sum of distances within its class.

    Distances are rounded to integers, so that the sums are exact; the first row wins a tie.
    """
    found = []
    candidates = problem.candidates
    for c in np.unique(problem.classes[candidates]):
        members = candidates[problem.classes[candidates] == c]
        found.append(members[_total_distances(problem, members).argmin()])
    return np.array(found, dtype=np.intp)


def _total_distances(problem: Problem, members: Indices) -> Ints:
    """Sum the distances of each member to all members, as exact integers."""
    sums = np.zeros(len(members), dtype=np.int64)
    if problem.distances.largest == 0:
        return sums
    weights = problem.weights[members]
    for part in tiles(len(members), BLOCK_ROWS):
        near = problem.distances.rows(members[part])[:, members].astype(np.float64)
        shares: Floats = np.ldexp(near / problem.distances.largest, _UNIT_BITS)
        sums[part] = np.rint(shares).astype(np.int64) @ weights
    return sums
