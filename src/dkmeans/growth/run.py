"""One fit under way: the state after a round, and the step from one state to the next."""

import time
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from dkmeans.exact.group_sums import Tally
from dkmeans.growth.cells import Bools, Cells, Rules, see_cells
from dkmeans.growth.earlier_rows import EarlierRows
from dkmeans.growth.round import Children
from dkmeans.growth.rows import Rows
from dkmeans.kernels.block import Indices
from dkmeans.kernels.exact import total
from dkmeans.kernels.reference import squared_distances
from dkmeans.prototypes import Prototypes
from dkmeans.results.fit_record import NONE, TreeLog


class Seen(Protocol):
    """Margins that the rows keep."""

    number: int


@dataclass(frozen=True)
class Start:
    """Where an earlier fit ended."""

    prototypes: Prototypes
    earlier_rows: EarlierRows
    only_new: bool  # whether the run sees new rows only, beside those that are remembered


@dataclass(frozen=True)
class State:
    """Prototypes with the cells they own, every row assigned."""

    round: int
    phase: str
    prototypes: Prototypes
    cells: Cells
    moved: int
    seconds: float
    cut_short: bool  # whether the budget has denied anyone a child so far
    inertia: float  # weighted sum of squared distances of the rows to their centres
    earlier_rows: EarlierRows | None = (
        None  # what earlier rows left, if they are not among the rows
    )
    margin_cost: float = np.nan  # where refinement has measured it

    @property
    def n_mixed(self) -> int:
        """Number of mixed cells."""
        return int(self.cells.mixed.sum())

    @property
    def unfinished(self) -> Bools:
        """Whether each cell is mixed, or of another class than its prototype."""
        cells = self.cells
        heaviest = cells.groups.classes[cells.heaviest]
        other = cells.large[cells.heaviest] & (heaviest != self.prototypes.classes)
        return cells.mixed | (other & ~cells.still)

    @property
    def cost(self) -> float:
        """The inertia, earlier rows included as far as it changes with the centres."""
        return _whole_square(self.cells.groups)

    def record(self, weight_unit: float) -> dict[str, Any]:
        """Sum the state up for the history, with weights in the user's terms."""
        return {
            "round": self.round,
            "phase": self.phase,
            "clusters": len(self.prototypes),
            "mixed": self.n_mixed,
            "impurity": self.cells.impurity,
            "moved": self.moved,
            "inertia": self.inertia * weight_unit,
            "cost": self.margin_cost,
            "seconds": self.seconds,
        }


