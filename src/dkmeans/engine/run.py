"""One fit under way: the state after a round, and the step from one state to the next."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkmeans.engine.rows import Rows
from dkmeans.engine.update import Cells, Children, Rules, see_cells
from dkmeans.kernels.block import Indices
from dkmeans.model.prototypes import Prototypes
from dkmeans.model.tree import NONE, TreeLog


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

    @property
    def n_mixed(self) -> int:
        """Number of mixed cells."""
        return int(self.cells.mixed.sum())

    @property
    def inertia(self) -> float:
        """Weighted sum of squared distances to the assigned centres."""
        return float(self.cells.groups.merged(np.zeros(1, dtype=np.intp)).square[0])

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
            "seconds": self.seconds,
        }


class Run:
    """One fit under way."""

    def __init__(self, rows: Rows, rules: Rules) -> None:
        self.rows, self.rules = rows, rules
        self.tree = TreeLog()
        self.converged = False
        self._clock = time.perf_counter()

    def begin(self) -> State:
        """Put one prototype, of the heaviest class, at the mean of all rows."""
        center = self.rows.tally_all().means.astype(self.rows.X.dtype)
        zero = np.zeros(1, dtype=np.intp)
        groups, moved = self.rows.assign(Prototypes(center, zero, zero.astype(np.int64)), zero)
        cells = see_cells(groups, self.rules)
        heaviest = groups.classes[cells.heaviest]
        ids = self.tree.birth(np.array([NONE]), heaviest, 0)
        return self._state(0, "start", Prototypes(center, heaviest, ids), cells, moved, False)

    def advance(self, state: State, phase: str, children: Children) -> State:
        """Let the children take over, assign every row, and drop prototypes that own none."""
        number = state.round + 1
        prototypes = self._inherit(state.prototypes, children, number)
        groups, moved = self.rows.assign(prototypes, _index_now(state.prototypes, prototypes))
        alive = np.zeros(len(prototypes), dtype=bool)
        alive[groups.cells] = True
        if not alive.all():
            index = np.where(alive, np.cumsum(alive) - 1, NONE)
            self.rows.rename(index)
            groups = groups.renamed(index)
            self.tree.end(prototypes.ids[~alive], number)
            prototypes = prototypes.take(alive)
        cells = see_cells(groups, self.rules)
        cut_short = state.cut_short or children.cut_short
        return self._state(number, phase, prototypes, cells, moved, cut_short)

    def undo(self, trial: State, state: State) -> None:
        """Return from a trial to the state it started from."""
        self.tree.rewind(state.round)
        self.rows.assign(state.prototypes, _index_now(trial.prototypes, state.prototypes))

    def is_over(self, state: State) -> bool:
        """Tell whether the run ends here: converged, budget spent, or out of rounds."""
        spent = self.room(state) <= 0
        return self.converged or spent or state.round >= self.rules.max_iter

    def room(self, state: State) -> int | float:
        """Tell how many more prototypes the budget allows."""
        budget = self.rules.max_clusters
        return np.inf if budget is None else budget - len(state.prototypes)

    def _inherit(self, parents: Prototypes, children: Children, number: int) -> Prototypes:
        """Hand out ids: a parent's first child of the same class keeps its id."""
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
        return Prototypes(centers, children.classes, ids).in_order()

    def _state(
        self, number: int, phase: str, prototypes: Prototypes, cells: Cells, moved: int, cut: bool
    ) -> State:
        now = time.perf_counter()
        seconds, self._clock = now - self._clock, now
        return State(number, phase, prototypes, cells, moved, seconds, cut)


def _index_now(before: Prototypes, after: Prototypes) -> Indices:
    """Find where each prototype went: its index now, or -1 if its id is gone."""
    order = np.argsort(after.ids)
    at = order[np.minimum(np.searchsorted(after.ids, before.ids, sorter=order), len(after) - 1)]
    return np.where(after.ids[at] == before.ids, at, NONE)
