"""What a round does to the prototypes, once every row is in the cell of its nearest one.

In the paper's notation, for a cell that holds two classes with means c1 and c2, the children are

    c1 - w (c2 - c1)   and   c2 - w (c1 - c2),

and a cell that holds one class moves to its mean. For more classes the mean of the cell's *other*
points takes the place of the other class.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from dkmeans.engine.tally import Tally, run_starts
from dkmeans.kernels.block import Floats, Indices
from dkmeans.model.prototypes import Prototypes

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Rules:
    """The parameters of the algorithm."""

    repulsion: float | Literal["size"]
    max_clusters: int | None
    max_iter: int
    min_weights: Floats | None = None  # by class: weight that a group needs to earn a child
    prune: bool = False


@dataclass(frozen=True)
class Children:
    """Prototypes to be, each with the index of the prototype it comes from."""

    parents: Indices
    classes: Indices
    centers: npt.NDArray[np.floating]
    cut_short: bool = False  # the budget did not let all of them live


@dataclass(frozen=True)
class Cells:
    """A tally seen cell by cell."""

    groups: Tally
    starts: Indices  # where each cell's groups start
    weight: Floats  # of each group, for comparing
    large: Bools  # whether a group is large enough for a child of its own
    heaviest: Indices  # of each cell: its heaviest group, the large ones first
    mixed: Bools  # of each cell: whether it holds two classes that are large enough

    @property
    def excess(self) -> float:
        """Weight that keeps cells mixed: that of large groups but each cell's heaviest."""
        weight = np.where(self.large, self.weight, 0.0)
        return float(weight.sum() - np.maximum.reduceat(weight, self.starts).sum())

    @property
    def impurity(self) -> float:
        """Share of the weight that is not of its cell's heaviest class."""
        heaviest = np.maximum.reduceat(self.weight, self.starts)
        return float(1.0 - heaviest.sum() / self.weight.sum())

    @property
    def in_mixed(self) -> Bools:
        """Whether each group is in a mixed cell."""
        return np.repeat(self.mixed, np.diff(np.append(self.starts, len(self.groups))))


def see_cells(groups: Tally, rules: Rules) -> Cells:
    """Find out which groups and cells a tally has; every cell of it has at least one group."""
    starts = run_starts(groups.cells)
    weight = _comparable(groups.weight)
    large = np.ones(len(groups), dtype=bool)
    if rules.min_weights is not None:
        large = weight >= rules.min_weights[groups.classes]
    order = np.lexsort((groups.classes, -weight, ~large, groups.cells))
    classes = np.where(large, groups.classes, -1)
    largest = np.maximum.reduceat(classes, starts)
    smallest = np.minimum.reduceat(
        np.where(large, groups.classes, len(weight) + largest.max() + 1), starts
    )
    return Cells(
        groups, starts, weight, large, order[starts], (largest >= 0) & (smallest < largest)
    )


def _comparable(weight: Floats) -> Floats:
    """Round to 36 bits, so that weights that tie but for rounding do tie."""
    mantissa, exponent = np.frexp(weight)
    return np.ldexp(np.rint(np.ldexp(mantissa, 36)), exponent - 36)


def next_children(prototypes: Prototypes, cells: Cells, rules: Rules) -> Children:
    """Apply the round: split and repel mixed cells, move the others to their mean."""
    groups = cells.groups
    wanted = np.flatnonzero(cells.in_mixed & cells.large)
    keepers = _keepers(prototypes, cells, wanted)
    wanted, cut_short = _within_budget(prototypes, cells, wanted, keepers, rules)

    pure = np.flatnonzero(~cells.mixed)
    means = groups.merged(cells.starts).take(pure).means
    parents, classes = groups.cells[wanted], groups.classes[wanted]
    split = repelled(cells, wanted, rules)

    # A mixed cell that the budget leaves unsplit keeps its class, even if no row there is of it.
    unsplit = np.bincount(parents, minlength=len(prototypes))[parents] == 1
    usurped = unsplit & (classes != prototypes.classes[parents])
    split[usurped] = prototypes.centers[parents[usurped]]
    classes[usurped] = prototypes.classes[parents[usurped]]
    return Children(
        parents=np.concatenate([groups.cells[cells.starts[pure]], parents]),
        classes=np.concatenate([groups.classes[cells.heaviest[pure]], classes]),
        centers=np.concatenate([means, split]).astype(prototypes.centers.dtype),
        cut_short=cut_short,
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


def _within_budget(
    prototypes: Prototypes, cells: Cells, wanted: Indices, keepers: Indices, rules: Rules
) -> tuple[Indices, bool]:
    """Let the heaviest groups have children while there is room; keepers come first."""
    rivals = np.setdiff1d(wanted, keepers, assume_unique=True)
    room = len(rivals)
    if rules.max_clusters is not None:
        room = min(room, rules.max_clusters - len(cells.starts))
    ids, classes = prototypes.ids[cells.groups.cells[rivals]], cells.groups.classes[rivals]
    heaviest = rivals[np.lexsort((ids, classes, -cells.weight[rivals]))[:room]]
    return np.concatenate([keepers, np.sort(heaviest)]), room < len(rivals)
