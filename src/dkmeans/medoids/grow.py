"""Growth: one medoid per class, then stages that add medoids where the cost falls most.

A stage evaluates every row as an additional medoid. Each cell, the rows of one class with the same
nearest medoid of that class, proposes the row that lowers the cost most; the best of these
proposals are added, and a pass of swaps follows. The last stage swaps to a local optimum.

With many rows per medoid, the stages before the last work on a sample of the rows. Swaps on all
rows follow, so the end is a local optimum all the same.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.medoid_costs import COST_UNIT, describe_rows, margin_costs
from dkmeans.medoids.problem import Problem
from dkmeans.medoids.search import Search, class_medoids, loops_for
from dkmeans.medoids.swaps import Descent

MAX_STAGE_GROWTH = 1.3  # ratio of the numbers of medoids after and before a stage
SWAP_PASSES = 1  # in each stage but the last
CANDIDATES_PER_MEDOID = 10  # in each stage but the last
ROWS_PER_MEDOID = 10  # of the sample for the stages before the last
MIN_SAMPLE = 1024  # rows of the sample, at least: enough for compiled loops


@dataclass(frozen=True)
class Stage:
    """The medoids after some were added, or after a pass of swaps.

    Attributes
    ----------
    medoids : array of shape (k,)
        Rows, in the order of their classes and of the rows.
    cells : array of shape (n,)
        Index of the nearest medoid of each row; the lowest on a tie.
    error : float
        Weighted share of the rows in a cell of another class.
    converged : bool
        Whether no swap lowers the cost and, without a budget, no further medoid either.
    record : dict
        Row of the history.
    """

    medoids: Indices
    cells: Indices
    error: float
    converged: bool
    record: dict[str, Any]

    def __len__(self) -> int:
        return len(self.medoids)


def grow(problem: Problem, max_medoids: int | None, max_passes: int) -> Iterator[Stage]:
    """Add and swap medoids; the last value is the result.

    Parameters
    ----------
    problem : Problem
    max_medoids : int or None
        At least the number of classes with weight; None adds medoids as long as that lowers the
        cost.
    max_passes : int
        Largest number of passes over all candidates, at least 1.
    """
    log = _Log(problem)
    limit = len(problem.candidates) if max_medoids is None else max_medoids
    sample = _sample_rows(problem, limit)
    first = problem if sample is None else problem.of(sample)
    search = Search(first, class_medoids(first))
    yield log.describe(search, sample, "grow")
    settled = False  # whether swaps have to reach a local optimum before anything is added
    while log.round < max_passes:
        room = limit - len(search.medoids)
        if sample is not None and (settled or not room):
            search, sample, settled = Search(problem, sample[search.medoids]), None, False
        descent = Descent(search)
        proposals = np.empty(0, dtype=np.intp)
        some = search.problem.candidates if settled or not room else _some_candidates(search)
        for number in range(1, max_passes - log.round + 1):
            swaps = descent.run_pass(some)
            is_over = descent.is_optimal or (room > 0 and not settled and number >= SWAP_PASSES)
            if is_over and room > 0:
                proposals = _proposals(search, some, room)
            converged = descent.is_optimal and not len(proposals)
            converged &= sample is None
            yield log.describe(search, sample, "swap", swaps=swaps, converged=converged)
            if is_over:
                break
        if converged:
            return
        settled = not len(proposals)
        if len(proposals) and log.round < max_passes:
            search.add(proposals)
            yield log.describe(search, sample, "grow")


def settle(problem: Problem, medoids: Indices, max_passes: int) -> Iterator[Stage]:
    """Swap given medoids to a local optimum; the last value is the result.

    Parameters
    ----------
    problem : Problem
    medoids : array of shape (k,)
        At least one of each class with weight.
    max_passes : int
        Largest number of passes over all candidates, at least 1.
    """
    log, search = _Log(problem), Search(problem, medoids)
    descent = Descent(search)
    while not descent.is_optimal and log.round < max_passes:
        swaps = descent.run_pass(problem.candidates)
        yield log.describe(search, None, "swap", swaps=swaps, converged=descent.is_optimal)


def _sample_rows(problem: Problem, limit: int) -> Indices | None:
    """Choose every so many-th row of each class; None if there are too few rows for a sample."""
    candidates = problem.candidates
    step = len(candidates) // max(MIN_SAMPLE, ROWS_PER_MEDOID * limit)
    if step < 2:
        return None
    order = candidates[np.argsort(problem.classes[candidates], kind="stable")]
    starts = np.flatnonzero(np.diff(problem.classes[order], prepend=-1))
    place = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    return np.sort(order[place % step == 0])


def _some_candidates(search: Search) -> Indices:
    """Return every so many-th candidate: enough for stages before the last, and quicker."""
    candidates = search.problem.candidates
    step = max(1, len(candidates) // (CANDIDATES_PER_MEDOID * len(search.medoids)))
    return candidates[len(search.medoids) % step :: step]


def _proposals(search: Search, candidates: Indices, room: int) -> Indices:
    """Choose rows to add: of each cell the one that lowers the cost most, and of these the best."""
    changes = search.additions(candidates)
    order = np.lexsort((changes, search.own_slots[candidates]))
    slots = search.own_slots[candidates[order]]
    best = order[np.flatnonzero(np.diff(slots, prepend=-1))]
    best = best[np.lexsort((best, changes[best]))]
    best = best[changes[best] < 0]
    want = max(1, int(len(search.medoids) * (MAX_STAGE_GROWTH - 1)))
    return candidates[best[: min(room, want)]]


class _Log:
    """Describes the search for the history."""

    def __init__(self, problem: Problem) -> None:
        self.round = 0
        self._problem = problem
        self._n_classes = int(problem.classes.max()) + 1
        self._cells: Indices | None = None
        self._medoids = np.empty(0, dtype=np.intp)
        self._clock = time.perf_counter()

    def describe(
        self,
        search: Search,
        sample: Indices | None,
        phase: str,
        *,
        swaps: int = 0,
        converged: bool = False,
    ) -> Stage:
        """Describe medoids by all rows, also if they were found on a sample of them."""
        self.round += 1
        problem = self._problem
        medoids = search.medoids if sample is None else sample[search.medoids]
        medoids = medoids[np.lexsort((medoids, problem.classes[medoids]))]
        own, rival, cells = describe_rows(
            problem.distances.rows(medoids),
            problem.classes[medoids],
            problem.classes,
            loops_for(problem),
        )
        owners = medoids[cells]
        moved = len(cells) if self._cells is None else np.count_nonzero(owners != self._cells)
        self._cells = owners
        total = problem.total_weight
        mixed, impure = _impurity(cells, problem, self._n_classes)
        wrong = problem.classes[owners] != problem.classes
        squares: Floats = np.square([own, rival], dtype=np.float64)
        costs = int(problem.weights @ margin_costs(*squares))
        now = time.perf_counter()
        record = {
            "round": self.round,
            "phase": phase,
            "clusters": len(medoids),
            "mixed": mixed,
            "impurity": impure / total,
            "moved": int(moved),
            "inertia": float(squares.min(axis=0) @ (problem.weights * problem.weight_unit)),
            "cost": costs / (COST_UNIT * total),
            "swaps": swaps,
            "seconds": now - self._clock,
        }
        self._clock = now
        error = int(problem.weights[wrong].sum()) / total
        return Stage(medoids, cells, error, converged, record)


def _impurity(cells: Indices, problem: Problem, n_classes: int) -> tuple[int, int]:
    """Count the cells with several classes, and sum the weight outside of their heaviest class."""
    there = problem.candidates
    codes, index = np.unique(cells[there] * n_classes + problem.classes[there], return_inverse=True)
    sums = np.zeros(len(codes), dtype=np.int64)
    np.add.at(sums, index, problem.weights[there])
    starts = np.flatnonzero(np.diff(codes // n_classes, prepend=-1))
    sizes = np.diff(np.append(starts, len(codes)))
    heaviest = np.maximum.reduceat(sums, starts)
    return int(np.count_nonzero(sizes > 1)), int(sums.sum() - heaviest.sum())
