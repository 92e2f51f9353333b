"""Passes that find properties of rows and weights, before there are cells."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from threading import Lock

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dkmeans.exact.grids import DataFacts, Scale
from dkmeans.exact.record import Record
from dkmeans.kernels.block import Floats, column_magnitudes, max_row_values
from dkmeans.kernels.distances import OwnDistances
from dkmeans.kernels.exact import max_significant_bits
from dkmeans.kernels.reference import stable_squares
from dkmeans.passes.contract import AnyPass, Effect, Pass
from dkmeans.passes.part import Part
from dkmeans.passes.results import MaximumPass, SlicesPass
from dkmeans.passes.rounding import bound_values, multiples, sum_values
from dkmeans.passes.row_state import RowState

MAX_WHOLE_TOTAL = 2.0**40  # total weight up to which an integer weight w equals w copies of a row
FACTOR_TOLERANCE = 2.0**-50  # bounds the relative rounding error of a weight times a factor


@dataclass(frozen=True)
class FindFacts(Pass[DataFacts]):
    """Find the properties of all rows that determine the grids of sums."""

    def visit(self, part: Part, state: RowState) -> tuple[RowState, DataFacts]:
        """Visit one part."""
        X, n_terms = part.X, max_row_values(part.X)
        n_values = X.nnz if sp.issparse(X) else X.size
        row_values = -(-n_values // max(1, X.shape[0]))
        part = part.configured(replace(part.setting, n_terms=n_terms, row_values=row_values))
        # Include held-out rows: their weights may be summed too.
        full = part.weights if part.held is None or part.full_weights is None else part.full_weights
        positive = np.ones(1) if full is None else full[full > 0]
        largest, smallest = _magnitudes(part)
        return state, DataFacts(
            n_rows=X.shape[0],
            n_active=X.shape[0] if part.active is None else int(part.active.sum()),
            n_values=n_values,
            n_terms=n_terms,
            largest=largest,
            smallest=smallest,
            heaviest=float(positive.max(initial=0.0)),
            lightest=float(positive.min(initial=np.inf)),
            weight_bits=0 if full is None else max_significant_bits(positive),
            zeros=part.active is not None,
        )

    def merge(self, results: Sequence[DataFacts]) -> DataFacts:
        """Combine."""
        return DataFacts.merge(results)


@dataclass(frozen=True)
class WeightFacts(Record):
    """Properties of all weights that determine the rounding of weighted sums."""

    whole: bool  # whether weights are integers, apart from class factors
    total: float  # of these numbers
    n_rows: int
    factor: float  # the largest

    def scale(self, by_class: Floats | None) -> Scale:
        """Return how values are weighted, given the class factors."""
        whole = self.whole and self.total <= MAX_WHOLE_TOTAL
        return Scale(whole, int(self.total) if whole else self.n_rows, by_class)


@dataclass(frozen=True)
class FindWeightFacts(Pass[WeightFacts]):
    """Find the properties of all weights that determine the rounding of weighted sums."""

    needs_rows = False

    by_class: Floats | None  # class factors of the weights

    def visit(self, part: Part, state: RowState) -> tuple[RowState, WeightFacts]:
        """Visit one part."""
        n, weights = len(part), part.weights
        if weights is None:
            return state, WeightFacts(True, float(n), n, 1.0)
        factors = np.ones(n) if self.by_class is None else self.by_class[part.given]
        times = multiples(weights, factors)
        error = np.abs(times * factors - weights)
        whole = bool((error <= weights * FACTOR_TOLERANCE).all())
        largest = float(factors[weights > 0].max(initial=0.0))
        return state, WeightFacts(whole, float(times.sum()), n, largest)

    def merge(self, results: Sequence[WeightFacts]) -> WeightFacts:
        """Combine."""
        return WeightFacts(
            all(result.whole for result in results),
            sum(result.total for result in results),
            sum(result.n_rows for result in results),
            max(result.factor for result in results),
        )


@dataclass(frozen=True)
class SumWeights(SlicesPass):
    """Sum the weights of all rows."""

    needs_rows = False

    units: Floats

    def visit(self, part: Part, state: RowState) -> tuple[RowState, Floats]:
        """Visit one part."""
        n = len(part)
        return state, sum_values(part, np.ones(n), np.arange(n), self.units)


@dataclass(frozen=True)
class Box(Record):
    """Smallest and largest value of each column."""

    low: Floats
    high: Floats


@dataclass(frozen=True)
class FindBox(Pass[Box]):
    """Find the smallest and the largest value of each column."""

    def visit(self, part: Part, state: RowState) -> tuple[RowState, Box]:
        """Visit one part."""
        d, lock = part.n_features, Lock()
        low, high = np.full(d, np.inf), np.full(d, -np.inf)

        def task(tile: slice) -> None:
            X = part.X[tile] if part.active is None else part.X[tile][part.active[tile]]
            if not X.shape[0]:
                return
            if sp.issparse(X):
                least, most = (e.toarray().ravel() for e in (X.min(axis=0), X.max(axis=0)))
            else:
                least, most = X.min(axis=0), X.max(axis=0)
            with lock:
                np.minimum(low, least, out=low)
                np.maximum(high, most, out=high)

        part.for_tiles(task, 1)
        return state, Box(low, high)

    def merge(self, results: Sequence[Box]) -> Box:
        """Return the box around all boxes."""
        return Box(
            np.min([result.low for result in results], axis=0),
            np.max([result.high for result in results], axis=0),
        )


@dataclass(frozen=True)
class MeasureSpread(MaximumPass):
    """Find squared distances to a point, and return the largest; `SumSpread` adds them up."""

    effect = Effect.LASTING

    center: npt.NDArray[np.floating]  # shape (1, d)

    def visit(self, part: Part, state: RowState) -> tuple[RowState, float]:
        """Visit one part."""
        distances = OwnDistances(self.center, sparse=sp.issparse(part.X), loops=part.loops)
        squares = np.zeros(len(part))

        def task(tile: slice) -> None:
            n = tile.stop - tile.start
            distances(part.X[tile], np.zeros(n, dtype=np.intp), squares[tile])

        part.for_tiles(task, 1)
        spread = stable_squares(squares, part.n_features)
        if part.active is not None:
            spread[~part.active] = 0.0
        bound = bound_values(part, spread, np.arange(len(part)))
        return replace(state, spread=spread), bound


@dataclass(frozen=True)
class SumSpread(SlicesPass):
    """Sum the squared distances that `MeasureSpread` found, and drop them."""

    needs_rows = False

    units: Floats

    def visit(self, part: Part, state: RowState) -> tuple[RowState, Floats]:
        """Visit one part."""
        assert state.spread is not None, "the spread must be measured first"
        found = sum_values(part, state.spread, np.arange(len(part)), self.units)
        return replace(state, spread=None), found

    def supersedes(self, earlier: AnyPass) -> bool:
        """Return whether an earlier pass found the distances, which are no longer needed."""
        return isinstance(earlier, MeasureSpread)


def _magnitudes(part: Part) -> tuple[Floats, Floats]:
    """Return the largest and smallest nonzero magnitude of each column (0 and inf if none)."""
    d, lock = part.n_features, Lock()
    largest, smallest = np.zeros(d), np.full(d, np.inf)

    def task(tile: slice) -> None:
        X = part.X[tile] if part.active is None else part.X[tile][part.active[tile]]
        if not X.shape[0]:
            return
        tile_largest, tile_smallest = column_magnitudes(X, part.loops)
        with lock:
            np.maximum(largest, tile_largest, out=largest)
            np.minimum(smallest, tile_smallest, out=smallest)

    part.for_tiles(task, 1)
    return largest, smallest
