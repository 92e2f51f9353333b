"""Drop prototypes that no training label needs."""

from collections.abc import Iterator

import numpy as np

from dkmeans.growth.round import Children
from dkmeans.growth.run import Run, State


def prune(run: Run, state: State) -> Iterator[State]:
    """Try to do without each prototype, the lightest first.

    A prototype may go if every row of its class that it owns is then nearest to another prototype
    of that class. The others stay where they are, so training accuracy does not fall. The last
    prototype of a class stays.
    """
    prototypes, rows = state.prototypes, run.rows
    alive = np.ones(len(prototypes), dtype=bool)
    # Rows of earlier fits cannot be asked whether they need a prototype.
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
