"""The robust margin cost of all rows, and its gradient on batches of rows.

The variance of the noise (`passes.robust_margin`) is that of the rows around the mean of their
cell, times a share that grows with the number of coordinates of prototypes, and of entries of a
learned projection, per row. With few rows for many of them, the border between the training rows
should be the one with the most room; with plenty of rows, they show themselves where it is.
"""

from dataclasses import dataclass
from functools import cached_property
from math import nan

import numpy as np

from dkmeans.exact.grids import TERM_BITS
from dkmeans.geometry import Learned
from dkmeans.growth.margins import FINAL_SLOPE, Field, Margins
from dkmeans.growth.rows import Rows
from dkmeans.growth.start_metric import FACTOR_BITS
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.reference import squared_distances
from dkmeans.kernels.tally import add_gaps
from dkmeans.passes import features, metric_gradient
from dkmeans.passes import gradient as gradients
from dkmeans.passes.batch import Batch
from dkmeans.passes.robust_margin import RobustCost
from dkmeans.prototypes import Prototypes

MAX_NOISE = 0.5  # largest standard deviation of the noise, relative to that of rows in a cell
FULL_NOISE_RATIO = 0.4  # numbers learned per distinct row from which the noise is that
MIN_PULL_DISTANCE = 1e-4  # squared, relative to the variance; closer rows do not pull harder
GRADIENT_NOISE = 1e-9  # gradients below this fraction of the terms that cancel in them are zero


@dataclass(frozen=True)
class BatchGradient:
    """Gradient of the cost on a batch."""

    margins: Margins  # of the rows of the batch
    paid: Floats  # 1 less the cost at the final slope, summed over the batch, in slices
    gradient: Floats  # with respect to the centres, up to a factor


@dataclass(frozen=True)
class MetricGradient(BatchGradient):
    """Gradient of the cost on a batch, in a learned metric."""

    products: Floats  # gradient with respect to the projection, up to a factor, shape (d + 1, p)
    largest: float  # entry of the gradient with respect to a row
    low: Floats  # smallest value of each projected feature
    high: Floats  # largest


