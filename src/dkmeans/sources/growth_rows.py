"""Convert checked arrays to the rows that growth works on."""

from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Protocol

from dkmeans.data.row_weights import Weighting
from dkmeans.data.validation import Training
from dkmeans.geometry import Geometry, Learned
from dkmeans.growth.earlier_rows import EarlierRows
from dkmeans.growth.identical_rows import agree_on_labels
from dkmeans.growth.metric_choice import PLAIN, may_learn, stay_plain
from dkmeans.growth.rows import Rows
from dkmeans.growth.start_metric import MAX_COMPONENTS, start_metric
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.threads import default_threads
from dkmeans.passes.contract import Runner
from dkmeans.passes.part import Part, Setting
from dkmeans.runners.checkpoint import Journal, JournalRunner
from dkmeans.runners.local import LocalRunner
from dkmeans.sources.weight_units import choose_unit


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
    plain_if_few: bool = False  # whether too few rows to tell are compared as they are
    hold_out: bool = False  # whether a part of the rows will be held out

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
        self,
        weighting: Weighting | None,
        *,
        n_classes: int,
        n_threads: int,
        memory_mb: float | None,
    ) -> Runner:
        """Return a runner over the rows, whose weights are ones or given by a weighting."""


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
    found = choose_unit(training, unit)
    n_classes = len(training.classes)
    runner = _runner(training, stream, found.weighting, n_threads, memory_mb)
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
        if (
            geometry is not None
            and learned is not None
            and learned.plain_if_few
            and stay_plain(rows, geometry, hold_out=learned.hold_out)
        ):
            geometry = None
            rows.map_rows(PLAIN)
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
    weighting = choose_unit(training, unit).weighting
    with closing(_runner(training, stream, weighting, n_threads, memory_mb)) as runner:
        if geometry is not None:
            runner.configure(Setting(geometry=geometry))
        return agree_on_labels(runner)


def _runner(
    training: Training,
    stream: RowSource | None,
    weighting: Weighting | None,
    n_threads: int | None,
    memory_mb: float | None,
) -> Runner:
    """Return a runner over the rows."""
    n_classes, n_threads = len(training.classes), n_threads or default_threads()
    if stream is not None:
        return stream.runner(
            weighting, n_classes=n_classes, n_threads=n_threads, memory_mb=memory_mb
        )
    part = Part.of(
        training.X,
        training.y,
        None if weighting is None else weighting.of(training.sample_weight, training.y),
        n_classes=n_classes,
        n_threads=n_threads,
        memory_mb=memory_mb,
    )
    return LocalRunner([part])
