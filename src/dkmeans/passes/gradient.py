"""Passes that sum the gradient of the robust margin cost over a batch of rows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dkmeans.exact.group_sums import KeyedSums
from dkmeans.exact.record import Record
from dkmeans.geometry import Geometry
from dkmeans.kernels.block import Floats, Indices
from dkmeans.passes.batch import Batch
from dkmeans.passes.contract import Effect
from dkmeans.passes.margin_search import FindMargins, MarginPass, search_batch
from dkmeans.passes.part import Part
from dkmeans.passes.results import MaximumPass, Pieces, PiecesPass, SlicesPass
from dkmeans.passes.robust_margin import Pulls, RobustCost, squared_gaps
from dkmeans.passes.rounding import add_shifted_rows, bound_values, sum_values, sum_values_by
from dkmeans.passes.row_state import RowMargins, RowState
from dkmeans.passes.sampling import row_hashes


@dataclass(frozen=True)
class KeepHashes(PiecesPass[np.uint64]):
    """Keep the sampling hashes of all rows, from which batches are drawn, and return them."""

    effect = Effect.LASTING

    largest: Floats  # magnitude of each mapped column, shape (d,)
    geometry: Geometry  # maps the rows; a replay may come when they are mapped by another one

    def visit(self, part: Part, state: RowState) -> tuple[RowState, Pieces[np.uint64]]:
        """Visit one part."""
        part = part.configured(replace(part.setting, geometry=self.geometry))
        hashes = row_hashes(part, self.largest)
        return replace(state, hashes=hashes), Pieces.of(part, hashes)


@dataclass(frozen=True)
class SumRobustPaid(SlicesPass):
    """Sum 1 less the robust cost of each row."""

    needs_rows = False

    margins: int
    centers: npt.NDArray[np.floating]  # of the prototypes between which the margins are
    cost: RobustCost
    units: Floats

    def visit(self, part: Part, state: RowState) -> tuple[RowState, Floats]:
        """Visit one part."""
        found = state.margins(self.margins)
        gaps = squared_gaps(found, self.centers, part.loops)
        return state, sum_values(part, 1 - self.cost.values(found, gaps), found.rows, self.units)


@dataclass(frozen=True)
class BoundNear(MaximumPass):
    """Find the largest term of `SumNear`."""

    needs_rows = False

    margins: int

    def visit(self, part: Part, state: RowState) -> tuple[RowState, float]:
        """Visit one part."""
        found = state.margins(self.margins)
        return state, bound_values(part, found.sides[0], found.rows)


@dataclass(frozen=True)
class SumNear(SlicesPass):
    """Sum squared distances to the nearest prototype of the row's class."""

    needs_rows = False

    margins: int
    units: Floats

    def visit(self, part: Part, state: RowState) -> tuple[RowState, Floats]:
        """Visit one part."""
        found = state.margins(self.margins)
        return state, sum_values(part, found.sides[0], found.rows, self.units)


@dataclass(frozen=True)
class GradientUnits:
    """Units of the sums of a gradient, each for values of a known bound."""

    ones: Floats  # of values of at most 1
    pulls: Floats
    strength: Floats
    points: Floats
    gaps: Floats


@dataclass(frozen=True)
class GradientSums(Record):
    """Sums over a batch of rows, as exact slices."""

    counts: Indices  # shape (k,): rows that each prototype wins
    paid: Floats  # shape (s,): 1 less the cost at the final slope
    weights: Floats  # shape (s, k): pulls on each prototype
    strength: Floats  # shape (s, k): magnitudes of pulls, times their length scale
    points: Floats  # shape (s, k, d): pulls times (rows - shift)
    gaps: KeyedSums  # pulls along the gap of a pair of prototypes, by own * k + rival

    @staticmethod
    def merge(several: Sequence["GradientSums"]) -> "GradientSums":
        """Add up."""
        return GradientSums(
            np.sum([one.counts for one in several], axis=0),
            np.sum([one.paid for one in several], axis=0),
            np.sum([one.weights for one in several], axis=0),
            np.sum([one.strength for one in several], axis=0),
            np.sum([one.points for one in several], axis=0),
            KeyedSums.merge([one.gaps for one in several]),
        )


