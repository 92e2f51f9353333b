"""Weights of rows, as far as they decide how growth counts them, and the weights of growth."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.block import Floats, Indices

INTEGER_BITS = 40  # weights that are integers up to this many significant bits count as integers
_HEAD = 4096  # weights that are looked at first: most steps are wrong for one of these


@dataclass(frozen=True)
class WeightFacts:
    """Extremes of the weights of the rows of each class, or with each label.

    Attributes
    ----------
    counts : array
        Number of rows; where it is 0, extremes are infinite, and the largest is 0.
    low, lightest, high : arrays
        Smallest, smallest positive and largest weight.
    whole : bool
        Whether all weights are integers.
    """

    counts: Indices
    low: Floats
    lightest: Floats
    high: Floats
    whole: bool

    @classmethod
    def of(
        cls, codes: npt.NDArray[np.integer], weights: Floats | None, n_codes: int
    ) -> "WeightFacts":
        """Find them; no weights are ones."""
        counts = np.bincount(codes, minlength=n_codes)
        if weights is None:
            ones = np.where(counts > 0, 1.0, np.inf)
            return cls(counts, ones, ones, (counts > 0).astype(np.float64), True)
        low, lightest, high = np.full(n_codes, np.inf), np.full(n_codes, np.inf), np.zeros(n_codes)
        np.minimum.at(low, codes, weights)
        np.minimum.at(lightest, codes, np.where(weights > 0, weights, np.inf))
        np.maximum.at(high, codes, weights)
        return cls(counts, low, lightest, high, bool((weights == np.rint(weights)).all()))

    @classmethod
    def merged(
        cls, parts: "Sequence[WeightFacts]", codes: npt.NDArray[np.integer], n_codes: int
    ) -> "WeightFacts":
        """Combine those of several parts, given the codes of their labels one after the other."""
        counts = np.zeros(n_codes, dtype=np.intp)
        np.add.at(counts, codes, np.concatenate([part.counts for part in parts]))
        low, lightest, high = np.full(n_codes, np.inf), np.full(n_codes, np.inf), np.zeros(n_codes)
        np.minimum.at(low, codes, np.concatenate([part.low for part in parts]))
        np.minimum.at(lightest, codes, np.concatenate([part.lightest for part in parts]))
        np.maximum.at(high, codes, np.concatenate([part.high for part in parts]))
        return cls(counts, low, lightest, high, all(part.whole for part in parts))

    @property
    def range(self) -> Floats:
        """Smallest positive weight, and the largest."""
        return np.array([self.lightest.min(), self.high.max()])


@dataclass(frozen=True)
class Weighting:
    """How the weight of a row in growth follows from that in the user's terms and from its class.

    Attributes
    ----------
    by_class : array
        Factors of the classes.
    factor : float
        A power of two by which weights are divided first, so that nothing overflows.
    least : float
        Positive ones are raised to this.
    step : float
        Then they are divided by this,
    whole : bool
        rounded, and multiplied by the factor of the class.
    least_product, whole_products : float, bool
        The products are raised and rounded likewise.
    """

    by_class: Floats
    factor: float = 1.0
    least: float = 0.0
    step: float = 1.0
    whole: bool = False
    least_product: float = 0.0
    whole_products: bool = False
    as_given: bool = False  # nothing of the above changes a weight

    def of(self, weights: Floats | None, classes: npt.NDArray[np.integer]) -> Floats:
        """Return the weights of growth; no weights are ones."""
        weights = np.ones(len(classes)) if weights is None else weights
        if self.as_given:
            return weights
        found = raised(weights / self.factor, self.least) / self.step
        found = np.rint(found) if self.whole else found
        found = raised(found * self.by_class[classes], self.least_product)
        return np.rint(found) if self.whole_products else found


class RowWeights(Protocol):
    """Protocol: the weights of all rows, wherever they are."""

    @property
    def facts(self) -> WeightFacts:
        """What is known of each class."""

    def whole_steps(self, factor: float, least: float, steps: Floats) -> npt.NDArray[np.bool_]:
        """Tell of which steps all weights are multiples, divided by `factor` and raised first."""

    def are_whole(self, weighting: Weighting) -> bool:
        """Return whether weights of growth are integers up to rounding."""


class WeightsElsewhere(RowWeights, Protocol):
    """Protocol: the weights of rows that are not in the memory of this process."""

    def total(self) -> float:
        """Sum the weights of all rows."""

    def sums(self) -> Floats:
        """Sum the weights of each class, up to a constant factor."""


@dataclass(frozen=True)
class ArrayWeights:
    """Weights in an array, or None for ones, with the classes of the rows."""

    weights: Floats | None
    classes: npt.NDArray[np.integer]
    facts: WeightFacts

    def whole_steps(self, factor: float, least: float, steps: Floats) -> npt.NDArray[np.bool_]:
        """Tell of which steps all weights are multiples."""
        return whole_steps(self.weights, factor, least, steps)

    def are_whole(self, weighting: Weighting) -> bool:
        """Return whether weights of growth are integers up to rounding."""
        return are_integers(weighting.of(self.weights, self.classes))


def whole_steps(
    weights: Floats | None, factor: float, least: float, steps: Floats
) -> npt.NDArray[np.bool_]:
    """Tell of which steps positive weights are multiples, divided by `factor` and raised first."""
    weights = np.ones(1) if weights is None else weights
    values = raised(np.unique(weights[weights > 0]) / factor, least)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.array(
            [are_integers(values[:_HEAD] / step) and are_integers(values / step) for step in steps]
        )


def raised(weights: Floats, least: float) -> Floats:
    """Raise positive weights to a minimum."""
    return np.where(weights > 0, np.maximum(weights, least), 0.0)


def are_integers(weights: Floats) -> bool:
    """Return whether weights are integers up to rounding."""
    return bool((np.abs(weights - np.rint(weights)) <= weights * 2.0**-INTEGER_BITS).all())