class RobustField(Field):
    """Robust costs and gradients over all rows.

    Parameters
    ----------
    rows : Rows
    prototypes : Prototypes
        Where the descent starts; of at least two classes.
    learns_metric : bool
        Whether a projection is learned, too. Otherwise, nothing but prototypes is.

    Attributes
    ----------
    final_cost : RobustCost
        The cost at the final slope.
    start_cost : float
        Its mean where the descent starts; nan if all rows are equal.
    """

    def __init__(self, rows: Rows, prototypes: Prototypes, *, learns_metric: bool = False) -> None:
        super().__init__(rows)
        d = prototypes.centers.shape[1]
        n_learned = prototypes.centers.size
        if learns_metric:
            assert isinstance(rows.geometry, Learned)
            n_learned += rows.geometry.components.size
        noise = MAX_NOISE * min(1.0, n_learned / (FULL_NOISE_RATIO * self.n_distinct))
        with self.margins(prototypes) as margins:
            scatter = self._scatter(margins, prototypes)
            least = MIN_PULL_DISTANCE * self.spread
            self.final_cost = RobustCost(FINAL_SLOPE, noise**2 * scatter / d, d, least)
            self.start_cost = self.robust_cost(margins, prototypes) if self.spread > 0 else nan

    @cached_property
    def n_distinct(self) -> int:
        """Number of distinct rows of positive weight."""
        hashes = self._rows.run(
            gradients.KeepHashes(self._rows.facts.largest, self._rows.geometry)
        ).joined()
        weights = self._rows.weights()
        return len(np.unique(hashes if weights is None else hashes[weights > 0]))

    def robust_cost(self, margins: Margins, prototypes: Prototypes) -> float:
        """Return the mean cost of the rows at the final slope.

        Rows of classes without prototypes cost 1.
        """
        task = gradients.SumRobustPaid(
            margins.number, prototypes.centers, self.final_cost, self._unit
        )
        return self.unpaid(self._rows.run(task))

    def unpaid(self, paid: Floats) -> float:
        """Return 1 less a mean, given as a sum over all rows in slices."""
        return 1 - float(self._mean(paid))

    def batch_gradient(self, prototypes: Prototypes, slope: float, batch: Batch) -> BatchGradient:
        """Find the margins of a batch, and the gradient of their cost."""
        cost = self.final_cost.at(slope)
        search = self._rows.margin_search(prototypes, batch)
        found = self._rows.run(
            gradients.SumGradient(
                search, cost, self.final_cost, self._shift, self._units(cost, self._reach)
            )
        )
        margins = Margins(self._rows, (search.number,), found.counts)
        gradient = self._gradient(prototypes, cost, found, self._shift, self._reach)
        return BatchGradient(margins, found.paid, gradient)

    def bound_row_gradients(self, prototypes: Prototypes) -> float:
        """Bound the gradients of the costs with respect to rows, before they are rounded."""
        with self.margins(prototypes) as margins:
            return self._rows.run(
                metric_gradient.BoundRowGradients(
                    margins.number, prototypes.centers, self.final_cost
                )
            )

    def metric_gradient(
        self, prototypes: Prototypes, geometry: Learned, slope: float, batch: Batch, bound: float
    ) -> "MetricGradient":
        """Find the margins of a batch in a metric, and the gradient of their cost.

        Entries of the gradient with respect to rows that are larger than `bound` count as it.
        """
        cost = self.final_cost.at(slope)
        reach = self._standard_reach * np.abs(geometry.components).sum(axis=0)
        search = self._rows.margin_search(prototypes, batch)
        found = self._rows.run(
            metric_gradient.SumMetricGradient(
                search, geometry, cost, self.final_cost, self._units(cost, reach), bound
            )
        )
        products = self._mean(metric_gradient.in_one_part(found.products))
        return MetricGradient(
            Margins(self._rows, (search.number,), found.pulls.counts),
            found.pulls.paid,
            self._gradient(prototypes, cost, found.pulls, np.zeros_like(reach), reach),
            products * metric_gradient.unit_of_products(bound),
            found.largest,
            found.box.low,
            found.box.high,
        )

    def covariance(self, geometry: Learned) -> Floats:
        """Return the covariance of the standardised features of all rows."""
        unit = self._heaviest * 2.0**-FACTOR_BITS
        return features.covariance_of(
            self._rows.run(features.SumProducts(geometry.shift, geometry.scale, unit))
        )

    @cached_property
    def _standard_reach(self) -> float:
        """Largest magnitude of a standardised feature."""
        assert isinstance(self._rows.geometry, Learned)
        return self._rows.run(metric_gradient.FindReach(self._rows.geometry))

    def joined(self, several: list[Margins]) -> Margins:
        """Put the margins of all batches together."""
        numbers = tuple(number for one in several for number in one.numbers)
        counts: Indices = np.sum([one.counts for one in several], axis=0)
        return Margins(self._rows, numbers, counts)

    def _units(self, cost: RobustCost, reach: Floats) -> gradients.GradientUnits:
        """Return units for values of any batch, so that no pass has to find their bounds."""
        pull = cost.largest_pull * self._heaviest
        return gradients.GradientUnits(
            self._unit,
            self._scale.units(pull),
            self._scale.units(pull * np.sqrt(cost.floor)),
            self._scale.units(reach * pull),
            self._scale.units(cost.largest_gap_pull * self._heaviest),
        )

    def _gradient(
        self,
        prototypes: Prototypes,
        cost: RobustCost,
        found: gradients.GradientSums,
        shift: Floats,
        reach: Floats,
    ) -> Floats:
        """Return the gradient with respect to the centres; 0 where it is rounding error only."""
        small = found.weights, found.strength, found.gaps.slices
        weights, strength, gaps = self._means(*small)
        points = self._mean(found.points)
        centers = prototypes.centers.astype(np.float64)
        gradient: Floats = weights[:, None] * (centers - shift) - points
        # Sums of pulls are rounded to this fraction of the largest pull.
        grain = 2.0 ** (1 - TERM_BITS) * cost.largest_pull
        noise = GRADIENT_NOISE * strength[:, None] + grain * reach
        gradient[(np.abs(gradient) <= noise).all(axis=1)] = 0.0
        own, rival = divmod(found.gaps.keys, len(centers))
        add_gaps(own, rival, gaps, centers, gradient)
        return gradient

    def _means(self, *sums: Floats) -> list[Floats]:
        """Divide several exact sums of a value each by the weight of all rows.

        All at once, as a call takes longer than the division of a few numbers.
        """
        ends = np.cumsum([one.shape[1] for one in sums])
        return np.split(self._mean(np.hstack(sums)), ends[:-1])

    def _scatter(self, margins: Margins, prototypes: Prototypes) -> float:
        """Return the mean squared distance of rows to the mean of their prototype's own rows.

        Unlike the distance to the prototype, it does not increase when prototypes that were
        refined before have moved away from their rows.
        """
        bound = self._rows.run(gradients.BoundNear(margins.number))
        units = self._scale.units(bound)
        near = float(self._mean(self._rows.run(gradients.SumNear(margins.number, units))))
        cells = self.tally_shares(margins, 0.0, 2).tally(self._rows.n_classes)
        centers = prototypes.centers[cells.cells]
        away = squared_distances(cells.means, centers.astype(np.float64))
        shares = cells.weight / cells.weight.sum()
        return max(near - float((shares * away).sum()), 0.0)
