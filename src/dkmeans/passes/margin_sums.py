"""Passes over stored margins; each set of margins has a number.

`growth.margins` explains the quantities.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from dkmeans.exact.group_sums import GroupSums, KeyedSums, by_values
from dkmeans.exact.record import Record
from dkmeans.kernels.block import Floats, Indices, dense_rows
from dkmeans.kernels.threads import tiles
from dkmeans.passes.contract import Effect, Pass
from dkmeans.passes.part import Bools, Part
from dkmeans.passes.results import (
    CountPass,
    GroupSumsPass,
    KeyedSumsPass,
    MaximumPass,
    SlicesPass,
)
from dkmeans.passes.rounding import bound_values, sum_values, sum_values_by
from dkmeans.passes.row_state import NO_CELL, RowMargins, RowState, group_codes
from dkmeans.passes.summing import sum_rows, sum_shares

TILE_VALUES = 1 << 20  # values of the rows in a tile


@dataclass(frozen=True)
class SumPaid(SlicesPass):
    """Sum 1 less the cost of each row."""

    needs_rows = False

    margins: int
    slope: float
    units: Floats

    def visit(self, part: Part, state: RowState) -> tuple[RowState, Floats]:
        """Visit one part."""
        found = state.margins(self.margins)
        paid = 1 - expit(self.slope * found.relative())
        return state, sum_values(part, paid, found.rows, self.units)


class RowCost(Enum):
    """What a row costs, with f = sigmoid(slope * margin)."""

    ERROR = "f"  # a smooth count of errors
    BORDER = "f (1 - f)"  # only rows near the border count


@dataclass(frozen=True)
class SumCosts(SlicesPass):
    """Sum costs over the rows of each prototype's class."""

    needs_rows = False

    margins: int
    slope: float
    row_cost: RowCost
    units: Floats

    def visit(self, part: Part, state: RowState) -> tuple[RowState, Floats]:
        """Visit one part."""
        found = state.margins(self.margins)
        f = expit(self.slope * found.relative())
        costs = f if self.row_cost is RowCost.ERROR else f * (1 - f)
        k = found.n_prototypes
        return state, sum_values_by(part, found.own, k, costs, found.rows, self.units)


@dataclass(frozen=True)
class OwnCounts(Record):
    """Numbers of rows by own prototype."""

    lost: Indices  # rows that another class wins
    won: Indices  # the others


@dataclass(frozen=True)
class CountLosses(Pass[OwnCounts]):
    """Count the rows of each prototype's class that another class wins, and the others."""

    needs_rows = False

    margins: int
    classes: Indices  # of the prototypes

    def visit(self, part: Part, state: RowState) -> tuple[RowState, OwnCounts]:
        """Visit one part."""
        found = state.margins(self.margins)
        lost, k = _lost(found, self.classes), found.n_prototypes
        return state, OwnCounts(
            np.bincount(found.own[lost], minlength=k), np.bincount(found.own[~lost], minlength=k)
        )

    def merge(self, results: Sequence[OwnCounts]) -> OwnCounts:
        """Add up."""
        return OwnCounts(
            np.sum([result.lost for result in results], axis=0),
            np.sum([result.won for result in results], axis=0),
        )


@dataclass(frozen=True)
class SumWon(GroupSumsPass):
    """Remove rows that another class wins from some cells, and sum the others.

    Parameters
    ----------
    margins : int
    classes : array of shape (k,)
        Of the prototypes.
    which : array of shape (k,)
        Whether rows are taken out of each cell.
    """

    effect = Effect.AMENDS_CELLS

    margins: int
    classes: Indices
    which: Bools

    def visit(self, part: Part, state: RowState) -> tuple[RowState, GroupSums]:
        """Visit one part."""
        found = state.margins(self.margins)
        labels = state.cells.labels.copy()
        labels[found.rows[_lost(found, self.classes) & self.which[found.own]]] = NO_CELL
        state = state.with_labels(labels)
        return state, sum_rows(part, group_codes(part, state))


@dataclass(frozen=True)
class SumSharesByMargin(GroupSumsPass):
    """Sum rows by own prototype, with shares that decrease with the distance beyond the border.

    Shares are rounded to coarse steps, so that rounding does not decide which means are equal.
    """

    margins: int
    slope: float
    steps: int

    def visit(self, part: Part, state: RowState) -> tuple[RowState, GroupSums]:
        """Visit one part."""
        found = state.margins(self.margins)
        rows = found.rows
        shares = np.rint(self.steps * expit(-self.slope * found.relative())) / self.steps
        codes = found.own.astype(np.intp) * part.n_classes + state.classes[rows]
        return state, sum_shares(part, codes, rows, shares)


@dataclass(frozen=True)
class SumWinnerWeights(KeyedSumsPass):
    """Sum weights by winning prototype and class."""

    needs_rows = False

    margins: tuple[int, ...]
    units: Floats

    def visit(self, part: Part, state: RowState) -> tuple[RowState, KeyedSums]:
        """Visit one part."""
        found = state.margins(*self.margins)
        rows = found.rows
        codes = found.winner.astype(np.intp) * part.n_classes + state.classes[rows]
        keys, group = np.unique(codes, return_inverse=True)
        ones = np.ones(len(codes))
        slices = sum_values_by(part, group, len(keys), ones, rows, self.units)
        return state, KeyedSums(keys, slices)


