"""Grids on which sums are exact; all parts of the rows use the same ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dkmeans.exact.record import Record
from dkmeans.kernels.block import Floats
from dkmeans.kernels.exact import cut, grid_units, rounding_units, slice_count

BOUND_SLACK = 1 + 1e-6  # covers the rounding of a bound
MAX_SUM_BITS = 160  # bits of sums, in addition to the range of the weights
TERM_BITS = 40  # bits of rounded values, below the largest
SQUARE_BITS = 54  # bits of rounded squared distances, before weighting


@dataclass(frozen=True)
class DataFacts(Record):
    """Properties of all rows that determine the grids."""

    n_rows: int
    n_active: int  # rows with a positive weight
    n_values: int  # stored values
    n_terms: int | None  # largest number of stored values in a CSR row; None for arrays
    largest: Floats  # largest magnitude in each column
    smallest: Floats  # smallest nonzero magnitude in each column
    heaviest: float  # largest weight of a row; 1 without weights
    lightest: float  # smallest positive weight
    weight_bits: int  # significant bits of a weight, at most; 0 without weights
    zeros: bool  # whether any row has weight 0

    @staticmethod
    def merge(parts: Sequence["DataFacts"]) -> "DataFacts":
        """Combine the facts of several parts."""
        terms = [part.n_terms for part in parts if part.n_terms is not None]
        return DataFacts(
            sum(part.n_rows for part in parts),
            sum(part.n_active for part in parts),
            sum(part.n_values for part in parts),
            max(terms) if terms else None,
            np.max([part.largest for part in parts], axis=0),
            np.min([part.smallest for part in parts], axis=0),
            max(part.heaviest for part in parts),
            min(part.lightest for part in parts),
            max(part.weight_bits for part in parts),
            any(part.zeros for part in parts),
        )


@dataclass(frozen=True)
class EarlierSums:
    """Properties of the sums of earlier rows, which are added to those of the rows."""

    n_entries: int
    bounds: Floats  # largest magnitude in each column
    heaviest: float  # largest weight


@dataclass(frozen=True)
class Grids:
    """Units so fine that sums of rows are exact, or at least far more precise than float64."""

    n_terms: int
    n_slices: int
    n_square_slices: int
    bounds: Floats  # largest weight times magnitude, by column
    heaviest: float

    @classmethod
    def of(
        cls, facts: DataFacts, dtype: np.dtype[np.floating], earlier: EarlierSums | None
    ) -> "Grids":
        """Choose grids for rows, and for the sums of earlier rows."""
        there = facts.largest > 0
        bits = int(np.finfo(dtype).nmant) + 2
        exponents = np.frexp(facts.largest[there])[1] - np.frexp(facts.smallest[there])[1]
        bits += int(np.max(exponents, initial=0))
        square_bits, spread = SQUARE_BITS, 0
        if facts.weight_bits:
            spread = int(np.ceil(np.log2(facts.heaviest / facts.lightest)))
            bits += facts.weight_bits + spread
            square_bits += facts.weight_bits
        bounds, heaviest, n_terms = facts.largest * facts.heaviest, facts.heaviest, facts.n_rows
        if earlier is not None and earlier.n_entries:
            # Each entry is one more term, a heavy one with many digits.
            n_terms += earlier.n_entries
            bounds = np.maximum(bounds, earlier.bounds)
            heaviest = max(heaviest, earlier.heaviest)
            spread += int(np.ceil(np.log2(heaviest / facts.heaviest)))
            bits = square_bits = MAX_SUM_BITS
        n_slices = slice_count(n_terms, min(bits, MAX_SUM_BITS) + spread)
        n_square_slices = slice_count(n_terms, square_bits + spread)
        return cls(n_terms, n_slices, n_square_slices, bounds, heaviest)

    def features(self, more: int = 0) -> Floats:
        """Return the units of the columns, with `more` slices than usual."""
        return self.of_bound(self.bounds, more)

    def weights(self, more: int = 0) -> Floats:
        """Return the units of weights."""
        return self.of_bound(self.heaviest, more)

    def squares(self, largest: float, earlier: float = 0.0) -> "SquareGrid":
        """Return the grid of squared distances of rows and, weighted, of earlier rows."""
        grain = float(rounding_units(np.array([largest]), 1, SQUARE_BITS)[-1, 0])
        bound = np.array([max(largest * self.heaviest, earlier) * BOUND_SLACK])
        return SquareGrid(grain, grid_units(bound, self.n_terms, self.n_square_slices))

    def of_bound(self, bounds: Floats | float, more: int = 0) -> Floats:
        """Return the units of any values within bounds."""
        return grid_units(np.atleast_1d(bounds), self.n_terms, self.n_slices + more)


@dataclass(frozen=True)
class SquareGrid:
    """Grid for sums of squared distances.

    They are rounded before they are weighted, to a grain that does not depend on the weights or on
    the number of rows. From there on sums are exact, so a whole weight w gives the same bits as w
    copies of the row.
    """

    grain: float
    units: Floats  # of rounded squares times weights

    def rounded(self, squares: Floats) -> Floats:
        """Round to the grain."""
        return cut(squares[:, None], np.array([[self.grain]]))[0, :, 0]


@dataclass(frozen=True)
class Scale:
    """Weighting and rounding of values, such that their sums are exact in any order.

    The rounding does not depend on the weights or on the number of rows: an integer weight w gives
    the same bits as w copies of the row.
    """

    whole: bool  # whether weights are integers whose total is not too large
    n_terms: int
    by_class: Floats | None = None  # class factors; weights are integers without them

    def units(self, bounds: Floats | float) -> Floats:
        """Return the units of values within bounds."""
        return rounding_units(np.atleast_1d(bounds), self.n_terms, TERM_BITS)
