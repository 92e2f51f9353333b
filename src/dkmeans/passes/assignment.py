"""Passes that assign rows to cells."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dkmeans.exact.group_sums import GroupSums
from dkmeans.exact.record import Record
from dkmeans.kernels.assign import assign, assign_by_scan
from dkmeans.kernels.block import Floats, Indices, Matrix
from dkmeans.kernels.distances import OwnDistances
from dkmeans.kernels.pack import PackedCenters, pack
from dkmeans.kernels.reference import stable_squares
from dkmeans.passes.changed import assign_by_change
from dkmeans.passes.class_order import for_classes, runs_of_classes, sorted_by_class
from dkmeans.passes.contract import Effect, Pass
from dkmeans.passes.part import Part
from dkmeans.passes.results import EffectPass, GroupSumsPass, MaximumPass
from dkmeans.passes.row_state import NO_CELL, CellState, RowState, group_codes
from dkmeans.passes.sketch_search import SketchSearch, class_columns
from dkmeans.passes.summing import sum_moves, sum_rows
from dkmeans.prototypes import Prototypes


@dataclass(frozen=True)
class Assigned(Record):
    """Result of a pass that assigns rows."""

    sums: GroupSums  # by cell and class: all rows, or those that arrived less those that left
    moved: int  # rows that changed their prototype
    largest: float  # squared distance of a row with a positive weight


@dataclass(frozen=True)
class Gather(MaximumPass):
    """Put all rows into one cell, and return the largest squared distance."""

    effect = Effect.ASSIGNS_ALL

    center: npt.NDArray[np.floating]  # shape (1, d)

    def visit(self, part: Part, state: RowState) -> tuple[RowState, float]:
        """Visit one part."""
        labels, squares = np.zeros_like(state.cells.labels), np.empty(len(part))
        assign_to_nearest(part, self.center, labels, squares, None)
        previous = np.full_like(labels, NO_CELL)
        cells = CellState(labels, previous, squares, self.center)
        return state.with_cells(cells), _largest_square(part, squares)


@dataclass(frozen=True)
class Assign(Pass[Assigned]):
    """Assign every row to its nearest prototype, and sum by cell and class.

    Parameters
    ----------
    prototypes : Prototypes
    came_from : array of shape (k_before,)
        For each prototype of the last pass its index now, or -1 if it is gone.
    changes_only : bool
        Whether to sum only what has changed since the last pass.
    margins : int or None
        Number of the margins of these prototypes, if they are known: they tell where rows go.
    """

    effect = Effect.ASSIGNS_ALL

    prototypes: Prototypes
    came_from: Indices
    changes_only: bool = False
    margins: int | None = None

    def visit(self, part: Part, state: RowState) -> tuple[RowState, Assigned]:
        """Visit one part."""
        last, centers = state.cells, self.prototypes.centers
        previous = np.where(last.labels < 0, NO_CELL, self.came_from[last.labels])
        labels, squares = np.empty_like(last.labels), np.empty_like(last.squares)
        rest: Indices | None = None
        if self.margins is not None:
            found = state.margins(self.margins)
            rows = found.rows
            labels[rows] = found.winner
            squares[rows] = np.where(found.wins, found.near, found.far)
            rest = np.setdiff1d(np.arange(len(part)), rows, assume_unique=True)
        elif self.changes_only and last.centers is not None and not sp.issparse(part.X):
            rest = assign_by_change(
                part, last.centers, last.squares, centers, self.came_from, previous, labels, squares
            )
        assign_to_nearest(part, centers, labels, squares, rest)
        # Only the search of dense rows uses them again, and those of sparse rows are large.
        known = None if sp.issparse(part.X) else centers
        after = replace(state, cells=CellState(labels, previous, squares, known), pruning=None)
        changed = labels != previous
        moved = int(np.count_nonzero(changed if part.active is None else changed & part.active))
        codes = group_codes(part, after)
        if self.changes_only:
            sums = sum_moves(part, group_codes(part, state, previous), codes)
        else:
            sums = sum_rows(part, codes)
        return after, Assigned(sums, moved, _largest_square(part, squares))

    def merge(self, results: Sequence[Assigned]) -> Assigned:
        """Add up sums and moves, and take the largest distance."""
        return Assigned(
            GroupSums.merge([result.sums for result in results]),
            sum(result.moved for result in results),
            max(result.largest for result in results),
        )

    def replay(self, part: Part, state: RowState) -> RowState:
        """Assign all rows from scratch: earlier cells and margins may not be there."""
        return replace(self, changes_only=False, margins=None).visit(part, state)[0]


@dataclass(frozen=True)
class AssignOwn(GroupSumsPass):
    """Assign every row to the nearest prototype of its own class, and sum by cell and class.

    Rows of classes without prototype are assigned to none. Squared distances are left out.

    Parameters
    ----------
    prototypes : Prototypes
    changes_only : bool
        Whether to sum only rows that have changed their prototype. The last pass must have been
        an `AssignOwn` with as many prototypes of the same classes.
    margins : int or None
        Number of the margins of these prototypes, if they are known: they tell where rows with a
        positive weight go.
    """

    effect = Effect.RELABELS

    prototypes: Prototypes
    changes_only: bool = False
    margins: int | None = None

    def visit(self, part: Part, state: RowState) -> tuple[RowState, GroupSums]:
        """Visit one part."""
        before = group_codes(part, state)
        if self.margins is None:
            state = sorted_by_class(part, state)
            labels = self._nearest(part, state)
        else:
            found = state.margins(self.margins)
            labels = np.full_like(state.cells.labels, NO_CELL)
            labels[found.rows] = found.own
        state = state.with_labels(labels)
        after = group_codes(part, state)
        return state, (
            sum_moves(part, before, after) if self.changes_only else sum_rows(part, after)
        )

    def replay(self, part: Part, state: RowState) -> RowState:
        """Search all rows: margins may not be there."""
        return replace(self, changes_only=False, margins=None).visit(part, state)[0]

    def _nearest(self, part: Part, state: RowState) -> Indices:
        """Find the nearest prototype of each row's class; -1 if there is none."""
        columns = class_columns(self.prototypes)
        search = SketchSearch.of(part, self.prototypes, len(self.prototypes) / len(columns))
        has_prototype = np.isin(np.arange(part.n_classes), self.prototypes.classes)

        @cache
        def packed(c: int) -> PackedCenters:
            centers, n_terms = self.prototypes.centers[columns[c]], part.setting.n_terms
            return pack(centers, sparse=sp.issparse(part.X), loops=part.loops, n_terms=n_terms)

        labels = np.full_like(state.cells.labels, NO_CELL)

        def task(rows: Indices) -> None:
            found, left = np.empty(len(rows), dtype=np.intp), np.arange(len(rows))
            if search is not None:
                left = search(rows, state.classes[rows], found)
            for c, run in runs_of_classes(state.classes[rows[left]]):
                nearest = np.empty(run.stop - run.start, dtype=np.intp)
                assign(part.X, packed(c), nearest, rows[left[run]])
                found[left[run]] = columns[c][nearest]
            labels[rows] = found

        for_classes(part, state, task, len(self.prototypes), has_prototype[state.classes])
        return labels


