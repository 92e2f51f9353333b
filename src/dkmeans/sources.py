"""From checked arrays to the rows that the engine works on."""

from dataclasses import dataclass

import numpy as np

from dkmeans.engine.items import agree_on_labels
from dkmeans.engine.memory import Memory
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


def from_arrays(
    training: Training,
    n_threads: int | None,
    memory_mb: float | None,
    unit: float | None = None,
    remembered: Memory | None = None,
) -> Source:
    """Make arrays in memory ready for a fit.

    Parameters
    ----------
    training : Training
    n_threads, memory_mb : as in the estimator
    unit : float, optional
        Weight unit of the fit that this one goes on from.
    remembered : Memory, optional
        What earlier rows left, to be added to these.
    """
    threads = n_threads or default_threads()
    weights, unit = _in_units(training, unit)
    y, conflicts = agree_on_labels(training.X, training.y, weights, threads)
    rows = Rows(
        training.X,
        y,
        weights,
        n_classes=len(training.classes),
        n_threads=threads,
        memory_mb=memory_mb,
        remembered=remembered,
    )
    return Source(rows, conflicts, unit)


def _in_units(training: Training, unit: float | None) -> tuple[Floats | None, float]:
    """Express weights as multiples of a unit: of the lightest, unless one is given.

    Multiplying all weights by a constant then changes nothing, not even where weights tie:
    rounding to 40 bits takes away what the multiplication's own rounding added.
    """
    weights = training.sample_weight
    if training.class_weight is not None:
        ones = np.ones(len(training.y)) if weights is None else weights
        weights = ones * training.class_weight[training.y]
    if weights is None:
        if unit is None or unit == 1.0:
            return None, 1.0
        weights = np.ones(len(training.y))
    positive = weights[weights > 0]
    lightest = max(float(positive.min()), float(positive.max()) / WIDEST)
    if unit is None:
        unit = lightest
    mantissa, exponent = np.frexp(np.maximum(weights, lightest) / unit)
    rounded = np.ldexp(np.rint(np.ldexp(mantissa, _BITS)), exponent - _BITS)
    weights = np.where(weights > 0, rounded, 0.0)
    return (None if (weights == 1).all() else weights), unit
