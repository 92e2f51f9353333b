"""Growth that makes the most of a budget: `growth="best"`.

It starts from one prototype at the mean of each class. Each stage splits the clusters that cost
most, then lets all prototypes settle: every row goes to the nearest prototype *of its class*, and
prototypes move to the means of their rows, a few times over. So the prototypes of a class describe
it as k-means would, and there are more of them where classes meet. A prototype that wins no row
then is put on the row of its class that is farthest on the wrong side, so no class is lost.

What a cluster costs is the sum of sigmoid(slope * mu) over its rows, with mu the margin of
`margins`: rows beyond the border count most, those near it some, those far from it nothing. A
cluster is split across the direction from its mean to its farthest row.
"""

from collections.abc import Generator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from dkmeans.engine.cells import comparable, see_cells
from dkmeans.engine.margins import FINAL_SLOPE, Field, Margins
from dkmeans.engine.run import Run, State
from dkmeans.engine.tally import Tally
from dkmeans.engine.update import Children
from dkmeans.kernels.sphere import as_centers
from dkmeans.model.prototypes import Prototypes

_FACTOR = 1.6  # how many times as many prototypes a stage may end with
_SLOPE = 5.0  # of the cost that tells which clusters to split
_SETTLE, _SETTLE_LAST = 3, 30  # moves to the means after a stage, and at the end
_PATIENCE = 5  # stages without gain before the guaranteed ending takes over


def best_rounds(run: Run, state: State) -> Generator[State, None, State]:
    """Grow until the budget is spent; without a budget, until no cell is mixed."""
    rules = run.rules
    field = Field(run.rows)
    state = run.advance(state, "grow", _revived(field, _class_means(run, state)))
    state, margins = _measured(field, state)
    yield state
    least, stale = np.inf, 0
    while stale < _PATIENCE and state.round < rules.max_iter:
        if run.is_spent(state) or (rules.max_clusters is None and not state.n_mixed):
            break
        if margins is None:
            break
        with run.rows.kept():
            children = _split(run, state, field, margins)
            if children is None:
                break
            last = rules.max_clusters is not None and len(children.parents) >= rules.max_clusters
            children = _settled(run, children, _SETTLE_LAST if last else _SETTLE)
            children = _revived(field, children)
        before = len(state.prototypes)
        state = run.advance(state, "grow", children)
        state, margins = _measured(field, state)
        yield state
        gained = state.cells.excess < least or len(state.prototypes) > before
        stale = 0 if gained else stale + 1
        least = min(least, state.cells.excess)
    return state


def _measured(field: Field, state: State) -> tuple[State, Margins | None]:
    """Find the margins, unless there is but one class, and note what they cost."""
    if len(np.unique(state.prototypes.classes)) < 2:
        return state, None
    margins = field.margins(state.prototypes)
    return replace(state, margin_cost=field.cost(margins, FINAL_SLOPE)), margins


def _class_means(run: Run, state: State) -> Children:
    """One child per class that is large enough, at its mean."""
    cells = state.cells
    which = np.flatnonzero(cells.large)
    if not len(which):
        which = cells.heaviest[:1]
    groups = cells.groups.take(which)
    centers = _centers(run, groups)
    return Children(np.zeros(len(which), dtype=np.intp), groups.classes, centers)


def _split(run: Run, state: State, field: Field, margins: Margins) -> Children | None:
    """Split the clusters that cost most, as many as there is room for; None if none can be."""
    prototypes, rows = state.prototypes, run.rows
    k = len(prototypes)
    cost = field.by_prototype(margins, margins.own, expit(_SLOPE * margins.relative()))
    own = rows.assign_own(prototypes)
    if run.rules.max_clusters is None:
        # Only clusters that lose rows to another class need more prototypes.
        lost = prototypes.classes[margins.winner] != prototypes.classes[margins.own]
        cost = np.where(np.bincount(margins.own[lost], minlength=k) > 0, cost, 0.0)
    want = int(min(run.room(state), max(1, int(k * (_FACTOR - 1)))))

    # One group per prototype, as every row is with one of its class.
    costliest = np.argsort(-comparable(cost[own.cells]), kind="stable")
    costliest = costliest[cost[own.cells[costliest]] > 0][: 2 * want]
    if not len(costliest):
        return None
    halves = _halves(run, own.take(np.sort(costliest)))
    chosen = costliest[np.isin(own.cells[costliest], halves.cells)][:want]
    if not len(chosen):
        return None
    split = own.cells[chosen]
    halves = halves.take(np.flatnonzero(np.isin(halves.cells, split)))
    others = own.take(np.flatnonzero(~np.isin(own.cells, split)))
    both = others.and_also(halves)
    centers = _centers(run, both)
    cut_short = run.rules.max_clusters is not None  # all of a budget is to be spent
    return Children(both.cells, both.classes, centers, cut_short)


def _halves(run: Run, groups: Tally) -> Tally:
    """Cut groups in two across the direction to their farthest row, where both parts are large."""
    rows, middles = run.rows, groups.means
    codes = groups.cells * rows.n_classes + groups.classes
    farthest, _ = rows.pick(codes, middles, farthest=True)
    halves = rows.tally_sides(codes, middles, farthest.astype(np.float64) - middles)
    large = see_cells(halves, run.rules).large
    count = np.bincount(halves.cells[large], minlength=int(groups.cells.max(initial=0)) + 1)
    return halves.take(np.flatnonzero(count[halves.cells] == 2))


def _revived(field: Field, children: Children) -> Children:
    """Put children that would win no row on the worst row of their class, which they then own."""
    if len(np.unique(children.classes)) < 2:
        return children
    ids = np.arange(len(children.parents))
    margins = field.margins(Prototypes(children.centers, children.classes, ids))
    lost = np.flatnonzero(np.bincount(margins.winner, minlength=len(ids)) == 0)
    which, places = field.worst_rows(margins, children.classes, lost)
    centers = children.centers.copy()
    centers[which] = places
    return replace(children, centers=centers)


def _settled(run: Run, children: Children, times: int) -> Children:
    """Move each child to the mean of the rows of its class that are nearest to it."""
    ids = np.arange(len(children.parents))
    for _ in range(times):
        tally = run.rows.assign_own(Prototypes(children.centers, children.classes, ids))
        centers = children.centers.copy()
        centers[tally.cells] = _centers(run, tally)
        if np.array_equal(centers, children.centers):
            break
        children = replace(children, centers=centers)
    return children


def _centers(run: Run, groups: Tally) -> npt.NDArray[np.floating]:
    """Means of groups, as centres."""
    return as_centers(groups.means, run.rows.X.dtype, unit=run.rules.unit)