@dataclass(frozen=True)
class Rename(EffectPass):
    """Follow a change of indices: prototype i is now `new_index[i]`, or gone if that is -1."""

    needs_rows = False
    effect = Effect.AMENDS_CELLS

    new_index: Indices

    def visit(self, part: Part, state: RowState) -> tuple[RowState, None]:
        """Visit one part."""
        last, new_index = state.cells, self.new_index
        cells = replace(
            last,
            labels=np.where(last.labels < 0, NO_CELL, new_index[last.labels]),
            previous=np.where(last.previous < 0, NO_CELL, new_index[last.previous]),
            centers=None if last.centers is None else last.centers[new_index >= 0],
        )
        return state.with_cells(cells), None


@dataclass(frozen=True)
class LabelLost(EffectPass):
    """Assign rows of weight 0 whose prototype was dropped."""

    effect = Effect.AMENDS_CELLS

    prototypes: Prototypes

    def visit(self, part: Part, state: RowState) -> tuple[RowState, None]:
        """Visit one part."""
        lost = np.flatnonzero(state.cells.labels < 0)
        if not len(lost):
            return state, None
        sparse, centers = sp.issparse(part.X), self.prototypes.centers
        packed = pack(centers, sparse=sparse, loops=part.loops)
        own_distances = OwnDistances(centers, sparse=sparse, loops=part.loops)
        labels, squares = state.cells.labels.copy(), state.cells.squares.copy()

        def task(tile: slice) -> None:
            rows = lost[tile]
            nearest, far = np.empty(len(rows), dtype=np.intp), np.empty(len(rows))
            assign(part.X, packed, nearest, rows)
            own_distances(part.X, nearest, far, rows)
            labels[rows], squares[rows] = nearest, far

        part.for_tiles(task, len(centers), len(lost))
        return state.with_cells(replace(state.cells, labels=labels, squares=squares)), None


