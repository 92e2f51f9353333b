"""A better start for `metric="learned"`, from a short fit.

Growth places prototypes well only in a space where irrelevant features count little. So a short fit
with few prototypes learns a metric first, on a sample if there are many rows. If there are enough
rows to tell which features are relevant, growth starts again in its space. Axes that hardly count
there are dropped: prototypes would use them to overfit, and all passes would take longer.

A projection has many entries, and where all features are alike, it can only overfit. So the short
fit is repeated with small steps of the projection. If that is better on rows that neither has
seen, the projection of the whole fit takes small steps, too.

If the rank is limited, there is less to overfit with, and nothing to compare. But the axes along
which rows vary most need not tell classes apart. Which prototype is nearest depends on nothing but
the differences between prototypes: the axes are those along which the prototypes of the short fit
vary most.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from dkmeans.geometry import Geometry, Learned
from dkmeans.growth.margins import FINAL_SLOPE, Field
from dkmeans.growth.plain_trial import PLAIN, PlainTrial, is_worth_a_trial
from dkmeans.growth.refine import refine_margins
from dkmeans.growth.rows import Rows
from dkmeans.growth.rules import Rules
from dkmeans.growth.run import Run, State
from dkmeans.growth.samples import plan_sample
from dkmeans.growth.start_metric import fixed_signs
from dkmeans.kernels.block import Floats
from dkmeans.kernels.threads import single_threaded_blas
from dkmeans.passes.sampling import Draw

PROTOTYPES_PER_CLASS = 8
PROTOTYPES_PER_AXIS = 2  # at least, to tell which axes matter, where the rank is limited
PASSES = 20  # at most
# Where nothing but the step is chosen:
STEP_PROTOTYPES_PER_CLASS = 4
STEP_PASSES = 12
SAMPLE_ROWS = 16384  # distinct ones
MIN_CLASS_ROWS = 64
MIN_CHECKED_ROWS = 200  # distinct ones; with fewer there is no choice between steps
CHECKED_SHARE = 0.25  # of the rows that are not seen, if there is no sample
SMALL_STEP = 0.1  # of the projection, relative to the usual one
ROWS_PER_ENTRY = 1.0  # distinct rows per entry of the projection that can tell what is relevant
LEAST_AXIS = 0.2  # length of an axis that is kept, relative to the longest
NO_PREFERENCE = 1e-9  # variance of all axes, relative to that of prototypes: for too few of these


@dataclass(frozen=True)
class MetricStart:
    """The metric that growth starts in, and the step of its projection, relative to the usual."""

    geometry: Geometry
    step: float = 1.0


def first_metric(run: Run, grown: Callable[[Run], State]) -> MetricStart:
    """Find the metric that growth starts in.

    Parameters
    ----------
    run : Run
        Its rules contain the metric to start from, and a `FirstMetric`.
    grown : callable
        Runs all rounds, and returns the last state.
    """
    geometry, rows = run.rules.geometry, run.rows
    assert isinstance(geometry, Learned)
    assert run.rules.first_metric is not None
    n_components = run.rules.first_metric.n_components
    if n_components is not None and n_components >= geometry.components.shape[1]:
        n_components = None
    with ExitStack() as ending:
        if n_components is None:
            seen, others = _parts(rows, ending)
            if others is None:
                return MetricStart(geometry, 1.0)
        else:
            seen, others = _sample(rows, ending), None
        is_enough = _has_enough(rows, geometry)
        rules = _short_rules(run.rules, rows.n_classes, n_components, is_enough)
        plain = None
        if others is not None and run.rules.first_metric.or_euclidean:
            plain = PlainTrial(seen, others, rules, grown) if is_worth_a_trial(geometry) else None
        if plain is not None and plain.is_faultless:
            return MetricStart(PLAIN)
        short = Run(seen, rules)
        state = grown(short)
        refined, step = _refined(short, state, others)
        if plain is not None and plain.is_as_good_as(refined):
            return MetricStart(PLAIN)
        if n_components is not None:
            return MetricStart(_along_prototypes(refined, n_components), step)
        if step < 1 or not is_enough:
            return MetricStart(geometry, step)
        assert isinstance(refined.geometry, Learned)
        return MetricStart(_without_short_axes(refined.geometry), step)


def _parts(rows: Rows, ending: ExitStack) -> tuple[Rows, Rows | None]:
    """Return the rows of the short fit, and others to check it; None if there are too few."""
    plan = plan_sample(rows, SAMPLE_ROWS, MIN_CLASS_ROWS)
    if plan is not None:
        seen = ending.enter_context(rows.drawn(plan.draw))
        return seen, ending.enter_context(rows.drawn(plan.others()))
    everything = np.full(rows.n_classes, np.iinfo(np.uint64).max, dtype=np.uint64)
    hashes = np.sort(rows.items(everything).hashes)
    if len(hashes) < MIN_CHECKED_ROWS:
        return rows, None
    lowest = np.full(rows.n_classes, hashes[int((1 - CHECKED_SHARE) * len(hashes))])
    highest = np.full(rows.n_classes, hashes[-1])
    draw = Draw(rows.facts.largest, lowest, highest, np.ones(rows.n_classes))
    seen = ending.enter_context(rows.holding_out(lowest, highest))
    return seen, ending.enter_context(rows.drawn(draw))


def _sample(rows: Rows, ending: ExitStack) -> Rows:
    """Return some of the rows; all if there are few."""
    plan = plan_sample(rows, SAMPLE_ROWS, MIN_CLASS_ROWS)
    return rows if plan is None else ending.enter_context(rows.drawn(plan.draw))


def _short_rules(rules: Rules, n_classes: int, n_components: int | None, is_enough: bool) -> Rules:
    """Return the rules of the short fit; `is_enough` tells whether its metric can be used."""
    per_class, passes = PROTOTYPES_PER_CLASS, PASSES
    if n_components is None and not is_enough:
        per_class, passes = STEP_PROTOTYPES_PER_CLASS, STEP_PASSES
    most = per_class * n_classes
    if n_components is not None:
        most = max(most, PROTOTYPES_PER_AXIS * n_components)
    elif rules.max_clusters is not None:
        most = min(most, rules.max_clusters)
    passes = min(passes, rules.max_iter)
    return Rules("size", most, passes, growth="best", geometry=rules.geometry)


def _refined(run: Run, state: State, others: Rows | None) -> tuple[State, float]:
    """Refine with the usual step of the projection, and with a small one if that is better.

    At the end, the rows are as they were in the state.
    """
    best, chosen, lowest = state, 1.0, inf
    for step in (1.0,) if others is None else (1.0, SMALL_STEP):
        run.rules = replace(run.rules, metric_step=step)
        *_, refined = (state, *refine_margins(run, state))
        assert isinstance(refined, State)
        cost = 0.0 if others is None else _cost(others, refined)
        if cost < lowest:
            best, chosen, lowest = refined, step, cost
        run.undo(refined, state)
    return best, chosen


def _cost(rows: Rows, state: State) -> float:
    """Return the margin cost of rows; 1 if the prototypes are of one class."""
    if len(np.unique(state.prototypes.classes)) < 2:
        return 1.0
    rows.map_rows(state.geometry)
    field = Field(rows)
    with field.margins(state.prototypes) as margins:
        return field.cost(margins, FINAL_SLOPE)


def _has_enough(rows: Rows, geometry: Learned) -> bool:
    """Tell whether there are enough distinct rows to learn a projection."""
    needed = ROWS_PER_ENTRY * geometry.components.size
    return rows.facts.n_active >= needed and int(rows.count_items().sum()) >= needed


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
