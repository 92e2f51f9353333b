"""The guaranteed ending: why a fit without a budget always ends with pure cells.

The paper's rounds are not certain to converge: repelled children may leave the data and empty
out, and assignments may cycle. They are followed only while the impurity keeps falling. Then:

*Freeze.* No prototype moves any more; some are added. Call a row *owned* if the distance to its
nearest prototype is zero. Identical rows carry one label (`items`), and rows that are not identical
are not at distance zero (`kernels.rowhash`). Look at a mixed cell with centre c:

1.  A class other than the prototype's has a row in the cell that is not at c. It gets a prototype
    on such a row. The row was not owned, as c was its nearest centre; now it is.
2.  Some class other than the prototype's has all its rows of the cell at c. Then the prototype
    takes over that class. It sits on an item and its class is the item's, so this happens to a
    prototype at most once.

Prototypes stay, so owned rows stay owned. Each frozen round with a mixed cell owns one more row or
uses up one of the changes of class, of which there are no more than prototypes, so the rounds end;
and they end only when no cell is mixed.

*Settle.* From here pure cells move to their means, and a move stands only if every cell stays pure
and the inertia falls. Where a move would mix cells, the prototypes that took part in it are pinned,
and the others try again without them; each failure pins at least one more, and each success
lowers the inertia, which cannot happen for ever among finitely many partitions. A cell whose rows
have come to be of another class takes that class. Should this ever turn a tie, and a tie mix a
cell, freezing and settling begin again. Whatever happens, `max_iter` rounds are the end.

*Fill.* Under a budget that denied someone a child, the promise is to use all of it. If the run
ends pure with room left, prototypes are put on rows that none owns yet. They own them, so they
never empty, and the count of owned rows can only grow until the budget is spent.
"""

from collections.abc import Generator

import numpy as np
import numpy.typing as npt

from dkmeans.engine.run import Run, State
from dkmeans.engine.update import Children, pure_cells
from dkmeans.kernels.block import Indices

Phase = Generator[State, None, State]
Rows2D = npt.NDArray[np.floating]
_LESS = 1 - 1e-12  # inertia must fall by more than rounding


def freeze(run: Run, state: State) -> Phase:
    """Keep all prototypes where they are, and put new ones on rows until no cell is mixed."""
    while state.n_mixed and not run.is_over(state):
        state = run.advance(state, "freeze", _claims(run, state))
        yield state
    return state


def _claims(run: Run, state: State) -> Children:
    """One prototype on a row of every foreign class of every mixed cell."""
    prototypes, cells = state.prototypes, state.cells
    groups = cells.groups
    classes = prototypes.classes.copy()
    classes[~cells.mixed] = pure_cells(prototypes, cells)[0][~cells.mixed]

    foreign = cells.large & cells.in_mixed & (groups.classes != classes[groups.cells])
    which = np.flatnonzero(foreign)
    part = groups.take(which)
    rows, found = run.rows.pick(
        part.cells * run.rows.n_classes + part.classes,
        part.means,
        away_from=prototypes.centers[part.cells],
    )
    classes[part.cells[~found]] = part.classes[~found]
    return _added(run, state, classes, which[found], rows[found])


def settle(run: Run, state: State) -> Phase:
    """Move pure cells to their means as long as all stay pure and inertia falls."""
    pinned: set[int] = set()
    while not state.n_mixed and not run.is_over(state):
        before = state.prototypes
        classes, means = pure_cells(before, state.cells)
        free = np.array([i not in pinned for i in before.ids.tolist()])
        centers = np.where(free[:, None], means, before.centers)
        at_rest = np.array_equal(centers, before.centers)
        if at_rest and np.array_equal(classes, before.classes):
            run.converged = True
            break
        trial = run.advance(state, "settle", Children(np.arange(len(before)), classes, centers))
        stands = not trial.n_mixed and (trial.cost < state.cost * _LESS or trial.moved == 0)
        if stands or at_rest:  # at rest, a cell only takes the class of its rows
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
        loosest = np.argsort(-groups.square, kind="stable")[: int(run.room(state))]
        which = np.sort(loosest)
        own = state.prototypes.centers[groups.cells[which]]
        codes = groups.cells[which] * run.rows.n_classes + groups.classes[which]
        rows, found = run.rows.pick(codes, own.astype(np.float64), farthest=True, away_from=own)
        if not found.any():
            break
        classes = state.prototypes.classes
        state = run.advance(state, "fill", _added(run, state, classes, which[found], rows[found]))
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
