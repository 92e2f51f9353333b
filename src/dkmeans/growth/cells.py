"""A tally seen cell by cell: which groups are there, and which cells are mixed."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from dkmeans.exact.group_sums import Tally, run_starts
from dkmeans.geometry import Geometry, geometry_of
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.exact import leading_bits

Bools: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Rules:
    """The parameters of the algorithm."""

    repulsion: float | Literal["size"]
    max_clusters: int | None
    max_iter: int
    min_weights: Floats | None = None  # by class: weight that a group needs to earn a child
    prune: bool = False
    best: bool = False  # whether growth is after the most accuracy, not the paper's letter
    refine: bool = False  # whether to lower the margin cost at the end
    geometry: Geometry = field(default_factory=lambda: geometry_of("euclidean"))
    make_way: bool = False  # whether light prototypes give way to heavier groups at the budget


@dataclass(frozen=True)
class Cells:
    """A tally seen cell by cell."""

    groups: Tally
    starts: Indices  # where each cell's groups start
    weight: Floats  # of each group, for comparing
    large: Bools  # whether a group is large enough for a child of its own
    heaviest: Indices  # of each cell: its heaviest group, the large ones first
    mixed: Bools  # of each cell: whether it holds two classes that are large enough
    still: Bools  # of each cell: whether nothing has changed in it since an earlier fit
    remembered: Bools  # of each group: whether rows of an earlier fit are part of it

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


def see_cells(
    groups: Tally, rules: Rules, still: Bools | None = None, remembered: Bools | None = None
) -> Cells:
    """Find out which groups and cells a tally has; every cell of it has at least one group."""
    starts = run_starts(groups.cells)
    weight = comparable(groups.weight)
    large = np.ones(len(groups), dtype=bool)
    if rules.min_weights is not None:
        large = weight >= rules.min_weights[groups.classes]
    order = np.lexsort((groups.classes, -weight, ~large, groups.cells))
    classes = np.where(large, groups.classes, -1)
    largest = np.maximum.reduceat(classes, starts)
    smallest = np.minimum.reduceat(
        np.where(large, groups.classes, len(weight) + largest.max() + 1), starts
    )
    mixed = (largest >= 0) & (smallest < largest)
    if still is None:
        still = np.zeros(len(starts), dtype=bool)
    if remembered is None:
        remembered = np.zeros(len(groups), dtype=bool)
    return Cells(groups, starts, weight, large, order[starts], mixed, still, remembered)


def comparable(weight: Floats) -> Floats:
    """Round to 36 bits, so that weights that tie but for rounding do tie."""
    return leading_bits(weight, 36)
