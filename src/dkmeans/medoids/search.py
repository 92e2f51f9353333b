"""The medoids of the moment, and what additions and swaps change."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from dkmeans.kernels import medoid_costs
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.compiled import loops_if
from dkmeans.kernels.medoid_costs import OWN, Distances, Ints, Neighbours
from dkmeans.kernels.threads import for_each, tiles
from dkmeans.medoids.problem import Problem

READ_ROWS = 512  # rows of the matrix that are read at once
_TILE_ROWS = 16  # candidates per task of a thread
_ENOUGH = 1 << 20  # distances from which on compiled loops are used
_ENOUGH_FOR_THREADS = 1 << 18  # distances
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
        # Of each row to all medoids, as they are searched row by row.
        self._to_medoids = np.ascontiguousarray(problem.distances.rows(medoids).T)
        self._is_medoid = np.zeros(len(problem.classes), dtype=bool)
        self._near: Neighbours
        self._removal: Ints
        self._look_again()

    @property
    def slot_classes(self) -> Indices:
        """Classes of the medoids."""
        return self.problem.classes[self.medoids]

    @property
    def own_slots(self) -> Indices:
        """Nearest medoid of its class for each row, as a slot."""
        return self._near.slots[:, OWN]

    def add(self, medoids: Indices) -> None:
        """Add medoids."""
        self.medoids = np.concatenate([self.medoids, medoids])
        more = self.problem.distances.rows(medoids)
        self._to_medoids = np.concatenate([self._to_medoids, more.T], axis=1)
        self._look_again()

    def swap(self, slot: int, medoid: int) -> None:
        """Replace a medoid."""
        self._is_medoid[self.medoids[slot]] = False
        self._is_medoid[medoid] = True
        self.medoids[slot] = medoid
        self._to_medoids[:, slot] = self.problem.distances.rows(np.array([medoid]))[0]
        problem = self.problem
        self._near = medoid_costs.replace_medoid(
            self._to_medoids,
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
        for part in tiles(len(candidates), READ_ROWS):
            rows = self.read(candidates[part])

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

    def read(self, candidates: Indices) -> Distances:
        """Return the distances of candidates to all rows."""
        first, last = int(candidates[0]), int(candidates[-1])
        whole = last - first == len(candidates) - 1  # a slice is not copied
        return self.problem.distances.rows(slice(first, last + 1) if whole else candidates)

    def _for_each(self, task: Callable[[slice], Any], n_rows: int) -> None:
        many = self._loops is not None and n_rows * len(self.problem.classes) >= _ENOUGH_FOR_THREADS
        size = _TILE_ROWS if many else n_rows
        for_each(task, tiles(n_rows, size), self.problem.n_threads)

    def _look_again(self) -> None:
        problem = self.problem
        self._is_medoid[self.medoids] = True
        self._near = medoid_costs.find_neighbours(
            self._to_medoids, self.slot_classes, problem.classes, problem.weights, self._loops
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
    for part in tiles(len(members), READ_ROWS):
        near = problem.distances.rows(members[part])[:, members].astype(np.float64)
        shares: Floats = np.ldexp(near / problem.distances.largest, _UNIT_BITS)
        sums[part] = np.rint(shares).astype(np.int64) @ weights
    return sums
