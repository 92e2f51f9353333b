"""Convert checked arrays to the rows that growth works on."""

from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dkmeans.data.validation import Training
from dkmeans.data.value_checks import WIDEST
from dkmeans.geometry import Geometry, Learned
from dkmeans.growth.earlier_rows import EarlierRows
from dkmeans.growth.identical_rows import agree_on_labels
from dkmeans.growth.metric_choice import may_learn
from dkmeans.growth.rows import Rows
from dkmeans.growth.start_metric import MAX_COMPONENTS, start_metric
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.threads import default_threads
from dkmeans.passes.contract import Runner
from dkmeans.passes.part import Part, Setting
from dkmeans.runners.checkpoint import Journal, JournalRunner
from dkmeans.runners.local import LocalRunner

INTEGER_BITS = 40  # weights that are integers up to this many significant bits count as integers
MAX_DIVISOR = 64  # largest divisor of the lightest weight tried as a common unit
MAX_DISTINCT_WEIGHTS = 100_000  # distinct weights tested in the search


@dataclass(frozen=True)
class Source:
    """Rows for growth, and what converts results back to the user's terms."""

    rows: Rows
    conflicts: list[Indices] | int  # of the rows as they were read; only their number, if lazy
    weight_unit: float  # a weight of 1 in growth, in the user's terms
    learned: Learned | None = None  # what maps the rows, if the metric may be learned


@dataclass(frozen=True)
class LearnedStart:
    """Metric that a fit with a learned metric starts from."""

    n_components: int | None
    earlier: Learned | None  # that of the fit which this one continues
    or_euclidean: bool = False  # if there is too much work

    def geometry(
        self, runner: Runner, training: Training, by_class: Floats | None
    ) -> Learned | None:
        """Return the metric of the earlier fit, or one that standardises these rows.

        None means that rows are compared as they are, as learning would take too long.
        """
        if self.earlier is not None:
            return self.earlier
        d, rank = training.names["n_features_in_"], self.n_components or MAX_COMPONENTS
        if self.or_euclidean and not may_learn(runner, training.n_rows, d, rank):
            return None
        most = self.n_components and max(MAX_COMPONENTS, self.n_components)  # growth chooses some
        return start_metric(runner, d, most, by_class)


class RowSource(Protocol):
    """Source of rows outside the memory of this process."""

    def runner(
        self, weights: Floats | None, *, n_classes: int, n_threads: int, memory_mb: float | None
    ) -> Runner:
        """Return a runner over the rows."""


def make_source(
    training: Training,
    stream: RowSource | None,
    n_threads: int | None,
    memory_mb: float | None,
    unit: float | None = None,
    earlier: EarlierRows | None = None,
    n_centers: int = 1,
    journal: Journal | None = None,
    learned: LearnedStart | None = None,
    lazy_conflicts: bool = False,
) -> Source:
    """Prepare rows for a fit; the caller closes them.

    Parameters
    ----------
    training : Training
    stream : RowSource or None
        Source of the rows, if they are not in the memory of this process.
    n_threads, memory_mb : as in the estimator
    unit : float, optional
        Weight unit of the earlier fit that this one continues.
    earlier : EarlierRows, optional
        Earlier rows that this fit continues from, added to these.
    n_centers : int
        Approximate number of centres to compare rows with.
    journal : Journal, optional
        Journal of a fit that can be resumed.
    learned : LearnedStart, optional
        How rows are mapped, if the metric is to be learned.
    lazy_conflicts : bool
        Whether to count conflicts only.
    """
    found = _weights_in_units(training, unit)
    n_classes = len(training.classes)
    runner = _runner(training, stream, found.values, n_threads, memory_mb)
    with ExitStack() as undo:
        undo.callback(runner.close)
        geometry = None if learned is None else learned.geometry(runner, training, found.by_class)
        n_values = training.n_values
        if geometry is not None:  # sparse rows are projected to dense ones
            n_values = max(n_values, training.n_rows * geometry.components.shape[1])
        recorded = None if journal is None else JournalRunner(runner)
        runner = runner if recorded is None else recorded
        rows = Rows(
            runner,
            training.dtype,
            n_values,
            n_classes,
            earlier=earlier,
            n_centers=n_centers,
            by_class=found.by_class,
            geometry=geometry,
        )
        with rows.as_read():
            conflicts = rows.agree_and_count() if lazy_conflicts else rows.agree_on_labels()
        if journal is not None and recorded is not None:
            journal.expect("data", f"{rows.digest():016x}")
            recorded.start(journal)
        undo.pop_all()  # the caller closes the rows
    return Source(rows, conflicts, found.unit, geometry)


