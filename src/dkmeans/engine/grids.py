"""The grids on which sums are exact, for all parts of the rows alike."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dkmeans.engine.memory import Memory
from dkmeans.kernels.block import Floats
from dkmeans.kernels.exact import cut, grid_units, rounding_units, slice_count

_ROUNDING = 1 + 1e-6  # for bounds
_MOST_BITS = 160  # that sums keep, beside the range of the weights
_TERM_BITS = 40  # that values of rows keep below the largest, where they are rounded
_SQUARE_BITS = 54  # the same for squared distances, before they are weighted


@dataclass(frozen=True)
class Facts:
    """What must be known of all rows before any can be summed."""

    n_rows: int
    n_active: int  # rows whose weight is not 0
    n_values: int  # that are stored
    n_terms: int | None  # most values that a row of a CSR matrix holds; None for arrays
    largest: Floats  # magnitude of each column
    smallest: Floats  # the same, zeros aside
    heaviest: float  # weight of a row; 1 without weights
    lightest: float  # the same, zeros aside
    weight_bits: int  # most that a weight has; 0 without weights
    zeros: bool  # whether any row has weight 0

    @classmethod
    def of_all(cls, parts: Sequence["Facts"]) -> "Facts":
        """Put the facts of several parts together."""
        terms = [part.n_terms for part in parts if part.n_terms is not None]
        return cls(
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
class Grids:
    """Units so fine that sums of rows are exact, or at least far more precise than a float64."""

    n_terms: int
    n_slices: int
    n_square_slices: int
    bounds: Floats  # of each column, times weights
    heaviest: float

    @classmethod
    def of(cls, facts: Facts, dtype: np.dtype[np.floating], remembered: Memory | None) -> "Grids":
        """Choose grids for rows, and for what is remembered of earlier ones."""
        there = facts.largest > 0
        bits = int(np.finfo(dtype).nmant) + 2
        exponents = np.frexp(facts.largest[there])[1] - np.frexp(facts.smallest[there])[1]
        bits += int(np.max(exponents, initial=0))
        square_bits, spread = _SQUARE_BITS, 0
        if facts.weight_bits:
            spread = int(np.ceil(np.log2(facts.heaviest / facts.lightest)))
            bits += facts.weight_bits + spread
            square_bits += facts.weight_bits
        bounds, heaviest, n_terms = facts.largest * facts.heaviest, facts.heaviest, facts.n_rows
        if remembered is not None and len(remembered):
            # Each entry of the memory is one more term, and a heavy one of many digits.
            n_terms += len(remembered)
            bounds = np.maximum(bounds, np.abs(remembered.sums[0]).max(axis=0))
            heaviest = max(heaviest, float(remembered.weights[0].max()))
            spread += int(np.ceil(np.log2(heaviest / facts.heaviest)))
            bits = square_bits = _MOST_BITS
        n_slices = slice_count(n_terms, min(bits, _MOST_BITS) + spread)
        n_square_slices = slice_count(n_terms, square_bits + spread)
        return cls(n_terms, n_slices, n_square_slices, bounds, heaviest)

    def features(self, more: int = 0) -> Floats:
        """Units of columns, in some more slices than usual."""
        return self.of_bound(self.bounds, more)

    def weights(self, more: int = 0) -> Floats:
        """Units of weights."""
        return self.of_bound(self.heaviest, more)

    def squares(self, largest: float, remembered: float = 0.0) -> "SquareGrid":
        """Grid of squared distances of rows, and of weighted ones that are remembered."""
        grain = float(rounding_units(np.array([largest]), 1, _SQUARE_BITS)[-1, 0])
        bound = np.array([max(largest * self.heaviest, remembered) * _ROUNDING])
        return SquareGrid(grain, grid_units(bound, self.n_terms, self.n_square_slices))

    def of_bound(self, bounds: Floats | float, more: int = 0) -> Floats:
        """Units of any values within bounds."""
        return grid_units(np.atleast_1d(bounds), self.n_terms, self.n_slices + more)


@dataclass(frozen=True)
class SquareGrid:
    """How squared distances are summed.

    They are rounded before they are weighted, to a grain that does not depend on weights or on how
    many rows there are. From there on sums are exact, so whole weights are the rows so many times.
    """

    grain: float
    units: Floats  # of rounded squares times weights

    def rounded(self, squares: Floats) -> Floats:
        """Round to the grain."""
        return cut(squares[:, None], np.array([[self.grain]]))[0, :, 0]


@dataclass(frozen=True)
class Scale:
    """How values of rows are weighted and rounded, so that their sums are exact in any order.

    What a value is rounded to does not depend on weights or on how many rows there are: whole
    weights are the rows so many times, to the last bit.
    """

    whole: bool  # whether weights are whole numbers of a total that is not too large
    n_terms: int
    by_class: Floats | None = None  # factors of the weights, which are whole but for them

    def units(self, bounds: Floats | float) -> Floats:
        """Units of values within bounds, times factors, or weights if they are not whole."""
        return rounding_units(np.atleast_1d(bounds), self.n_terms, _TERM_BITS)