@dataclass(frozen=True)
class SumGradient(MarginPass[GradientSums]):
    """Find the margins of a batch of rows, and sum the gradient of their cost.

    Parameters
    ----------
    search : FindMargins
    cost, final : RobustCost
        At the present slope, and at the final one.
    shift : array of shape (d,)
        Subtracted from rows.
    units : GradientUnits
    """

    search: FindMargins
    cost: RobustCost
    final: RobustCost
    shift: Floats
    units: GradientUnits

    def visit(self, part: Part, state: RowState) -> tuple[RowState, GradientSums]:
        """Visit one part."""
        some, state, found, counts = self._search(part, state)
        gaps = squared_gaps(found, self.search.prototypes.centers, part.loops)
        costs = self.final.values(found, gaps)
        pulls = self.cost.pulls(found, gaps)
        return state, sum_pulls(some, found, counts, costs, pulls, self.shift, self.units)

    def draws(self) -> Batch | None:
        """Return the batch; None for all rows."""
        batch = self.search.batch
        return None if batch is None or batch.count == 1 else batch

    def searching(self) -> FindMargins:
        """Return the search for margins."""
        return self.search

    def replay(self, part: Part, state: RowState) -> RowState:
        """Find the margins again."""
        return self._search(part, state)[1]

    def merge(self, results: Sequence[GradientSums]) -> GradientSums:
        """Add up."""
        return GradientSums.merge(results)

    def _search(self, part: Part, state: RowState) -> tuple[Part, RowState, RowMargins, Indices]:
        """Find and store margins; return the part that they are of, too, and counts."""
        if part.is_resident or self.draws() is None:
            state, counts = self.search.visit(part, state)
            return part, state, state.margins(self.search.number), counts
        # Rows that were read for this pass have no sketches yet: make them for the batch only.
        return search_batch(part, state, self.search, part.setting.geometry, fine=True)


def sum_pulls(
    part: Part,
    found: RowMargins,
    counts: Indices,
    costs: Floats,
    pulls: Pulls,
    shift: Floats,
    units: GradientUnits,
) -> GradientSums:
    """Sum the costs at the final slope, and the pulls at the present one.

    Parameters
    ----------
    part : Part
    found : RowMargins
        Of the rows of the batch.
    counts : array of shape (k,)
        Rows that each prototype wins.
    costs : array of shape (m,)
    pulls : Pulls
    shift : array of shape (d,)
        Subtracted from rows.
    units : GradientUnits
    """
    rows = found.rows
    s, k, d = len(units.pulls), found.n_prototypes, part.n_features
    weights, strength, points = np.zeros((s, k)), np.zeros((s, k)), np.zeros((s, k, d))
    for index, values in ((found.own, pulls.own), (found.rival, pulls.rival)):
        sizes = np.abs(values) * pulls.length
        weights += sum_values_by(part, index, k, values, rows, units.pulls)
        strength += sum_values_by(part, index, k, sizes, rows, units.strength)
        add_shifted_rows(part, rows, index, values, shift, units.points, points)
    paid = sum_values(part, 1 - costs, rows, units.ones)
    gaps = _sum_gaps(part, found, pulls, units.gaps)
    return GradientSums(counts, paid, weights, strength, points, gaps)


def _sum_gaps(part: Part, found: RowMargins, pulls: Pulls, units: Floats) -> KeyedSums:
    """Sum the pulls along the gaps, by pair of prototypes."""
    codes = found.own.astype(np.intp) * found.n_prototypes + found.rival
    keys, group = np.unique(codes, return_inverse=True)
    slices = sum_values_by(part, group, len(keys), pulls.gap, found.rows, units)
    return KeyedSums(keys, slices)
