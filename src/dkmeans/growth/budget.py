"""Who gets a child when there is not room for all."""

import numpy as np

from dkmeans.growth.cells import Cells, Rules
from dkmeans.kernels.block import Indices
from dkmeans.prototypes import Prototypes


def within_budget(
    prototypes: Prototypes, cells: Cells, rivals: Indices, rules: Rules
) -> tuple[Indices, Indices]:
    """Serve classes that have no prototype first, then the heaviest groups.

    Among those the heaviest, too; on a tie the lowest class, then the lowest id.

    Parameters
    ----------
    prototypes : Prototypes
    cells : Cells
    rivals : array
        Groups that want a prototype beside the one that their cell has.
    rules : Rules

    Returns
    -------
    served : array
        Groups that get one, in order.
    evicted : array
        Cells that lose theirs for it.
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
    if rules.make_way:
        more, evicted = _make_way(prototypes, cells, served, waiting)
        return np.sort(np.concatenate([served, more])), evicted
    return np.sort(served), nobody


def _make_way(
    prototypes: Prototypes, cells: Cells, served: Indices, waiting: Indices
) -> tuple[Indices, Indices]:
    """Let the lightest prototypes of classes that have several give way to heavier groups."""
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
