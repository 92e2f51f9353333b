"""The guaranteed termination: why a fit without a budget always ends with pure cells.

The rounds of a growth rule need not converge: repelled children may leave the data and lose all
rows, and assignments may cycle. They are followed only while the impurity decreases. Then come:

*Freeze.* No prototype moves any more; new ones are added. A row is *owned* if its distance to the
nearest prototype is zero. Identical rows have the same label (`identical_rows`), and rows that are
not identical have a positive distance (`kernels.rowhash`). A cell is *unfinished* if it is mixed,
or if its only class is not that of its prototype. For an unfinished cell with centre c:

1.  The prototype changes its class if no prototype at c has given up that class since the freeze
    began, and either the cell has only one class, or all rows of some class in the cell are at c.
    (Prototypes of earlier fits may coincide, and each of them may have to change its class.)
2.  Otherwise, each class that is not the prototype's gets a new prototype on one of its rows in the
    cell that is not at c. This row was not owned, as c was its nearest centre; now it is.

Prototypes do not move, so owned rows stay owned. Each frozen round with an unfinished cell either
owns one more row or uses one of the possible changes of class, which are at most the number of
places times the number of classes. So the rounds end, and only when no cell is unfinished. (After a
change of class, rows at c cannot be of another class: they are identical and have one label.)

*Settle.* Pure cells move to their means. A move is accepted only if all cells stay pure and the
inertia decreases. If it would mix cells, the prototypes involved are pinned, and the others try
again. Classes and therefore ids do not change, so each failure pins at least one more prototype.
Each success lowers the inertia, which is possible only finitely often, as there are finitely many
partitions. A move may leave a cell with rows of another class only; then freezing and settling are
repeated, at most three times, and a final freeze comes last.

All of this is within the `max_iter` rounds of a fit.

*Fill.* A budget that has denied a child must be spent completely. If the run ends with pure cells
and room left, prototypes are placed on rows that are not owned. They own these rows and so never
become empty. The number of owned rows increases until the budget is spent.
"""

from collections.abc import Generator

import numpy as np
import numpy.typing as npt

from dkmeans.growth.round import Children, pure_cells
from dkmeans.growth.run import Run, State
from dkmeans.kernels.block import Indices

Phase = Generator[State, None, State]
Rows2D = npt.NDArray[np.floating]
Place = tuple[bytes, int]  # a centre, and a class
MAX_SETTLE_ATTEMPTS = 3
INERTIA_RATIO = 1 - 1e-12  # the inertia decreases if its ratio to the last one is below this


def terminate(run: Run, state: State) -> Phase:
    """Freeze and settle until all cells are pure and no prototype can move."""
    for _ in range(MAX_SETTLE_ATTEMPTS):
        state = yield from _freeze(run, state)
        state = yield from _settle(run, state)
        if run.is_over(state):
            return state
    state = yield from _freeze(run, state)
    run.converged = not state.unfinished.any()
    return state


def _freeze(run: Run, state: State) -> Phase:
    """Place new prototypes on rows, and move none, until no cell is unfinished."""
    changed: set[Place] = set()  # classes that prototypes have given up, with their centres
    while state.unfinished.any() and not run.is_over(state):
        state = run.advance(state, "freeze", _claims(run, state, changed))
        yield state
    return state


def _claims(run: Run, state: State, changed: set[Place]) -> Children:
    """For unfinished cells, place prototypes on rows of the other classes, or change the class."""
    prototypes, cells = state.prototypes, state.cells
    groups = cells.groups
    places = [
        (center.tobytes(), c)
        for center, c in zip(prototypes.centers, prototypes.classes.tolist(), strict=True)
    ]
    may_change = np.array([place not in changed for place in places])
    classes = prototypes.classes.copy()
    take = state.unfinished & ~cells.mixed & may_change
    classes[take] = groups.classes[cells.heaviest[take]]

    open_cells = state.unfinished & ~take
    foreign = groups.classes != prototypes.classes[groups.cells]
    which = np.flatnonzero(cells.large & foreign & open_cells[groups.cells])
    part = groups.take(which)
    rows, found = run.rows.pick(
        part.cells * run.rows.n_classes + part.classes,
        part.means,
        away_from=prototypes.centers[part.cells],
    )
    lost = ~found & may_change[part.cells]
    classes[part.cells[lost]] = part.classes[lost]
    for i in np.flatnonzero(classes != prototypes.classes):
        changed.add(places[i])
    return _added(run, state, classes, which[found], rows[found])


def _settle(run: Run, state: State) -> Phase:
    """Move pure cells to their means while all cells stay pure and the inertia decreases."""
    pinned: set[int] = set()
    while not state.n_mixed and not run.is_over(state):
        before = state.prototypes
        _, means = pure_cells(before, state.cells, run.rules)
        free = np.array([i not in pinned for i in before.ids.tolist()])
        centers = np.where(free[:, None], means, before.centers)
        if np.array_equal(centers, before.centers):
            run.converged = not state.unfinished.any()
            break
        children = Children(np.arange(len(before)), before.classes, centers)
        trial = run.advance(state, "settle", children)
        if not trial.n_mixed and (trial.cost < state.cost * INERTIA_RATIO or trial.moved == 0):
            state = trial
            yield state
            continue
        pins = _culprits(run, trial) - pinned if trial.n_mixed else set()
        run.undo(trial, state)
        pinned |= pins or set(before.ids.tolist())
    return state


def _culprits(run: Run, trial: State) -> set[int]:
    """Return the ids of prototypes between which rows moved into a cell of another class."""
    ids = trial.prototypes.ids
    now, previous = run.rows.strays(trial.prototypes.classes)
    return set(ids[now].tolist()) | set(ids[previous[previous >= 0]].tolist())


def fill(run: Run, state: State) -> Phase:
    """Spend the rest of a budget that has denied a child."""
    while state.cut_short and run.room(state) > 0 and state.round < run.rules.max_iter:
        groups = state.cells.groups
        own = state.prototypes.centers[groups.cells]
        codes = groups.cells * run.rows.n_classes + groups.classes
        rows, found = run.rows.pick(codes, own.astype(np.float64), farthest=True, away_from=own)
        loosest = np.argsort(-groups.square, kind="stable")
        which = np.sort(loosest[found[loosest]][: int(run.room(state))])
        if not len(which):
            break
        children = _added(run, state, state.prototypes.classes, which, rows[which])
        state = run.advance(state, "fill", children)
        run.converged = False
        yield state
    return state


def _added(run: Run, state: State, classes: Indices, which: Indices, rows: Rows2D) -> Children:
    """Keep all prototypes, with new classes, and place more on rows, the heaviest groups first."""
    groups = state.cells.groups
    order = np.lexsort(
        (
            state.prototypes.ids[groups.cells[which]],
            groups.classes[which],
            -state.cells.weight[which],
        )
    )
    room = run.room(state)
    cut_short = len(order) > room
    if cut_short:
        order = order[: int(room)]
    which, rows = which[order], rows[order]
    return Children(
        parents=np.concatenate([np.arange(len(classes)), groups.cells[which]]),
        classes=np.concatenate([classes, groups.classes[which]]),
        centers=np.concatenate([state.prototypes.centers, rows]),
        cut_short=cut_short,
    )
