"""Whether `metric="auto"` compares rows as they are, or learns a metric.

Both are tried in a short fit, and compared on rows that neither has seen. Learning a metric takes
longer, and where all features are alike it can only overfit. So rows are compared as they are,
unless the learned metric makes clearly fewer errors: by more than one standard error of the
difference. If one feature has most of the variance, that is usually because of its unit, and there
is no trial: the metric is learned.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

from dkmeans.geometry import Learned, geometry_of
from dkmeans.geometry.dominance import has_dominant
from dkmeans.growth.first_metric import (
    MIN_ROWS,
    ROWS_PER_ENTRY,
    SMALL_STEP,
    few_prototypes,
    refined_state,
    seen_and_others,
    short_rules,
)
from dkmeans.growth.held_out import ItemLosses, is_within_error
from dkmeans.growth.run import Run, State

PLAIN = geometry_of("euclidean")
PROTOTYPES_PER_CLASS = 4
PASSES = 12  # at most


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
    if not run.rules.first_metric.or_euclidean or has_dominant(geometry.scale):
        return False
    n_distinct = int(rows.count_items().sum())
    if n_distinct < MIN_ROWS:
        return False
    rules = short_rules(run.rules, few_prototypes(run, PROTOTYPES_PER_CLASS), PASSES)
    if n_distinct < ROWS_PER_ENTRY * geometry.components.size:
        rules = replace(rules, metric_step=SMALL_STEP, metric_batches=1)
    with ExitStack() as ending:
        seen, others = seen_and_others(rows, ending)
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
