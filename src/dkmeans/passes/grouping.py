"""Passes that sum the rows of groups."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from dkmeans.exact.grids import SquareGrid
from dkmeans.exact.group_sums import GroupSums, KeyedSums
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.distances import FarSide
from dkmeans.passes.part import Part
from dkmeans.passes.results import GroupSumsPass, KeyedSumsPass
from dkmeans.passes.row_state import NO_CELL, RowState, group_codes
from dkmeans.passes.search import look_up
from dkmeans.passes.summing import sum_rows, sum_squares


@dataclass(frozen=True)
class SumAll(GroupSumsPass):
    """Sum all rows as one group, including rows of weight 0."""

    def visit(self, part: Part, state: RowState) -> tuple[RowState, GroupSums]:
        """Visit one part."""
        return state, sum_rows(part, np.zeros_like(state.classes))


@dataclass(frozen=True)
class SumClasses(GroupSumsPass):
    """Sum rows by class, as if all were in one cell."""

    def visit(self, part: Part, state: RowState) -> tuple[RowState, GroupSums]:
        """Visit one part."""
        return state, sum_rows(part, group_codes(part, state, np.zeros_like(state.classes)))


@dataclass(frozen=True)
class SumCells(GroupSumsPass):
    """Sum rows by cell and class."""

    def visit(self, part: Part, state: RowState) -> tuple[RowState, GroupSums]:
        """Visit one part."""
        return state, sum_rows(part, group_codes(part, state))


@dataclass(frozen=True)
class SumSquares(KeyedSumsPass):
    """Sum squared distances to the centres by cell and class."""

    needs_rows = False

    grid: SquareGrid

    def visit(self, part: Part, state: RowState) -> tuple[RowState, KeyedSums]:
        """Visit one part."""
        codes = group_codes(part, state)
        return state, sum_squares(part, state.cells.squares, codes, self.grid)


@dataclass(frozen=True)
class SumSides(GroupSumsPass):
    """Sum each group in two halves, split at `middles` along `directions`.

    The keys are twice the position of the group in `codes`, plus 1 for the far side.
    """

    codes: Indices  # sorted
    middles: Floats
    directions: Floats

    def visit(self, part: Part, state: RowState) -> tuple[RowState, GroupSums]:
        """Visit one part."""
        own = group_codes(part, state)
        halves = np.full_like(own, NO_CELL)
        sparse, loops = sp.issparse(part.X), part.loops
        is_far = FarSide(self.middles, self.directions, sparse=sparse, loops=loops)

        def task(tile: slice) -> None:
            group, found = look_up(own[tile], self.codes)
            rows, group = np.flatnonzero(found), group[found]
            if len(rows):
                halves[tile][rows] = 2 * group + is_far(part.X[tile], rows, group)

        part.for_tiles(task, 1)
        return state, sum_rows(part, halves)
