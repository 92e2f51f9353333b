"""One part of the rows, and where each of them stands between its own class and the others.

What the quantities mean is told in `margins`. Margins are kept here, each set under a number, as
they are as many as rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.special import expit

from dkmeans.engine.grids import Scale
from dkmeans.engine.judged import JudgedPart
from dkmeans.engine.part import Found
from dkmeans.engine.summable import NOBODY
from dkmeans.engine.sums import Sums
from dkmeans.engine.tally import by_group, by_values
from dkmeans.engine.threads import tiles
from dkmeans.kernels.assign import assign_own_and_rival
from dkmeans.kernels.block import Floats, Indices, dense_rows
from dkmeans.kernels.distances import OwnDistances, reference_squares
from dkmeans.kernels.exact import cut
from dkmeans.kernels.pack import pack
from dkmeans.kernels.reference import stable_bits, stable_squares, to_distance
from dkmeans.kernels.tally import add_sums, rounded_sums
from dkmeans.model.prototypes import Prototypes

_GRAIN = 2.0**-50  # by which a product of a weight and a factor may be off, and then some
_VALUES = 1 << 20  # of the rows that are looked at together
Ends = dict[int, npt.NDArray[np.floating]]  # first and last row of each cell, by their values
Worst = tuple[Floats, npt.NDArray[np.floating]]  # margins of different rows, and the rows


@dataclass(frozen=True)
class PartMargins:
    """For each row that takes part: the prototypes on either side of its border.

    Several such sets are kept for all rows, so their numbers are short.
    """

    k: int  # number of prototypes
    n_features: int
    some: Indices | None  # numbers of the rows; None if all take part
    own: npt.NDArray[np.int32]  # nearest prototype of the row's class
    rival: npt.NDArray[np.int32]  # nearest prototype of another class
    near: Floats  # squared distance to the own
    far: Floats  # squared distance to the rival
    wins: npt.NDArray[np.bool_]  # whether the own is the nearest of all

    @property
    def rows(self) -> Indices:
        """Numbers of the rows."""
        return np.arange(len(self.own)) if self.some is None else self.some

    @property
    def winner(self) -> npt.NDArray[np.int32]:
        """Nearest prototype of all."""
        return np.where(self.wins, self.own, self.rival)

    @property
    def sides(self) -> tuple[Floats, Floats]:
        """Squared distances to the own and to the rival, alike for arrays and CSR matrices."""
        return stable_squares(self.near, self.n_features), stable_squares(self.far, self.n_features)

    def least(self) -> Floats:
        """Squared distances to the nearest prototype."""
        return np.minimum(*self.sides)

    def relative(self) -> Floats:
        """Margins; 0 for rows that lie on both."""
        near, far = self.sides
        sums = near + far
        return np.divide(near - far, sums, out=np.zeros_like(sums), where=sums > 0)

    def found(self) -> Found:
        """Where the rows go."""
        squares = np.where(self.wins, self.near, self.far)
        return Found(self.rows, self.winner.astype(np.intp), squares)

    def pulls(self, slope: float, least: float) -> tuple[Floats, Floats, Floats]:
        """How hard each row pulls its own prototype and pushes its rival, and the length of sums.

        Sums of squared distances below the least count as that.
        """
        f = expit(slope * self.relative())
        steep = slope * f * (1 - f)
        near, far = self.sides
        sums = np.maximum(near + far, least)
        return steep * far / sums**2, -steep * near / sums**2, np.sqrt(sums)


@dataclass(frozen=True)
class WeightFacts:
    """What must be known of all weights before weighted values can be summed."""

    whole: bool  # whether weights are whole numbers, but for factors by class
    total: float  # of these numbers
    n_rows: int
    factor: float  # the largest

    @classmethod
    def of_all(cls, parts: Sequence["WeightFacts"]) -> "WeightFacts":
        """Put the facts of several parts together."""
        return cls(
            all(part.whole for part in parts),
            sum(part.total for part in parts),
            sum(part.n_rows for part in parts),
            max(part.factor for part in parts),
        )


class Part(JudgedPart):
    """Rows with their cells and margins."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._margins: dict[int, PartMargins] = {}
        self._scale = Scale(whole=False, n_terms=1)

    def weight_facts(self, by_class: Floats | None) -> WeightFacts:
        """Tell what sums of weighted values need to know."""
        n = len(self.y)
        if self.weights is None:
            return WeightFacts(True, float(n), n, 1.0)
        factors = np.ones(n) if by_class is None else by_class[self.given]
        times = _multiples(self.weights, factors)
        whole = bool((np.abs(times * factors - self.weights) <= self.weights * _GRAIN).all())
        largest = float(factors[self.weights > 0].max(initial=0.0))
        return WeightFacts(whole, float(times.sum()), n, largest)

    def set_scale(self, scale: Scale) -> None:
        """Take over how values are rounded."""
        self._scale = scale

    def margins(self, prototypes: Prototypes, number: int, forget: list[int]) -> Indices:
        """Find each row's own and rival prototype, and return how many rows each wins.

        Parameters
        ----------
        prototypes : Prototypes
            Of two classes at least. Rows of classes that have no prototype take no part.
        number : int
            Under which to keep the result.
        forget : list of int
            What need not be kept any longer.
        """
        for old in forget:
            self._margins.pop(old, None)
        centers, classes = prototypes.centers, prototypes.classes
        n, sparse = self.X.shape[0], sp.issparse(self.X)
        packed = pack(
            centers, sparse=sparse, loops=self.loops, classes=classes, n_terms=self.n_terms
        )
        distances = OwnDistances(centers, sparse=sparse, loops=self.loops)
        takes_part = np.isin(self.y, classes)
        if self.active is not None:
            takes_part &= self.active
        columns = {int(c): np.flatnonzero(classes == c) for c in np.unique(classes)}
        own, rival = np.zeros(n, dtype=np.int32), np.zeros(n, dtype=np.int32)
        near, far = np.zeros(n), np.zeros(n)

        def task(part: Indices) -> None:
            part = part[takes_part[part]]
            if not len(part):
                return
            runs = [(run, columns[c]) for c, run in self.runs_of_classes(part)]
            found = np.empty((2, len(part)), dtype=np.intp)
            squares = np.empty((2, len(part)))
            assign_own_and_rival(self.X, packed, runs, found[0], found[1], part)
            for side in (0, 1):
                distances(self.X, found[side], squares[side], part)
            if sparse:
                self._settle_ties(centers, part, found, squares)
            own[part], rival[part] = found
            near[part], far[part] = squares

        self.for_classes(task, 2 * len(centers))
        taken = None
        if not takes_part.all():
            taken = np.flatnonzero(takes_part)
            own, rival, near, far = own[taken], rival[taken], near[taken], far[taken]
        # The nearest of all, as `predict_cluster` sees it.
        d_own, d_rival = (to_distance(d, centers.dtype) for d in (near, far))
        wins = (d_own < d_rival) | ((d_own == d_rival) & (own < rival))
        k, d = centers.shape
        margins = PartMargins(k, d, taken, own, rival, near, far, wins)
        self._margins[number] = margins
        return np.bincount(margins.winner, minlength=len(centers))

    def _settle_ties(
        self, centers: npt.NDArray[np.floating], rows: Indices, found: Indices, squares: Floats
    ) -> None:
        """Let the reference decide who wins rows that are as far from their own as from the rival.

        Parameters
        ----------
        centers : array of shape (k, d)
        rows : array of shape (n,)
        found : array of shape (2, n)
            The own centre of each row, and its rival.
        squares : array of shape (2, n)
            INOUT. Rounded squared distances to them.
        """
        grain = 2.0 ** (1 - stable_bits(centers.shape[1])) + 4 * float(np.finfo(centers.dtype).eps)
        near, far = squares
        tied = np.flatnonzero(np.abs(near - far) <= grain * (near + far))
        for side in (0, 1):
            there = reference_squares(self.X, rows[tied], centers, found[side, tied])
            squares[side, tied] = there

    def assign_as_seen(
        self, prototypes: Prototypes, came_from: Indices, changes: bool, number: int
    ) -> Any:
        """Assign rows as their margins say."""
        return self.assign(prototypes, came_from, changes, self._margins[number].found())

    def paid(self, number: int, slope: float, units: Floats) -> Floats:
        """Sum up 1 less the cost of each row."""
        margins = self._margins[number]
        return self._sum(1 - expit(slope * margins.relative()), margins.rows, units)

    def costs(self, number: int, slope: float, wary: bool, units: Floats) -> Floats:
        """Sum up costs f over the rows of each prototype's class, or f (1 - f) if wary."""
        margins = self._margins[number]
        f = expit(slope * margins.relative())
        return self._by(margins.own, f * (1 - f) if wary else f, margins, units)

    def losers(self, number: int, classes: Indices) -> tuple[Indices, Indices]:
        """Count rows by own prototype: those that another class wins, and the others."""
        margins = self._margins[number]
        lost = classes[margins.winner] != classes[margins.own]
        own = margins.own
        return np.bincount(own[lost], minlength=margins.k), np.bincount(
            own[~lost], minlength=margins.k
        )

    def tally_won(self, number: int, classes: Indices, wins: npt.NDArray[np.bool_]) -> Sums:
        """Take rows that another class wins out of cells that win some, and sum the others."""
        margins = self._margins[number]
        lost = classes[margins.winner] != classes[margins.own]
        self.labels = self.labels.copy()
        self.labels[margins.rows[lost & wins[margins.own]]] = NOBODY
        return self.sum_codes(self.group_codes())

    def tally_shares(self, number: int, slope: float, steps: int) -> Sums:
        """Sum rows by own prototype; those beyond the border count the less the farther they are.

        In coarse steps, so that rounding has no say in which means are equal.
        """
        margins = self._margins[number]
        shares = np.rint(steps * expit(-slope * margins.relative())) / steps
        codes = margins.own.astype(np.intp) * self.n_classes + self.y[margins.rows]
        return self.sum_shares(codes, margins.rows, shares)

    def won_weights(self, number: int, units: Floats) -> tuple[Indices, Floats]:
        """Sum up weights by winner and class."""
        margins = self._margins[number]
        codes = margins.winner.astype(np.intp) * self.n_classes + self.y[margins.rows]
        keys, group = np.unique(codes, return_inverse=True)
        terms = self._terms(np.ones(len(codes)), margins.rows, units)
        return keys, _by_index(group, terms, len(keys))

    def largest_least(self, number: int) -> float:
        """Largest squared distance to the nearest prototype, times weight if weights are not whole.

        It bounds what `inertia` adds up.
        """
        margins = self._margins[number]
        return self._bound(margins.least(), margins.rows)

    def inertia(self, number: int, units: Floats) -> Floats:
        """Sum up squared distances to the nearest prototype."""
        margins = self._margins[number]
        return self._sum(margins.least(), margins.rows, units)

    def moved_between(self, number: int, other: int | None) -> int:
        """Count rows that another prototype wins than before; None stands for their cells."""
        margins = self._margins[number]
        before = self.labels[margins.rows] if other is None else self._margins[other].winner
        return int((before != margins.winner).sum())

    def pull_bounds(self, number: int, slope: float, least: float) -> Floats:
        """Largest pull or push, and the largest of them times the length of sums."""
        margins = self._margins[number]
        pull, push, length = margins.pulls(slope, least)
        both = np.maximum(np.abs(pull), np.abs(push))
        return np.array([self._bound(v, margins.rows) for v in (both, both * length)])

    def gradient(
        self,
        number: int,
        slope: float,
        least: float,
        shift: Floats,
        reach: Floats,
        bounds: Floats,
    ) -> tuple[Floats, Floats, Floats]:
        """Sum up pulls, what they would be without cancelling, and pulls times rows less shift."""
        margins = self._margins[number]
        pull, push, length = margins.pulls(slope, least)
        pull_units, strength_units, point_units = (
            self._scale.units(bound) for bound in (*bounds, reach * bounds[0])
        )
        s, k, d = len(pull_units), margins.k, self.X.shape[1]
        weights, strength, points = np.zeros((s, k)), np.zeros((s, k)), np.zeros((s, k, d))
        for index, values in ((margins.own, pull), (margins.rival, push)):
            weights += self._by(index, values, margins, pull_units)
            strength += self._by(index, np.abs(values) * length, margins, strength_units)
            self._add(margins.rows, index, values, shift, point_units, points)
        return weights, strength, points

    def worst(self, number: int, c: int, count: int) -> Worst:
        """Find the different rows of a class with the largest margins, so many if there are."""
        margins, d = self._margins[number], self.X.shape[1]
        relative = margins.relative()
        mine = (self.y[margins.rows] == c) & (margins.near > 0) & (margins.far > 0)
        rows = np.flatnonzero(mine)
        rows = rows[np.argsort(-relative[rows], kind="stable")]
        found = np.empty(0), np.empty((0, d), dtype=self.X.dtype)
        for tile in tiles(len(rows), max(count, _VALUES // d)):
            here = rows[tile]
            if len(found[0]) == count and relative[here[0]] < found[0][-1]:
                break
            found = worst_first([found, (relative[here], dense_rows(self.X, margins.rows[here]))])
            found = found[0][:count], found[1][:count]
        return found

    def ends(self, number: int, which: Indices) -> Ends:
        """First and last row, by their values, of those that some prototypes win."""
        margins = self._margins[number]
        found: Ends = {}
        for p in which.tolist():
            rows = margins.rows[margins.winner == p]
            for tile in tiles(len(rows), max(1, _VALUES // self.n_features)):
                values = dense_rows(self.X, rows[tile])
                if p in found:
                    values = np.concatenate([found[p], values])
                found[p] = values[by_values(values)[[0, -1]]]
        return found

    def box(self) -> tuple[Floats, Floats]:
        """Smallest and largest value of each column."""
        d = self.X.shape[1]
        low, high = np.full(d, np.inf), np.full(d, -np.inf)

        def task(tile: slice) -> None:
            X = self.X[tile] if self.active is None else self.X[tile][self.active[tile]]
            if not X.shape[0]:
                return
            if sp.issparse(X):
                least, most = (e.toarray().ravel() for e in (X.min(axis=0), X.max(axis=0)))
            else:
                least, most = X.min(axis=0), X.max(axis=0)
            with self._lock:
                np.minimum(low, least, out=low)
                np.maximum(high, most, out=high)

        self.for_tiles(task, 1)
        return low, high

    def spread_bound(self, center: npt.NDArray[np.floating]) -> float:
        """Largest squared distance to a point, which `spread_sum` adds up."""
        distances = OwnDistances(center, sparse=sp.issparse(self.X))
        self._spread = np.zeros(len(self.y))

        def task(tile: slice) -> None:
            n = tile.stop - tile.start
            distances(self.X[tile], np.zeros(n, dtype=np.intp), self._spread[tile])

        self.for_tiles(task, 1)
        self._spread = stable_squares(self._spread, self.n_features)
        if self.active is not None:
            self._spread[~self.active] = 0.0
        return self._bound(self._spread, np.arange(len(self.y)))

    def spread_sum(self, units: Floats) -> Floats:
        """Sum up squared distances to the point that `spread_bound` was given."""
        squares, self._spread = self._spread, np.empty(0)
        return self._sum(squares, np.arange(len(self.y)), units)

    def weight_sum(self, units: Floats) -> Floats:
        """Sum up the weights of the rows."""
        return self._sum(np.ones(len(self.y)), np.arange(len(self.y)), units)

    def _sum(self, values: Floats, rows: Indices, units: Floats) -> Floats:
        """Sum a value per row, times the row's weight, in slices."""
        return self._terms(values, rows, units).sum(axis=1)

    def _by(
        self, index: npt.NDArray[np.int32], values: Floats, margins: PartMargins, units: Floats
    ) -> Floats:
        """Sum a value per row, times the row's weight, over the rows of each prototype."""
        return _by_index(index, self._terms(values, margins.rows, units), margins.k)

    def _bound(self, values: Floats, rows: Indices) -> float:
        """Largest magnitude of what `_terms` rounds."""
        factors, _ = self._split_weights(rows)
        values = values if factors is None else values * factors
        return float(np.abs(values).max(initial=0.0))

    def _split_weights(self, rows: Indices) -> tuple[Floats | None, Floats | None]:
        """Tell what to multiply values by before they are rounded, and after that.

        After that by whole numbers, as if rows were there so many times.
        """
        if self.weights is None:
            return None, None
        weights, by_class = self.weights[rows], self._scale.by_class
        if not self._scale.whole:
            return weights, None
        if by_class is None:
            return None, weights
        factors = by_class[self.given[rows]]
        return factors, _multiples(weights, factors)

    def _terms(self, values: Floats, rows: Indices, units: Floats) -> Floats:
        """Weight values, and round them so that their sums are exact in any order.

        Returns
        -------
        terms : array of shape (n_slices, n_rows)
        """
        factors, times = self._split_weights(rows)
        values = values if factors is None else values * factors
        rounded = cut(values[:, None], units)[:, :, 0]
        return rounded if times is None else rounded * times

    def _add(
        self,
        which: Indices,
        index: npt.NDArray[np.int32],
        coefficient: Floats,
        shift: Floats,
        units: Floats,
        points: Floats,
    ) -> None:
        """Add up coefficients times rows less a shift, by prototype."""
        factors, times = self._split_weights(which)
        everywhere, groups = np.zeros(len(self.y)), np.full(len(self.y), NOBODY)
        everywhere[which] = coefficient if factors is None else coefficient * factors
        groups[which] = index
        weights = None
        if times is not None:
            weights = np.zeros(len(self.y))
            weights[which] = times

        def task(tile: slice) -> None:
            order, starts = by_group(groups[tile])
            if not len(order):
                return
            w = None if weights is None else weights[tile]
            here = self.X[tile], shift, everywhere[tile], w, order, starts, units
            part = rounded_sums(*here, self.loops)
            with self._lock:  # exact sums: the order in which tiles arrive does not matter
                add_sums(points, groups[tile][order[starts]], part)

        self.for_tiles(task, 1)


def _multiples(weights: Floats, factors: Floats) -> Floats:
    """How many times the factor each weight is, a whole number; 0 where both are 0."""
    return np.rint(np.divide(weights, factors, out=np.zeros_like(weights), where=factors > 0))


def _by_index(index: Indices | npt.NDArray[np.int32], slices: Floats, count: int) -> Floats:
    """Add up the columns of slices that have the same index."""
    return np.array([np.bincount(index, piece, count) for piece in slices], dtype=np.float64)


def worst_first(several: Sequence[Worst]) -> Worst:
    """Put rows in the order of their margins, the largest first, and then of their values.

    Identical rows, which have the same margin, count once.
    """
    relative, values = (np.concatenate(part) for part in zip(*several, strict=True))
    order = by_values(values, -relative)
    relative, values = relative[order], values[order]
    first = np.ones(len(values), dtype=bool)
    first[1:] = (values[1:] != values[:-1]).any(axis=1)
    return relative[first], values[first]