def find_conflicts(
    training: Training,
    stream: RowSource | None,
    n_threads: int | None,
    memory_mb: float | None,
    unit: float | None = None,
    geometry: Geometry | None = None,
) -> list[Indices]:
    """Return the groups of identical rows with different labels, as a fit found them.

    `geometry` maps the rows, if rows with the same image were compared; the other parameters are
    those of `make_source`.
    """
    weights = _weights_in_units(training, unit).values
    with closing(_runner(training, stream, weights, n_threads, memory_mb)) as runner:
        if geometry is not None:
            runner.configure(Setting(geometry=geometry))
        return agree_on_labels(runner)


def _runner(
    training: Training,
    stream: RowSource | None,
    weights: Floats | None,
    n_threads: int | None,
    memory_mb: float | None,
) -> Runner:
    """Return a runner over the rows."""
    n_classes, n_threads = len(training.classes), n_threads or default_threads()
    if stream is not None:
        return stream.runner(weights, n_classes=n_classes, n_threads=n_threads, memory_mb=memory_mb)
    part = Part.of(
        training.X,
        training.y,
        weights,
        n_classes=n_classes,
        n_threads=n_threads,
        memory_mb=memory_mb,
    )
    return LocalRunner([part])


@dataclass(frozen=True)
class _Weights:
    """Weights in the unit of growth."""

    values: Floats | None  # None means ones
    unit: float  # a weight of 1, in the user's terms
    by_class: Floats | None = None  # class factors included in the weights, if any


def _weights_in_units(training: Training, unit: float | None) -> _Weights:
    """Express weights as multiples of a given unit, or of one that makes them integers.

    Integer weights are then equivalent to repeated rows, to the last bit, and multiplying all
    weights by a constant changes nothing: rounding to integers removes the rounding error of the
    multiplication. If no unit makes all weights integers, use a power of two near the lightest.
    """
    given = training.sample_weight
    if training.class_weight is None and unit in (None, 1.0):
        if given is None or (given == 1).all():
            return _Weights(None, 1.0)
        if (given == np.rint(given)).all() and given.max() < 2.0**INTEGER_BITS:
            return _Weights(given, 1.0)
    sample = np.ones(len(training.y)) if given is None else given
    if unit is not None:
        return _weights_in_given_unit(sample, training, unit)
    sample, sample_unit, _ = _integer_multiples(sample, sample > 0)
    present = np.zeros(len(training.classes), dtype=bool)
    present[training.y[sample > 0]] = training.factors[training.y[sample > 0]] > 0
    by_class, class_unit, whole = _integer_multiples(training.factors, present)
    weights = _clip_small(sample * by_class[training.y])
    values = None if (weights == 1).all() else weights
    return _Weights(values, sample_unit * class_unit, None if whole else by_class)


def _weights_in_given_unit(sample: Floats, training: Training, unit: float) -> _Weights:
    """Express weights in the unit of an earlier fit."""
    sample, factor = _scale_to_one(sample)
    by_class, class_factor = _scale_to_one(training.factors)
    by_class = by_class / (unit / (factor * class_factor))
    weights = _clip_small(sample * by_class[training.y])
    whole = _as_integers(weights)
    if whole is not None:
        return _Weights(None if (whole == 1).all() else whole, unit)
    return _Weights(weights, unit, None if training.class_weight is None else by_class)


def _integer_multiples(values: Floats, which: npt.NDArray[np.bool_]) -> tuple[Floats, float, bool]:
    """Express the selected positive numbers as integer multiples of a unit if possible.

    Returns
    -------
    multiples : array
    unit : float
        A power of two if there is no such unit.
    whole : bool
        Whether all multiples are integers.
    """
    values, factor = _scale_to_one(values)
    values = _clip_small(values)
    lightest = float(values[which].min())
    distinct = np.unique(values[which])[:MAX_DISTINCT_WEIGHTS] / lightest
    for divisor in range(1, MAX_DIVISOR + 1):
        if _as_integers(distinct * divisor) is not None:
            step = lightest / divisor
            multiples = _as_integers(np.where(which, values / step, 0.0))
            if multiples is not None:
                return multiples, step * factor, True
    step = float(np.ldexp(1.0, np.frexp(lightest)[1] - 1))
    return values / step, step * factor, False


def _scale_to_one(values: Floats) -> tuple[Floats, float]:
    """Divide by a power of two, so that products of the largest numbers do not overflow."""
    factor = float(np.ldexp(1.0, int(np.frexp(values.max())[1]) - 1))
    return values / factor, factor


def _clip_small(weights: Floats) -> Floats:
    """Raise non-zero weights to a minimum relative to the largest."""
    return np.where(weights > 0, np.maximum(weights, weights.max() / WIDEST), 0.0)


def _as_integers(weights: Floats) -> Floats | None:
    """Round weights to integers; None if any is not an integer up to rounding."""
    whole = np.rint(weights)
    return whole if (np.abs(weights - whole) <= weights * 2.0**-INTEGER_BITS).all() else None
