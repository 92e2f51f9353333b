"""Passes that sum the gradient of the robust margin cost with respect to a projection.

The gradient of the cost of a row x with respect to the projection A is the outer product of x and
of the gradient g with respect to the projected row z = x A. Standardised features and g are rounded
to 14 bits each, sign included, so that the products of 2**13 rows add up exactly in any order, and
BLAS may compute them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dkmeans.exact.record import Record
from dkmeans.geometry import Learned
from dkmeans.kernels.block import Floats, Indices, Matrix
from dkmeans.kernels.projection import GRID, grid_factors
from dkmeans.kernels.threads import for_each, tiles
from dkmeans.passes.batch import Batch
from dkmeans.passes.facts import Box
from dkmeans.passes.gradient import GradientSums, GradientUnits, sum_pulls
from dkmeans.passes.margin_search import FindMargins, MarginPass, search_batch
from dkmeans.passes.part import Part
from dkmeans.passes.results import MaximumPass
from dkmeans.passes.robust_margin import Pulls, RobustCost, squared_gaps
from dkmeans.passes.rounding import bound_values, split_weights
from dkmeans.passes.row_state import RowMargins, RowState

TILE_VALUES = 1 << 19  # of standardised rows at a time
MAX_TILE_ROWS = 1 << 13
VALUE_BITS = 13  # of rounded values, without the sign
MAX_DEVIATIONS = 16.0  # features farther from zero do not pull harder at the projection
MAX_PIECE = 2.0**13  # of a weight
MAX_WHOLE = 2.0**53  # whole numbers up to this are exact
COARSE = 2.0**26  # unit of the leading part of sums of products, in units of the products
MAX_COPIES = 2.0**21  # of all rows; products of fewer add up exactly, without a leading part


@dataclass(frozen=True)
class FindReach(MaximumPass):
    """Find the largest magnitude of a standardised feature."""

    geometry: Learned

    def visit(self, part: Part, state: RowState) -> tuple[RowState, float]:
        """Visit one part."""
        largest, lock = [0.0], Lock()

        def task(tile: slice) -> None:
            rows = part.raw[tile] if part.active is None else part.raw[tile][part.active[tile]]
            values = self.geometry.standardised(rows)
            values = values.data if sp.issparse(values) else values
            most = float(np.abs(values).max(initial=0.0))
            with lock:
                largest[0] = max(largest[0], most)

        for_each(task, _tiles(len(part), part.raw.shape[1]), part.n_threads)
        return state, largest[0]


@dataclass(frozen=True)
class BoundRowGradients(MaximumPass):
    """Bound the gradients of the cost with respect to rows, between known margins."""

    needs_rows = False

    margins: int
    centers: npt.NDArray[np.floating]
    cost: RobustCost

    def visit(self, part: Part, state: RowState) -> tuple[RowState, float]:
        """Visit one part."""
        found = state.margins(self.margins)
        pulls = self.cost.pulls(found, squared_gaps(found, self.centers, part.loops))
        near, far = found.sides
        lengths = np.abs(pulls.own) * np.sqrt(near) + np.abs(pulls.rival) * np.sqrt(far)
        return state, bound_values(part, lengths, found.rows)


@dataclass(frozen=True)
class MetricGradientSums(Record):
    """Sums over a batch of rows, which are exact."""

    pulls: GradientSums
    # Products of rounded features, and of 1, with rounded gradients: multiples of `COARSE`, which
    # many rows have, and the rest, in units of the products. Shape (2, d + 1, p).
    products: Floats
    largest: float  # magnitude of an entry of the gradient with respect to a row
    box: Box  # of the projected rows


@dataclass(frozen=True)
class SumMetricGradient(MarginPass[MetricGradientSums]):
    """Project a batch of rows, find their margins, and sum the gradient of their cost.

    Parameters
    ----------
    search : FindMargins
    geometry : Learned
        Maps the rows, whatever the part does.
    cost, final : RobustCost
        At the present slope, and at the final one.
    units : GradientUnits
    bound : float
        Entries of gradients with respect to rows that are larger count as this.
    """

    search: FindMargins
    geometry: Learned
    cost: RobustCost
    final: RobustCost
    units: GradientUnits
    bound: float

    def visit(self, part: Part, state: RowState) -> tuple[RowState, MetricGradientSums]:
        """Visit one part."""
        some, state, found, counts = search_batch(part, state, self.search, self.geometry)
        gaps = squared_gaps(found, self.search.prototypes.centers, part.loops)
        costs, pulls = self.final.values(found, gaps), self.cost.pulls(found, gaps)
        nowhere = np.zeros(some.n_features)
        sums = sum_pulls(some, found, counts, costs, pulls, nowhere, self.units)
        products, largest = self._products(some, found, pulls)
        X = some.X if found.some is None else some.X[found.some]
        box = Box(
            X.min(axis=0, initial=np.inf).astype(np.float64),
            X.max(axis=0, initial=-np.inf).astype(np.float64),
        )
        return state, MetricGradientSums(sums, products, largest, box)

    def draws(self) -> Batch | None:
        """Return the batch; None for all rows."""
        batch = self.search.batch
        return None if batch is None or batch.count == 1 else batch

    def searching(self) -> FindMargins:
        """Return the search for margins."""
        return self.search

    def replay(self, part: Part, state: RowState) -> RowState:
        """Find the margins again."""
        return search_batch(part, state, self.search, self.geometry)[1]

    def merge(self, results: Sequence[MetricGradientSums]) -> MetricGradientSums:
        """Add up sums, and take the largest values."""
        products = results[0].products
        if len(results) > 1:
            products = np.sum([one.products for one in results], axis=0)
            products[0] += _cut_coarse(products[1])
        return MetricGradientSums(
            GradientSums.merge([one.pulls for one in results]),
            products,
            max(one.largest for one in results),
            Box(
                np.min([one.box.low for one in results], axis=0),
                np.max([one.box.high for one in results], axis=0),
            ),
        )

    def _products(self, some: Part, found: RowMargins, pulls: Pulls) -> tuple[Floats, float]:
        """Sum products, and find the largest entry of a gradient."""
        d, p = some.raw.shape[1], some.n_features
        factors, times = split_weights(some, found.rows)
        few = (len(found.rows) if times is None else times.sum()) < MAX_COPIES
        sums, largest, lock = np.zeros((2, d + 1, p)), [0.0], Lock()

        def task(tile: slice) -> None:
            rows = tile if found.some is None else found.some[tile]  # a slice copies nothing
            gradients = self._row_gradients(some.X[rows], found, pulls, tile)
            if factors is not None:
                gradients *= factors[tile][:, None]
            most = float(np.abs(gradients).max(initial=0.0))
            gradients = _rounded(gradients, self.bound)
            values = standardised_and_rounded(some, rows, self.geometry)
            copies = None if times is None else times[tile]
            for unit, terms in _pieces(gradients, copies, MAX_COPIES if few else MAX_PIECE):
                product = np.vstack([values.T @ terms, terms.sum(axis=0)])
                if few:
                    with lock:  # sums are exact, so the order of tiles does not matter
                        sums[1] += product
                    continue
                product *= unit
                coarse = _cut_coarse(product)
                with lock:
                    sums[0] += coarse
                    sums[1] += product
            with lock:
                largest[0] = max(largest[0], most)

        for_each(task, _tiles(len(found.rows), d), some.n_threads)
        return sums, largest[0]

    def _row_gradients(
        self, rows: npt.NDArray[np.floating], found: RowMargins, pulls: Pulls, tile: slice
    ) -> Floats:
        """Return the gradients of the costs of some rows with respect to the projected rows."""
        centers = self.search.prototypes.centers.astype(np.float64)
        gradients = np.zeros(rows.shape)
        for pull, index in ((pulls.own, found.own), (pulls.rival, found.rival)):
            steps = centers[index[tile]]
            np.subtract(rows, steps, out=steps)
            steps *= pull[tile, None]
            gradients += steps
        return gradients


def unit_of_products(bound: float) -> float:
    """Return the unit of the products of features with gradients within a bound."""
    return MAX_DEVIATIONS * bound * 4.0**-VALUE_BITS


def in_one_part(products: Floats) -> Floats:
    """Put both parts of sums of products together if that is exact; divisions then take less."""
    whole: Floats = products.sum(axis=0, keepdims=True)
    return whole if np.abs(whole).max() <= MAX_WHOLE else products


def _pieces(
    gradients: Floats, copies: Floats | None, most: float
) -> Iterator[tuple[float, Floats]]:
    """Multiply gradients by pieces of weights; yield the unit of each piece, and the product."""
    if copies is None:
        yield 1.0, gradients
        return
    unit = 1.0
    while copies.any():
        higher = np.floor(copies / most)
        yield unit, gradients * (copies - higher * most)[:, None]
        copies, unit = higher, unit * most


def _cut_coarse(sums: Floats) -> Floats:
    """Return the multiples of `COARSE` in sums, which keep the rest."""
    coarse = np.rint(sums / COARSE)
    coarse *= COARSE
    sums -= coarse
    return coarse


def standardised_and_rounded(part: Part, rows: Indices | slice, geometry: Learned) -> Matrix:
    """Return standardised rows as whole numbers of at most 2**13."""
    X = part.raw[rows]
    if part.loops is None or sp.issparse(X):
        return _rounded(geometry.standardised(X), MAX_DEVIATIONS)
    top = 2.0**VALUE_BITS
    factors, ratio = grid_factors(geometry.scale), GRID * (top / MAX_DEVIATIONS)
    rounded: Floats = part.loops.to_multiples(X, geometry.shift, factors, ratio, top)
    return rounded


def _rounded(values: Matrix, bound: float) -> Matrix:
    """Round values to whole numbers of at most 2**13; larger ones than the bound count as it."""
    top = 2.0**VALUE_BITS
    if sp.issparse(values):
        data = _rounded(values.data, bound)
        return sp.csr_array((data, values.indices, values.indptr), shape=values.shape)
    scaled = values * (top / bound if bound else 0.0)  # without a bound all values are 0
    np.clip(scaled, -top, top, out=scaled)
    return np.rint(scaled, out=scaled)


def _tiles(n_rows: int, n_features: int) -> list[slice]:
    return tiles(n_rows, int(np.clip(TILE_VALUES // n_features, 1, MAX_TILE_ROWS)))
