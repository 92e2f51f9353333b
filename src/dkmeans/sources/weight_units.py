"""The unit of weights in growth.

Integer weights are equivalent to repeated rows, to the last bit, and multiplying all weights by a
constant changes nothing: rounding to integers removes the rounding error of the multiplication. If
no unit makes all weights integers, it is a power of two near the lightest.

What decides is asked of the weights, which may be on the workers of a cluster.
"""

from dataclasses import dataclass, replace

import numpy as np

from dkmeans.data.row_weights import (
    INTEGER_BITS,
    ArrayWeights,
    RowWeights,
    WeightFacts,
    Weighting,
    raised,
)
from dkmeans.data.validation import Training
from dkmeans.data.value_checks import WIDEST
from dkmeans.kernels.block import Floats, Indices

MAX_DIVISOR = 64  # largest divisor of the lightest weight tried as a common unit
MAX_RATIO = 2.0**600  # of weights to the unit of an earlier fit, and of that to these


@dataclass(frozen=True)
class WeightUnit:
    """Weights in the unit of growth."""

    weighting: Weighting | None  # None means ones
    unit: float  # a weight of 1, in the user's terms
    by_class: Floats | None = None  # class factors included in the weights, if any


def choose_unit(training: Training, unit: float | None) -> WeightUnit:
    """Express weights as multiples of a given unit, or of one that makes them integers."""
    weights = training.row_weights
    facts, plain = weights.facts, Weighting(np.ones(len(training.classes)))
    if training.class_weight is None and unit in (None, 1.0):
        if _are_ones(plain, facts):
            return WeightUnit(None, 1.0)
        if facts.whole and facts.high.max() < 2.0**INTEGER_BITS:
            return WeightUnit(replace(plain, as_given=True), 1.0)
    if unit is not None:
        return _in_given_unit(weights, training, unit)
    factor = _power_below(facts.high.max())
    least = float(facts.high.max() / factor / WIDEST)
    lightest = float(raised(facts.lightest.min() / factor, least))
    step, whole = _common_step(weights, factor, least, lightest)
    factors = training.factors
    has_weight = np.flatnonzero((facts.high > 0) & (factors > 0))
    by_class, class_unit, classes_whole = _class_multiples(factors, has_weight)
    weighting = _raised(Weighting(by_class, factor, least, step, whole), facts)
    return WeightUnit(
        None if _are_ones(weighting, facts) else weighting,
        step * factor * class_unit,
        None if classes_whole else by_class,
    )


def _in_given_unit(weights: RowWeights, training: Training, unit: float) -> WeightUnit:
    """Express weights in the unit of an earlier fit."""
    facts, factors = weights.facts, training.factors
    heaviest = float(facts.high.max())
    if not 1 / MAX_RATIO <= heaviest / unit * float(factors.max()) <= MAX_RATIO:
        raise ValueError(
            f"sample_weight is at most {heaviest:.3g}, too far from the weights of earlier calls, "
            f"whose unit is {unit:.3g}: give the weights of all calls in the same unit."
        )
    factor, class_factor = _power_below(facts.high.max()), _power_below(factors.max())
    by_class = factors / class_factor / (unit / (factor * class_factor))
    weighting = _raised(Weighting(by_class, factor), facts)
    if weights.are_whole(weighting):
        weighting = replace(weighting, whole_products=True)
        return WeightUnit(None if _are_ones(weighting, facts) else weighting, unit)
    return WeightUnit(weighting, unit, None if training.class_weight is None else by_class)


def _class_multiples(factors: Floats, which: Indices) -> tuple[Floats, float, bool]:
    """Express class factors as multiples of a unit, of which the selected ones are integers.

    Returns
    -------
    multiples : array
    unit : float
        A power of two if there is no such unit.
    whole : bool
        Whether all multiples are integers.
    """
    factor = _power_below(factors.max())
    least = float(factors.max() / factor / WIDEST)
    values = raised(factors / factor, least)
    some = factors[which]
    weights = ArrayWeights(some, which, WeightFacts.of(np.arange(len(some)), some, len(some)))
    step, whole = _common_step(weights, factor, least, float(values[which].min()))
    multiples = values / step
    if whole:
        multiples = np.rint(np.where(np.isin(np.arange(len(values)), which), multiples, 0.0))
    return multiples, step * factor, whole


def _common_step(
    weights: RowWeights, factor: float, least: float, lightest: float
) -> tuple[float, bool]:
    """Find what all weights are multiples of; else return a power of two, and False."""
    steps = lightest / np.arange(1, MAX_DIVISOR + 1)
    found = np.flatnonzero(weights.whole_steps(factor, least, steps))
    if len(found):
        return float(steps[found[0]]), True
    return float(np.ldexp(1.0, np.frexp(lightest)[1] - 1)), False


def _raised(weighting: Weighting, facts: WeightFacts) -> Weighting:
    """Raise small products relative to the largest, which belongs to the largest of its class."""
    products = weighting.of(facts.high, np.arange(len(facts.high)))
    return replace(weighting, least_product=float(products.max() / WIDEST))


def _are_ones(weighting: Weighting, facts: WeightFacts) -> bool:
    """Return whether all weights are 1; they grow with those in the user's terms."""
    there = np.flatnonzero(facts.counts)
    ends = [weighting.of(end[there], there) for end in (facts.low, facts.high)]
    return bool((np.array(ends) == 1).all())


def _power_below(largest: float) -> float:
    """Return a power of two to divide by, so that products of the largest do not overflow."""
    return float(np.ldexp(1.0, int(np.frexp(largest)[1]) - 1))
