"""From checked arrays to the rows that the engine works on."""

from dataclasses import dataclass

import numpy as np

from dkmeans.engine.items import agree_on_labels
from dkmeans.engine.rows import Rows
from dkmeans.engine.threads import default_threads
from dkmeans.kernels.block import Floats, Indices
from dkmeans.validate import WIDEST, Training

_BITS = 40  # weights are kept to this many significant bits, relative to the lightest


@dataclass(frozen=True)
class Source:
    """Rows for the engine, and what is needed to speak of them in the user's terms."""

    rows: Rows
    conflicts: list[Indices]
    weight_unit: float  # a weight of 1 in the engine, in the user's terms


def from_arrays(training: Training, n_threads: int | None, memory_mb: float | None) -> Source:
    """Make arrays in memory ready for a fit."""
    threads = n_threads or default_threads()
    weights, unit = _in_units(training)
    y, conflicts = agree_on_labels(training.X, training.y, weights, threads)
    rows = Rows(
        training.X,
        y,
        weights,
        n_classes=len(training.classes),
        n_threads=threads,
        memory_mb=memory_mb,
    )
    return Source(rows, conflicts, unit)


def _in_units(training: Training) -> tuple[Floats | None, float]:
    """Express weights as multiples of the lightest.

    Multiplying all weights by a constant then changes nothing, not even where weights tie:
    rounding to 40 bits takes away what the multiplication's own rounding added.
    """
    weights = training.sample_weight
    if training.class_weight is not None:
        ones = np.ones(len(training.y)) if weights is None else weights
        weights = ones * training.class_weight[training.y]
    if weights is None:
        return None, 1.0
    positive = weights[weights > 0]
    unit = max(float(positive.min()), float(positive.max()) / WIDEST)
    mantissa, exponent = np.frexp(np.maximum(weights / unit, 1.0))
    rounded = np.ldexp(np.rint(np.ldexp(mantissa, _BITS)), exponent - _BITS)
    weights = np.where(weights > 0, rounded, 0.0)
    return (None if (weights == 1).all() else weights), unit
