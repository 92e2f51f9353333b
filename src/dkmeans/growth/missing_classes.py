"""No class is left without a prototype, and why.

The promise: at the end of a fit every class has a prototype, but for classes of no weight, of less
weight than `min_cluster_size`, and those whose every row is outvoted by identical ones of another
class. (A budget is never less than the number of classes.) Growth does not see to it. In the
paper's rounds repelled children may leave the data, and the budget may be spent before their class
has its turn again. In those of `growth="best"` the prototype of one class may be put where it takes
all rows of another one. And a cell whose rows are of one class takes that class, though its
prototype may have been the last of its own.

So each class that is missing after growth gets a prototype on one of its rows. Call a class *safe*
once it has one that was put on its row here. Such a row is at distance zero from its prototype, and
all other prototypes are farther away:

1.  It is a row that is not at its cell's centre, which is its nearest one, so no prototype was
    there before. Rows of other classes that are given a prototype at the same time are elsewhere,
    as identical rows have one label.
2.  If all rows of the class lie on centres, one of these prototypes takes the class. It is where
    its row is, and all rows there are of this class.

Nothing moves here, so safe classes stay safe: all their prototypes are of this kind, as there was
none before, or have been put on rows of their class to fill the budget (`ending.fill`), and the
rows there never speak for another class. Others may lose all their rows to the new ones; then it is
their turn. Each turn makes at least one more class safe, so there are no more turns than classes.

Where the budget is spent, others give way: prototypes of classes that have several, those first
whose rows of their own class weigh least. There are enough of them. With k prototypes of p classes,
k - p can go, and m missing classes need k + m - budget, which is no more, as p + m classes are no
more than the budget.

What comes later keeps a prototype of each class: pruning spares the last of a class, and refinement
returns to places at which every prototype wins a row. Fits that go on from an earlier one
(`warm_start`) end the same way. With new rows only (`partial_fit`) this holds for the classes of
these rows. A class of earlier rows only has no row to be put on: it may lose its last prototype to
new rows in a cell that an earlier call, short of rounds or of clusters, left with other classes.
"""

from collections.abc import Generator

import numpy as np

from dkmeans.exact.group_sums import run_starts
from dkmeans.growth.cells import comparable
from dkmeans.growth.round import Children
from dkmeans.growth.run import Run, State
from dkmeans.growth.termination import fill
from dkmeans.kernels.block import Indices


def complete(run: Run, state: State) -> Generator[State, None, State]:
    """Spend what is left of the budget, and give every class that has none a prototype."""
    while True:
        state = yield from fill(run, state)
        children = _restored(run, state, _missing(run, state))
        if children is None:
            return state
        state = run.advance(state, "restore", children)
        run.converged = run.converged and not state.unfinished.any()
        yield state


def _missing(run: Run, state: State) -> Indices:
    """Classes that are large enough as a whole, but have no prototype."""
    groups = state.cells.groups
    order = np.argsort(groups.classes, kind="stable")
    whole = groups.take(order).merged(run_starts(groups.classes[order]))
    large = np.ones(len(whole), dtype=bool)
    if run.rules.min_weights is not None:
        large = comparable(whole.weight) >= run.rules.min_weights[whole.classes]
    return np.setdiff1d(whole.classes[large], state.prototypes.classes)


def _restored(run: Run, state: State, missing: Indices) -> Children | None:
    """Put prototypes on rows of missing classes; None if there is nothing to do."""
    prototypes, cells, rows = state.prototypes, state.cells, run.rows
    groups = cells.groups
    which = np.flatnonzero(np.isin(groups.classes, missing))
    if not len(which):
        return None
    part = groups.take(which)
    codes = part.cells * rows.n_classes + part.classes
    places, is_away = rows.pick(codes, part.means, away_from=prototypes.centers[part.cells])
    _, is_there = rows.pick(codes, part.means)  # not only in memory

    # Of each class the heaviest group that has a row away from its cell's centre, or any row.
    order = np.lexsort((prototypes.ids[part.cells], -cells.weight[which], ~is_away, part.classes))
    order = order[is_there[order]]
    if not len(order):
        return None
    chosen = order[run_starts(part.classes[order])]
    new, taken = chosen[is_away[chosen]], chosen[~is_away[chosen]]
    classes = prototypes.classes.copy()
    classes[part.cells[taken]] = part.classes[taken]
    stay = _staying(state, classes, int(max(0, len(new) - run.room(state))))
    return Children(
        parents=np.concatenate([stay, part.cells[new]]),
        classes=np.concatenate([classes[stay], part.classes[new]]),
        centers=np.concatenate([prototypes.centers[stay], places[new]]),
    )


def _staying(state: State, classes: Indices, n_leaving: int) -> Indices:
    """Choose prototypes that stay if so many give way, of classes that have several."""
    groups = state.cells.groups
    own = groups.classes == classes[groups.cells]
    weights = np.zeros(len(classes))
    weights[groups.cells[own]] = state.cells.weight[own]
    counts = np.bincount(classes)
    stays = np.ones(len(classes), dtype=bool)
    for i in np.argsort(weights, kind="stable").tolist():
        if n_leaving and counts[classes[i]] > 1:
            stays[i] = False
            counts[classes[i]] -= 1
            n_leaving -= 1
    return np.flatnonzero(stays)
