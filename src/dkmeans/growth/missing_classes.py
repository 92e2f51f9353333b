"""Prototypes for missing classes: why every class has a prototype at the end of a fit.

Exceptions are classes without weight, classes lighter than `min_cluster_size`, and classes whose
rows are all outweighed by identical rows of another class. (`max_clusters` is never below the
number of classes.) Growth does not guarantee it. In the rounds of the paper, repelled children may
leave the data, and the budget may be spent before it is the turn of their class again. With
`growth="best"`, a prototype may be placed where it takes all rows of another class. And a cell with
rows of one class takes that class, even if its prototype was the last one of its own class.

So each class that is missing after growth gets a prototype on one of its rows. A class is *safe*
once it has such a prototype. The row is at distance zero from its prototype, and all other
prototypes are farther away:

1.  It is a row that is not at the centre of its cell. That is the nearest centre, so there was no
    prototype at the row. Other classes that get a prototype at the same time get it elsewhere, as
    identical rows have one label.
2.  If all rows of the class lie on centres, one of these prototypes takes the class. All rows at
    its centre are of this class.

No prototype moves here, so safe classes stay safe: all their prototypes were placed here, or on
rows of their class by `termination.fill`, and no row there is of another class. Other classes may
lose all their rows to new prototypes; they are then missing and get one, too. Each turn makes at
least one more class safe, so there are at most as many turns as classes.

If the budget is spent, prototypes of classes with several are removed, those with the least weight
of their own class first. There are always enough. Let k prototypes have p classes, and let m
classes be missing: k - p prototypes can be removed, and k + m - budget have to be, which is not
more, as p + m classes do not exceed the budget.

Later steps keep a prototype of each class: pruning keeps the last one of a class, and refinement
returns to centres at which every prototype wins a row. The same holds for fits that continue with
all rows (`warm_start`). With new rows only (`partial_fit`), it holds for the classes of these rows.
There is no row for a class of earlier rows only. It may lose its last prototype to new rows, in a
cell that an earlier call left mixed for lack of rounds or clusters.
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
    """Spend the rest of the budget, and give every missing class a prototype."""
    while True:
        state = yield from fill(run, state)
        children = _restored(run, state, _missing(run, state))
        if children is None:
            return state
        state = run.advance(state, "restore", children)
        run.converged = run.converged and not state.unfinished.any()
        yield state


def _missing(run: Run, state: State) -> Indices:
    """Return the classes that are large enough, but have no prototype."""
    groups = state.cells.groups
    order = np.argsort(groups.classes, kind="stable")
    whole = groups.take(order).merged(run_starts(groups.classes[order]))
    large = np.ones(len(whole), dtype=bool)
    if run.rules.min_weights is not None:
        large = comparable(whole.weight) >= run.rules.min_weights[whole.classes]
    return np.setdiff1d(whole.classes[large], state.prototypes.classes)


def _restored(run: Run, state: State, missing: Indices) -> Children | None:
    """Place prototypes on rows of missing classes; None if there is no such row."""
    prototypes, cells, rows = state.prototypes, state.cells, run.rows
    groups = cells.groups
    which = np.flatnonzero(np.isin(groups.classes, missing))
    if not len(which):
        return None
    part = groups.take(which)
    codes = part.cells * rows.n_classes + part.classes
    places, is_away = rows.pick(codes, part.means, away_from=prototypes.centers[part.cells])
    _, is_there = rows.pick(codes, part.means)  # some groups have earlier rows only

    # For each class, the heaviest group with a row that is not at the centre of its cell; if there
    # is none, the heaviest group with any row.
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
    """Choose the prototypes that stay if some are removed, from classes with several."""
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
