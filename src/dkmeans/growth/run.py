"""A run of the algorithm: the state after each round, and the step from one to the next."""

from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np

from dkmeans.exact.group_sums import Tally
from dkmeans.geometry import Euclidean, Geometry
from dkmeans.growth.cells import Bools, Cells, see_cells
from dkmeans.growth.earlier_rows import EarlierRows
from dkmeans.growth.round import Children
from dkmeans.growth.rows import Rows
from dkmeans.growth.rules import Continuation, Rules
from dkmeans.kernels.block import Indices
from dkmeans.kernels.exact import total
from dkmeans.kernels.reference import squared_distances
from dkmeans.prototypes import Prototypes
from dkmeans.results.fit_record import NONE, TreeLog


class KnownMargins(Protocol):
    """Margins of all rows, which the rows keep under a number."""

    @property
    def number(self) -> int:
        """The number."""


@dataclass(frozen=True)
class Start:
    """The result of an earlier fit, to continue from."""

    prototypes: Prototypes
    earlier_rows: EarlierRows


@dataclass(frozen=True)
class Sample:
    """A sample of the rows."""

    rows: Rows
    share: float  # of the weight of all rows, approximately


@dataclass(frozen=True)
class State:
    """Prototypes and their cells, with every row assigned."""

    round: int
    phase: str
    prototypes: Prototypes
    cells: Cells
    moved: int
    cut_short: bool  # whether the budget has denied a child so far
    inertia: float  # weighted sum of squared distances of the rows to their centres
    earlier_rows: EarlierRows | None = (
        None  # what earlier rows left, if they are not among the rows
    )
    margin_cost: float = np.nan  # where refinement has measured it
    sample: Sample | None = None  # what it was measured on; None for all rows
    geometry: Geometry = field(default_factory=Euclidean)  # the space of the prototypes

    @property
    def n_mixed(self) -> int:
        """Number of mixed cells."""
        return int(self.cells.mixed.sum())

    @property
    def unfinished(self) -> Bools:
        """Whether each cell is mixed, or its only class is not that of its prototype."""
        cells = self.cells
        heaviest = cells.groups.classes[cells.heaviest]
        other = cells.large[cells.heaviest] & (heaviest != self.prototypes.classes)
        return cells.mixed | (other & ~cells.still)

    @property
    def cost(self) -> float:
        """The inertia, with earlier rows at their means."""
        return _whole_square(self.cells.groups)

    def record(self, weight_unit: float) -> dict[str, Any]:
        """Summarize the state for the history, but its time, with weights in the user's units."""
        return {
            "round": self.round,
            "phase": self.phase,
            "clusters": len(self.prototypes),
            "mixed": self.n_mixed,
            "impurity": self.cells.impurity,
            "moved": self.moved,
            "inertia": self.inertia * weight_unit,
            "cost": self.margin_cost,
        }


@dataclass(frozen=True)
class Images:
    """Rows of different classes that a learned metric projects to the same point."""

    geometry: Geometry
    conflicts: list[Indices] | int  # only their number, if they are lazy