class Run:
    """One fit under way."""

    def __init__(
        self,
        rows: Rows,
        rules: Rules,
        start: Start | None = None,
        tree: TreeLog | None = None,
    ) -> None:
        self.rows, self.rules, self.start = rows, rules, start
        self.tree = TreeLog() if tree is None else tree
        self.converged = False
        # Rows that lie on a prototype of another class which outweighs them.
        self.conflicts: list[Indices] = []
        self._clock = time.perf_counter()

    def begin(self) -> State:
        """Take up where an earlier fit ended, or put one prototype at the mean of all rows."""
        nowhere = np.full(1, NONE)
        if self.start is not None:
            prototypes = self.start.prototypes
            earlier = self.start.earlier_rows if self.start.only_new else None
            groups, moved = self.rows.assign(prototypes, nowhere, earlier)
            if earlier is not None:
                groups, conflicts = self.rows.respect(earlier, prototypes, groups)
                self.conflicts += conflicts
            return self._state(0, "start", prototypes, groups, moved, False, earlier)
        center, groups = self.rows.begin(
            lambda mean: self.rules.geometry.centers(mean, self.rows.dtype)
        )
        moved = self.rows.facts.n_active
        heaviest = groups.classes[see_cells(groups, self.rules).heaviest]
        ids = self.tree.birth(nowhere, heaviest, 0)
        return self._state(
            0, "start", Prototypes(center, heaviest, ids), groups, moved, False, None
        )

    def advance(
        self, state: State, phase: str, children: Children, seen: Seen | None = None
    ) -> State:
        """Let the children take over, assign every row, and drop prototypes that own none.

        `seen` are the margins of the children, if they are known: they tell where rows go, if the
        prototypes have the order of the children.
        """
        number = state.round + 1
        prototypes, ids = self._inherit(state.prototypes, children, number)
        earlier = None
        if state.earlier_rows is not None:
            earlier = _hand_down(state.earlier_rows, state.prototypes, children, ids, prototypes)
        in_order = np.array_equal(prototypes.classes, children.classes) and np.array_equal(
            prototypes.centers, children.centers
        )
        groups, moved = self.rows.assign(
            prototypes,
            _index_now(state.prototypes, prototypes),
            earlier,
            seen.number if seen is not None and in_order else None,
        )
        cut_short = state.cut_short or children.cut_short
        return self._state(number, phase, prototypes, groups, moved, cut_short, earlier)

    def remembers(self, state: State) -> EarlierRows:
        """Sum up all rows so far, for fits to come."""
        now = EarlierRows.of(state.prototypes, state.cells.groups)
        if state.earlier_rows is None:
            return now
        idle = state.earlier_rows.not_in(now)
        return now.and_also(idle)

    def undo(self, trial: State, state: State) -> None:
        """Return from a trial to the state it started from."""
        self.tree.rewind(state.round)
        index = _index_now(trial.prototypes, state.prototypes)
        self.rows.assign(state.prototypes, index, state.earlier_rows)

    def is_over(self, state: State) -> bool:
        """Tell whether the run ends here: converged, budget spent, or out of rounds."""
        return self.converged or self.is_spent(state) or state.round >= self.rules.max_iter

    def is_spent(self, state: State) -> bool:
        """Tell whether the budget is used up."""
        return self.room(state) <= 0

    def room(self, state: State) -> int | float:
        """Tell how many more prototypes the budget allows."""
        budget = self.rules.max_clusters
        return np.inf if budget is None else budget - len(state.prototypes)

    def _inherit(
        self, parents: Prototypes, children: Children, number: int
    ) -> tuple[Prototypes, Indices]:
        """Hand out ids: a parent's first child of the same class keeps its id.

        Returns
        -------
        prototypes : Prototypes
            The children, in order.
        ids : array
            The id of each child, in the order of `children`.
        """
        same = np.flatnonzero(parents.classes[children.parents] == children.classes)
        _, first = np.unique(children.parents[same], return_index=True)
        ids = parents.ids[children.parents]
        is_new = np.ones(len(ids), dtype=bool)
        is_new[same[first]] = False
        self.tree.end(np.setdiff1d(parents.ids, ids[~is_new]), number)
        new = np.flatnonzero(is_new)
        new = new[np.lexsort((ids[new], children.classes[new]))]
        ids[new] = self.tree.birth(ids[new], children.classes[new], number)
        centers = children.centers + children.centers.dtype.type(0)  # no -0.0: CSR has none
        return Prototypes(centers, children.classes, ids).in_order(), ids

    def _state(
        self,
        number: int,
        phase: str,
        prototypes: Prototypes,
        groups: Tally,
        moved: int,
        cut_short: bool,
        earlier: EarlierRows | None,
    ) -> State:
        """Drop prototypes that nothing speaks for, and look at the cells of the others."""
        alive = np.zeros(len(prototypes), dtype=bool)
        alive[groups.cells] = True
        if earlier is not None:
            alive[earlier.cells(prototypes)] = True
        if not alive.all():
            index = np.where(alive, np.cumsum(alive) - 1, NONE)
            self.rows.rename(index)
            groups = groups.renamed(index)
            self.tree.end(prototypes.ids[~alive], number)
            prototypes = prototypes.take(alive)
        inertia = _whole_square(groups)
        cells = self._cells(prototypes, groups, earlier)
        now = time.perf_counter()
        seconds, self._clock = now - self._clock, now
        return State(number, phase, prototypes, cells, moved, seconds, cut_short, inertia, earlier)

    def _cells(self, prototypes: Prototypes, groups: Tally, earlier: EarlierRows | None) -> Cells:
        if self.start is None:
            return see_cells(groups, self.rules)
        before = self.start.prototypes
        at = _index_now(prototypes, before)
        in_place = (at >= 0) & (prototypes.centers == before.centers[at]).all(axis=1)
        if earlier is None:
            same = self.start.earlier_rows.unchanged(EarlierRows.of(prototypes, groups), prototypes)
            return see_cells(groups, self.rules, still=in_place & same)
        return self._cells_with_memory(prototypes, groups, earlier, in_place)

    def _cells_with_memory(
        self, prototypes: Prototypes, groups: Tally, earlier: EarlierRows, in_place: Bools
    ) -> Cells:
        """Add what is remembered to the tally of the rows.

        A class that is remembered in a cell, but is not the prototype's own, counts only if rows
        of it are there now: old rows alone do not make a cell mixed.
        """
        cell = earlier.cells(prototypes)
        n_classes = self.rows.n_classes
        has_rows = np.zeros(len(prototypes), dtype=bool)
        has_rows[groups.cells] = True
        own = earlier.classes == prototypes.classes[cell]
        has_own = np.zeros(len(prototypes), dtype=bool)
        has_own[cell[own]] = True
        old = cell * n_classes + earlier.classes
        met = np.isin(old, groups.cells * n_classes + groups.classes)
        counts = own | met | ~(has_own | has_rows)[cell]

        both = groups.and_also(self.rows.as_tally(earlier.take(counts), prototypes)).fused()
        still = ~has_rows & (in_place | ~has_own)
        remembered = np.isin(both.cells * n_classes + both.classes, old[counts])
        cells = see_cells(both, self.rules, still, remembered)
        return replace(cells, mixed=cells.mixed & ~still)


