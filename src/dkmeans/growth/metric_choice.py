"""Whether `metric="auto"` compares rows as they are, or learns a metric.

Both are tried in a short fit, and compared on rows that neither has seen. Learning a metric takes
longer, and where all features are alike it can only overfit. So rows are compared as they are,
unless the learned metric makes clearly fewer errors: by more than one standard error of the
difference. If one feature has most of the variance, that is usually because of its unit, and there
is no trial: the metric is learned. But if nearly all values of this feature are alike, its variance
comes from a few rows that are far from all others, which says nothing of units.

Nor is there a trial of fewer rows than it needs, which would show nothing. The metric of a whole
fit is learned then, carefully, as the features of small tables mostly differ in their units. But
if there are more features than rows, learning mostly overfits, and a trial of few rows is better
than none. And if these are only the first rows, the metric is kept for all
that will come. A projection that was learned from few rows would suit those badly, so rows are
compared as they are, unless one feature has most of the variance.

There is no trial either if rows have many features, and there are many of them: learning would take
many times as long as all else in the fit. Such rows, images for instance, are compared as they are.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

import numpy as np

from dkmeans.geometry import Learned, geometry_of
from dkmeans.geometry.dominance import has_dominant
from dkmeans.growth.first_metric import (
    MIN_ROWS,
    ROWS_PER_ENTRY,
    SMALL_STEP,
    MetricStart,
    few_prototypes,
    refined_state,
    seen_and_others,
    short_rules,
)
from dkmeans.growth.held_out import ItemLosses, is_within_error, most_clusters, wanted_items
from dkmeans.growth.rows import Rows
from dkmeans.growth.run import Run, State
from dkmeans.growth.start_metric import FACTOR_BITS, MAX_WORK, is_wide
from dkmeans.passes.contract import Runner
from dkmeans.passes.exchange import CountDistinct
from dkmeans.passes.facts import FindWeightFacts
from dkmeans.passes.feature_bins import CountBins

PLAIN = geometry_of("euclidean")
PROTOTYPES_PER_CLASS = 4
ALIKE_DEVIATIONS = 0.5  # from the mean, in which values are alike
ALIKE_SHARE = 0.9
MIN_DOMINATED_ROWS = 10  # distinct ones; fewer have a feature of most variance by chance
MIN_WIDE_ROWS = 20  # distinct ones for a trial, if there are more features
COLLAPSED_RATIO = 2  # of distinct rows to distinct images
PASSES = 12  # at most
SMALL_STEP_PASSES = 20


def may_learn(runner: Runner, n_rows: int, n_features: int, n_components: int) -> bool:
    """Tell whether a metric is learned in reasonable time.

    Parameters
    ----------
    runner : Runner
        Its rows are those that were read.
    n_rows : int
        Number of rows; only distinct ones with a weight count.
    n_features : int
    n_components : int
        Largest rank of the projection.
    """
    if not is_wide(n_features):
        return True
    most_rows = MAX_WORK / (n_features * min(n_features, n_components))
    return n_rows <= most_rows or runner.exchange(CountDistinct()) <= most_rows


def _is_alike(rows: Rows, geometry: Learned, feature: np.intp) -> bool:
    """Tell whether nearly all values of a feature are alike, compared with its deviation."""
    middle = geometry.standardised(geometry.center[None])[0]
    edges = middle[:, None] + np.array([-ALIKE_DEVIATIONS, ALIKE_DEVIATIONS])
    weights = rows.run(FindWeightFacts(rows.by_class)).scale(rows.by_class)
    bins = CountBins(geometry.shift, geometry.scale, edges, rows.facts.heaviest * 2.0**-FACTOR_BITS)
    with rows.weighed_by(weights):
        counts = rows.run(bins)[feature].sum(axis=1)
    return bool(counts[1] > ALIKE_SHARE * counts.sum())


def _is_dominated(rows: Rows, geometry: Learned) -> bool:
    """Tell whether one feature has most of the variance, and not by a few of its values only."""
    return has_dominant(geometry.scale) and not _is_alike(rows, geometry, geometry.scale.argmax())


def stay_plain(rows: Rows, geometry: Learned, *, hold_out: bool) -> bool:
    """Tell whether first rows are too few for a trial, and are compared as they are.

    Parameters
    ----------
    rows : Rows
    geometry : Learned
        The metric to start from.
    hold_out : bool
        Whether a trial sees only those rows that are not held out, as the number of clusters is to
        be chosen.
    """
    counts = rows.count_items()
    n_items = int(counts.sum())
    n_seen = n_items - int(wanted_items(counts).sum()) if hold_out else n_items
    if n_seen >= MIN_ROWS:
        return False
    return n_items < MIN_DOMINATED_ROWS or not _is_dominated(rows, geometry)


def prefers_plain(run: Run, grown: Callable[[Run], State]) -> bool:
    """Tell whether to compare rows as they are.

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
    if not run.rules.first_metric.or_euclidean:
        return False
    if _is_dominated(rows, geometry):
        return False
    n_distinct = int(rows.count_items().sum())
    has_few_rows = n_distinct < len(geometry.scale)
    if n_distinct < (MIN_WIDE_ROWS if has_few_rows else MIN_ROWS):
        with rows.as_read():  # next to a very distant row, all others have one image
            return rows.count_distinct() > COLLAPSED_RATIO * n_distinct
    with ExitStack() as ending:
        seen, others = seen_and_others(rows, len(geometry.scale), ending)
        most = most_clusters(int(seen.count_items().sum()), rows.n_classes)
        few = min(few_prototypes(run, PROTOTYPES_PER_CLASS), most)
        if n_distinct < ROWS_PER_ENTRY * geometry.components.size:
            rules = short_rules(run.rules, few, SMALL_STEP_PASSES)
            batches = MetricStart(geometry, SMALL_STEP).batches
            rules = replace(rules, metric_step=SMALL_STEP, metric_batches=batches)
        else:
            rules = short_rules(run.rules, few, PASSES)
        items = ItemLosses(others, others.facts.largest)
        short = Run(seen, rules)
        short.map_rows(PLAIN)
        plain = refined_state(short, grown(short))
        losses = items.of(plain.prototypes, PLAIN)
        if not losses.any():
            return True
        seen.map_rows(geometry)
        short = Run(seen, rules)
        learned = refined_state(short, grown(short))
        return is_within_error(losses - items.of(learned.prototypes, learned.geometry))
