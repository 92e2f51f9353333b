"""The budget: which groups get a prototype if `max_clusters` does not allow all."""

import numpy as np

from dkmeans.growth.cells import Cells
from dkmeans.growth.rules import Continuation, Rules
from dkmeans.kernels.block import Indices
from dkmeans.prototypes import Prototypes


def within_budget(
    prototypes: Prototypes, cells: Cells, rivals: Indices, rules: Rules
) -> tuple[Indices, Indices]:
    """Choose the groups that get a prototype of their own.

    Classes without a prototype come first, then the heaviest groups. On a tie, the lowest class
    comes first, then the lowest id. If a fit sees new rows only, light prototypes of earlier rows
    are removed in favour of heavier groups.

    Parameters
    ----------
    prototypes : Prototypes
    cells : Cells
    rivals : array
        Groups that need a prototype in addition to the one of their cell.
    rules : Rules

    Returns
    -------
    served : array
        Groups that get one, sorted.
    evicted : array
        Cells whose prototypes are removed.
    """
    nobody = np.empty(0, dtype=np.intp)
    room = len(rivals)
    if rules.max_clusters is not None:
        room = min(room, rules.max_clusters - len(cells.starts))
    if room == len(rivals):
        return rivals, nobody
    classes = cells.groups.classes[rivals]
    ids = prototypes.ids[cells.groups.cells[rivals]]
    known = np.isin(classes, prototypes.classes)
    queue = rivals[np.lexsort((ids, classes, -cells.weight[rivals], known))]
    served, waiting = queue[:room], queue[room:]
    if rules.continuation is Continuation.NEW_ROWS:
        more, evicted = _evict(prototypes, cells, served, waiting)
        return np.sort(np.concatenate([served, more])), evicted
    return np.sort(served), nobody


def _evict(
    prototypes: Prototypes, cells: Cells, served: Indices, waiting: Indices
) -> tuple[Indices, Indices]:
    """Remove the lightest prototypes, of classes with several, in favour of heavier groups."""
    groups = cells.groups
    n_classes = int(max(prototypes.classes.max(), groups.classes.max())) + 1
    counts = np.bincount(prototypes.classes, minlength=n_classes)
    counts += np.bincount(groups.classes[served], minlength=n_classes)
    weights = np.add.reduceat(cells.weight, cells.starts)
    lightest = [i for i in np.argsort(weights, kind="stable").tolist() if not cells.mixed[i]]
    more: list[int] = []
    evicted: list[int] = []
    for group in waiting.tolist():
        dispensable = (i for i in lightest if counts[prototypes.classes[i]] > 1)
        victim = next(dispensable, None)
        is_new = counts[groups.classes[group]] == 0
        if victim is None or not (is_new or weights[victim] < cells.weight[group]):
            break
        lightest.remove(victim)
        counts[prototypes.classes[victim]] -= 1
        counts[groups.classes[group]] += 1
        evicted.append(victim)
        more.append(group)
    return np.array(more, dtype=np.intp), np.array(sorted(evicted), dtype=np.intp)
