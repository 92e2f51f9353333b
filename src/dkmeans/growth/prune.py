"""Pruning: remove prototypes without which all training rows keep their predicted class."""

from collections.abc import Iterator

import numpy as np

from dkmeans.growth.round import Children
from dkmeans.growth.run import Run, State


def prune(run: Run, state: State) -> Iterator[State]:
    """Try to remove each prototype, the lightest first.

    A prototype is removed if each row of its class in its cell is then nearest to another prototype
    of that class. The others do not move, so the training accuracy does not decrease. The last
    prototype of a class is kept.
    """
    prototypes, rows = state.prototypes, run.rows
    alive = np.ones(len(prototypes), dtype=bool)
    # It is not known whether earlier rows need a prototype.
    remembered = set() if state.earlier_rows is None else set(state.earlier_rows.ids.tolist())
    sizes = np.add.reduceat(state.cells.weight, state.cells.starts)
    for p in np.argsort(sizes, kind="stable").tolist():
        if int(prototypes.ids[p]) in remembered:
            continue
        others = np.flatnonzero(alive & (np.arange(len(prototypes)) != p))
        if prototypes.classes[p] not in prototypes.classes[others]:
            continue
        if rows.can_do_without(prototypes, p, others):
            alive[p] = False
            rows.give_away()
    kept = np.flatnonzero(alive)
    if len(kept) < len(prototypes):
        children = Children(kept, prototypes.classes[kept], prototypes.centers[kept])
        yield run.advance(state, "prune", children)
