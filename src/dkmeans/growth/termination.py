"""The guaranteed ending: why a fit without a budget always ends with pure cells.

The paper's rounds are not certain to converge: repelled children may leave the data and empty
out, and assignments may cycle. They are followed only while the impurity keeps falling. Then:

*Freeze.* No prototype moves any more; some are added. Call a row *owned* if the distance to its
nearest prototype is zero. Identical rows carry one label (`items`), and rows that are not identical
are not at distance zero (`kernels.rowhash`). A cell is *unfinished* if it is mixed, or if its only
class is not that of its prototype. Look at an unfinished cell with centre c:

1.  If no prototype at c has given up this class since all froze, and the cell is of one class, or
    some class has all its rows of the cell at c, the prototype takes that class. (Two prototypes
    of earlier fits may lie at one place; each of them may have to change.)
2.  Otherwise every class other than the prototype's that has a row in the cell that is not at c
    gets a prototype on such a row. The row was not owned, as c was its nearest centre; now it is.

Prototypes stay, so owned rows stay owned. Each frozen round with an unfinished cell owns one more
row or uses up one of the changes of class, of which there are no more than places times classes, so
the rounds end; and they end only when no cell is unfinished. (A cell whose rows at c are not of the
prototype's class after its change cannot be: all rows at c are one item of one label.)

*Settle.* From here pure cells move to their means, and a move stands only if every cell stays pure
and the inertia falls. Where a move would mix cells, the prototypes that took part in it are pinned,
and the others try again without them. Classes and so ids stay as they are, so each failure pins at
least one more, and each success lowers the inertia, which cannot happen for ever among finitely
many partitions. A move may leave a cell with rows of another class only; then freezing and settling
begin again, three times at most, and the last word is with freezing.

All this within `max_iter` rounds, which are the end in any case.

*Fill.* Under a budget that denied someone a child, the promise is to use all of it. If the run
ends pure with room left, prototypes are put on rows that none owns yet. They own them, so they
never empty, and the count of owned rows can only grow until the budget is spent.
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
_ATTEMPTS = 3  # at settling
_LESS = 1 - 1e-12  # inertia must fall by more than rounding


def end(run: Run, state: State) -> Phase:
    """Freeze and settle until nothing is left to do."""
    for _ in range(_ATTEMPTS):
        state = yield from _freeze(run, state)
        state = yield from _settle(run, state)
        if run.is_over(state):
            return state
    state = yield from _freeze(run, state)
    run.converged = not state.unfinished.any()
    return state


def _freeze(run: Run, state: State) -> Phase:
    """Keep all prototypes where they are, and put new ones on rows until no cell is unfinished."""
    changed: set[Place] = set()  # that prototypes have given up
    while state.unfinished.any() and not run.is_over(state):
        state = run.advance(state, "freeze", _claims(run, state, changed))
        yield state
    return state


def _claims(run: Run, state: State, changed: set[Place]) -> Children:
    """Prototypes on rows of the foreign classes of unfinished cells, or changes of class."""
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
    """Move pure cells to their means as long as all stay pure and inertia falls."""
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
        if not trial.n_mixed and (trial.cost < state.cost * _LESS or trial.moved == 0):
            state = trial
            yield state
            continue
        pins = _culprits(run, trial) - pinned if trial.n_mixed else set()
        run.undo(trial, state)
        pinned |= pins or set(before.ids.tolist())
    return state


def _culprits(run: Run, trial: State) -> set[int]:
    """Ids of the prototypes between which rows moved into a cell of another class."""
    ids = trial.prototypes.ids
    now, previous = run.rows.strays(trial.prototypes.classes)
    return set(ids[now].tolist()) | set(ids[previous[previous >= 0]].tolist())


def fill(run: Run, state: State) -> Phase:
    """Spend what is left of a budget that has denied someone a child."""
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
    """Keep all prototypes, with these classes, and add some on rows, the heaviest groups first."""
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
