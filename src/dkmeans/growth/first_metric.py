"""A better start for `metric="learned"`, from a short fit.

Growth places prototypes well only in a space where irrelevant features count little. If there are
enough rows to tell which features are relevant, a short fit with few prototypes learns a metric
first, on a sample if there are many rows, and growth starts again in its space. Axes that hardly
count there are dropped: prototypes would use them to overfit, and all passes would take longer.

With fewer rows than entries of the projection, it takes small steps, as it could only overfit. But
features of images may depend on each other so much that there is still something to learn. So the
short fit is refined twice, with the usual step and with a small one. Only if the usual step is
clearly better on rows that neither has seen, the projection of the whole fit takes it, too. With
few rows this could not be told.

Where all features are alike, such as pixels, learning a metric may do nothing but overfit, however
small its steps. So with features divided by their range, prototypes alone are refined, too. This
metric is kept unless the learned one makes clearly fewer errors on the rows that neither has seen.

If the rank is limited, there is less to overfit with, and nothing to compare. But the axes along
which rows vary most need not tell classes apart. Which prototype is nearest depends on nothing but
the differences between prototypes: the axes are those along which the prototypes of the short fit
vary most.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np

from dkmeans.geometry import Learned
from dkmeans.growth.held_out import ItemLosses, is_within_error
from dkmeans.growth.margins import FINAL_SLOPE, Field
from dkmeans.growth.refine import refine_margins
from dkmeans.growth.rows import Rows
from dkmeans.growth.rules import Rules
from dkmeans.growth.run import Run, State
from dkmeans.growth.samples import CHECK_RATIO, Plan, highest_hashes, plan_sample
from dkmeans.growth.start_metric import FEW_FEATURES, fixed_signs, is_wide
from dkmeans.kernels.block import Floats
from dkmeans.kernels.threads import single_threaded_blas
from dkmeans.passes.facts import FindBox
from dkmeans.passes.sampling import Draw

PROTOTYPES_PER_CLASS = 8
PROTOTYPES_PER_AXIS = 2  # at least, to tell which axes matter, where the rank is limited
PASSES = 20  # at most
# Where nothing but the step is chosen:
STEP_PROTOTYPES_PER_CLASS = 4
STEP_PASSES = 6
STEP_COMPONENTS = 64  # at most, with many features
RANGE_PASSES = 12  # at most, with features divided by their range,
MAX_RANGE_FEATURES = FEW_FEATURES  # if there are no more
CLEAR_RATIO = 0.85  # of the cost with the usual step to that with a small one
CHECKED_SHARE = 0.25  # of the rows that are not seen, if there is no sample
MIN_CHECKED_ROWS = 1000  # distinct ones; with fewer nothing is chosen on rows that are not seen
SAMPLE_ROWS = 16384  # distinct ones
MAX_WIDE_SHARE = 0.5  # of the rows in a sample, with many features,
MIN_WIDE_SAMPLE = 8192  # which may have fewer rows then: so many at least
MIN_CLASS_ROWS = 64
MIN_ROWS = 200  # distinct ones; with fewer there is no short fit
SMALL_STEP = 0.1  # of the projection, relative to the usual one
ROWS_PER_ENTRY = 1.0  # distinct rows per entry of the projection that can tell what is relevant
LEAST_AXIS = 0.2  # length of an axis that is kept, relative to the longest
NO_PREFERENCE = 1e-9  # variance of all axes, relative to that of prototypes: for too few of these


@dataclass(frozen=True)
class MetricStart:
    """The metric that growth starts in, and the step of its projection, relative to the usual."""

    geometry: Learned
    step: float

    @property
    def batches(self) -> int:
        """Least number of batches in a pass.

        Prototypes alone do not need many steps. But with many features, passes take long, and more
        batches need fewer of them.
        """
        needs_many = self.step >= 1 or is_wide(len(self.geometry.scale))
        return Rules.metric_batches if needs_many else 1


def first_metric(run: Run, grown: Callable[[Run], State]) -> MetricStart:
    """Find the metric that growth starts in.

    Parameters
    ----------
    run : Run
        Its rules contain the metric to start from, and a `FirstMetric`.
    grown : callable
        Runs all rounds, and returns the last state.
    """
    geometry, rows, about = run.rules.geometry, run.rows, run.rules.first_metric
    assert isinstance(geometry, Learned)
    assert about is not None
    n_components, n_features = about.n_components, len(geometry.scale)
    if n_components is not None and n_components >= geometry.components.shape[1]:
        n_components = None
    with ExitStack() as ending:
        if n_components is not None:
            most = PROTOTYPES_PER_CLASS * rows.n_classes
            most = max(most, PROTOTYPES_PER_AXIS * n_components)
            short = Run(_sample(rows, n_features, ending), short_rules(run.rules, most, PASSES))
            refined = refined_state(short, grown(short))
            return MetricStart(_along_prototypes(refined, n_components), 1.0)
        n_distinct = int(rows.count_items().sum())
        is_small = n_distinct < ROWS_PER_ENTRY * geometry.components.size
        is_checked = n_distinct >= MIN_CHECKED_ROWS
        if is_small and not is_checked:
            return MetricStart(geometry, SMALL_STEP)
        if n_distinct < MIN_ROWS:
            return MetricStart(geometry, 1.0)
        by_range = is_checked and about.or_by_range and n_features <= MAX_RANGE_FEATURES
        per_class = STEP_PROTOTYPES_PER_CLASS if is_small else PROTOTYPES_PER_CLASS
        most = few_prototypes(run, per_class)
        rules = short_rules(run.rules, most, STEP_PASSES if is_small else PASSES)
        if not (is_small or by_range):
            return _learned(Run(_sample(rows, n_features, ending), rules), grown).start
        seen, others = seen_and_others(rows, n_features, ending)
        items, short = ItemLosses(others, others.facts.largest), Run(seen, rules)
        learned = _with_chosen_step(short, grown, others) if is_small else _learned(short, grown)
        if by_range:
            plain = _by_range(Run(seen, short_rules(run.rules, most, RANGE_PASSES)), grown)
            if is_within_error(plain.losses(items) - learned.losses(items)):
                return plain.start
        return learned.start


@dataclass(frozen=True)
class _Trial:
    """A metric that growth may start in, and how a short fit ended that tells of it."""

    start: MetricStart
    refined: State

    def losses(self, items: ItemLosses) -> Floats:
        """Return the losses on rows that the short fit has not seen."""
        return items.of(self.refined.prototypes, self.refined.geometry)


def _sample(rows: Rows, n_features: int, ending: ExitStack) -> Rows:
    """Return some of the rows; all if there are few."""
    plan = _plan(rows, n_features)
    return rows if plan is None else ending.enter_context(rows.drawn(plan.draw))


def _plan(rows: Rows, n_features: int) -> Plan | None:
    """Plan a sample; None if all rows are used. With many features, all rows would take long."""
    if not is_wide(n_features):
        return plan_sample(rows, SAMPLE_ROWS, MIN_CLASS_ROWS)
    return plan_sample(rows, SAMPLE_ROWS, MIN_CLASS_ROWS, MAX_WIDE_SHARE, min_rows=MIN_WIDE_SAMPLE)


def seen_and_others(rows: Rows, n_features: int, ending: ExitStack) -> tuple[Rows, Rows]:
    """Return the rows of the short fit, and others to check it: no row is among both."""
    plan = _plan(rows, n_features)
    if plan is None:
        everything = np.full(rows.n_classes, np.iinfo(np.uint64).max, dtype=np.uint64)
        hashes = np.sort(rows.items(everything).hashes)
        lowest, highest = hashes[int((1 - CHECKED_SHARE) * len(hashes))], hashes[-1]
    else:
        lowest, highest = highest_hashes(CHECK_RATIO * plan.share)
    first, last = (np.full(rows.n_classes, limit) for limit in (lowest, highest))
    draw = Draw(rows.facts.largest, first, last, np.ones(rows.n_classes))
    others = ending.enter_context(rows.drawn(draw))
    seen = ending.enter_context(rows.holding_out(first, last))
    return seen if plan is None else ending.enter_context(seen.drawn(plan.draw)), others


def few_prototypes(run: Run, per_class: int) -> int:
    """Return so many prototypes per class, unless that is beyond the budget."""
    most, budget = per_class * run.rows.n_classes, run.rules.max_clusters
    return most if budget is None else min(most, budget)


def short_rules(rules: Rules, most: int, passes: int) -> Rules:
    """Return the rules of a short fit, with the largest numbers of prototypes and of passes."""
    passes = min(passes, rules.max_iter)
    return Rules("size", most, passes, growth="best", geometry=rules.geometry)


def refined_state(run: Run, state: State) -> State:
    """Refine, and return the last state."""
    *_, refined = (state, *refine_margins(run, state))
    assert isinstance(refined, State)
    return refined


def _learned(run: Run, grown: Callable[[Run], State]) -> _Trial:
    """Learn a metric in a short fit."""
    refined = refined_state(run, grown(run))
    assert isinstance(refined.geometry, Learned)
    return _Trial(MetricStart(_without_short_axes(refined.geometry), 1.0), refined)


def _with_chosen_step(run: Run, grown: Callable[[Run], State], others: Rows) -> _Trial:
    """Take the usual step of the projection if it is clearly better than a small one."""
    geometry = run.rules.geometry
    assert isinstance(geometry, Learned)
    if is_wide(len(geometry.scale)):  # the first axes show as much, in less time
        run.map_rows(geometry.with_components(geometry.components[:, :STEP_COMPONENTS]))
    state, costs, trials = grown(run), [], []
    for step in (1.0, SMALL_STEP):
        run.rules = replace(run.rules, metric_step=step)
        refined = refined_state(run, state)
        costs.append(_cost(others, refined))
        trials.append(_Trial(MetricStart(geometry, step), refined))
        run.undo(refined, state)
    usual, small = costs
    return trials[0] if usual < CLEAR_RATIO * small else trials[1]


def _by_range(run: Run, grown: Callable[[Run], State]) -> _Trial:
    """Divide features by their range, and refine nothing but prototypes, in a short fit."""
    geometry = run.rules.geometry
    assert isinstance(geometry, Learned)
    with run.rows.as_read():
        box = run.rows.run(FindBox())
    width = box.high - box.low
    weights = np.divide(geometry.scale, width, out=np.zeros_like(width), where=width > 0)
    geometry = geometry.with_components(np.diag(weights)[:, weights > 0])
    run.map_rows(geometry)
    run.rules = replace(run.rules, metric_step=0.0, metric_batches=1)
    return _Trial(MetricStart(geometry, 0.0), refined_state(run, grown(run)))


def _cost(rows: Rows, state: State) -> float:
    """Return the margin cost of rows; 1 if the prototypes are of one class."""
    if len(np.unique(state.prototypes.classes)) < 2:
        return 1.0
    rows.map_rows(state.geometry)
    field = Field(rows)
    with field.margins(state.prototypes) as margins:
        return field.cost(margins, FINAL_SLOPE)


def _without_short_axes(geometry: Learned) -> Learned:
    """Drop the directions along which rows are nearly projected to a point."""
    squares, axes = _principal_axes(geometry.components)
    kept = squares >= LEAST_AXIS**2 * squares[0]
    if kept.all():
        return geometry
    with single_threaded_blas:
        components = geometry.components @ axes[:, kept]
    return geometry.with_components(fixed_signs(components))


def _along_prototypes(state: State, n_components: int) -> Learned:
    """Project to the axes along which the prototypes of a state vary most."""
    geometry = state.geometry
    assert isinstance(geometry, Learned)
    centers = state.prototypes.centers.astype(np.float64)
    steps = centers - centers.mean(axis=0)
    _, axes = _principal_axes(steps, NO_PREFERENCE)
    with single_threaded_blas:
        components = geometry.components @ axes[:, :n_components]
    return geometry.with_components(fixed_signs(components))


def _principal_axes(rows: Floats, no_preference: float = 0.0) -> tuple[Floats, Floats]:
    """Return the sums of squares along the principal axes of rows, and these axes, longest first.

    A share of the sum of all squares is added to each.
    """
    with single_threaded_blas:
        products = rows.T @ rows
        products += no_preference * (np.trace(products) or 1.0) * np.eye(len(products))
        squares, axes = np.linalg.eigh(products)
    return squares[::-1], axes[:, ::-1]
