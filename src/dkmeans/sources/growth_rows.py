"""From checked arrays to the rows that growth works on."""

import hashlib
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dkmeans.data.validation import Training
from dkmeans.data.value_checks import WIDEST
from dkmeans.growth.earlier_rows import EarlierRows
from dkmeans.growth.identical_rows import agree_on_labels
from dkmeans.growth.rows import Rows
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.threads import default_threads
from dkmeans.passes.contract import Runner
from dkmeans.passes.part import Part
from dkmeans.runners.checkpoint import Journal, JournalRunner
from dkmeans.runners.local import LocalRunner

_BITS = 40  # weights that are whole to this many significant bits count as whole
_DIVISORS = 64  # how far the search for a common step goes
_DISTINCT = 100_000  # weights that it looks at


@dataclass(frozen=True)
class Source:
    """Rows for growth, and what is needed to speak of them in the user's terms."""

    rows: Rows
    conflicts: list[Indices]
    weight_unit: float  # a weight of 1 in growth, in the user's terms


class RowSource(Protocol):
    """Rows that are not in the memory of this process."""

    def runner(
        self, weights: Floats | None, *, n_classes: int, n_threads: int, memory_mb: float | None
    ) -> Runner:
        """Make parts of the rows."""


def make_source(
    training: Training,
    stream: RowSource | None,
    n_threads: int | None,
    memory_mb: float | None,
    unit: float | None = None,
    remembered: EarlierRows | None = None,
    n_centers: int = 1,
    journal: Journal | None = None,
) -> Source:
    """Make rows ready for a fit; they must be closed after it.

    Parameters
    ----------
    training : Training
    stream : RowSource or None
        Where the rows are, if they are not in the memory of this process.
    n_threads, memory_mb : as in the estimator
    unit : float, optional
        Weight unit of the fit that this one goes on from.
    remembered : EarlierRows, optional
        What earlier rows left, to be added to these.
    n_centers : int
        How many centres the rows are going to be compared with, about.
    journal : Journal, optional
        Of a fit that may be taken up again.
    """
    found = _in_units(training, unit)
    weights, n_classes = found.values, len(training.classes)
    n_threads = n_threads or default_threads()
    runner: Runner
    if stream is None:
        part = Part.of(
            training.X,
            training.y,
            weights,
            n_classes=n_classes,
            n_threads=n_threads,
            memory_mb=memory_mb,
        )
        runner = LocalRunner([part])
    else:
        runner = stream.runner(
            weights, n_classes=n_classes, n_threads=n_threads, memory_mb=memory_mb
        )
    with ExitStack() as undo:
        undo.callback(runner.close)
        recorded = None if journal is None else JournalRunner(runner)
        runner = runner if recorded is None else recorded
        rows = Rows(
            runner,
            training.dtype,
            training.n_values,
            n_classes,
            earlier=remembered,
            n_centers=n_centers,
            by_class=found.by_class,
        )
        conflicts = agree_on_labels(runner, training.y, weights)
        if journal is not None and recorded is not None:
            journal.expect("data", _fingerprint(rows))
            recorded.start(journal)
        undo.pop_all()  # the caller closes the rows
    return Source(rows, conflicts, found.unit)


def _fingerprint(rows: Rows) -> str:
    """Tell data from other data: rows in their order, with classes and weights."""
    weights = rows.weights()
    digest = hashlib.sha256(rows.hashes().tobytes())
    digest.update(rows.classes().astype(np.int64).tobytes())
    digest.update(b"" if weights is None else weights.tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class _Weights:
    """Weights as growth has them."""

    values: Floats | None  # None stands for ones
    unit: float  # a weight of 1, in the user's terms
    by_class: Floats | None = None  # factors that the weights have in them, if any


def _in_units(training: Training, unit: float | None) -> _Weights:
    """Express weights as multiples of a unit: the one given, or one that makes them whole numbers.

    Whole weights then are the rows so many times, to the last bit, and multiplying all weights by
    a constant changes nothing, as rounding takes away what the multiplication's own added. Where
    no unit makes all weights whole, a power of two near the lightest does no harm.
    """
    given = training.sample_weight
    if training.class_weight is None and unit in (None, 1.0):
        if given is None or (given == 1).all():
            return _Weights(None, 1.0)
        if (given == np.rint(given)).all() and given.max() < 2.0**_BITS:
            return _Weights(given, 1.0)
    sample = np.ones(len(training.y)) if given is None else given
    if unit is not None:
        return _in_given_units(sample, training, unit)
    sample, sample_unit, _ = _in_steps(sample, sample > 0)
    present = np.zeros(len(training.classes), dtype=bool)
    present[training.y[sample > 0]] = training.factors[training.y[sample > 0]] > 0
    by_class, class_unit, whole = _in_steps(training.factors, present)
    weights = _bounded(sample * by_class[training.y])
    values = None if (weights == 1).all() else weights
    return _Weights(values, sample_unit * class_unit, None if whole else by_class)


def _in_given_units(sample: Floats, training: Training, unit: float) -> _Weights:
    """Go on with the unit of an earlier fit."""
    (sample, factor), (by_class, class_factor) = _near_one(sample), _near_one(training.factors)
    by_class = by_class / (unit / (factor * class_factor))
    weights = _bounded(sample * by_class[training.y])
    whole = _as_whole(weights)
    if whole is not None:
        return _Weights(None if (whole == 1).all() else whole, unit)
    return _Weights(weights, unit, None if training.class_weight is None else by_class)


def _in_steps(values: Floats, which: npt.NDArray[np.bool_]) -> tuple[Floats, float, bool]:
    """Express positive numbers as whole multiples of a unit if those that count can be.

    Returns
    -------
    multiples : array
    unit : float
        A power of two if they cannot.
    whole : bool
    """
    values, factor = _near_one(values)
    values = _bounded(values)
    lightest = float(values[which].min())
    distinct = np.unique(values[which])[:_DISTINCT] / lightest
    for divisor in range(1, _DIVISORS + 1):
        if _as_whole(distinct * divisor) is not None:
            step = lightest / divisor
            multiples = _as_whole(np.where(which, values / step, 0.0))
            if multiples is not None:
                return multiples, step * factor, True
    step = float(np.ldexp(1.0, np.frexp(lightest)[1] - 1))
    return values / step, step * factor, False


def _near_one(values: Floats) -> tuple[Floats, float]:
    """Take a power of two out of numbers, so that products of the largest do not overflow."""
    factor = float(np.ldexp(1.0, int(np.frexp(values.max())[1]) - 1))
    return values / factor, factor


def _bounded(weights: Floats) -> Floats:
    """Make weights that are too light heavier, zeros aside."""
    return np.where(weights > 0, np.maximum(weights, weights.max() / WIDEST), 0.0)


def _as_whole(weights: Floats) -> Floats | None:
    """Take away rounding from whole weights; None if any is not whole."""
    whole = np.rint(weights)
    return whole if (np.abs(weights - whole) <= weights * 2.0**-_BITS).all() else None
