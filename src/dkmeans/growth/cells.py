"""Cells and their groups: the rows of one class in one cell are a group."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dkmeans.exact.group_sums import Tally, run_starts
from dkmeans.growth.rules import Rules
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.exact import leading_bits

Bools: TypeAlias = npt.NDArray[np.bool_]

COMPARED_BITS = 36  # significant bits of weights that are compared


@dataclass(frozen=True)
class Cells:
    """The groups of each cell, and which cells are mixed."""

    groups: Tally
    starts: Indices  # index of the first group of each cell
    weight: Floats  # of each group, rounded so that ties are ties
    large: Bools  # of each group: whether it may have its own prototype (min_cluster_size)
    heaviest: Indices  # of each cell: its heaviest group, among the large ones if there are any
    mixed: Bools  # of each cell: whether it has large groups of two classes
    still: Bools  # of each cell: whether it is the same as in an earlier fit
    remembered: Bools  # of each group: whether it includes earlier rows that are not seen

    @property
    def excess(self) -> float:
        """Weight of all large groups except the heaviest one of each cell."""
        weight = np.where(self.large, self.weight, 0.0)
        return float(weight.sum() - np.maximum.reduceat(weight, self.starts).sum())

    @property
    def impurity(self) -> float:
        """Share of the weight outside the heaviest group of each cell."""
        heaviest = np.maximum.reduceat(self.weight, self.starts)
        return float(1.0 - heaviest.sum() / self.weight.sum())

    @property
    def in_mixed(self) -> Bools:
        """Whether each group is in a mixed cell."""
        return np.repeat(self.mixed, np.diff(np.append(self.starts, len(self.groups))))


def see_cells(
    groups: Tally, rules: Rules, still: Bools | None = None, remembered: Bools | None = None
) -> Cells:
    """Look at a tally cell by cell. Every cell must have at least one group."""
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
    """Round weights, so that equal ones are equal in spite of rounding errors."""
    return leading_bits(weight, COMPARED_BITS)
