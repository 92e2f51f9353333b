"""Passes that sum features and their products over the rows that were read."""

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np
import scipy.sparse as sp

from dkmeans.kernels.block import Floats, Indices, dense_rows
from dkmeans.kernels.exact import cut, total
from dkmeans.kernels.projection import standardise
from dkmeans.kernels.threads import for_each, tiles
from dkmeans.passes.part import Part
from dkmeans.passes.results import SlicesPass
from dkmeans.passes.rounding import split_weights
from dkmeans.passes.row_state import RowState

TILE_VALUES = 1 << 19  # of dense rows at a time
MAX_TILE_ROWS = 1 << 13
MAX_DEVIATIONS = 16.0  # values farther from the mean do not tilt the axes further
PRODUCT_GRID = 2.0**-9  # of values that are multiplied
MAX_PIECE = 2.0**13  # of a weight
COARSE = 2.0**8  # unit of the leading part of sums of products


@dataclass(frozen=True)
class SumMoments(SlicesPass):
    """Sum u and u^2 with u = (x - origin) * factor, by feature; shape (n_slices, 2 * d).

    The origin must be 0 or outside of the range of a feature, and |u| at most 1.
    """

    origin: Floats  # shape (d,)
    factors: Floats  # shape (d,)
    units: Floats

    def visit(self, part: Part, state: RowState) -> tuple[RowState, Floats]:
        """Visit one part."""
        d, lock = part.raw.shape[1], Lock()
        sums = np.zeros((len(self.units), 2 * d))

        def task(tile: slice) -> None:
            rows = np.arange(tile.start, tile.stop)
            if part.active is not None:
                rows = rows[part.active[rows]]
            found = self._sums(part, rows)
            with lock:  # sums are exact, so the order of tiles does not matter
                np.add(sums, found, out=sums)

        for_each(task, tiles(len(part), _tile_rows(part)), part.n_threads)
        return state, sums

    def _sums(self, part: Part, rows: Indices) -> Floats:
        factors, times = split_weights(part, rows)
        X, d = part.raw[rows], part.raw.shape[1]
        if part.loops is not None and not sp.issparse(X):
            sums, ones = np.zeros((len(self.units), 2, d)), np.ones(len(rows))
            weights, copies = (ones if w is None else w for w in (factors, times))
            units = self.units.ravel()
            part.loops.moments(X, self.origin, self.factors, weights, copies, units, sums)
            return sums.reshape(len(self.units), 2 * d)
        if sp.issparse(X) and not self.origin.any():
            u = X.data.astype(np.float64) * self.factors[X.indices]
            owner = np.repeat(np.arange(len(rows)), np.diff(X.indptr))
            column = X.indices
        else:
            values = (X.toarray() if sp.issparse(X) else X).astype(np.float64)
            u = ((values - self.origin) * self.factors).ravel()
            owner, column = np.repeat(np.arange(len(rows)), d), np.tile(np.arange(d), len(rows))
        sums = np.empty((len(self.units), 2, d))
        for power, terms in enumerate((u, u * u)):
            terms = terms if factors is None else terms * factors[owner]
            pieces = cut(terms[:, None], self.units)[:, :, 0]
            pieces = pieces if times is None else pieces * times[owner]
            for level, piece in enumerate(pieces):
                sums[level, power] = np.bincount(column, piece, d)
        return sums.reshape(len(self.units), 2 * d)


@dataclass(frozen=True)
class SumProducts(SlicesPass):
    """Sum the products of all pairs of standardised features, and of each with 1.

    The result has the shape (2, d + 1, d + 1): multiples of `COARSE`, and the rest below it.
    Values are clipped to 13 bits, weights are cut into pieces of as many bits, and a tile has at
    most 2**13 rows: its products, added in any order, are exact in float64. So are the two sums.
    """

    shift: Floats  # shape (d,)
    scales: Floats  # shape (d,)
    weight_unit: float  # weights count as whole multiples of it

    def visit(self, part: Part, state: RowState) -> tuple[RowState, Floats]:
        """Visit one part."""
        d, lock = part.raw.shape[1], Lock()
        sums = np.zeros((2, d + 1, d + 1))

        def task(tile: slice) -> None:
            rows = np.arange(tile.start, tile.stop)
            if part.active is not None:
                rows = rows[part.active[rows]]
            values = self._rounded(part, rows)
            weights = whole_weights(part, rows, self.weight_unit)
            unit = 1.0
            while weights.any():
                higher = np.floor(weights / MAX_PIECE)
                pieces = weights - higher * MAX_PIECE
                # A product with the same array takes half the time.
                weighed = values if (pieces == 1).all() else values * pieces[:, None]
                found = weighed.T @ values
                found *= unit
                coarse = _cut_coarse(found)
                with lock:
                    sums[0] += coarse
                    sums[1] += found
                    sums[0] += _cut_coarse(sums[1])
                weights, unit = higher, unit * MAX_PIECE

        # Every tile has products of its own: it should have more rows than these.
        rows = min(max(_tile_rows(part), d), MAX_TILE_ROWS)
        for_each(task, tiles(len(part), rows), part.n_threads)
        return state, sums

    def merge(self, results: Sequence[Floats]) -> Floats:
        """Add up."""
        sums = super().merge(results)
        sums[0] += _cut_coarse(sums[1])
        return sums

    def _rounded(self, part: Part, rows: Indices) -> Floats:
        values = standardise(dense_rows(part.raw, rows), self.shift, self.scales)
        np.clip(values, -MAX_DEVIATIONS, MAX_DEVIATIONS, out=values)
        values = np.rint(values / PRODUCT_GRID) * PRODUCT_GRID
        return np.column_stack([values, np.ones(len(values))])


def covariance_of(sums: Floats) -> Floats:
    """Return the covariance of the features, from the sums of `SumProducts`."""
    products, _ = total(sums)
    products /= products[-1, -1]
    means = products[-1, :-1]
    covariance: Floats = products[:-1, :-1] - means[:, None] * means
    return covariance


def whole_weights(part: Part, rows: Indices, unit: float) -> Floats:
    """Return weights as whole numbers: copies, times class factors or weights in some unit."""
    factors, times = split_weights(part, rows)
    weights = np.ones(len(rows)) if times is None else times
    return weights if factors is None else weights * np.rint(factors / unit)


def _cut_coarse(sums: Floats) -> Floats:
    """Return the multiples of `COARSE` in sums, which keep the rest."""
    coarse = np.floor(sums / COARSE)
    coarse *= COARSE
    sums -= coarse
    return coarse


def _tile_rows(part: Part) -> int:
    return int(np.clip(TILE_VALUES // part.raw.shape[1], 1, MAX_TILE_ROWS))
