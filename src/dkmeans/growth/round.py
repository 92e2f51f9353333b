"""What a round does to the prototypes, once every row is in the cell of its nearest one.

In the paper's notation, for a cell that holds two classes with means c1 and c2, the children are

    c1 - w (c2 - c1)   and   c2 - w (c1 - c2),

and a cell that holds one class moves to its mean. For more classes the mean of the cell's *other*
points takes the place of the other class.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dkmeans.exact.group_sums import run_starts
from dkmeans.growth.budget import within_budget
from dkmeans.growth.cells import Cells, Rules
from dkmeans.kernels.block import Floats, Indices
from dkmeans.prototypes import Prototypes


@dataclass(frozen=True)
class Children:
    """Prototypes to be, each with the index of the prototype it comes from."""

    parents: Indices
    classes: Indices
    centers: npt.NDArray[np.floating]
    cut_short: bool = False  # the budget did not let all of them live


def next_children(prototypes: Prototypes, cells: Cells, rules: Rules) -> Children:
    """Apply the round: split and repel mixed cells, move the others to their mean."""
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

    # A mixed cell that the budget leaves unsplit keeps its class, even if no row there is of it,
    # and its place if nothing has changed in it.
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
    """Class and centre that each cell has if it is pure: those of its rows, unless it is still."""
    means = cells.groups.merged(cells.starts).means
    centers = rules.geometry.centers(means, prototypes.centers.dtype)
    heaviest = cells.groups.classes[cells.heaviest]
    return (
        np.where(cells.still, prototypes.classes, heaviest),
        np.where(cells.still[:, None], prototypes.centers, centers),
    )


def repelled(cells: Cells, which: Indices, rules: Rules) -> Floats:
    """Centres of the children of some groups: m - w (r - m)."""
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
    """Choose the group that takes its parent's place: of its class, or else the heaviest."""
    groups = cells.groups
    foreign = groups.classes[wanted] != prototypes.classes[groups.cells[wanted]]
    order = np.lexsort(
        (groups.classes[wanted], -cells.weight[wanted], foreign, groups.cells[wanted])
    )
    return wanted[order[run_starts(groups.cells[wanted[order]])]] if len(wanted) else wanted