@dataclass(frozen=True)
class LeaveCells(EffectPass):
    """Put all rows into one cell, whose centre is not known."""

    needs_rows = False
    effect = Effect.ASSIGNS_ALL

    def visit(self, part: Part, state: RowState) -> tuple[RowState, None]:
        """Visit one part."""
        return state.with_cells(CellState.start(len(part))), None


@dataclass(frozen=True)
class KeepCells(EffectPass):
    """Keep the present cells of the rows for `RestoreCells`; only one set can be kept."""

    needs_rows = False
    effect = Effect.KEEPS_CELLS

    def visit(self, part: Part, state: RowState) -> tuple[RowState, None]:
        """Visit one part."""
        assert state.kept is None, "cells are kept already"
        return replace(state, kept=state.cells), None


@dataclass(frozen=True)
class RestoreCells(EffectPass):
    """Restore the kept cells; margins found since then are not affected."""

    needs_rows = False
    effect = Effect.RESTORES_CELLS

    def visit(self, part: Part, state: RowState) -> tuple[RowState, None]:
        """Visit one part."""
        assert state.kept is not None, "no cells were kept"
        return replace(state, cells=state.kept, kept=None), None


def assign_to_nearest(
    part: Part,
    centers: npt.NDArray[np.floating],
    labels: Indices,
    squares: Floats,
    rows: Indices | None = None,
) -> None:
    """Assign rows by comparing them with all centres.

    Parameters
    ----------
    part : Part
    centers : array of shape (k, d)
    labels, squares : arrays of shape (n,)
        OUT. Nearest centres and squared distances to them.
    rows : array or None
    """
    if rows is not None and not len(rows):
        return
    sparse, loops = sp.issparse(part.X), part.loops
    packed = pack(centers, sparse=sparse, loops=loops, n_terms=part.setting.n_terms)
    own_distances = OwnDistances(centers, sparse=sparse, loops=loops)
    doubts: list[Indices] = []

    def look(X: Matrix, nearest: Indices, near: Floats, some: Indices | None = None) -> None:
        if sparse:
            assign(X, packed, nearest, some)
            own_distances(X, nearest, near, some)
        else:
            assign(X, packed, nearest, some, near)

    def quick(tile: slice) -> None:
        here, nearest, near = part.X[tile], labels[tile], squares[tile]
        if len(centers) == 1:
            nearest[:] = 0
            own_distances(here, nearest, near)
        elif loops is None or sparse:
            look(here, nearest, near)
        else:
            doubts.append(tile.start + assign_by_scan(here, packed, nearest, squares=near))

    if rows is None:
        part.for_tiles(quick, len(centers))
        # Resolve uncertain rows of all tiles together, as each tile has few.
        rows = np.concatenate(doubts) if doubts else np.empty(0, dtype=np.intp)

    def careful(tile: slice) -> None:
        some = rows[tile]
        nearest, near = np.empty(len(some), dtype=np.intp), np.empty(len(some))
        look(part.X, nearest, near, some)
        labels[some], squares[some] = nearest, near

    part.for_tiles(careful, len(centers), len(rows))


def _largest_square(part: Part, squares: Floats) -> float:
    squares = stable_squares(squares, part.n_features)
    active = squares if part.active is None else squares[part.active]
    return float(active.max(initial=0.0))
