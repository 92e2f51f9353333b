"""Whether `metric="auto"` compares rows as they are, or learns a metric.

Both are tried in a short fit (`first_metric`), and compared on rows that neither has seen. Learning
a metric takes longer, and where all features are alike it can only overfit. So rows are compared as
they are, unless the learned metric makes clearly fewer errors: by more than one standard error of
the difference. If one feature has most of the variance, that is usually because of its unit, and
there is no trial: the metric is learned.
"""

from collections.abc import Callable

import numpy as np

from dkmeans.geometry import Learned, geometry_of
from dkmeans.geometry.dominance import has_dominant
from dkmeans.growth.held_out import ItemLosses, is_within_error
from dkmeans.growth.refine import refine_margins
from dkmeans.growth.rows import Rows
from dkmeans.growth.rules import Rules
from dkmeans.growth.run import Run, State

PLAIN = geometry_of("euclidean")


class PlainTrial:
    """A short fit of rows as they are, and its errors on rows that it has not seen.

    Parameters
    ----------
    seen : Rows
        They are mapped to the geometry of the rules at the end.
    others : Rows
    rules : Rules
        Of the short fit.
    grown : callable
        Runs all rounds, and returns the last state.
    """

    def __init__(
        self, seen: Rows, others: Rows, rules: Rules, grown: Callable[[Run], State]
    ) -> None:
        self._items = ItemLosses(others, others.facts.largest)
        run = Run(seen, rules)
        run.map_rows(PLAIN)
        state = grown(run)
        *_, refined = (state, *refine_margins(run, state))
        assert isinstance(refined, State)
        self._losses = self._items.of(refined.prototypes, PLAIN)
        seen.map_rows(rules.geometry)

    @property
    def is_faultless(self) -> bool:
        """Whether no model could make fewer errors."""
        return not self._losses.any()

    def is_as_good_as(self, other: State) -> bool:
        """Tell whether a model in a learned metric is not clearly better."""
        return is_within_error(self._losses - self._items.of(other.prototypes, other.geometry))


def is_worth_a_trial(geometry: Learned) -> bool:
    """Tell whether distances of the rows as they are depend on more than one feature."""
    return bool(np.any(geometry.scale > 0)) and not has_dominant(geometry.scale)