def _whole_square(groups: Tally) -> float:
    if not len(groups):
        return 0.0
    return float(total(groups.squares.sum(axis=1))[0])  # slices: exact in any order


def _hand_down(
    earlier: EarlierRows,
    parents: Prototypes,
    children: Children,
    ids: Indices,
    prototypes: Prototypes,
) -> EarlierRows:
    """Pass the memory on to the children.

    It goes to the child of its class; where there is none, it stays with its prototype, or goes
    to the one that took its place. A prototype that had to give way leaves it to the nearest one.
    """
    cell = earlier.cells(parents)
    n_classes = int(max(children.classes.max(), earlier.classes.max())) + 1
    of_class = _first(children.parents * n_classes + children.classes)
    of_parent = _first(children.parents)
    alive = set(ids.tolist())
    heirs = np.empty(len(earlier), dtype=np.int64)
    for entry, (parent, c) in enumerate(zip(cell.tolist(), earlier.classes.tolist(), strict=True)):
        child = of_class.get(parent * n_classes + c)
        if child is None and parents.ids[parent] not in alive:
            child = of_parent.get(parent)
            if child is None:
                heirs[entry] = _nearest_of_class(parents.centers[parent], c, prototypes)
                continue
        heirs[entry] = parents.ids[parent] if child is None else ids[child]
    return earlier.given_to(heirs)


def _first(keys: Indices) -> dict[int, int]:
    """Where each key stands first."""
    found, at = np.unique(keys, return_index=True)
    return dict(zip(found.tolist(), at.tolist(), strict=True))


def _nearest_of_class(center: Indices, c: int, prototypes: Prototypes) -> int:
    candidates = np.flatnonzero(prototypes.classes == c)
    if not len(candidates):
        candidates = np.arange(len(prototypes))
    there = prototypes.centers[candidates]
    nearest = squared_distances(there, np.broadcast_to(center, there.shape)).argmin()
    return int(prototypes.ids[candidates[nearest]])


def _index_now(before: Prototypes, after: Prototypes) -> Indices:
    """Find where each prototype went: its index now, or -1 if its id is gone."""
    order = np.argsort(after.ids)
    at = order[np.minimum(np.searchsorted(after.ids, before.ids, sorter=order), len(after) - 1)]
    return np.where(after.ids[at] == before.ids, at, NONE)