class Run:
    """A run of the algorithm on some rows.

    Attributes
    ----------
    converged : bool
        Set by the phases of the algorithm.
    conflicts : list of arrays
        Rows that equal a heavier prototype of another class, by prototype and class.
    images : Images or None
        Rows of different classes with the same image, where the metric is learned.
    sample : Sample or None
        The sample that it runs on; None for all rows.
    """

    def __init__(
        self,
        rows: Rows,
        rules: Rules,
        start: Start | None = None,
        tree: TreeLog | None = None,
        *,
        lazy_conflicts: bool = False,
    ) -> None:
        self.rows, self.rules, self.start = rows, rules, start
        self.tree = TreeLog() if tree is None else tree
        self.converged = False
        self.conflicts: list[Indices] = []
        self.images: Images | None = None
        self._lazy_conflicts = lazy_conflicts
        self.sample: Sample | None = None
        self._first: Prototypes | None = None  # at the mean of all rows; all rows start there
        self._assigned: Prototypes | None = None  # those that the cells of the rows refer to

    def on_sample(self, sample: Sample, rules: Rules) -> Self:
        """Return a run that continues on a sample of the rows, with the same tree.

        `rules` are those of this run: the least weight of a cluster is scaled to the sample.
        """
        if rules.min_weights is not None:
            before = 1.0 if self.sample is None else self.sample.share
            rules = replace(rules, min_weights=rules.min_weights * (sample.share / before))
        few = type(self)(sample.rows, rules, tree=self.tree)
        few.sample = sample
        few._first = few._assigned = self._first
        return few

    def begin(self) -> State:
        """Start from an earlier fit, or from one prototype at the mean of all rows."""
        nowhere = np.full(1, NONE)
        if self.start is not None:
            prototypes = self.start.prototypes
            new_rows_only = self.rules.continuation is Continuation.NEW_ROWS
            earlier = self.start.earlier_rows if new_rows_only else None
            groups, moved = self.rows.assign(prototypes, nowhere, earlier)
            if earlier is not None:
                groups, conflicts = self.rows.relabel_outweighed(earlier, prototypes, groups)
                self.conflicts += conflicts
            return self._state(0, "start", prototypes, groups, moved, False, earlier)
        center, groups = self.rows.begin(
            lambda mean: self.rules.geometry.centers(mean, self.rows.dtype)
        )
        moved = self.rows.facts.n_active
        heaviest = groups.classes[see_cells(groups, self.rules).heaviest]
        ids = self.tree.birth(nowhere, heaviest, 0)
        self._first = Prototypes(center, heaviest, ids)
        return self._state(0, "start", self._first, groups, moved, False, None)

    def advance(
        self, state: State, phase: str, children: Children, margins: KnownMargins | None = None
    ) -> State:
        """Replace the prototypes by children, assign every row, and drop empty prototypes.

        Parameters
        ----------
        state : State
        phase : str
            For the history.
        children : Children
        margins : KnownMargins, optional
            Margins between the children, if they are known. They save the search for the nearest
            prototypes if these have the order of the children.
        """
        number = state.round + 1
        prototypes, ids = self._inherit(state.prototypes, children, number)
        earlier = None
        if state.earlier_rows is not None:
            earlier = _hand_down(state.earlier_rows, state.prototypes, children, ids, prototypes)
        in_order = np.array_equal(prototypes.classes, children.classes) and np.array_equal(
            prototypes.centers, children.centers
        )
        assert self._assigned is not None, "the run has not begun"
        groups, moved = self.rows.assign(
            prototypes,
            _index_now(self._assigned, prototypes),
            earlier,
            margins.number if margins is not None and in_order else None,
        )
        cut_short = state.cut_short or children.cut_short
        return self._state(number, phase, prototypes, groups, moved, cut_short, earlier)

    def on_all_rows(self, state: State) -> State:
        """Return a state of all rows of the run, with the prototypes of one seen on a sample."""
        if state.sample is self.sample:
            return state
        prototypes = state.prototypes
        return self.advance(
            state,
            "grow",
            Children(np.arange(len(prototypes)), prototypes.classes, prototypes.centers),
        )

    def map_rows(self, geometry: Geometry) -> None:
        """Compare rows in another space from now on; all of them must be assigned next."""
        if geometry is not self.rules.geometry:
            self.rules = replace(self.rules, geometry=geometry)
            self.rows.map_rows(geometry)

    def agree_on_images(self) -> None:
        """Give rows with the same image the same label."""
        rows = self.rows
        found = rows.agree_and_count() if self._lazy_conflicts else rows.agree_on_labels()
        self.images = Images(self.rules.geometry, found)

    def all_rows(self, state: State) -> EarlierRows:
        """Sum all rows so far by prototype and class, for fits that continue.

        On a sample, this is an estimate.
        """
        share = 1.0 if state.sample is None else state.sample.share
        now = EarlierRows.of(state.prototypes, state.cells.groups, share)
        if state.earlier_rows is None:
            return now
        idle = state.earlier_rows.not_in(now)
        return now.joined_with(idle)

    def undo(self, trial: State, state: State) -> None:
        """Return from a trial to the state before it."""
        self.map_rows(state.geometry)
        self.tree.rewind(state.round)
        index = _index_now(trial.prototypes, state.prototypes)
        self.rows.assign(state.prototypes, index, state.earlier_rows)
        self._assigned = state.prototypes

    def is_over(self, state: State) -> bool:
        """Tell whether the run has converged, or has used up its budget or its rounds."""
        return self.converged or self.is_spent(state) or state.round >= self.rules.max_iter

    def is_spent(self, state: State) -> bool:
        """Tell whether there are as many prototypes as allowed."""
        return self.room(state) <= 0

    def room(self, state: State) -> int | float:
        """Return how many more prototypes are allowed."""
        budget = self.rules.max_clusters
        return np.inf if budget is None else budget - len(state.prototypes)

    def _inherit(
        self, parents: Prototypes, children: Children, number: int
    ) -> tuple[Prototypes, Indices]:
        """Assign ids: the first child with the class of its parent keeps its id.

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
        centers = children.centers
        if (np.signbit(centers) & (centers == 0)).any():
            centers = centers + centers.dtype.type(0)  # no -0.0: CSR has none
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
        """Drop prototypes that own no rows, earlier ones included, and look at the cells."""
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
        self._assigned = prototypes
        return State(
            number,
            phase,
            prototypes,
            self._cells(prototypes, groups, earlier),
            moved,
            cut_short,
            _whole_square(groups) / (1.0 if self.sample is None else self.sample.share),
            earlier,
            sample=self.sample,
            geometry=self.rules.geometry,
        )

    def _cells(self, prototypes: Prototypes, groups: Tally, earlier: EarlierRows | None) -> Cells:
        if self.start is None:
            return see_cells(groups, self.rules)
        before = self.start.prototypes
        at = _index_now(prototypes, before)
        in_place = (at >= 0) & (prototypes.centers == before.centers[at]).all(axis=1)
        if earlier is None:
            same = self.start.earlier_rows.unchanged(EarlierRows.of(prototypes, groups), prototypes)
            return see_cells(groups, self.rules, still=in_place & same)
        return self._cells_with_earlier_rows(prototypes, groups, earlier, in_place)

    def _cells_with_earlier_rows(
        self, prototypes: Prototypes, groups: Tally, earlier: EarlierRows, in_place: Bools
    ) -> Cells:
        """Add earlier rows to the tally of the rows.

        Earlier rows that are not of the class of their prototype count only together with new rows
        of their class: earlier rows alone do not make a cell mixed.
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
    """Sum the squared distances of all groups."""
    if not len(groups):
        return 0.0
    return float(total(groups.squares.sum(axis=1))[0])  # exact in any order


def _hand_down(
    earlier: EarlierRows,
    parents: Prototypes,
    children: Children,
    ids: Indices,
    prototypes: Prototypes,
) -> EarlierRows:
    """Assign earlier rows to the children.

    They follow the child of their class. If there is none, they stay with their prototype, or with
    the first child if the id of the prototype is gone. If a prototype was removed without a child,
    they go to the nearest prototype of their class.
    """
    cell = earlier.cells(parents)
    n_classes = int(max(children.classes.max(), earlier.classes.max(initial=0))) + 1
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
    """Return the index of the first occurrence of each key."""
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
    """Return the index of each prototype among others by its id, or -1 if its id is gone."""
    order = np.argsort(after.ids)
    at = order[np.minimum(np.searchsorted(after.ids, before.ids, sorter=order), len(after) - 1)]
    return np.where(after.ids[at] == before.ids, at, NONE)
