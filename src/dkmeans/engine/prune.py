"""Drop prototypes that no training label needs."""

import itertools
from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from dkmeans.engine.run import Run, State
from dkmeans.engine.threads import tiles
from dkmeans.engine.update import Children
from dkmeans.kernels.assign import assign
from dkmeans.kernels.pack import pack

_SCORES = 1 << 17  # distances that are looked at together


def prune(run: Run, state: State) -> Iterator[State]:
    """Try to do without each prototype, the lightest first.

    A prototype may go if every row of its class that it owns is then nearest to another prototype
    of that class. The others stay where they are, so training accuracy does not fall.
    """
    prototypes, rows = state.prototypes, run.rows
    alive = np.ones(len(prototypes), dtype=bool)
    by_cell = np.argsort(rows.labels, kind="stable")
    ends = np.searchsorted(rows.labels[by_cell], np.arange(len(prototypes) + 1))
    members = [by_cell[a:b] for a, b in itertools.pairwise(ends)]

    # Rows of earlier fits cannot be asked whether they need a prototype.
    remembered = set() if state.memory is None else set(state.memory.ids.tolist())
    sizes = np.add.reduceat(state.cells.weight, state.cells.starts)
    for p in np.argsort(sizes, kind="stable"):
        if int(prototypes.ids[p]) in remembered:
            continue
        others = np.flatnonzero(alive & (np.arange(len(prototypes)) != p))
        if not len(others):
            break
        packed = pack(prototypes.centers[others], sparse=sp.issparse(rows.X))
        nearest = np.empty(len(members[p]), dtype=np.intp)
        for part in tiles(len(nearest), max(1, _SCORES // len(others))):
            assign(rows.X[members[p][part]], packed, nearest[part])
        heirs = others[nearest]
        own = rows.y[members[p]] == prototypes.classes[p]
        if rows.active is not None:
            own &= rows.active[members[p]]
        if (prototypes.classes[heirs[own]] == prototypes.classes[p]).all():
            alive[p] = False
            for heir in np.unique(heirs):
                members[heir] = np.concatenate([members[heir], members[p][heirs == heir]])
    kept = np.flatnonzero(alive)
    if len(kept) < len(prototypes):
        children = Children(kept, prototypes.classes[kept], prototypes.centers[kept])
        yield run.advance(state, "prune", children)