@dataclass(frozen=True)
class BoundInertia(MaximumPass):
    """Find the largest term of `SumInertia`."""

    needs_rows = False

    margins: tuple[int, ...]

    def visit(self, part: Part, state: RowState) -> tuple[RowState, float]:
        """Visit one part."""
        found = state.margins(*self.margins)
        return state, bound_values(part, found.least(), found.rows)


@dataclass(frozen=True)
class SumInertia(SlicesPass):
    """Sum squared distances to the nearest prototype."""

    needs_rows = False

    margins: tuple[int, ...]
    units: Floats

    def visit(self, part: Part, state: RowState) -> tuple[RowState, Floats]:
        """Visit one part."""
        found = state.margins(*self.margins)
        return state, sum_values(part, found.least(), found.rows, self.units)


@dataclass(frozen=True)
class CountMoved(CountPass):
    """Count rows whose winning prototype has changed."""

    needs_rows = False

    margins: tuple[int, ...]
    before: tuple[int, ...] | None  # earlier margins; None for the cells

    def visit(self, part: Part, state: RowState) -> tuple[RowState, int]:
        """Visit one part."""
        found = state.margins(*self.margins)
        if self.before is None:
            moved = state.cells.labels[found.rows] != found.winner
        else:
            moved = state.margins(*self.before).winner != found.winner
        return state, int(moved.sum())


@dataclass(frozen=True)
class WorstRows(Record):
    """Different rows, by descending margin and then by their values."""

    relative: Floats  # shape (m,): margins
    values: npt.NDArray[np.floating]  # shape (m, d)

    @staticmethod
    def merge(several: Sequence["WorstRows"], count: int) -> "WorstRows":
        """Choose the `count` rows with the largest margins; identical rows count once."""
        relative = np.concatenate([one.relative for one in several])
        values = np.concatenate([one.values for one in several])
        order = by_values(values, -relative)
        relative, values = relative[order], values[order]
        first = np.ones(len(values), dtype=bool)
        first[1:] = (values[1:] != values[:-1]).any(axis=1)
        return WorstRows(relative[first][:count], values[first][:count])


@dataclass(frozen=True)
class FindWorst(Pass[WorstRows]):
    """Find the `count` different rows of a class with the largest margins."""

    margins: int
    of_class: int
    count: int

    def visit(self, part: Part, state: RowState) -> tuple[RowState, WorstRows]:
        """Visit one part."""
        found, d = state.margins(self.margins), part.n_features
        relative, numbers = found.relative(), found.rows
        mine = (state.classes[numbers] == self.of_class) & (found.near > 0) & (found.far > 0)
        rows = np.flatnonzero(mine)
        rows = rows[np.argsort(-relative[rows], kind="stable")]
        worst = WorstRows(np.empty(0), np.empty((0, d), dtype=part.X.dtype))
        for tile in tiles(len(rows), max(self.count, TILE_VALUES // d)):
            here = rows[tile]
            if len(worst.relative) == self.count and relative[here[0]] < worst.relative[-1]:
                break
            more = WorstRows(relative[here], dense_rows(part.X, numbers[here]))
            worst = WorstRows.merge([worst, more], self.count)
        return state, worst

    def merge(self, results: Sequence[WorstRows]) -> WorstRows:
        """Choose the worst of all."""
        return WorstRows.merge(results, self.count)


@dataclass(frozen=True)
class FindExtremes(Pass[dict[int, npt.NDArray[np.floating]]]):
    """Find the first and last row, sorted by value, among the rows that each prototype wins.

    The result has an array of shape (2, d) for each prototype that wins rows.
    """

    margins: int
    which: Indices

    def visit(
        self, part: Part, state: RowState
    ) -> tuple[RowState, dict[int, npt.NDArray[np.floating]]]:
        """Visit one part."""
        found = state.margins(self.margins)
        extremes: dict[int, npt.NDArray[np.floating]] = {}
        winner = found.winner
        for p in self.which.tolist():
            rows = found.rows[winner == p]
            for tile in tiles(len(rows), max(1, TILE_VALUES // part.n_features)):
                values = dense_rows(part.X, rows[tile])
                if p in extremes:
                    values = np.concatenate([extremes[p], values])
                extremes[p] = _outermost(values)
        return state, extremes

    def merge(
        self, results: Sequence[dict[int, npt.NDArray[np.floating]]]
    ) -> dict[int, npt.NDArray[np.floating]]:
        """Choose the first and last row over all parts."""
        merged = {}
        for p in self.which.tolist():
            several = [result[p] for result in results if p in result]
            if several:
                merged[p] = _outermost(np.concatenate(several))
        return merged


def _outermost(rows: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Return the first and last row in the order of their values."""
    return rows[by_values(rows)[[0, -1]]]


def _lost(found: RowMargins, classes: Indices) -> Bools:
    """Return which rows another class wins."""
    return classes[found.winner] != classes[found.own]
