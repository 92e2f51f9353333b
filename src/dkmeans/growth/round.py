"""One round: what becomes of the prototypes once every row is assigned to its nearest one.

The *cell* of a prototype holds the rows assigned to it. In the notation of the paper, a prototype
whose cell holds two classes with means c1 and c2 is replaced by the children

    c1 - w (c2 - c1)   and   c2 - w (c1 - c2),

where w is the repulsion. A prototype whose cell holds one class moves to the mean of the cell. With
more than two classes, c2 is the mean of all rows of the cell that are not of the first class.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dkmeans.exact.group_sums import run_starts
from dkmeans.growth.budget import within_budget
from dkmeans.growth.cells import Cells
from dkmeans.growth.rules import Rules
from dkmeans.kernels.block import Floats, Indices
from dkmeans.prototypes import Prototypes


@dataclass(frozen=True)
class Children:
    """The prototypes of the next round, each with the index of its parent."""

    parents: Indices
    classes: Indices
    centers: npt.NDArray[np.floating]
    cut_short: bool = False  # whether the budget denied someone a child


def next_children(prototypes: Prototypes, cells: Cells, rules: Rules) -> Children:
    """Split mixed cells into children that repel each other; move the others to their means."""
    groups = cells.groups
    wanted = np.flatnonzero(cells.in_mixed & cells.large)
    keepers = _keepers(prototypes, cells, wanted)
    rivals = np.setdiff1d(wanted, keepers, assume_unique=True)
    served, evicted = within_budget(prototypes, cells, rivals, rules)
    cut_short = len(served) < len(rivals)
    wanted = np.concatenate([keepers, served])

    pure = np.setdiff1d(np.flatnonzero(~cells.mixed), evicted, assume_unique=True)
    pure_classes, means = pure_cells(prototypes, cells, rules)
    parents, classes = groups.cells[wanted], groups.classes[wanted]
    split = rules.geometry.centers(repelled(cells, wanted, rules), prototypes.centers.dtype)

    # A mixed cell that the budget leaves unsplit keeps its class, even without rows of it. It keeps
    # its centre, too, if nothing has changed in it.
    unsplit = np.bincount(parents, minlength=len(prototypes))[parents] == 1
    stays = unsplit & (cells.still[parents] | (classes != prototypes.classes[parents]))
    split[stays] = prototypes.centers[parents[stays]]
    classes[stays] = prototypes.classes[parents[stays]]
    return Children(
        parents=np.concatenate([pure, parents]),
        classes=np.concatenate([pure_classes[pure], classes]),
        centers=np.concatenate([means[pure], split]),
        cut_short=cut_short,
    )


def pure_cells(
    prototypes: Prototypes, cells: Cells, rules: Rules
) -> tuple[Indices, npt.NDArray[np.floating]]:
    """Return class and centre of each cell as if it were pure: its heaviest class and its mean.

    Cells that have not changed since an earlier fit keep theirs.
    """
    means = cells.groups.merged(cells.starts).means
    centers = rules.geometry.centers(means, prototypes.centers.dtype)
    heaviest = cells.groups.classes[cells.heaviest]
    return (
        np.where(cells.still, prototypes.classes, heaviest),
        np.where(cells.still[:, None], prototypes.centers, centers),
    )


def repelled(cells: Cells, which: Indices, rules: Rules) -> Floats:
    """Return m - w (r - m) for some groups: m is their mean, r that of the other classes."""
    groups = cells.groups
    if not len(which):
        return np.empty((0, groups.sums.shape[2]))
    class_starts = run_starts(groups.cells, groups.classes)
    whole_cells = groups.merged(cells.starts)
    whole_classes = groups.merged(class_starts)
    cell = np.searchsorted(cells.starts, which, side="right") - 1
    klass = np.searchsorted(class_starts, which, side="right") - 1
    others = whole_cells.take(cell).minus(whole_classes.take(klass))

    m = groups.take(which).means
    r = others.means
    w: float | Floats
    if rules.repulsion == "size":
        w = (others.weight / whole_cells.weight[cell])[:, None]
    else:
        w = rules.repulsion
    return m - w * (r - m)


def _keepers(prototypes: Prototypes, cells: Cells, wanted: Indices) -> Indices:
    """Choose the group of each cell that inherits the id: of the same class, or the heaviest."""
    groups = cells.groups
    foreign = groups.classes[wanted] != prototypes.classes[groups.cells[wanted]]
    order = np.lexsort(
        (groups.classes[wanted], -cells.weight[wanted], foreign, groups.cells[wanted])
    )
    return wanted[order[run_starts(groups.cells[wanted[order]])]] if len(wanted) else wanted
